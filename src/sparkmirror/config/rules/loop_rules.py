# SPDX-License-Identifier: Apache-2.0
"""Notices about flows of a file that form a cycle for topics that keep their names.

Only the file is read, so the entries of `topics` stand for the topics: an entry belongs to a flow
that lists it, or whose filter selects it as a name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

from sparkmirror.config.files.notices import Notice, NoticeLevel, notice_at_line
from sparkmirror.config.settings import FlowSettings
from sparkmirror.errors import ConfigError
from sparkmirror.policy.loading import TOPIC_FILTER_KEY, FlowPolicy, custom_class_keys, load_policy
from sparkmirror.policy.loops import (
    LoopEdge,
    Ring,
    edges_of_topic,
    reachable,
    ring_origins,
)
from sparkmirror.quantities import and_more

_KEY = "loop.policy"


def loop_notices(flows: Collection[FlowSettings]) -> Iterator[Notice]:
    """Yield an error for each ring, and what happens in each other cycle; `flows` are enabled."""
    edges: dict[LoopEdge, FlowSettings] = {}
    for settings in flows:
        edge = _edge(settings)
        if edge is not None:
            edges[edge] = settings
    entries = list(dict.fromkeys(entry for one in flows for entry in one.policy.topics))
    cycles: dict[tuple[LoopEdge, ...], list[str]] = defaultdict(list)
    for entry in entries:
        kept = edges_of_topic(edges, entry)
        in_cycle = tuple(
            one for one in kept if one.source in reachable(kept, one.target, without="")
        )
        if in_cycle:
            cycles[in_cycle].append(entry)
    for in_cycle, names in cycles.items():
        yield _ring_notice(edges, names) or _cycle_notice(in_cycle, names)
        yield from _ignored_notices(in_cycle, names, edges)


def _ring_notice(edges: dict[LoopEdge, FlowSettings], names: Sequence[str]) -> Notice | None:
    """Return an error for the first ring."""
    for entry in names:
        kept = edges_of_topic(edges, entry)
        for one in kept:
            origins = ring_origins(kept, one) if edges[one].source.skips_loops else ()
            if origins:
                ring = Ring(kept, one, min(origins), entry)
                return notice_at_line(NoticeLevel.ERROR, f"{one.flow}.{_KEY}", 0, str(ring))
    return None


def _edge(settings: FlowSettings) -> LoopEdge | None:
    flow = settings.flow
    try:
        policy = load_policy(settings.policy, flow)
    except ConfigError:
        return None  # reported by the flow's own rules
    has_own_filter = TOPIC_FILTER_KEY in custom_class_keys(settings.policy)
    listed = () if has_own_filter else settings.policy.topics
    return LoopEdge(
        flow.source, flow.target, str(flow), lambda entry: _keeps(policy, listed, entry)
    )


def _keeps(policy: FlowPolicy, listed: Collection[str], entry: str) -> bool:
    renamed = policy.replication.format_remote_topic(policy.selection.flow.source, entry)
    return renamed == entry and (entry in listed or policy.keeps_name(entry))


def _cycle_notice(in_cycle: Sequence[LoopEdge], names: Sequence[str]) -> Notice:
    flows = ", ".join(one.flow for one in in_cycle)
    return notice_at_line(
        NoticeLevel.INFO,
        _KEY,
        0,
        f"{flows} copy {_topics(names)} in a cycle under one name. Records that a flow has copied "
        "are not copied back (loop.policy). Concurrent records with one key may be in another "
        "order on each cluster.",
    )


def _ignored_notices(
    in_cycle: Sequence[LoopEdge], names: Sequence[str], edges: dict[LoopEdge, FlowSettings]
) -> Iterator[Notice]:
    for one in in_cycle:
        if not edges[one].source.skips_loops:
            key = f"{one.flow}.{_KEY}"
            yield notice_at_line(
                NoticeLevel.WARNING,
                key,
                0,
                f"{key}=ignore: {one.flow} also copies records of {_topics(names)} that other "
                "flows have copied, so records may go round without end. Remove the line unless "
                "something else prevents that.",
            )


def _topics(names: Sequence[str]) -> str:
    return f"topics '{names[0]}'{and_more(len(names) - 1)}"
