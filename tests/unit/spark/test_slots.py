# SPDX-License-Identifier: Apache-2.0
"""The slots of Spark's executors, and how flows share them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.model import Flow
from sparkmirror.spark.slots import FlowCapacity, SlotAllocator, allocate_slots

FLOWS = [Flow("a", "b"), Flow("b", "a"), Flow("a", "c")]


def allocator(**requested: int) -> SlotAllocator[str]:
    """Flows by name."""
    made: SlotAllocator[str] = SlotAllocator("Add executors.")
    made.request(requested)
    return made


def test_the_time_without_executors_begins_with_their_loss() -> None:
    slots = allocator(a=9)
    slots.set_slots(0, 100.0)
    slots.set_slots(0, 120.0)
    assert slots.seconds_without(130.0) == 30.0
    slots.set_slots(2, 131.0)
    assert slots.seconds_without(132.0) == 0.0


def test_a_flow_has_no_slot_while_there_are_no_executors() -> None:
    slots = allocator(a=2)
    assert slots.capacity("a") == FlowCapacity(0)
    slots.set_slots(4, 0.0)
    assert slots.capacity("a") == FlowCapacity(2)
    slots.set_slots(0, 100.0)
    assert slots.capacity("a") == FlowCapacity(0)


def test_a_request_names_the_flows_that_lose_slots() -> None:
    slots = allocator(a=4)
    slots.set_slots(4, 0.0)
    assert slots.request({"a": 4, "b": 1}) == ["a"]
    assert slots.capacity("a").slots == 3


def test_flows_take_turns_when_there_are_more_flows_than_slots(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each may start one task; the warning comes once."""
    slots = allocator(a=2, b=2)
    slots.set_slots(1, 0.0)
    assert slots.capacity("a") == slots.capacity("b") == FlowCapacity(1, is_time_shared=True)
    slots.request({"a": 2, "b": 2})
    assert caplog.text.count("take turns. Add executors.") == 1
    slots.set_slots(8, 110.0)
    assert slots.capacity("a") == FlowCapacity(2)


def test_slots_are_distributed_in_turns() -> None:
    """Three flows request 4, 1 and 2 of six slots."""
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
def test_no_flow_gets_more_than_it_requests_or_none(wanted: list[int], slots: int) -> None:
    """All slots are used, unless there are too few."""
    requested = {Flow("a", f"t{index}"): count for index, count in enumerate(wanted)}

    allotted = allocate_slots(requested, slots)

    assert all(1 <= allotted[flow] <= requested[flow] for flow in requested)
    assert sum(allotted.values()) == min(sum(wanted), max(slots, len(requested)))
