# SPDX-License-Identifier: Apache-2.0
"""Planning of splits and slots."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.model import Flow
from sparkmirror.spark.split_planner import allocate_slots, plan_splits
from sparkmirror.task.messages import PartitionStart, Split

FLOWS = [Flow("a", "b"), Flow("b", "a"), Flow("a", "c")]


def starts(**topics: int) -> list[PartitionStart]:
    """Topic partitions in the order in which MM2 sorts them."""
    return [
        PartitionStart(topic, partition, f"a.{topic}", 0)
        for topic, count in topics.items()
        for partition in range(count)
    ]


def names(split: Split) -> list[str]:
    """The split's topic partitions as text."""
    return [str(one.source) for one in split.partitions]


def test_partitions_go_round_as_mm2_deals_them() -> None:
    """Three topics of 8, 2 and 2 partitions on three tasks."""
    splits = plan_splits(starts(t0=8, t1=2, t2=2), 3)

    assert [split.index for split in splits] == [0, 1, 2]
    assert [names(split) for split in splits] == [
        ["t0-0", "t0-3", "t0-6", "t1-1"],
        ["t0-1", "t0-4", "t0-7", "t2-0"],
        ["t0-2", "t0-5", "t1-0", "t2-1"],
    ]


def test_no_split_is_empty() -> None:
    assert [names(split) for split in plan_splits(starts(t=2), 5)] == [["t-0"], ["t-1"]]
    assert plan_splits([], 5) == ()


@given(count=st.integers(0, 60), most=st.integers(1, 20))
def test_every_partition_is_in_exactly_one_split(count: int, most: int) -> None:
    """Split sizes differ by one partition at most."""
    wanted = starts(t=count)

    splits = plan_splits(wanted, most)

    assert len(splits) <= most
    assert sorted(name for split in splits for name in names(split)) == sorted(
        str(one.source) for one in wanted
    )
    sizes = [len(split.partitions) for split in splits]
    assert not sizes or max(sizes) - min(sizes) <= 1


def test_slots_are_shared_round_and_one_stays_free() -> None:
    """Three flows that request 4, 1 and 2 of six slots: five are used."""
    assert allocate_slots(dict(zip(FLOWS, [4, 1, 2], strict=True)), 6) == {
        FLOWS[0]: 3,
        FLOWS[1]: 1,
        FLOWS[2]: 2,
    }


def test_every_flow_gets_a_slot_even_when_there_are_too_few() -> None:
    """A flow without a slot would never copy."""
    assert set(allocate_slots(dict.fromkeys(FLOWS, 5), 2).values()) == {1}
    assert set(allocate_slots(dict.fromkeys(FLOWS, 5), 3).values()) == {1}


@given(wanted=st.lists(st.integers(1, 9), min_size=1, max_size=5), slots=st.integers(1, 40))
def test_each_gets_at_least_one_slot_and_at_most_its_splits(wanted: list[int], slots: int) -> None:
    """All slots are used, unless there are too few."""
    asked = {Flow("a", f"t{index}"): count for index, count in enumerate(wanted)}

    given_ = allocate_slots(asked, slots)

    assert all(1 <= given_[flow] <= asked[flow] for flow in asked)
    assert sum(given_.values()) == min(sum(wanted), max(slots, len(asked)))
