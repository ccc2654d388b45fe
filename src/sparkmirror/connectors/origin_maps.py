# SPDX-License-Identifier: Apache-2.0
"""Finds the offset maps that a flow needs for topics that flows mirror under one name.

The registries on both clusters list the flows that write there, with the alias of each source, and
the map of a flow is named after that alias. Without a registry, a flow from the target that uses
the same aliases is found by the name of its map. Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain

from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.known_flows import registered_edge
from sparkmirror.errors import BrokerError
from sparkmirror.formats.producer_registry import RegisteredFlow
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import Closable, ClusterClient
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.map_topic import MapTopic
from sparkmirror.offsets.two_way_translation import OtherOrigin, TwoWayTranslation
from sparkmirror.policy.loading import FlowPolicy
from sparkmirror.policy.loops import LoopEdge
from sparkmirror.policy.sparkmirror_topics import offset_map_topic
from sparkmirror.state.producer_registry import ProducerRegistry

_UNAVAILABLE = frozenset({3, 29})  # unknown topic, not authorized


class OriginMaps(Closable):
    """The offset maps of the flows into the source and the target of one flow."""

    def __init__(
        self,
        settings: FlowSettings,
        policy: FlowPolicy,
        source: ClusterClient,
        target: ClusterClient,
        forward: MapTopic,
        reverse: MapTopic,
    ) -> None:
        """`forward` is the flow's map; `reverse` is used without a registry. The caller reads both.

        The caller owns the clients.
        """
        names, flow = policy.replication, settings.flow
        self._policy = policy
        self._source, self._target = source, target
        self._source_admin = ClusterAdmin(settings.source_admin, source)
        self._target_admin = ClusterAdmin(settings.target_admin, target)
        self._forward, self._reverse = forward, reverse
        self._source_registry = ProducerRegistry(settings.source_admin)
        self._target_registry = ProducerRegistry(settings.target_admin)
        self._maps = {
            (source, offset_map_topic(names, flow.target)): reverse,
            (target, offset_map_topic(names, flow.source)): forward,
        }
        self._topics: dict[str, TwoWayTranslation | None] = {}
        self._translations: dict[tuple[MapTopic, ...], TwoWayTranslation] = {}  # by their maps
        self._flows: dict[bytes, RegisteredFlow] = {}
        self._is_current = False
        self._log_starts: dict[tuple[ClusterAdmin, TopicPartition], int] = {}

    def close(self) -> None:
        self._source_registry.close()
        self._target_registry.close()

    def expire(self) -> None:
        """Read the registries and the other maps again with the next translation, if needed."""
        self._is_current = False

    def _refresh(self) -> None:
        self._is_current = True
        self._log_starts.clear()
        for registry in (self._source_registry, self._target_registry):
            with _unavailable_topics():
                registry.refresh()
        flows = self._source_registry.flows | self._target_registry.flows
        if flows != self._flows:
            self._topics.clear()
        self._flows = flows
        for maps in self._maps.values():
            if maps is not self._forward and maps is not self._reverse:
                _refresh_map(maps)

    def translation(self, topic: str) -> TwoWayTranslation | None:
        """Return how positions are translated to the target; None: by the flow's map only."""
        if not self._policy.keeps_name(topic):
            return None
        if not self._is_current:
            self._refresh()
        if not self._source_registry.exists:
            has_reverse = any(tp.topic == topic for tp in self._reverse.maps)
            return self._made(self._reverse, ()) if has_reverse else None
        if topic not in self._topics:
            self._topics[topic] = self._find(topic)
        return self._topics[topic]

    def _find(self, topic: str) -> TwoWayTranslation | None:
        into_source = _edges_into(self._source_registry, topic)
        into_target = _edges_into(self._target_registry, topic)
        reverse = into_source.pop(self._target_registry.cluster_id, None)
        into_target.pop(self._source_registry.cluster_id, None)
        others = [
            OtherOrigin(
                self._map(self._source, into_source[origin]),
                self._map(self._target, into_target[origin]),
            )
            for origin in sorted(into_source.keys() & into_target.keys())
        ]
        if reverse is None:
            return None
        return self._made(self._map(self._source, reverse), others)

    def _map(self, client: ClusterClient, edge: LoopEdge) -> MapTopic:
        alias = edge.flow.partition("->")[0]
        key = client, offset_map_topic(self._policy.replication, alias)
        if key not in self._maps:
            self._maps[key] = MapTopic(*key)
            _refresh_map(self._maps[key])
        return self._maps[key]

    def _made(self, reverse: MapTopic, others: Sequence[OtherOrigin]) -> TwoWayTranslation:
        """Return the translation by these maps; one for all topics, because it remembers."""
        key = (reverse, *chain.from_iterable(others))
        if key not in self._translations:
            self._translations[key] = TwoWayTranslation(
                self._forward,
                reverse,
                others,
                partial(self._log_start, self._target_admin),
                partial(self._log_start, self._source_admin),
            )
        return self._translations[key]

    def _log_start(self, admin: ClusterAdmin, tp: TopicPartition) -> int:
        key = admin, tp
        if key not in self._log_starts:
            self._log_starts[key] = admin.earliest_offsets([tp]).found.get(tp, 0)
        return self._log_starts[key]


def _edges_into(registry: ProducerRegistry, topic: str) -> dict[str, LoopEdge]:
    """Return the flows that copy a topic into a cluster, by source; of several the latest."""
    flows = sorted(registry.flows.values(), key=lambda one: one.seen_ms)
    edges = [registered_edge(one) for one in flows if one.topics]
    return {
        one.source: one for one in edges if one.target == registry.cluster_id and one.keeps(topic)
    }


def _refresh_map(maps: MapTopic) -> None:
    with _unavailable_topics():
        maps.refresh()
    maps.invalid.clear()  # its own flow deletes them


@contextmanager
def _unavailable_topics() -> Iterator[None]:
    """Ignore topics that do not exist or must not be read: translations are less exact."""
    try:
        yield
    except BrokerError as error:
        if error.code not in _UNAVAILABLE:
            raise
