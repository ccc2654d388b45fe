# SPDX-License-Identifier: Apache-2.0
"""What a worker tells about its connectors, and what it keeps to itself."""

from __future__ import annotations

from sparkmirror.connect.status_updates import (
    StatusOrigin,
    status_updates,
    topic_updates,
    unassigned_updates,
)
from sparkmirror.connectors.connector_states import ConnectorState, ReportedState
from sparkmirror.formats.connect_status_records import (
    ConnectorStatus,
    RunState,
    Status,
    StatusRecord,
    TaskStatus,
    TopicSeen,
    TopicStatus,
)
from sparkmirror.kafka.log_records import LogRecord
from sparkmirror.state.connect_statuses import ClusterStatusState

ME = StatusOrigin("me:8083", 7)
RUNNING = Status(RunState.RUNNING, "me:8083", 7, version="4.3.1")


def known(*records: StatusRecord) -> ClusterStatusState:
    """What everybody has read."""
    state = ClusterStatusState()
    for offset, one in enumerate(records):
        state.apply(LogRecord(0, offset, 1000 + offset, one.key(), one.value()))
    return state


def running(*warnings: str) -> ConnectorState:
    """A connector that runs, with one task for each warning."""
    tasks = {
        number: ReportedState(RunState.RUNNING, warning=text)
        for number, text in enumerate(warnings)
    }
    return ConnectorState(ReportedState(RunState.RUNNING), tasks)


def tell(
    now: ConnectorState, before: ClusterStatusState, *, renews: bool = False
) -> list[StatusRecord]:
    """What there is to say about connector c."""
    return status_updates("c", now, before, ME, renews_warnings=renews)


def test_unchanged_status_is_not_reported_again() -> None:
    """Neither in a later generation of the group."""
    before = known(ConnectorStatus("c", RUNNING), TaskStatus("c", 0, RUNNING))
    assert tell(running(""), before) == []
    later = StatusOrigin("me:8083", 9)
    assert status_updates("c", running(""), before, later, renews_warnings=True) == []


def test_all_that_differs_is_reported() -> None:
    """State, place, and a task that is no more."""
    other = Status(RunState.RUNNING, "other:8083", 3, version="4.3.1")
    before = known(
        ConnectorStatus("c", other), TaskStatus("c", 0, RUNNING), TaskStatus("c", 1, other)
    )
    failed = ConnectorState(
        ReportedState(RunState.RUNNING), {0: ReportedState(RunState.FAILED, "it broke")}
    )
    assert tell(failed, before) == [
        ConnectorStatus("c", RUNNING),
        TaskStatus("c", 0, Status(RunState.FAILED, "me:8083", 7, "it broke", "4.3.1")),
        TaskStatus("c", 1, None),
    ]


def test_tasks_of_a_worker_that_died_do_not_run() -> None:
    """Not until their connector has started here and says what they do."""
    other = Status(RunState.RUNNING, "other:8083", 3, version="4.3.1")
    before = known(ConnectorStatus("c", other), TaskStatus("c", 0, other))
    begins = Status(RunState.UNASSIGNED, "me:8083", 7)
    assert tell(ConnectorState(ReportedState(RunState.UNASSIGNED)), before) == [
        ConnectorStatus("c", begins),
        TaskStatus("c", 0, begins),
    ]


def test_a_warning_is_reworded_only_when_it_is_time() -> None:
    """But comes and goes at once."""
    first = tell(running("3 s late"), known(ConnectorStatus("c", RUNNING)))
    before = known(ConnectorStatus("c", RUNNING), *first)
    assert len(first) == 1
    assert tell(running("4 s late"), before) == []
    assert len(tell(running("4 s late"), before, renews=True)) == 1
    assert len(tell(running(""), before)) == 1


def test_only_own_connectors_are_given_up() -> None:
    """What another worker says about its own stays."""
    other = Status(RunState.RUNNING, "other:8083", 8, version="4.3.1")
    before = known(
        ConnectorStatus("c", RUNNING), TaskStatus("c", 0, RUNNING), ConnectorStatus("d", other)
    )
    gone = Status(RunState.UNASSIGNED, "me:8083", 7)
    assert unassigned_updates(["c", "d"], before, ME) == [
        ConnectorStatus("c", gone),
        TaskStatus("c", 0, gone),
    ]


def test_a_topic_is_reported_once() -> None:
    """By the first task that has used it."""
    parts = {number: ReportedState(RunState.RUNNING, topics=("t", "u")) for number in range(2)}
    now = ConnectorState(ReportedState(RunState.RUNNING), parts)
    before = known(TopicStatus("c", "u", TopicSeen(5, 10)))
    assert topic_updates("c", now, before, 99) == [TopicStatus("c", "t", TopicSeen(0, 99))]
