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


def test_slots_are_lost_at_once_and_gained_when_stable() -> None:
    """Executors register one after another: one new plan serves them all."""
    slots = allocator(a=9)
    assert not slots.observe(2, 100.0)
    assert not slots.observe(4, 102.0)
    assert not slots.observe(4, 104.9)
    assert slots.observe(4, 105.0)
    assert slots.capacity("a").slots == 4
    assert slots.observe(2, 106.0)
    assert slots.capacity("a").slots == 2
    assert not slots.observe(2, 120.0)


def test_the_time_without_executors_begins_with_their_loss() -> None:
    """It ends with the first executor, before its slots are used."""
    slots = allocator(a=9)
    slots.observe(0, 100.0)
    assert slots.seconds_without(130.0) == 30.0
    slots.observe(2, 131.0)
    assert slots.seconds_without(132.0) == 0.0


def test_a_flow_has_no_slot_while_there_are_no_executors() -> None:
    slots = allocator(a=2)
    assert slots.capacity("a") == FlowCapacity(0)
    slots.set_fixed(4)
    assert slots.capacity("a") == FlowCapacity(2)
    slots.observe(0, 100.0)
    assert slots.capacity("a") == FlowCapacity(0)


def test_a_request_names_the_flows_that_lose_slots() -> None:
    slots = allocator(a=4)
    slots.set_fixed(4)
    assert slots.request({"a": 4, "b": 1}) == ["a"]
    assert slots.capacity("a").slots == 3


def test_flows_take_turns_when_there_are_more_flows_than_slots(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each may start one task; the warning comes once."""
    slots = allocator(a=2, b=2)
    slots.set_fixed(1)
    assert slots.capacity("a") == slots.capacity("b") == FlowCapacity(1, is_time_shared=True)
    slots.request({"a": 2, "b": 2})
    assert caplog.text.count("take turns. Add executors.") == 1
    slots.observe(8, 100.0)
    slots.observe(8, 110.0)
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
