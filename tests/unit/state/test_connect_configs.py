# SPDX-License-Identifier: Apache-2.0
"""A worker's view after some records of the config topic."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.formats.connect_config_records import (
    ConfigRecord,
    ConnectorConfig,
    ConnectorTargetState,
    LoggerLevel,
    RestartRequest,
    SessionKey,
    TargetState,
    TaskConfig,
    TasksCommit,
    TasksFencing,
)
from sparkmirror.formats.connect_fields import UnreadableRecord
from sparkmirror.kafka.log_records import LogRecord
from sparkmirror.state.connect_configs import (
    ClusterConfigState,
    ConfigEvent,
    ConnectorChanged,
    ConnectorRemoved,
    TargetChanged,
    TasksChanged,
)

C = ConnectorConfig("c", {"name": "c"})
GONE = ConnectorConfig("c", None)
TASKS = [TaskConfig("c", 0, {"n": "0"}), TaskConfig("c", 1, {"n": "1"})]
NAMES = st.sampled_from(["a", "b", "a-0"])
CONFIGS = st.fixed_dictionaries({"x": st.sampled_from(["1", "2"])})
RECORDS = st.one_of(
    st.builds(ConnectorConfig, NAMES, st.none() | CONFIGS),
    st.builds(TaskConfig, NAMES, st.integers(0, 3), CONFIGS),
    st.builds(TasksCommit, NAMES, st.integers(0, 3)),
    st.builds(ConnectorTargetState, NAMES, st.none() | st.sampled_from(TargetState)),
    st.builds(TasksFencing, NAMES, st.integers(0, 3)),
)


def log(records: Sequence[ConfigRecord]) -> list[LogRecord]:
    """The records at offsets 0, 1, 2."""
    return [
        LogRecord(0, offset, 0, record.key(), record.value())
        for offset, record in enumerate(records)
    ]


def read(
    *records: ConfigRecord,
) -> tuple[ClusterConfigState, list[ConfigEvent | UnreadableRecord | None]]:
    """The state afterwards and the events of all records."""
    state = ClusterConfigState()
    return state, [state.apply(record) for record in log(records)]


def test_tasks_count_from_their_commit_on() -> None:
    """Before it they are pending."""
    state, events = read(C, *TASKS)
    assert state.tasks("c") == []
    assert events == [ConnectorChanged("c"), None, None]
    state, events = read(C, *TASKS, TasksCommit("c", 2))
    assert state.tasks("c") == [{"n": "0"}, {"n": "1"}]
    assert events[-1] == TasksChanged("c", (0, 1))
    assert state.applied_configs == {"c": {"name": "c"}}


def test_fewer_tasks_leave_none_behind() -> None:
    """The record of the second task stays in the topic without effect."""
    state, _ = read(C, *TASKS, TasksCommit("c", 2), TASKS[0], TasksCommit("c", 1))
    assert state.tasks("c") == [{"n": "0"}]
    compacted, _ = read(C, TASKS[1], TASKS[0], TasksCommit("c", 1))
    assert compacted.tasks("c") == [{"n": "0"}]


def test_a_commit_without_all_its_tasks_makes_a_connector_inconsistent() -> None:
    """Until all are published again; pending tasks do not count for the next commit."""
    state, events = read(C, TASKS[1], TasksCommit("c", 2))
    assert (state.inconsistent, state.tasks("c")) == ({"c"}, [])
    assert events[-1] == TasksChanged("c", ())
    assert state.applied_configs == {}
    state, _ = read(C, TASKS[1], TasksCommit("c", 2), TASKS[0], TasksCommit("c", 2))
    assert state.inconsistent == {"c"}
    state, _ = read(C, TASKS[1], TasksCommit("c", 2), *TASKS, TasksCommit("c", 2))
    assert (state.inconsistent, len(state.tasks("c"))) == (set(), 2)


def test_a_deleted_connector_takes_its_tasks_with_it() -> None:
    """A new connector with its name starts without tasks."""
    state, events = read(C, *TASKS, TasksCommit("c", 2), TASKS[0], GONE)
    assert (state.connectors, state.tasks("c")) == ([], [])
    assert events[-1] == ConnectorRemoved("c")
    state, _ = read(C, *TASKS, TasksCommit("c", 2), GONE, C)
    assert (state.tasks("c"), state.applied_configs, state.inconsistent) == ([], {}, set())


def test_tasks_that_the_cleaner_left_of_a_deleted_connector_do_not_count() -> None:
    """Not even if it is created again."""
    state, events = read(*TASKS, TasksCommit("c", 2), C)
    assert (state.tasks("c"), state.task_counts, state.unfenced) == ([], {}, set())
    assert events == [None, None, None, ConnectorChanged("c")]


def test_a_connector_without_target_state_is_started() -> None:
    """A state before its connector is the initial one, and no event."""
    paused = ConnectorTargetState("c", TargetState.PAUSED)
    state, events = read(paused, C)
    assert state.target_state("c") is TargetState.PAUSED
    assert events == [None, ConnectorChanged("c")]
    state, events = read(C, paused, paused, ConnectorTargetState("c", None))
    assert state.target_state("c") is TargetState.STARTED
    assert events[1:] == [TargetChanged("c"), None, TargetChanged("c")]
    _, events = read(
        C, ConnectorTargetState("c", TargetState.STARTED), GONE, ConnectorTargetState("c", None)
    )
    assert events == [ConnectorChanged("c"), None, ConnectorRemoved("c"), None]


def test_tasks_are_to_be_fenced_after_every_commit() -> None:
    """The count of the last fencing outlives the connector: its tasks may still write."""
    commit = TasksCommit("c", 2)
    state, _ = read(C, *TASKS, commit)
    assert (state.unfenced, state.fenced_counts) == ({"c"}, {})
    state, _ = read(C, *TASKS, commit, TasksFencing("c", 2))
    assert (state.unfenced, state.fenced_counts) == (set(), {"c": 2})
    state, _ = read(C, *TASKS, commit, TasksFencing("c", 2), GONE, C, *TASKS, commit)
    assert (state.unfenced, state.fenced_counts) == ({"c"}, {"c": 2})


def test_restart_requests_are_events_and_not_state() -> None:
    """Restarts and levels; a session key is kept."""
    asked = [RestartRequest("c", include_tasks=True), LoggerLevel("org.x", "DEBUG")]
    key = SessionKey(b"k", "HmacSHA256", 1)
    state, events = read(*asked, key)
    assert events == [*asked, key]
    assert state.session_key == key


def test_foreign_records_are_counted_and_change_nothing() -> None:
    """A record that is not JSON does not change the offset, as in Java."""
    state, _ = read(C)
    before = state.copy()
    assert isinstance(state.apply(LogRecord(0, 1, 0, b"connector-c", b"{")), UnreadableRecord)
    assert (state.offset, state.skipped_records) == (1, 1)
    assert isinstance(state.apply(LogRecord(0, 2, 0, b"anything", None)), UnreadableRecord)
    assert (state.offset, state.skipped_records) == (3, 2)
    state.offset, state.skipped_records = before.offset, before.skipped_records
    assert state == before


def test_nothing_read_is_offset_minus_one() -> None:
    assert ClusterConfigState().offset == -1
    assert read(C)[0].offset == 1


@given(st.lists(RECORDS, max_size=40))
def test_every_sequence_of_records_leaves_a_valid_state(records: list[ConfigRecord]) -> None:
    """After each record: tasks only of connectors that are there, and all that were committed."""
    state = ClusterConfigState()
    for record in log(records):
        earlier = state.copy()
        seen = repr(earlier), earlier._tasks, earlier._pending_tasks
        state.apply(record)
        assert (
            repr(earlier),
            earlier._tasks,
            earlier._pending_tasks,
        ) == seen  # a copy is on its own
        there = set(state.connectors)
        assert state.task_counts.keys() <= there
        assert state.inconsistent <= there
        for name in ("a", "b", "a-0"):
            tasks = state.tasks(name)
            expected = 0 if name in state.inconsistent else state.task_counts.get(name, 0)
            assert len(tasks) == expected
    assert state.offset == (len(records) or -1)


@given(st.lists(RECORDS, max_size=40), st.data())
def test_compaction_never_shows_tasks_that_were_not_committed(
    records: list[ConfigRecord], data: st.DataObject
) -> None:
    """Connectors and targets are the same after the cleaner; tasks are the same or inconsistent.

    Records are written as a leader does: all tasks, then their commit.
    """
    written: list[ConfigRecord] = []
    for record in records:
        match record:
            case TaskConfig():
                continue
            case TasksCommit(name, tasks):
                new = [TaskConfig(name, n, {"at": str(len(written))}) for n in range(tasks)]
                written += [*new, record]
            case _:
                written.append(record)
    last = {record.key(): index for index, record in enumerate(written)}
    cleaned_up_to = data.draw(st.integers(0, len(written)))
    kept = [
        record
        for record, entry in zip(log(written), written, strict=True)
        if record.offset >= cleaned_up_to or last[entry.key()] == record.offset
    ]
    whole, compacted = ClusterConfigState(), ClusterConfigState()
    for one in log(written):
        whole.apply(one)
    for one in kept:
        compacted.apply(one)
    assert compacted.configs == whole.configs
    assert {n: whole.target_state(n) for n in whole.configs} == {
        n: compacted.target_state(n) for n in compacted.configs
    }
    for name in whole.configs:
        assert compacted.tasks(name) in ([], whole.tasks(name))


@pytest.mark.parametrize("size", [0, 1, 3])
def test_a_commit_publishes_all_tasks(size: int) -> None:
    """Also if there are none any more, which is how a connector is stopped."""
    tasks = [TaskConfig("c", number, {}) for number in range(size)]
    state, events = read(C, *TASKS, TasksCommit("c", 2), *tasks, TasksCommit("c", size))
    assert events[-1] == TasksChanged("c", tuple(range(size)))
    assert state.tasks("c") == [{}] * size
