# SPDX-License-Identifier: Apache-2.0
"""Moves one consumer group to the target for good: nothing is processed twice, nothing skipped.

Waits until the group has no members on either side and the copy has come as far as the group,
then sets the exact positions on the target and reads them back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sparkmirror.connectors.group_sync import GroupSync
from sparkmirror.errors import GroupMigrationError
from sparkmirror.kafka.descriptions import CommittedOffset
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.group_positions import GroupPosition, GroupPositionState

_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class MigratedGroup:
    """Where the group goes on, and what was left alone: filtered topics, empty partitions.

    There a consumer on the target begins by its own `auto.offset.reset`.
    """

    positions: tuple[GroupPosition, ...]
    skipped: tuple[GroupPosition, ...]


def migrate_group(
    rounds: GroupSync,
    group: str,
    *,
    timeout_seconds: float,
    rewind: bool,
    on_progress: Callable[[str], None],
) -> MigratedGroup:
    """Park a group; GroupMigrationError if it cannot be done within the time."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        found, obstacle = _read_group(rounds, group)
        if not obstacle:
            break
        on_progress(obstacle)
        if time.monotonic() + _LOOK_SECONDS > deadline:
            message = f"Group '{group}' is not parked after {timeout_seconds:g} s: {obstacle}."
            raise GroupMigrationError(message)
        time.sleep(_LOOK_SECONDS)
    wanted = {
        one.target: CommittedOffset(one.translation.offset, one.committed.metadata)
        for one in found
        if one.target is not None and one.translation is not None and one.is_placed
    }
    if not rewind:
        _require_no_rewind(rounds, group, wanted)
    error = rounds.target_groups.commit_offsets({group: wanted})[group]
    if error is not None:
        raise error
    _verify_committed(rounds, group, wanted)
    after, obstacle = _read_group(rounds, group)
    if obstacle or [one.committed for one in after] != [one.committed for one in found]:
        raise GroupMigrationError(
            f"Group '{group}' went on consuming on '{rounds.source_groups.alias}' while it was "
            "parked. Stop its consumers there, and park it again."
        )
    return MigratedGroup(
        tuple(one for one in found if one.is_placed),
        tuple(one for one in found if not one.is_placed),
    )


def _read_group(rounds: GroupSync, group: str) -> tuple[list[GroupPosition], str]:
    """The group's positions, and what is in the way."""
    for side in (rounds.source_groups, rounds.target_groups):
        state = side.listings([group]).found.get(group)
        if state is not None and state.is_active:
            return [], (
                f"it has members on '{side.alias}' ({state.state}); stop its consumers there"
            )
        if state is None and side is rounds.source_groups:
            return [], f"'{side.alias}' has no such group"
    found = rounds.plan([group], syncs_groups=False)
    if group in found.failures:
        return [], found.failures[group]
    if not found.positions:
        return [], f"it has committed no offset on '{rounds.source_groups.alias}'"
    return found.positions, _blocker(rounds, found.positions)


def _blocker(rounds: GroupSync, positions: Sequence[GroupPosition]) -> str:
    inexact = [
        one
        for one in positions
        if not one.is_exact and one.state is not GroupPositionState.FILTERED
    ]
    unknown = [one.source for one in inexact if one.state is GroupPositionState.NOT_MIRRORED]
    empty = rounds.empty_partitions(unknown) if unknown else set()
    waiting = [one for one in inexact if one.source not in empty]
    if not waiting and not any(one.is_exact for one in positions):
        return "none of its offsets is in a topic that is mirrored and has records"
    if not waiting:
        return ""
    one = waiting[0]
    more = f" and {len(waiting) - 1} more partitions" if len(waiting) > 1 else ""
    return f"{one.source} at {one.committed.offset}{more}: {one.state.value}: {one.reason}"


def _require_no_rewind(
    rounds: GroupSync, group: str, wanted: dict[TopicPartition, CommittedOffset]
) -> None:
    answer = rounds.target_groups.committed_offsets([group])
    for error in answer.failed.values():
        raise error
    there = answer.found.get(group, {})
    ahead = [tp for tp in sorted(wanted) if tp in there and there[tp].offset > wanted[tp].offset]
    if ahead:
        tp = ahead[0]
        raise GroupMigrationError(
            f"Group '{group}' stands at {there[tp].offset} in {tp} on "
            f"'{rounds.target_groups.alias}', behind its position {wanted[tp].offset}: it has "
            "consumed there before. Park it with --rewind to consume those records again."
        )


def _verify_committed(
    rounds: GroupSync, group: str, wanted: dict[TopicPartition, CommittedOffset]
) -> None:
    answer = rounds.target_groups.committed_offsets([group])
    for error in answer.failed.values():
        raise error
    there = answer.found.get(group, {})
    for tp, committed in wanted.items():
        if tp not in there or there[tp].offset != committed.offset:
            raise GroupMigrationError(
                f"Group '{group}' stands at {there[tp].offset if tp in there else 'no offset'} in "
                f"{tp} on '{rounds.target_groups.alias}', although {committed.offset} was set: "
                "somebody else moves it. Park it again."
            )
