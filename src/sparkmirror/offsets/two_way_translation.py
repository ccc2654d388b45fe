# SPDX-License-Identifier: Apache-2.0
"""Translates positions in a topic that flows in several directions mirror under one name.

The topic on cluster S holds records of S, and copies of records of T and of other clusters; on T
likewise. A consumer that has read S up to a position may continue on T at the first record of any
origin that it has not read. Per origin both clusters have the records in the same order:

    of S       the map S->T
    of T       the map T->S, backwards
    of others  the map X->S backwards, then the map X->T

The translation is the least of these offsets on T. Where the map of an origin ends, its flow may
have written more than the map shows. Then the offset is a lower bound, and is raised:

    A  Unread records of S are after all records in the map S->T, and after every record of T whose
       copy on S is before the position: they were written later.
    B  An offset on T that another map contains does not hold a record of this origin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from sparkmirror.model import TopicPartition
from sparkmirror.offsets.map_topic import MapTopic
from sparkmirror.offsets.offset_map import Fit, Translation

LogStart = Callable[[TopicPartition], int]

_NEVER = 2**63 - 1  # records of this origin do not limit the translation
_MAX_STEPS = 20_000  # runs per call; a later call continues there


class OtherOrigin(NamedTuple):
    """The maps of the flows X->S and X->T of a third cluster X."""

    to_source: MapTopic
    to_target: MapTopic


class _Bound(NamedTuple):
    """The unread records of one origin are at or after this offset on T."""

    offset: int
    is_exact: bool  # the first one is at this offset


class _FirstUnread(NamedTuple):
    """The first record of another cluster whose copy on S was not read, or a lower bound."""

    origin: int  # its offset there
    copy: int | None  # its offset on S; None: it is not in the map


class TwoWayTranslation:
    """Translates offsets of S to T. The maps belong to the caller, who refreshes them."""

    def __init__(
        self,
        forward: MapTopic,
        reverse: MapTopic,
        others: Sequence[OtherOrigin] = (),
        target_start: LogStart = lambda _tp: 0,
        source_start: LogStart = lambda _tp: 0,
    ) -> None:
        """`forward` is the map S->T, `reverse` the map T->S."""
        self._forward = forward
        self._reverse = reverse
        self._others = others
        self._target_start = target_start
        self._source_start = source_start
        # By map of the origin: where rule B started, and how far it has come.
        self._passed: dict[tuple[TopicPartition, MapTopic], tuple[int, int]] = {}

    @property
    def back(self) -> TwoWayTranslation:
        """The translation from T to S."""
        others = [OtherOrigin(one.to_target, one.to_source) for one in self._others]
        return TwoWayTranslation(
            self._reverse, self._forward, others, self._source_start, self._target_start
        )

    def translate(self, tp: TopicPartition, offset: int) -> Translation | None:
        """Return the offset of the first record that was not read, or one before it.

        None if no flow between S and T has copied anything.
        """
        by_map = self._forward.to_target(tp, offset)
        if by_map is not None and by_map.fit is Fit.BEFORE:
            return by_map
        if by_map is None and (tp not in self._reverse.maps or self._reverse.maps[tp].is_empty):
            return None
        of_target = _first_unread(self._reverse, tp, offset)
        local = self._bound_of_source(tp, offset, by_map, of_target.copy)
        bounds = [local, self._bound_of_target(tp, of_target, local.offset)]
        for one in self._others:
            bounds.append(self._bound_of_other(tp, offset, one, min(bounds).offset))
        least = min(bounds)
        if of_target.copy != offset and offset > _covered(self._forward, tp):
            return Translation(least.offset, Fit.AFTER)
        is_exact = any(one.is_exact and one.offset == least.offset for one in bounds)
        return Translation(least.offset, Fit.EXACT if is_exact else Fit.NEAR)

    def _bound_of_source(
        self,
        tp: TopicPartition,
        offset: int,
        by_map: Translation | None,
        copy: int | None,
    ) -> _Bound:
        if copy == offset:
            return _Bound(_NEVER, is_exact=False)  # A
        target_end = 0
        if by_map is not None:
            target_end = self._forward.bounds(tp)[3]
            if by_map.fit is Fit.NEAR or by_map.offset < target_end:
                return _Bound(by_map.offset, by_map.fit is Fit.EXACT)
        if copy is not None and copy <= _covered(self._forward, tp):
            return _Bound(_NEVER, is_exact=False)  # A: the next records of S are after that copy
        last_read = self._reverse.last_source_before(tp, offset)
        start = max(target_end, -1 if last_read is None else last_read + 1)
        known = [one.to_target for one in self._others]
        raised = self._raised(tp, self._forward, start, _NEVER, known, self._reverse)
        return _Bound(raised, is_exact=True)

    def _bound_of_target(self, tp: TopicPartition, unread: _FirstUnread, enough: int) -> _Bound:
        if unread.copy is not None:
            return _Bound(unread.origin, is_exact=True)
        start = unread.origin if _has_map(self._reverse, tp) else self._target_start(tp)
        known = [self._forward, *(one.to_target for one in self._others)]
        return _Bound(self._raised(tp, self._reverse, start, enough, known), is_exact=False)

    def _bound_of_other(
        self, tp: TopicPartition, offset: int, other: OtherOrigin, enough: int
    ) -> _Bound:
        unread = _first_unread(other.to_source, tp, offset)
        found = other.to_target.to_target(tp, unread.origin)
        if _has_map(other.to_target, tp):
            target_end = other.to_target.bounds(tp)[3]
        else:
            target_end = self._target_start(tp)
        if found is not None and (found.fit is Fit.NEAR or found.offset < target_end):
            return _Bound(found.offset, found.fit is Fit.EXACT)
        known = [self._forward, *(one.to_target for one in self._others if one is not other)]
        return _Bound(
            self._raised(tp, other.to_target, target_end, enough, known, self._reverse),
            is_exact=False,
        )

    def _raised(
        self,
        tp: TopicPartition,
        origin: MapTopic,
        start: int,
        enough: int,
        into_target: Sequence[MapTopic],
        from_target: MapTopic | None = None,
    ) -> int:
        """Raise a bound by rule B, up to `enough`."""
        known_start, offset = self._passed.get((tp, origin), (start, start))
        if known_start > start or offset < start:
            offset = start
        steps = 0
        while offset < enough and steps < _MAX_STEPS:
            ends = _run_ends(tp, offset, into_target, from_target)
            end = next((one for one in ends if one is not None), None)
            if end is None:
                break
            offset = end
            steps += 1
        self._passed[tp, origin] = (start, offset)
        return min(offset, enough)


def _run_ends(
    tp: TopicPartition, offset: int, into_target: Sequence[MapTopic], from_target: MapTopic | None
) -> Iterator[int | None]:
    for maps in into_target:
        yield maps.run_end(tp, offset, on_target=True)
    if from_target is not None:
        yield from_target.run_end(tp, offset, on_target=False)


def _has_map(maps: MapTopic, tp: TopicPartition) -> bool:
    """Whether the flow of an offset map has read this topic partition."""
    return bool(len(maps.maps.get(tp, ())))


def _covered(maps: MapTopic, tp: TopicPartition) -> int:
    return maps.bounds(tp)[1] if _has_map(maps, tp) else -1


def _first_unread(maps: MapTopic, tp: TopicPartition, offset: int) -> _FirstUnread:
    """Return the first record of a cluster with a copy at or after an offset of S."""
    if not _has_map(maps, tp):
        return _FirstUnread(0, None)
    found = maps.to_source(tp, offset)
    _first, covered, _target_first, target_end = maps.bounds(tp)
    if found is None:
        return _FirstUnread(covered, None)
    if found.fit is Fit.NEAR:
        return _FirstUnread(found.offset, None)
    copy = maps.to_target(tp, found.offset)
    if copy is None or found.offset >= covered or copy.offset >= target_end:
        return _FirstUnread(covered, None)
    if found.fit is Fit.BEFORE:  # the start of the map, not of its first record
        found = maps.to_source(tp, copy.offset) or found
    return _FirstUnread(found.offset, copy.offset)
