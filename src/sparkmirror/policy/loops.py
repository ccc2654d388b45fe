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
from collections.abc import Callable, Collection, Iterable
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
