# SPDX-License-Identifier: Apache-2.0
"""The flows that may form a cycle with one flow, as edges between cluster ids.

They come from this process's configuration and from the registries of both clusters. A configured
flow counts even if it is paused or another process runs it; a registered one if it ran lately.
Not thread-safe.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from sparkmirror.config.settings import FlowSettings
from sparkmirror.errors import BrokerError, ClusterError, ConfigError, WireError
from sparkmirror.formats.producer_registry import RegisteredFlow
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.policy.filters import DefaultTopicFilter, NamePattern
from sparkmirror.policy.loading import (
    REPLICATION_POLICY_KEY,
    TOPIC_FILTER_KEY,
    FlowPolicy,
    custom_class_keys,
    load_policy,
)
from sparkmirror.policy.loops import LoopEdge, edges_of_topic, reachable
from sparkmirror.policy.replication import IdentityReplicationPolicy
from sparkmirror.state.producer_registry import ProducerRegistry
from sparkmirror.state.remedies import RUN_CONNECTOR
from sparkmirror.wire import error_codes
from sparkmirror.wire.settings import ConnectionSettings

_FORGET_SECONDS = 7 * 24 * 3600.0  # a registered flow that has not run for so long does not count
_RESOLVE_SECONDS = 3.0  # to ask the cluster of another flow for its id
_RETRY_RESOLVE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class _ConfiguredFlow:
    settings: FlowSettings
    policy: FlowPolicy


class KnownFlows:
    """All known flows except one, whose registries it uses."""

    def __init__(
        self,
        settings: FlowSettings,
        configured: Callable[[], Sequence[FlowSettings]],
        source: ProducerRegistry,
        target: ProducerRegistry,
    ) -> None:
        self._settings = settings
        self._read_configured = configured
        self._source = source
        self._target = target
        self._known: list[_ConfiguredFlow] = []
        self._cluster_ids: dict[tuple[str, ...], str] = {}  # by bootstrap servers
        self._resolve_at: dict[tuple[str, ...], float] = {}

    def edges(self) -> Iterator[LoopEdge]:
        """Yield the flows with their cluster ids."""
        registered = self._registered()
        yield from map(registered_edge, registered)
        for flow in self._configured():
            yield from self._configured_edges(flow, registered)

    def source_ids(self) -> dict[str, str]:
        """Return the cluster ids of the aliases that flows have as sources."""
        found = {
            one.settings.flow.source: self._resolved(one.settings.source_admin)
            for one in self._configured()
        }
        return {**found, self._settings.flow.target: self._target.cluster_id}

    def _registered(self) -> list[RegisteredFlow]:
        oldest = (time.time() - _FORGET_SECONDS) * 1000
        found = {**self._source.flows, **self._target.flows}
        own = own_flow(self._settings, self._source.cluster_id, self._target.cluster_id).key()
        return [
            one for key, one in found.items() if one.topics and one.seen_ms >= oldest and key != own
        ]

    def _configured(self) -> list[_ConfiguredFlow]:
        known = {id(one.settings): one for one in self._known}
        self._known = [
            known.get(id(one)) or _ConfiguredFlow(one, load_policy(one.policy, one.flow))
            for one in self._read_configured()
            if one.enabled and one is not self._settings
        ]
        return self._known

    def _configured_edges(
        self, flow: _ConfiguredFlow, registered: Collection[RegisteredFlow]
    ) -> Iterator[LoopEdge]:
        """Yield the edges of a flow; while a cluster is unreachable, with its registered ids."""
        settings, name = flow.settings, str(flow.settings.flow)
        same = [one for one in registered if one.flow == name]
        sources = [self._resolved(settings.source_admin)]
        targets = [self._resolved(settings.target_admin)]
        if not sources[0]:
            sources = [one.source_cluster_id for one in same] or [f"alias:{settings.flow.source}"]
        if not targets[0]:
            targets = [one.target_cluster_id for one in same] or [f"alias:{settings.flow.target}"]
        for source in dict.fromkeys(sources):
            for target in dict.fromkeys(targets):
                if (source, target) != (self._source.cluster_id, self._target.cluster_id):
                    yield LoopEdge(source, target, name, flow.policy.keeps_name)

    def _resolved(self, connection: ConnectionSettings) -> str:
        """Return a cluster's id; empty if it does not answer now."""
        servers = connection.bootstrap_servers
        if servers == self._settings.source_admin.bootstrap_servers:
            return self._source.cluster_id
        if servers == self._settings.target_admin.bootstrap_servers:
            return self._target.cluster_id
        if servers in self._cluster_ids or time.monotonic() < self._resolve_at.get(servers, 0.0):
            return self._cluster_ids.get(servers, "")
        seconds = min(connection.connect_timeout_seconds, _RESOLVE_SECONDS)
        try:
            with ClusterAdmin(replace(connection, connect_timeout_seconds=seconds)) as admin:
                found = admin.cluster().cluster_id
            self._cluster_ids[servers] = found or f"alias:{connection.alias}"
        except (ClusterError, WireError):  # the flows of that cluster show it
            self._resolve_at[servers] = time.monotonic() + _RETRY_RESOLVE_SECONDS
        return self._cluster_ids.get(servers, "")


