# SPDX-License-Identifier: Apache-2.0
"""A worker's view after some records of the status topic, and what it may write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.formats.connect_fields import UnreadableRecord
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

HERE, THERE = "here:8083", "there:8083"
STATUSES = st.builds(
    Status, st.sampled_from(RunState), st.sampled_from([HERE, THERE]), st.integers(0, 3)
)
NAMES = st.sampled_from(["a", "a-0"])
RECORDS = st.one_of(
    st.builds(ConnectorStatus, NAMES, st.none() | STATUSES),
    st.builds(TaskStatus, NAMES, st.integers(0, 2), st.none() | STATUSES),
    st.builds(
        TopicStatus,
        NAMES,
        st.sampled_from(["t", "u"]),
        st.none() | st.builds(TopicSeen, st.integers(0, 2), st.integers(0, 9)),
    ),
)


def read(*records: StatusRecord) -> ClusterStatusState:
    """The state after records that were written one after the other."""
    state = ClusterStatusState()
    for number, record in enumerate(records):
        state.apply(LogRecord(0, number, number, record.key(), record.value()))
    return state


def status(state: RunState, generation: int = 3, worker: str = HERE) -> Status:
    """A status of a generation."""
    return Status(state, worker, generation)


def test_the_last_status_counts() -> None:
    """Separately for connectors, tasks and topics."""
    running, failed = status(RunState.RUNNING), Status(RunState.FAILED, HERE, 3, "because", "4.3.1")
    seen = TopicSeen(1, 99)
    state = read(
        ConnectorStatus("c", running),
        TaskStatus("c", 1, failed),
        TaskStatus("c", 0, running),
        TopicStatus("c", "t", seen),
        TopicStatus("c", "s", seen),
        TopicStatus("c", "s", None),
    )
    assert state.connectors == {"c": running}
    assert list(state.tasks("c").items()) == [(0, running), (1, failed)]
    assert state.topics("c") == {"t": seen}
    assert (state.tasks("x"), state.topics("x")) == ({}, {})


@pytest.mark.parametrize("bad", [RunState.FAILED, RunState.UNASSIGNED])
@pytest.mark.parametrize(
    ("known", "allowed"),
    [
        (None, True),
        (status(RunState.RUNNING, 3, THERE), True),
        (status(RunState.RUNNING, 2, THERE), True),
        (status(RunState.RUNNING, 4, THERE), False),
        (status(RunState.RUNNING, 4, HERE), True),
    ],
)
def test_bad_news_is_not_written_over_what_a_newer_generation_does(
    bad: RunState, known: Status | None, allowed: bool
) -> None:
    """A worker that lost its membership must not write FAILED about another worker's task."""
    state = read(
        *([] if known is None else [ConnectorStatus("c", known), TaskStatus("c", 0, known)])
    )
    assert state.may_write(ConnectorStatus("c", status(bad))) is allowed
    assert state.may_write(TaskStatus("c", 0, status(bad))) is allowed
    assert state.may_write(ConnectorStatus("c", status(RunState.RUNNING)))
    assert state.may_write(TaskStatus("c", 0, None))
    assert state.may_write(TaskStatus("c", 1, status(bad)))


@pytest.mark.parametrize(
    ("known", "generation", "counts"),
    [
        (RunState.RUNNING, 2, False),
        (RunState.RUNNING, 3, False),
        (RunState.RUNNING, 4, True),
        (RunState.PAUSED, 2, True),
    ],
)
def test_an_unassigned_task_that_runs_elsewhere_already_is_running(
    known: RunState, generation: int, counts: bool
) -> None:
    """The worker that lost it writes late; a connector's last status always counts."""
    late = status(RunState.UNASSIGNED, generation, THERE)
    state = read(TaskStatus("c", 0, status(known)), TaskStatus("c", 0, late))
    assert (state.tasks("c")[0] == late) is counts
    state = read(ConnectorStatus("c", status(known)), ConnectorStatus("c", late))
    assert state.connectors["c"] == late


def test_a_connector_that_is_gone_takes_its_tasks_with_it() -> None:
    """Topics are removed one by one, as in Java."""
    running = status(RunState.RUNNING)
    state = read(
        TaskStatus("c", 0, running),
        TaskStatus("c-0", 0, running),
        TopicStatus("c", "t", TopicSeen(0, 1)),
        ConnectorStatus("c", None),
    )
    assert (state.connectors, state.tasks("c")) == ({}, {})
    assert state.tasks("c-0") == {0: running}
    assert list(state.topics("c")) == ["t"]


def test_tasks_of_a_connector_that_was_created_again_survive_the_deletion_before() -> None:
    """Partitions are read in any order: a new task may be read before the old deletion."""
    running = status(RunState.RUNNING)
    gone, task = ConnectorStatus("c", None), TaskStatus("c", 0, running)
    state = ClusterStatusState()
    state.apply(LogRecord(3, 0, 2_000, task.key(), task.value()))
    state.apply(LogRecord(0, 0, 1_000, gone.key(), gone.value()))
    assert state.tasks("c") == {0: running}


def test_foreign_records_are_counted() -> None:
    """And returned for a log line."""
    state = ClusterStatusState()
    assert isinstance(state.apply(LogRecord(0, 0, 0, b"status-connector-c", b"")), UnreadableRecord)
    assert isinstance(state.apply(LogRecord(0, 1, 0, None, None)), UnreadableRecord)
    assert (state.skipped_records, state.connectors) == (2, {})


@given(st.lists(RECORDS, max_size=30))
def test_the_records_without_a_connector_leave_nothing_of_it(records: list[StatusRecord]) -> None:
    """Nothing else is removed."""
    state = read(*records)
    other = (state.connectors.get("a-0"), state.tasks("a-0"), state.topics("a-0"))
    twin = state.copy()
    for record in state.removal_records("a"):
        state.apply(LogRecord(0, 99, 99, record.key(), record.value()))
    assert ("a" in state.connectors, state.tasks("a"), state.topics("a")) == (False, {}, {})
    assert (state.connectors.get("a-0"), state.tasks("a-0"), state.topics("a-0")) == other
    assert twin == read(*records)


@given(st.lists(RECORDS, max_size=30), st.randoms(use_true_random=False))
def test_partitions_may_be_read_in_any_order(records: list[StatusRecord], random: object) -> None:
    """Each key keeps its own order, and the outcome is the same."""
    in_order = [
        LogRecord(0, number, number, record.key(), record.value())
        for number, record in enumerate(records)
    ]
    by_key: dict[bytes | None, list[LogRecord]] = {}
    for one in in_order:
        by_key.setdefault(one.key, []).append(one)
    queues = list(by_key.values())
    state, expected = ClusterStatusState(), read(*records)
    while queues:
        queue = random.choice(queues)  # type: ignore[attr-defined]
        state.apply(queue.pop(0))
        queues = [one for one in queues if one]
    for name in ("a", "a-0"):
        assert state.connectors.get(name) == expected.connectors.get(name)
        assert state.topics(name) == expected.topics(name)
        # A task that was written about before the deletion and read after it may linger.
        assert expected.tasks(name).keys() <= state.tasks(name).keys()
