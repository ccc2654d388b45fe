# SPDX-License-Identifier: Apache-2.0
"""What a worker tells about its connectors, and what it keeps to itself."""

from __future__ import annotations

from sparkmirror.config.connector_classes import ConnectorClass
from sparkmirror.connect.states import ConnectorState, PartState
from sparkmirror.connect.task_configs import task_configs
from sparkmirror.connect.telling import Teller, statuses_to_tell, topics_to_tell, unassigned
from sparkmirror.formats.connect_statuses import (
    ConnectorStatus,
    State,
    Status,
    StatusRecord,
    TaskStatus,
    TopicSeen,
    TopicStatus,
)
from sparkmirror.kafka.records import LogRecord
from sparkmirror.model import TopicPartition
from sparkmirror.state.connect_statuses import StatusState

ME = Teller("me:8083", 7)
RUNNING = Status(State.RUNNING, "me:8083", 7, version="4.3.1")


def known(*records: StatusRecord) -> StatusState:
    """What everybody has read."""
    state = StatusState()
    for offset, one in enumerate(records):
        state.apply(LogRecord(0, offset, 1000 + offset, one.key(), one.value()))
    return state


def running(*warnings: str) -> ConnectorState:
    """A connector that runs, with one task for each warning."""
    tasks = {number: PartState(State.RUNNING, warning=text) for number, text in enumerate(warnings)}
    return ConnectorState(PartState(State.RUNNING), tasks)


def tell(now: ConnectorState, before: StatusState, *, renews: bool = False) -> list[StatusRecord]:
    """What there is to say about connector c."""
    return statuses_to_tell("c", now, before, ME, renews_warnings=renews)


def test_what_is_known_is_not_told_again() -> None:
    """Neither in a later generation of the group."""
    before = known(ConnectorStatus("c", RUNNING), TaskStatus("c", 0, RUNNING))
    assert tell(running(""), before) == []
    later = Teller("me:8083", 9)
    assert statuses_to_tell("c", running(""), before, later, renews_warnings=True) == []


def test_all_that_differs_is_told() -> None:
    """State, place, and a task that is no more."""
    other = Status(State.RUNNING, "other:8083", 3, version="4.3.1")
    before = known(
        ConnectorStatus("c", other), TaskStatus("c", 0, RUNNING), TaskStatus("c", 1, other)
    )
    failed = ConnectorState(PartState(State.RUNNING), {0: PartState(State.FAILED, "it broke")})
    assert tell(failed, before) == [
        ConnectorStatus("c", RUNNING),
        TaskStatus("c", 0, Status(State.FAILED, "me:8083", 7, "it broke", "4.3.1")),
        TaskStatus("c", 1, None),
    ]


def test_tasks_of_a_worker_that_died_do_not_run() -> None:
    """Not until their connector has begun here and says what they do."""
    other = Status(State.RUNNING, "other:8083", 3, version="4.3.1")
    before = known(ConnectorStatus("c", other), TaskStatus("c", 0, other))
    begins = Status(State.UNASSIGNED, "me:8083", 7)
    assert tell(ConnectorState(PartState(State.UNASSIGNED)), before) == [
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
    other = Status(State.RUNNING, "other:8083", 8, version="4.3.1")
    before = known(
        ConnectorStatus("c", RUNNING), TaskStatus("c", 0, RUNNING), ConnectorStatus("d", other)
    )
    gone = Status(State.UNASSIGNED, "me:8083", 7)
    assert unassigned(["c", "d"], before, ME) == [
        ConnectorStatus("c", gone),
        TaskStatus("c", 0, gone),
    ]


def test_a_topic_is_told_once() -> None:
    """By the first task that has used it."""
    parts = {number: PartState(State.RUNNING, topics=("t", "u")) for number in range(2)}
    now = ConnectorState(PartState(State.RUNNING), parts)
    before = known(TopicStatus("c", "u", TopicSeen(5, 10)))
    assert topics_to_tell("c", now, before, 99) == [TopicStatus("c", "t", TopicSeen(0, 99))]


def test_task_configs_are_what_mm2_starts_its_tasks_with() -> None:
    """So that Java's worker can take the connector over."""
    config = {"connector.class": "MirrorSource", "name": "c"}
    parts = (TopicPartition("a-b", 0), TopicPartition("t", 3))
    tasks = {0: PartState(State.RUNNING, partitions=parts)}
    assert task_configs(ConnectorClass.SOURCE, config, tasks) == [
        {
            **config,
            "task.class": "org.apache.kafka.connect.mirror.MirrorSourceTask",
            "task.index": "0",
            "task.assigned.partitions": "a-b-0,t-3",
        }
    ]
    one = {0: PartState(State.RUNNING)}
    (checkpoint,) = task_configs(ConnectorClass.CHECKPOINT, config, one, ("g", "h"))
    assert checkpoint["task.assigned.groups"] == "g,h"
    (heartbeat,) = task_configs(ConnectorClass.HEARTBEAT, config, one)
    task_class = "org.apache.kafka.connect.mirror.MirrorHeartbeatTask"
    assert heartbeat == {**config, "task.class": task_class}
