# SPDX-License-Identifier: Apache-2.0
"""What connectors and tasks report, in Connect's words."""

from __future__ import annotations

import pytest

from sparkmirror.connectors.connector_states import (
    ConnectorState,
    ReportedState,
    checkpoint_state,
    heartbeat_state,
    source_state,
)
from sparkmirror.connectors.heartbeat_connector import HeartbeatState, HeartbeatStatus
from sparkmirror.formats.connect_status_records import RunState
from sparkmirror.model import TopicPartition
from sparkmirror.spark.flow_status import FlowSnapshot, FlowState, FlowStatus, TaskSnapshot

ORDERS = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)
WELL = TaskSnapshot(0, (ORDERS,))
STUCK = TaskSnapshot(1, (ORDERS,), ("orders-0: forbidden", "orders-1: damaged"), ("b is slow",))
LATE = TaskSnapshot(2, (ORDERS,), (), ("no leader", "b is slow"))


def flow(
    state: FlowState = FlowState.RUNNING, reason: str = "", trace: str = "", note: str = ""
) -> FlowSnapshot:
    """A flow that says this of itself."""
    made = FlowStatus("a->b|copy")
    made.set_state(state, reason, trace)
    made.set_problem("topics", note)
    return made.snapshot()


def test_only_the_task_whose_partitions_failed_is_failed() -> None:
    """The connector and the other tasks run; what is tried again is a warning."""
    found = source_state(flow(note="topic x cannot be made"), (WELL, STUCK, LATE))
    assert found.connector == ReportedState(RunState.RUNNING, warning="topic x cannot be made")
    assert found.tasks == {
        0: ReportedState(RunState.RUNNING, partitions=(ORDERS,)),
        1: ReportedState(
            RunState.FAILED, "orders-0: forbidden\norders-1: damaged", "b is slow", (ORDERS,)
        ),
        2: ReportedState(RunState.RUNNING, warning="no leader; b is slow", partitions=(ORDERS,)),
    }


def test_a_task_without_a_spark_slot_is_unassigned() -> None:
    """The other tasks of the connector run."""
    made = FlowStatus("a->b|copy")
    made.begin_epoch(1, [(ORDERS, 0, None), (OTHER, 0, None)], {ORDERS: 0, OTHER: 1})
    made.set_state(FlowState.RUNNING)
    made.set_waiting_splits([1])
    found = source_state(made.snapshot(), made.tasks())
    assert [found.tasks[n].state for n in (0, 1)] == [RunState.RUNNING, RunState.UNASSIGNED]
    assert "has no Spark task yet" in found.tasks[1].warning
    assert "no Spark task for 1 of 2 splits" in made.snapshot().problems

    made.begin_epoch(2, [(ORDERS, 0, None)], {ORDERS: 0})
    assert not made.snapshot().problems


def test_a_temporary_problem_is_a_warning() -> None:
    """A cluster out of reach does not fail a connector."""
    found = source_state(flow(FlowState.RETRYING, "a does not answer"), ())
    assert found == ConnectorState(ReportedState(RunState.RUNNING, warning="a does not answer"))


def test_a_failed_connector_tells_why_and_so_do_its_tasks() -> None:
    """First the sentence, then where in the program it was."""
    found = source_state(flow(FlowState.FAILED, "it broke", "Traceback: x"), (WELL,))
    assert found.connector == ReportedState(RunState.FAILED, "it broke\nTraceback: x")
    assert found.tasks[0] == ReportedState(RunState.FAILED, "it broke\nTraceback: x", "", (ORDERS,))


@pytest.mark.parametrize("state", [FlowState.STARTING, FlowState.STOPPED])
def test_a_connector_that_is_not_at_work_is_unassigned(state: FlowState) -> None:
    """It has not begun, or has ended."""
    for found in (
        source_state(flow(state), ()),
        checkpoint_state(flow(state), failure="", refusals=(), has_task=True),
        heartbeat_state(flow(state), HeartbeatStatus(HeartbeatState.RUNNING)),
    ):
        assert found == ConnectorState(ReportedState(RunState.UNASSIGNED))


@pytest.mark.parametrize(
    ("failure", "refusals", "note", "task"),
    [
        ("", (), "", ReportedState(RunState.RUNNING)),
        ("", (), "a is away", ReportedState(RunState.RUNNING, warning="a is away")),
        ("", ("forbidden",), "x", ReportedState(RunState.FAILED, "forbidden", "x")),
        ("Traceback", ("forbidden",), "", ReportedState(RunState.FAILED, "Traceback")),
    ],
)
def test_a_checkpoint_connector_has_one_task(
    failure: str, refusals: tuple[str, ...], note: str, task: ReportedState
) -> None:
    """It fails when a person must see to something, or when its thread has ended."""
    found = checkpoint_state(flow(note=note), failure=failure, refusals=refusals, has_task=True)
    assert found == ConnectorState(ReportedState(RunState.RUNNING), {0: task})


@pytest.mark.parametrize(
    ("beats", "tasks"),
    [
        (None, {}),
        (HeartbeatStatus(HeartbeatState.RUNNING), {0: ReportedState(RunState.RUNNING)}),
        (
            HeartbeatStatus(HeartbeatState.RETRYING, error="b is away"),
            {0: ReportedState(RunState.RUNNING, warning="b is away")},
        ),
        (
            HeartbeatStatus(HeartbeatState.RETRYING, error="forbidden", is_refused=True),
            {0: ReportedState(RunState.FAILED, "forbidden")},
        ),
        (
            HeartbeatStatus(HeartbeatState.FAILED, error="KeyError('x')"),
            {0: ReportedState(RunState.FAILED, "KeyError('x')")},
        ),
    ],
)
def test_a_heartbeat_connector_has_one_task_if_it_emits(
    beats: HeartbeatStatus | None, tasks: dict[int, ReportedState]
) -> None:
    """One that is switched off runs without a task, as MM2's does."""
    assert heartbeat_state(flow(), beats) == ConnectorState(ReportedState(RunState.RUNNING), tasks)


def test_a_connector_that_does_nothing_has_no_task() -> None:
    """enabled=false, as in MM2."""
    found = checkpoint_state(flow(), failure="", refusals=(), has_task=False)
    assert found == ConnectorState(ReportedState(RunState.RUNNING))


def test_paused_parts_have_no_problems_and_keep_their_partitions() -> None:
    """Earlier problems are checked again when they continue."""
    paused = source_state(flow(note="x"), (WELL, STUCK)).with_state(RunState.PAUSED)
    assert paused.connector == ReportedState(RunState.PAUSED)
    assert set(paused.tasks.values()) == {ReportedState(RunState.PAUSED, partitions=(ORDERS,))}
