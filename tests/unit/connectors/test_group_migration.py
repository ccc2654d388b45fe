# SPDX-License-Identifier: Apache-2.0
"""When a group may be moved, by its state on both clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from sparkmirror.connectors.group_migration import MigratedGroup, migrate_group
from sparkmirror.connectors.group_sync import GroupSyncPlan
from sparkmirror.errors import BrokerError, GroupMigrationError
from sparkmirror.kafka.descriptions import CommittedOffset, GroupListing, PartialResults
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.group_positions import GroupPosition, GroupPositionState
from sparkmirror.offsets.offset_map import Fit, Translation

HERE, THERE = TopicPartition("t", 0), TopicPartition("a.t", 0)
OTHER = TopicPartition("t", 1)
EXACT = GroupPosition(
    "g", HERE, CommittedOffset(5), GroupPositionState.TRANSLATED, THERE, Translation(7, Fit.EXACT)
)
UNKNOWN = GroupPosition(
    "g", OTHER, CommittedOffset(3), GroupPositionState.NOT_MIRRORED, TopicPartition("a.t", 1)
)
BEHIND = GroupPosition(
    "g",
    HERE,
    CommittedOffset(9),
    GroupPositionState.CATCHING_UP,
    THERE,
    Translation(7, Fit.AFTER),
    "not there yet",
)
FILTERED = GroupPosition("g", OTHER, CommittedOffset(3), GroupPositionState.FILTERED)


@dataclass
class Side:
    """The groups of one cluster."""

    alias: str
    state: str | None = "Empty"
    offsets: dict[TopicPartition, CommittedOffset] = field(default_factory=dict)
    keeps: bool = True  # what is set

    def listings(self, groups: Sequence[str]) -> PartialResults[str, GroupListing]:
        named = {
            g: GroupListing(g, self.state, "classic", "consumer") for g in groups if self.state
        }
        return PartialResults(named, {})

    def groups(self) -> dict[str, GroupListing]:
        return {"billing": GroupListing("billing", "Empty", "classic", "consumer")}

    def committed_offsets(
        self, groups: Sequence[str]
    ) -> PartialResults[str, Mapping[TopicPartition, CommittedOffset]]:
        return PartialResults(dict.fromkeys(groups, self.offsets), {})

    def commit_offsets(
        self, offsets: Mapping[str, Mapping[TopicPartition, CommittedOffset]]
    ) -> dict[str, BrokerError | None]:
        if self.keeps:
            self.offsets = dict(offsets["g"])
        return dict.fromkeys(offsets)


class Rounds:
    """Scripted results; the last one is repeated."""

    def __init__(self, *looks: list[GroupPosition], empty: set[TopicPartition]) -> None:
        self._looks = [*looks]
        self._empty = empty
        self.source_groups, self.target_groups = Side("a"), Side("b", None)

    def plan(self, _groups: Sequence[str], *, syncs_groups: bool) -> GroupSyncPlan:
        """Return the next result."""
        assert not syncs_groups
        return GroupSyncPlan(self._looks.pop(0) if len(self._looks) > 1 else self._looks[0])

    def empty_partitions(self, partitions: Sequence[TopicPartition]) -> set[TopicPartition]:
        return {*partitions} & self._empty


def rounds(*looks: list[GroupPosition], empty: set[TopicPartition] | None = None) -> Rounds:
    """The results for an idle group."""
    return Rounds(*looks, empty=empty or set())


def parked(seen: Rounds, *, timeout: float = 0.0, rewind: bool = False) -> MigratedGroup:
    """Move the group without waiting."""
    said: list[str] = []
    return migrate_group(seen, "g", timeout_seconds=timeout, rewind=rewind, on_progress=said.append)  # type: ignore[arg-type]


def test_an_exact_group_is_set_and_read_back() -> None:
    seen = rounds([EXACT, FILTERED])
    assert parked(seen) == MigratedGroup((EXACT,), (FILTERED,))
    assert seen.target_groups.offsets == {THERE: CommittedOffset(7)}


def test_a_partition_of_which_nothing_was_mirrored_is_waited_for() -> None:
    """It has records, so a consumer on the target would start at the wrong place."""
    with pytest.raises(GroupMigrationError, match="t-1 at 3: not mirrored"):
        parked(rounds([EXACT, UNKNOWN]))
    assert parked(rounds([EXACT, UNKNOWN], empty={OTHER})).skipped == (UNKNOWN,)


def test_parking_fails_at_once_when_the_source_has_no_such_group() -> None:
    """With the nearest name, whatever the timeout."""
    seen = rounds([EXACT])
    seen.source_groups.state = None
    with pytest.raises(GroupMigrationError) as caught:
        migrate_group(
            seen,  # type: ignore[arg-type]
            "biling",
            timeout_seconds=10_000,
            rewind=False,
            on_progress=lambda _: None,
        )
    assert str(caught.value) == (
        "Cluster 'a' has no consumer group 'biling'. The nearest name is 'billing'."
    )


def test_it_waits_until_the_copy_has_come_as_far_as_the_group() -> None:
    """It fails after the timeout."""
    with pytest.raises(GroupMigrationError, match="not there yet"):
        parked(rounds([BEHIND]))
    assert parked(rounds([BEHIND], [EXACT]), timeout=5).positions == (EXACT,)


@pytest.mark.parametrize("positions", [[], [FILTERED]])
def test_a_group_with_nothing_to_park_is_not_parked(positions: list[GroupPosition]) -> None:
    with pytest.raises(GroupMigrationError, match=r"none of its offsets|committed no offset"):
        parked(rounds(positions))


def test_members_on_either_side_are_in_the_way() -> None:
    """Members on either cluster would continue to process records."""
    seen = rounds([EXACT])
    seen.source_groups.state = "Stable"
    with pytest.raises(GroupMigrationError, match="members on 'a'"):
        parked(seen)
    seen.source_groups.state, seen.target_groups.state = "Empty", "Reconciling"
    with pytest.raises(GroupMigrationError, match="members on 'b'"):
        parked(seen)


def test_a_group_that_moves_while_it_is_parked_is_not_parked() -> None:
    """On either cluster."""
    moved = GroupPosition(
        "g", HERE, CommittedOffset(6), GroupPositionState.TRANSLATED, THERE, EXACT.translation
    )
    with pytest.raises(GroupMigrationError, match="kept consuming"):
        parked(rounds([EXACT], [moved]))
    seen = rounds([EXACT])
    seen.target_groups.keeps = False
    with pytest.raises(GroupMigrationError, match="another client moves it"):
        parked(seen)


def test_a_group_is_moved_back_only_on_request() -> None:
    """Records would be processed again."""
    seen = rounds([EXACT])
    seen.target_groups.offsets = {THERE: CommittedOffset(8)}
    with pytest.raises(GroupMigrationError, match="--rewind"):
        parked(seen)
    assert parked(seen, rewind=True).positions == (EXACT,)
