# SPDX-License-Identifier: Apache-2.0
"""Where copied records must not be copied on, so that no record returns to a cluster. Pure.

The graph has a cluster per node, and per topic an edge for each flow that copies the topic under
the same name. A record batch that a flow X->S wrote into S carries that flow's producer id, so a
flow S->T knows X, the cluster of one hop before.

Rule: S->T skips a record batch from X if T reaches X without passing S. T itself is always among
these clusters.

A  No record visits a cluster twice. Take the first closed part of its path, X, S, T, ..., X: from T
   the path reaches X without passing S, so S->T would have skipped the record.
B  Nothing else is skipped: lines with flows both ways, one-way chains and aggregation forward all.
C  A skipped record arrives at T by the flow X->T. Without that flow, T would not get it: a `ring`.

A cluster that was rebuilt has a new id. Its old id is no reason to skip: `replaced_clusters`. That
keeps A, because a cluster replaces only clusters that were registered earlier, and around a closed
path that cannot hold everywhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Cluster: TypeAlias = str  # its id, or its alias


@dataclass(frozen=True, slots=True)
class LoopEdge:
    """A flow between two clusters, and which topics it copies under the same name."""

    source: Cluster
    target: Cluster
    flow: str  # `A->B`, for messages
    keeps: Callable[[str], bool] = field(compare=False, repr=False)
    since_ms: int = field(default=0, compare=False)  # when it was registered first
    took_over_from_java: bool = field(default=False, compare=False)


def edges_of_topic(edges: Iterable[LoopEdge], topic: str) -> tuple[LoopEdge, ...]:
    """Return the flows that copy a topic under the same name."""
    return tuple(one for one in edges if one.keeps(topic))


def skip_origins(edges: Collection[LoopEdge], flow: LoopEdge) -> frozenset[Cluster]:
    """Return the clusters whose records the flow skips; `edges` are those of one topic."""
    reached = reachable(edges, flow.target, without=flow.source)
    return reached - replaced_clusters(edges, flow)


def reachable(edges: Iterable[LoopEdge], start: Cluster, *, without: Cluster) -> frozenset[Cluster]:
    """Return the clusters that records at `start` reach, including `start`."""
    targets: dict[Cluster, set[Cluster]] = defaultdict(set)
    for one in edges:
        targets[one.source].add(one.target)
    found, todo = {start}, [start]
    while todo:
        new = targets[todo.pop()] - found - {without}
        found |= new
        todo.extend(new)
    return frozenset(found)


def replaced_clusters(edges: Iterable[LoopEdge], flow: LoopEdge) -> frozenset[Cluster]:
    """Return former clusters of the flow's target: the same flow wrote to them earlier."""
    return frozenset(
        one.target
        for one in edges
        if (one.source, one.flow) == (flow.source, flow.flow)
        and one.target != flow.target
        and one.since_ms < flow.since_ms
    )


def ring_origins(edges: Collection[LoopEdge], flow: LoopEdge) -> frozenset[Cluster]:
    """Return the clusters whose records the flow would skip although none comes directly."""
    pairs = {(one.source, one.target) for one in edges}
    return frozenset(
        origin
        for origin in skip_origins(edges, flow) - {flow.target}
        if (origin, flow.source) in pairs and (origin, flow.target) not in pairs
    )


def path_between(
    edges: Iterable[LoopEdge], start: Cluster, end: Cluster, *, without: Cluster
) -> tuple[LoopEdge, ...]:
    """Return the flows of a shortest path; empty if there is none."""
    leaving: dict[Cluster, list[LoopEdge]] = defaultdict(list)
    for one in edges:
        leaving[one.source].append(one)
    paths: dict[Cluster, tuple[LoopEdge, ...]] = {start: ()}
    todo = [start]
    for cluster in todo:
        for one in leaving[cluster]:
            if one.target not in paths and one.target != without:
                paths[one.target] = (*paths[cluster], one)
                todo.append(one.target)
    return paths.get(end, ())


@dataclass(frozen=True, slots=True)
class Ring:
    """A topic that a flow cannot copy without losing or repeating records of one cluster."""

    edges: tuple[LoopEdge, ...]  # of the topic
    flow: LoopEdge
    origin: Cluster
    topic: str

    def __str__(self) -> str:
        back = path_between(self.edges, self.flow.target, self.origin, without=self.flow.source)
        pair = (self.origin, self.flow.source)
        first = next(one for one in self.edges if (one.source, one.target) == pair)
        ring = ", ".join(one.flow for one in (first, self.flow, *back))
        name, start = self.flow.flow, first.flow.partition("->")[0]
        here = name.partition("->")[2]
        return (
            f"{ring} copy topic '{self.topic}' around a ring under one name. {name} must not "
            f"forward the records of {start}, or they would return to {start}, and no flow "
            f"{start}->{here} brings them to {here}. Enable {start}->{here}, or let "
            f"DefaultReplicationPolicy rename the topics, or set {name}.loop.policy=ignore if no "
            "record can go round."
        )


@dataclass(frozen=True, slots=True)
class LoopPlan:
    """What a flow skips of each topic that it copies under the same name."""

    skip_origins: Mapping[str, tuple[Cluster, ...]] = field(default_factory=dict)
    shared: frozenset[str] = frozenset()  # topics that also flow from the target to the source
    ring: Ring | None = None  # the flow must not run


def plan_loops(edges: Collection[LoopEdge], flow: LoopEdge, topics: Iterable[str]) -> LoopPlan:
    """Plan for the topics that the flow keeps; `edges` contains the flow."""
    plans: dict[tuple[LoopEdge, ...], tuple[tuple[Cluster, ...], bool]] = {}
    origins: dict[str, tuple[Cluster, ...]] = {}
    shared: set[str] = set()
    ring: Ring | None = None
    for topic in sorted(topics):
        kept = edges_of_topic(edges, topic)
        if kept not in plans:
            is_cycle = flow.source in reachable(kept, flow.target, without="")
            plans[kept] = tuple(sorted(skip_origins(kept, flow))), is_cycle
            if ring is None and (lost := ring_origins(kept, flow)):
                ring = Ring(kept, flow, min(lost), topic)
        origins[topic], is_shared = plans[kept]
        if is_shared:
            shared.add(topic)
    return LoopPlan(origins, frozenset(shared), ring)
