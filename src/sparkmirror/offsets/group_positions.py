# SPDX-License-Identifier: Apache-2.0
"""Positions of consumer groups on both clusters, and why a group is not moved. Pure planning.

`translate_group` translates committed offsets to the target, `new_checkpoints` selects those worth
a checkpoint, `plan_commits` the offsets to set for groups on the target. Every position has a
state and a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from sparkmirror.formats.mm2_records import Checkpoint
from sparkmirror.kafka.descriptions import CommittedOffset, GroupListing
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.offset_map import Fit, Translation

CommittedOffsets = Mapping[TopicPartition, CommittedOffset]
GroupPartition = tuple[str, TopicPartition]  # a group, and a topic partition of the target
Translate = Callable[[TopicPartition, int], Translation | None]


_NOT_PLACED = (Fit.BEFORE, Fit.AGAIN)


class GroupPositionState(Enum):
    """The state of one committed offset."""

    SYNCED = "synced"
    TRANSLATED = "translated"
    ACTIVE = "active on target"
    AHEAD = "ahead on target"
    NO_OFFSET = "no offset committed"
    FILTERED = "topic filtered"
    NOT_MIRRORED = "not mirrored"
    CATCHING_UP = "not mirrored yet"
    BEHIND_LOG_START = "behind log start"
    TOO_OLD = "older than the copy"
    COPIED_AGAIN = "being copied again"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class GroupRules:
    """Which topics a flow mirrors, and their names on the target."""

    replicates: Callable[[str], bool]
    remote_name: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """A committed offset of a group, and its translation."""

    group: str
    source: TopicPartition
    committed: CommittedOffset
    state: GroupPositionState
    target: TopicPartition | None = None
    translation: Translation | None = None
    reason: str = ""

    @property
    def is_placed(self) -> bool:
        """Whether a consumer may continue at the translation without missing a record."""
        return self.translation is not None and self.translation.fit not in _NOT_PLACED

    @property
    def is_exact(self) -> bool:
        """Whether it would continue at exactly the next record."""
        return self.translation is not None and self.translation.fit is Fit.EXACT


def translate_group(
    group: str,
    committed: CommittedOffsets,
    rules: GroupRules,
    translate: Translate,
) -> list[GroupPosition]:
    """Translate a group's committed offsets."""
    return [_translate_one(group, tp, committed[tp], rules, translate) for tp in sorted(committed)]


def _translate_one(
    group: str,
    tp: TopicPartition,
    committed: CommittedOffset,
    rules: GroupRules,
    translate: Translate,
) -> GroupPosition:
    if not rules.replicates(tp.topic):
        reason = f"the flow does not mirror topic '{tp.topic}'"
        return GroupPosition(group, tp, committed, GroupPositionState.FILTERED, reason=reason)
    target = TopicPartition(rules.remote_name(tp.topic), tp.partition)
    found = translate(tp, committed.offset)
    position = GroupPosition(group, tp, committed, GroupPositionState.TRANSLATED, target, found)
    state, reason = _classify(tp, found)
    return replace(position, state=state, reason=reason)


def with_log_start(one: GroupPosition, log_start: int | None) -> GroupPosition:
    """Refine the state TOO_OLD, now that the source's first offset is known."""
    if (
        one.state is not GroupPositionState.TOO_OLD
        or log_start is None
        or one.committed.offset >= log_start
    ):
        return one
    reason = f"the source's first offset is {log_start}: records of the group were deleted there"
    return replace(one, state=GroupPositionState.BEHIND_LOG_START, reason=reason)


def _classify(tp: TopicPartition, found: Translation | None) -> tuple[GroupPositionState, str]:
    if found is None:
        return GroupPositionState.NOT_MIRRORED, f"no record of {tp} was mirrored"
    if found.fit is Fit.BEFORE:
        return (
            GroupPositionState.TOO_OLD,
            "copying started after this offset, or the map was truncated there",
        )
    if found.fit is Fit.AGAIN:
        return (
            GroupPositionState.COPIED_AGAIN,
            "an offset reset copies these records again; the group is moved once that is done",
        )
    if found.fit is Fit.AFTER:
        reason = "not copied up to this offset yet; the target's end offset is used"
        return GroupPositionState.CATCHING_UP, reason
    if found.fit is Fit.NEAR:
        reason = "the offset map does not contain the next record: at or before the true position"
        return GroupPositionState.TRANSLATED, reason
    return GroupPositionState.TRANSLATED, ""


def new_checkpoints(
    positions: Iterable[GroupPosition], last: Mapping[GroupPartition, Checkpoint]
) -> list[Checkpoint]:
    """Return the checkpoints that differ from the last ones.

    MM2 writes one if the group went back or the translation moved forward. An exact translation
    that moved backward also counts: the target lost records.
    """
    found = []
    for one in positions:
        if one.target is None or one.translation is None or not one.is_placed:
            continue
        offset = one.translation.offset
        before = last.get((one.group, one.target))
        is_first = before is None
        went_back = before is not None and one.committed.offset < before.upstream_offset
        moved_on = before is not None and offset > before.downstream_offset
        corrected = before is not None and one.is_exact and offset != before.downstream_offset
        if is_first or went_back or moved_on or corrected:
            metadata = one.committed.metadata
            found.append(Checkpoint(one.group, one.target, one.committed.offset, offset, metadata))
    return found


@dataclass(frozen=True, slots=True)
class OffsetCommitPlan:
    """Offsets to set for groups on the target, and all positions with their states."""

    writes: dict[str, dict[TopicPartition, CommittedOffset]]
    positions: list[GroupPosition]


def plan_commits(
    positions: Iterable[GroupPosition],
    groups: Mapping[str, GroupListing],
    on_target: Mapping[str, CommittedOffsets],
) -> OffsetCommitPlan:
    """Apply MM2's rules: never change a group with members, never move a group back."""
    writes: dict[str, dict[TopicPartition, CommittedOffset]] = {}
    planned: list[GroupPosition] = []
    for one in positions:
        if one.target is None or one.translation is None or not one.is_placed:
            planned.append(one)
            continue
        group = groups.get(one.group)
        if group is not None and group.is_active:
            reason = f"the group has members on the target ({group.state}); stop them to move it"
            planned.append(replace(one, state=GroupPositionState.ACTIVE, reason=reason))
            continue
        offset = one.translation.offset
        current = on_target.get(one.group, {}).get(one.target)
        if current is not None and current.offset > offset:
            reason = f"the group is at {current.offset} on the target and is not moved back"
            planned.append(replace(one, state=GroupPositionState.AHEAD, reason=reason))
            continue
        if current is None or current.offset < offset:
            metadata = one.committed.metadata
            writes.setdefault(one.group, {})[one.target] = CommittedOffset(offset, metadata)
            planned.append(one)
        else:
            planned.append(replace(one, state=GroupPositionState.SYNCED) if one.is_exact else one)
    return OffsetCommitPlan(writes, planned)
