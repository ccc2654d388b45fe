# SPDX-License-Identifier: Apache-2.0
"""Moves one consumer group to the target: no record is processed twice, none is skipped.

Waits until the group has no members on either cluster and everything it committed is copied. Then
sets the exact positions on the target and reads them back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sparkmirror.config.keys.table import nearest_name
from sparkmirror.connectors.group_sync import GroupSync
from sparkmirror.errors import GroupMigrationError
from sparkmirror.kafka.descriptions import CommittedOffset
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.group_positions import GroupPosition, GroupPositionState
from sparkmirror.quantities import and_more

_POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class MigratedGroup:
    """The new positions, and what was skipped: filtered topics, empty partitions.

    In skipped partitions a consumer on the target starts by its `auto.offset.reset`.
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
    """Move a group. Raises GroupMigrationError if that is not possible within the timeout."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        found, obstacle = _read_group(rounds, group)
        if not obstacle:
            break
        on_progress(obstacle)
        if time.monotonic() + _POLL_SECONDS > deadline:
            message = f"Group '{group}' is not parked after {timeout_seconds:g} s: {obstacle}."
            raise GroupMigrationError(message)
        time.sleep(_POLL_SECONDS)
    offsets = {
        one.target: CommittedOffset(one.translation.offset, one.committed.metadata)
        for one in found
        if one.target is not None and one.translation is not None and one.is_placed
    }
    if not rewind:
        _require_no_rewind(rounds, group, offsets)
    error = rounds.target_groups.commit_offsets({group: offsets})[group]
    if error is not None:
        raise error
    _verify_committed(rounds, group, offsets)
    after, obstacle = _read_group(rounds, group)
    if obstacle or [one.committed for one in after] != [one.committed for one in found]:
        raise GroupMigrationError(
            f"Group '{group}' kept consuming on '{rounds.source_groups.alias}' while it was "
            "moved. Stop its consumers there, and park it again."
        )
    return MigratedGroup(
        tuple(one for one in found if one.is_placed),
        tuple(one for one in found if not one.is_placed),
    )


def _read_group(rounds: GroupSync, group: str) -> tuple[list[GroupPosition], str]:
    """Return the group's positions, and what blocks the migration.

    Raises GroupMigrationError if the source has no such group: waiting would not help.
    """
    for side in (rounds.source_groups, rounds.target_groups):
        state = side.listings([group]).found.get(group)
        if state is not None and state.is_active:
            return [], (
                f"it has members on '{side.alias}' ({state.state}); stop its consumers there"
            )
        if state is None and side is rounds.source_groups:
            raise GroupMigrationError(_unknown_group(rounds, group))
    found = rounds.plan([group], syncs_groups=False)
    if group in found.failures:
        return [], found.failures[group]
    if not found.positions:
        return [], f"it has committed no offset on '{rounds.source_groups.alias}'"
    return found.positions, _blocker(rounds, found.positions)


def _unknown_group(rounds: GroupSync, group: str) -> str:
    meant = nearest_name(group, rounds.source_groups.groups())
    nearest = f" The nearest name is '{meant}'." if meant else ""
    return f"Cluster '{rounds.source_groups.alias}' has no consumer group '{group}'.{nearest}"


def _blocker(rounds: GroupSync, positions: Sequence[GroupPosition]) -> str:
    inexact = [
        one
        for one in positions
        if not one.is_exact and one.state is not GroupPositionState.FILTERED
    ]
    unknown = [one.source for one in inexact if one.state is GroupPositionState.NOT_MIRRORED]
    empty = rounds.empty_partitions(unknown) if unknown else set()
    blocking = [one for one in inexact if one.source not in empty]
    if not blocking and not any(one.is_exact for one in positions):
        return "none of its offsets is in a mirrored topic with records"
    if not blocking:
        return ""
    one = blocking[0]
    more = and_more(len(blocking) - 1, "partition")
    return f"{one.source} at {one.committed.offset}{more}: {one.state.value}: {one.reason}"


def _require_no_rewind(
    rounds: GroupSync, group: str, offsets: dict[TopicPartition, CommittedOffset]
) -> None:
    result = rounds.target_groups.committed_offsets([group])
    for error in result.failed.values():
        raise error
    current = result.found.get(group, {})
    ahead = [
        tp for tp in sorted(offsets) if tp in current and current[tp].offset > offsets[tp].offset
    ]
    if ahead:
        tp = ahead[0]
        raise GroupMigrationError(
            f"Group '{group}' is at offset {current[tp].offset} of {tp} on "
            f"'{rounds.target_groups.alias}', after its new position {offsets[tp].offset}: it "
            "has consumed there before. Use --rewind to consume those records again."
        )


def _verify_committed(
    rounds: GroupSync, group: str, offsets: dict[TopicPartition, CommittedOffset]
) -> None:
    result = rounds.target_groups.committed_offsets([group])
    for error in result.failed.values():
        raise error
    current = result.found.get(group, {})
    for tp, committed in offsets.items():
        if tp not in current or current[tp].offset != committed.offset:
            offset = current[tp].offset if tp in current else "no offset"
            raise GroupMigrationError(
                f"Group '{group}' is at {offset} of {tp} on '{rounds.target_groups.alias}', "
                f"although {committed.offset} was set: another client moves it. Park it again."
            )