def own_flow(settings: FlowSettings, source_id: str, target_id: str) -> RegisteredFlow:
    """Return the entry of a flow, without topics and times."""
    name = settings.source.name
    connector = "" if name == RUN_CONNECTOR else name
    return RegisteredFlow(str(settings.flow), source_id, target_id, (), connector=connector)


def registered_topics(
    settings: FlowSettings, kept: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the patterns of the topics that keep their names, and of those excluded."""
    policy = settings.policy
    if {REPLICATION_POLICY_KEY, TOPIC_FILTER_KEY} & custom_class_keys(policy):
        return tuple(re.escape(topic) for topic in sorted(kept)), ()  # no pattern is known
    replication = load_policy(policy, settings.flow).replication
    if not isinstance(replication, IdentityReplicationPolicy):
        return (), ()
    return policy.topics, policy.topics_exclude


def other_records(settings: FlowSettings, topics: Mapping[str, str]) -> dict[str, str]:
    """Return what else the remote topics have, which the flow would not copy again.

    `topics` are remote topics by source topic, as the result. Raises ClusterError.
    """
    with (
        closing(ProducerRegistry(settings.source_admin)) as source,
        closing(ProducerRegistry(settings.target_admin)) as target,
    ):
        for registry in (source, target):
            try:
                registry.refresh()
            except BrokerError as error:
                if error.code not in error_codes.NOT_AUTHORIZED:
                    raise  # else it is a flow that renames its topics
        flows = source.flows | target.flows
        here, there = source.cluster_id, target.cluster_id
    edges = [registered_edge(one) for one in flows.values() if one.topics]
    found: dict[str, str] = {}
    for topic, remote in topics.items():
        kept = edges_of_topic(edges, remote)
        into = sorted({one.flow for one in kept if one.target == there and one.source != here})
        is_local = settings.source.skips_loops and topic == remote
        if is_local and here in reachable(kept, there, without=""):
            into.insert(0, f"clients of '{settings.flow.target}'")
        if into:
            found[topic] = f"records of {', '.join(into)}"
    return found


def registered_edge(one: RegisteredFlow) -> LoopEdge:
    """Return a registered flow as an edge."""
    try:
        selected = DefaultTopicFilter(
            NamePattern.compile(one.topics, "topics"),
            NamePattern.compile(one.topics_exclude, "topics.exclude"),
        )
        keeps: Callable[[str], bool] = selected.should_replicate_topic
    except ConfigError:
        keeps = _any_topic  # patterns of another version
    return LoopEdge(
        one.source_cluster_id,
        one.target_cluster_id,
        one.flow,
        keeps,
        one.since_ms,
        one.took_over_from_java,
    )


def _any_topic(_topic: str) -> bool:
    return True
