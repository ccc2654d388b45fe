# SPDX-License-Identifier: Apache-2.0
"""What a flow would skip because another flow has copied it to the source; changes nothing.

The offset map of the other flow, on this flow's source, has the offsets that it wrote.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.earlier_producers import EarlierProducers
from sparkmirror.connectors.known_flows import KnownFlows
from sparkmirror.connectors.loop_protection import refuse_loops, with_loop_remedy
from sparkmirror.connectors.source_topics import MirroredPartition
from sparkmirror.errors import BrokerError, ClusterError
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.map_topic import MapTopic
from sparkmirror.policy.loading import FlowPolicy
from sparkmirror.policy.loops import LoopEdge, LoopPlan, plan_loops
from sparkmirror.policy.sparkmirror_topics import offset_map_topic
from sparkmirror.state.producer_registry import ProducerRegistry
from sparkmirror.wire import error_codes

_MAX_RUNS = 10_000  # of one partition; a forecast need not be exact beyond


@dataclass(frozen=True, slots=True)
class LoopForecast:
    """The offset maps of the flows whose records are skipped, by topic."""

    maps: Mapping[str, Sequence[MapTopic]] = field(default_factory=dict)

    def skipped(self, tp: TopicPartition, start: int, end: int) -> int:
        """Return how many records between two source offsets would be skipped."""
        return sum(copied_records(one, tp, start, end) for one in self.maps.get(tp.topic, ()))


def read_loop_plan(
    settings: FlowSettings, configured: Sequence[FlowSettings], kept: Collection[str]
) -> tuple[tuple[LoopEdge, ...], LoopPlan]:
    """Plan from both registries what the flow skips; `kept` are the topics that keep their name.

    Returns all flows, the flow itself first. Raises ClusterError if the flow must not run.
    """
    with (
        ProducerRegistry(settings.source_admin) as source,
        ProducerRegistry(settings.target_admin) as target,
    ):
        try:
            source.refresh()
            target.refresh()
        except ClusterError as error:
            raise with_loop_remedy(error) from error
        own = LoopEdge(source.cluster_id, target.cluster_id, str(settings.flow), kept.__contains__)
        edges = (own, *KnownFlows(settings, lambda: configured, source, target).edges())
    plan = plan_loops(edges, own, kept)
    earlier = EarlierProducers(settings.source_admin)
    if plan.shared:
        earlier.read((settings.flow.target,))
    refuse_loops(settings, plan, edges, earlier.java_topics(settings.flow.target))
    return edges, plan


def forecast_loops(
    settings: FlowSettings,
    policy: FlowPolicy,
    configured: Sequence[FlowSettings],
    mirrored: Sequence[MirroredPartition],
    client: ClusterClient,
) -> LoopForecast:
    """Read the registries and the offset maps; `client` is the source's. Raises ClusterError."""
    kept = {one.source.topic for one in mirrored if one.remote_topic == one.source.topic}
    if not settings.source.skips_loops or not kept:
        return LoopForecast()
    edges, plan = read_loop_plan(settings, configured, kept)
    maps: dict[str, MapTopic | None] = {}
    by_topic: dict[str, list[MapTopic]] = {}
    for topic, origins in plan.skip_origins.items():
        incoming = {
            one.flow.partition("->")[0]
            for one in edges
            if one.target == edges[0].source and one.source in origins and one.keeps(topic)
        }
        for alias in incoming - maps.keys():
            maps[alias] = _read_map(client, offset_map_topic(policy.replication, alias))
        by_topic[topic] = [known for alias in incoming if (known := maps[alias]) is not None]
    return LoopForecast(by_topic)


def _read_map(client: ClusterClient, topic: str) -> MapTopic | None:
    known = MapTopic(client, topic)
    try:
        known.refresh()
    except BrokerError as error:
        if error.code not in {error_codes.UNKNOWN_TOPIC_OR_PARTITION, *error_codes.NOT_AUTHORIZED}:
            raise
        return None
    return known


def copied_records(known: MapTopic, tp: TopicPartition, start: int, end: int) -> int:
    """Count the records between two target offsets of a map that its flow has copied."""
    total = 0
    for _ in range(_MAX_RUNS):
        if start >= end:
            break
        run_end = known.run_end(tp, start, on_target=True)
        if run_end is None:
            source = known.to_source(tp, start)
            target = None if source is None else known.to_target(tp, source.offset)
            if target is None or target.offset <= start:
                break
            start = target.offset
        else:
            total += min(run_end, end) - start
            start = run_end
    return total
