# SPDX-License-Identifier: Apache-2.0
"""Translates positions in a topic that flows in several directions mirror under one name.

The topic on cluster S holds records of S, and copies of records of T and of other clusters; on T
likewise. A consumer that has read S up to a position may continue on T at the first record of any
origin that it has not read. Per origin both clusters have the records in the same order:

    of S       the map S->T
    of T       the map T->S, backwards
    of others  the map X->S backwards, then the map X->T

The translation is the least of these offsets on T. Each is the offset of a record, or a lower bound
where a map ends, because its flow may have written more than the map shows. Two facts about S and T
raise the bound of records of S that are not in the map S->T:

    A  they are after all records that are in it
    B  they are after every record of T whose copy on S is before them: they were written later
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sparkmirror.model import TopicPartition
from sparkmirror.offsets.map_topic import MapTopic
from sparkmirror.offsets.offset_map import Fit, Translation

_NEVER = 2**63 - 1  # records of this origin do not limit the translation


class _Bound(NamedTuple):
    """The unread records of one origin are at or after this offset on T."""

    offset: int
    is_exact: bool  # the first one is at this offset


class _FirstUnread(NamedTuple):
    """The first record of another cluster whose copy on S was not read, or a lower bound."""

    origin: int  # its offset there
    copy: int | None  # its offset on S; None: it is not in the map


def translate_two_way(
    tp: TopicPartition,
    offset: int,
    forward: MapTopic,
    reverse: MapTopic,
    others: Iterable[tuple[MapTopic, MapTopic]] = (),
) -> Translation | None:
    """Translate an offset of S to T; at or before the first record that was not read.

    `others` are the maps X->S and X->T of each further cluster X. Returns None if no flow between
    S and T has copied anything.
    """
    if not has_map(reverse, tp):
        return forward.to_target(tp, offset)
    by_map = forward.to_target(tp, offset)
    if by_map is not None and by_map.fit is Fit.BEFORE:
        return by_map
    if by_map is None and reverse.maps[tp].is_empty:
        return None
    of_target = _first_unread(reverse, tp, offset)
    is_on_copy = of_target.copy == offset
    local = _local_bound(tp, offset, forward, reverse, of_target)
    bounds = [local, _Bound(of_target.origin, of_target.copy is not None)]
    bounds += [_bound_of_other(tp, offset, *maps) for maps in others if _have_map(maps, tp)]
    least = min(bounds)
    if not is_on_copy and offset > _covered(forward, tp):
        return Translation(least.offset, Fit.AFTER)
    is_exact = any(one.is_exact and one.offset == least.offset for one in bounds)
    return Translation(least.offset, Fit.EXACT if is_exact else Fit.NEAR)


def has_map(maps: MapTopic, tp: TopicPartition) -> bool:
    """Whether the flow of an offset map has read this topic partition."""
    return bool(len(maps.maps.get(tp, ())))


def _have_map(pair: tuple[MapTopic, MapTopic], tp: TopicPartition) -> bool:
    return all(has_map(one, tp) for one in pair)


def _covered(maps: MapTopic, tp: TopicPartition) -> int:
    return maps.bounds(tp)[1] if has_map(maps, tp) else -1


def _first_unread(maps: MapTopic, tp: TopicPartition, offset: int) -> _FirstUnread:
    """Return the first record of a cluster X with a copy at or after an offset of S."""
    found = maps.to_source(tp, offset)
    _first, covered, _target_first, target_end = maps.bounds(tp)
    if found is None:
        return _FirstUnread(covered, None)
    if found.fit is Fit.NEAR:
        return _FirstUnread(found.offset, None)
    copy = maps.to_target(tp, found.offset)
    if copy is None or found.offset >= covered or copy.offset >= target_end:
        return _FirstUnread(covered, None)
    return _FirstUnread(found.offset, copy.offset)


def _local_bound(
    tp: TopicPartition,
    offset: int,
    forward: MapTopic,
    reverse: MapTopic,
    of_target: _FirstUnread,
) -> _Bound:
    """Return the bound of the records of S."""
    if of_target.copy == offset:
        return _Bound(_NEVER, is_exact=False)  # B
    by_map = forward.to_target(tp, offset)
    target_end = 0
    if by_map is not None:
        _first, covered, _target_first, target_end = forward.bounds(tp)
        if by_map.fit is Fit.NEAR or by_map.offset < target_end:
            return _Bound(by_map.offset, by_map.fit is Fit.EXACT)
    else:
        covered = _covered(forward, tp)
    if of_target.copy is not None and of_target.copy <= covered:
        return _Bound(_NEVER, is_exact=False)  # B: the next records of S are after that copy
    last_read = reverse.last_source_before(tp, offset)
    return _Bound(
        max(target_end, -1 if last_read is None else last_read + 1), is_exact=True
    )  # A, B


def _bound_of_other(
    tp: TopicPartition, offset: int, to_here: MapTopic, to_target: MapTopic
) -> _Bound:
    """Return the bound of the records of a third cluster."""
    unread = _first_unread(to_here, tp, offset)
    found = to_target.to_target(tp, unread.origin)
    if found is None:
        return _Bound(to_target.bounds(tp)[3], is_exact=False)
    is_known = found.fit is Fit.EXACT and found.offset < to_target.bounds(tp)[3]
    return _Bound(found.offset, is_known)
