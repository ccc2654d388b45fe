# SPDX-License-Identifier: Apache-2.0
"""Where consumer groups stand on both sides, and why a group is not moved: pure planning.

`translate_group` says where each committed offset lies on the target, `new_checkpoints` which of
that is worth a checkpoint, `plan_commits` which offsets to set for groups on the target. Every
position has a state and a sentence, so that nobody has to guess.
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


class GroupPositionState(Enum):
    """What has become of one committed offset."""

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
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class GroupRules:
    """What a flow's file says about topics and their names on the target."""

    replicates: Callable[[str], bool]
    remote_name: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """A committed offset of a group, and where it lies on the target."""

    group: str
    source: TopicPartition
    committed: CommittedOffset
    state: GroupPositionState
    target: TopicPartition | None = None
    translation: Translation | None = None
    reason: str = ""

    @property
    def is_placed(self) -> bool:
        """Whether a consumer may go on at its translation without missing a record."""
        return self.translation is not None and self.translation.fit is not Fit.BEFORE

    @property
    def is_exact(self) -> bool:
        """Whether it would go on at the very record."""
        return self.translation is not None and self.translation.fit is Fit.EXACT


def translate_group(
    group: str,
    committed: CommittedOffsets,
    rules: GroupRules,
    translate: Translate,
) -> list[GroupPosition]:
    """Where a group's committed offsets lie on the target."""
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
    """A position that is older than the copy, now that the source's first offset is known."""
    if (
        one.state is not GroupPositionState.TOO_OLD
        or log_start is None
        or one.committed.offset >= log_start
    ):
        return one
    reason = f"the source's first offset is {log_start}: the group has lost records there"
    return replace(one, state=GroupPositionState.BEHIND_LOG_START, reason=reason)


def _classify(tp: TopicPartition, found: Translation | None) -> tuple[GroupPositionState, str]:
    """What is to be said of a translation."""
    if found is None:
        return GroupPositionState.NOT_MIRRORED, f"no record of {tp} has been mirrored"
    if found.fit is Fit.BEFORE:
        return (
            GroupPositionState.TOO_OLD,
            "the copy began behind this offset, or its map was cut there",
        )
    if found.fit is Fit.AFTER:
        reason = "the copy has not come as far as the group; the target's end is the best there is"
        return GroupPositionState.CATCHING_UP, reason
    if found.fit is Fit.NEAR:
        reason = "known by MirrorMaker 2's offset syncs only: at or before the true position"
        return GroupPositionState.TRANSLATED, reason
    return GroupPositionState.TRANSLATED, ""


def new_checkpoints(
    positions: Iterable[GroupPosition], last: Mapping[GroupPartition, Checkpoint]
) -> list[Checkpoint]:
    """The checkpoints that say something new.

    MM2 writes one if the group went back or the translation moved forward. An exact translation
    that moved backward is also news: the target lost what the last one speaks of.
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
    """Offsets to set for groups on the target, and what is said of every position."""

    writes: dict[str, dict[TopicPartition, CommittedOffset]]
    positions: list[GroupPosition]


def plan_commits(
    positions: Iterable[GroupPosition],
    groups: Mapping[str, GroupListing],
    on_target: Mapping[str, CommittedOffsets],
) -> OffsetCommitPlan:
    """By MM2's rules: a group with members is never touched, an idle one never moved back."""
    writes: dict[str, dict[TopicPartition, CommittedOffset]] = {}
    said: list[GroupPosition] = []
    for one in positions:
        if one.target is None or one.translation is None or not one.is_placed:
            said.append(one)
            continue
        group = groups.get(one.group)
        if group is not None and group.is_active:
            reason = f"the group has members on the target ({group.state}); stop them to move it"
            said.append(replace(one, state=GroupPositionState.ACTIVE, reason=reason))
            continue
        offset = one.translation.offset
        there = on_target.get(one.group, {}).get(one.target)
        if there is not None and there.offset > offset:
            reason = f"the group stands at {there.offset} on the target, and is not moved back"
            said.append(replace(one, state=GroupPositionState.AHEAD, reason=reason))
            continue
        if there is None or there.offset < offset:
            metadata = one.committed.metadata
            writes.setdefault(one.group, {})[one.target] = CommittedOffset(offset, metadata)
            said.append(one)
        else:
            said.append(replace(one, state=GroupPositionState.SYNCED) if one.is_exact else one)
    return OffsetCommitPlan(writes, said)
