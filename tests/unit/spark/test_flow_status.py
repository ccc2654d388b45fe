# SPDX-License-Identifier: Apache-2.0
"""A flow's status over epochs and task retries."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from sparkmirror.kafka.error_mapping import unreachable_error
from sparkmirror.model import TopicPartition
from sparkmirror.spark import flow_status
from sparkmirror.spark.flow_status import FlowState, FlowStatus
from sparkmirror.spark.incident_counter import IncidentCounter
from sparkmirror.state.incidents import Incident, IncidentKind
from sparkmirror.task import latency_histogram
from sparkmirror.task.messages import PartitionProgress, Progress
from sparkmirror.wire import error_codes
from sparkmirror.wire.settings import ConnectionSettings

ORDERS = TopicPartition("orders", 0)


def row(
    position: int, records: int, *, end: int = 1_000, code: int = 0, trouble: str = ""
) -> PartitionProgress:
    """A report about the one partition; a record has ten bytes."""
    return PartitionProgress(
        *ORDERS, position, position + 5, end, records, records * 10, code, trouble
    )


def progress(
    *rows: PartitionProgress,
    split: int = 0,
    attempt: int = 1,
    buckets: dict[int, int] | None = None,
    unacked: float = 0.0,
    trouble: str = "",
) -> Progress:
    """A task's report."""
    latency = tuple((buckets or {}).items())
    return Progress(split, attempt, rows, latency, 64, unacked, 1.5, (), trouble)


def status(position: int = 0, stop_at: int | None = None) -> FlowStatus:
    """A flow in its first epoch."""
    made = FlowStatus("a->b")
    made.begin_epoch(1, [(ORDERS, position, stop_at)])
    return made


def test_counts_grow_with_the_reports_of_a_task() -> None:
    """Reports have totals since the start of the task; they are not added up."""
    flow = status()
    for report in (row(10, 10), row(25, 25), row(25, 25)):
        flow.on_progress(progress(report))

    snapshot = flow.snapshot()
    assert (snapshot.records, snapshot.bytes) == (25, 250)
    assert snapshot.lag == 975


def test_another_attempt_of_a_task_counts_from_zero() -> None:
    """Spark ran the task again: its records are added."""
    flow = status()
    flow.on_progress(progress(row(100, 100)))
    flow.on_progress(progress(row(250, 150), attempt=2))
    flow.on_progress(progress(row(280, 180), attempt=2))

    assert flow.snapshot().records == 280


def test_the_driver_reads_the_lag_of_partitions_without_a_report() -> None:
    """Also of partitions with a problem, whose task may not read them any more."""
    flow = status(position=100)
    assert flow.unreported_partitions(60.0) == [ORDERS]
    flow.set_end_offsets({ORDERS: 400, TopicPartition("gone", 0): 9})
    assert flow.snapshot().lag == 300

    flow.on_progress(progress(row(150, 50, end=500)))
    assert flow.unreported_partitions(60.0) == []
    assert flow.unreported_partitions(-1.0) == [ORDERS]
    assert flow.snapshot().lag == 350

    flow.on_progress(progress(row(150, 50, end=500, code=29, trouble="forbidden")))
    assert flow.unreported_partitions(60.0) == [ORDERS]
    flow.set_end_offsets({ORDERS: 900})
    flow.on_progress(progress(row(150, 50, end=500, code=29, trouble="forbidden")))
    assert flow.snapshot().lag == 750


def test_an_idle_partition_of_a_live_task_is_read_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its task reports it only when something changes."""
    now = [100.0]
    monkeypatch.setattr(flow_status, "time", SimpleNamespace(monotonic=lambda: now[0]))
    flow = FlowStatus("a->b")
    flow.begin_epoch(1, [(ORDERS, 100, None)], {ORDERS: 0})
    flow.on_progress(progress(row(500, 400, end=500)))
    now[0] = 110.0
    assert flow.unreported_partitions(5.0) == [ORDERS]  # its task is silent
    flow.on_progress(progress())
    assert flow.unreported_partitions(5.0) == []
    now[0] = 161.0
    flow.on_progress(progress())
    assert flow.unreported_partitions(5.0) == [ORDERS]
    flow.set_end_offsets({ORDERS: 500})
    assert flow.unreported_partitions(5.0) == []
    flow.set_end_offsets({ORDERS: 900})
    now[0] = 167.0
    flow.on_progress(progress())
    assert flow.unreported_partitions(5.0) == [ORDERS]  # its task does not move


PAYMENTS = TopicPartition("payments", 0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic clock of flow_status, in its first element."""
    now = [100.0]
    monkeypatch.setattr(flow_status, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_a_lag_of_which_nothing_is_known_is_not_zero() -> None:
    """Before the partitions are known, before their ends are, and before a task has fetched."""
    flow = FlowStatus("a->b")
    assert flow.snapshot().lag is None
    flow.begin_epoch(1, [(ORDERS, 40, None)], {ORDERS: 0})
    assert (flow.snapshot().lag, flow.snapshot().unknown_lags) == (None, 1)
    flow.on_progress(progress(row(40, 0, end=-1)))
    assert flow.snapshot().lag is None
    flow.set_scope([])
    flow.begin_epoch(2, [])
    assert flow.snapshot().lag == 0  # no topic matches


def test_a_stopped_flow_keeps_its_positions(clock: list[float]) -> None:
    """Its lag is the newest end less these, until positions are read from Kafka."""
    old = status()
    old.on_progress(progress(row(400, 400, end=500)))
    flow = old.restarted()
    assert flow.snapshot().lag == 100
    assert flow.unreported_partitions(-1.0) == [ORDERS]
    clock[0] += 21.0
    assert (flow.snapshot().lag, flow.snapshot().known_lag) == (None, None)  # the end is too old
    flow.set_end_offsets({ORDERS: 900})
    assert flow.snapshot().lag == 500
    flow.set_positions({ORDERS: 850})
    assert flow.snapshot().lag == 50
    flow.set_positions({ORDERS: None})
    assert (flow.snapshot().lag, flow.snapshot().unknown_lags) == (None, 1)


def test_a_partition_without_a_task_counts() -> None:
    """One that is in scope but cannot be copied now, such as one of a recreated topic."""
    flow = status()
    flow.set_scope([ORDERS, PAYMENTS])
    assert flow.has_others
    flow.on_progress(progress(row(400, 400, end=500)))
    snapshot = flow.snapshot()
    assert (snapshot.lag, snapshot.known_lag, snapshot.unknown_lags) == (None, 100, 1)
    flow.set_positions({ORDERS: 7, PAYMENTS: 10})
    flow.set_end_offsets({PAYMENTS: 30})
    assert flow.snapshot().lag == 120  # a task knows its own position better
    assert [(one.partition, one.records) for one in flow.lags()] == [(ORDERS, 100), (PAYMENTS, 20)]
    flow.begin_epoch(2, [(PAYMENTS, 10, None)])
    assert flow.snapshot().lag == 120
    flow.set_scope([PAYMENTS])
    assert (flow.snapshot().lag, flow.has_others) == (20, False)


def test_an_idle_partition_is_known_while_its_task_is_healthy(clock: list[float]) -> None:
    """Not while the task says that a cluster is unreachable, nor when it is silent."""
    flow = FlowStatus("a->b")
    flow.begin_epoch(1, [(ORDERS, 100, None)], {ORDERS: 0})
    flow.on_progress(progress(row(500, 400, end=500)))
    clock[0] += 50.0
    flow.on_progress(progress())
    assert flow.snapshot().lag == 0
    flow.on_progress(progress(trouble="a is unreachable"))
    assert flow.snapshot().lag is None
    assert flow.unreported_partitions(5.0) == [ORDERS]
    flow.on_progress(progress())
    assert flow.snapshot().lag == 0
    clock[0] += 6.0
    assert flow.snapshot().lag is None


def test_the_lag_of_a_recreated_or_shorter_log_is_unknown() -> None:
    """Its position belongs to other records."""
    recreated, truncated = error_codes.TOPIC_RECREATED, error_codes.OFFSET_OUT_OF_RANGE
    for code, end in ((recreated, 900), (truncated, 20)):
        flow = status()
        flow.on_progress(progress(row(400, 400, end=500, code=code, trouble="waits")))
        flow.set_end_offsets({ORDERS: end})
        assert (flow.snapshot().lag, flow.snapshot().unknown_lags) == (None, 1)


def test_the_next_epoch_counts_on() -> None:
    """Totals belong to the flow, not to the epoch."""
    flow = status()
    flow.on_progress(progress(row(100, 100)))
    flow.begin_epoch(2, [(ORDERS, 100, None)])
    flow.on_progress(progress(row(140, 40)))

    snapshot = flow.snapshot()
    assert (snapshot.epoch, snapshot.records, snapshot.lag) == (2, 140, 860)


def test_a_partition_of_an_older_plan_is_not_counted() -> None:
    """A late report about a topic that is no longer mirrored changes nothing."""
    flow = status()
    flow.begin_epoch(2, [])
    flow.on_progress(progress(row(100, 100)))

    assert flow.snapshot().records == 0


def test_a_bounded_run_explains_what_remains() -> None:
    """Counted from the start of the first epoch."""
    flow = status(position=40, stop_at=100)
    flow.on_progress(progress(row(70, 30, end=120)))
    flow.begin_epoch(2, [(ORDERS, 70, 100)])

    snapshot = flow.snapshot()
    assert (snapshot.bounded_total, snapshot.remaining) == (60, 30)
    flow.on_progress(progress(row(120, 50, end=120)))
    assert flow.snapshot().remaining == 0


def test_an_unbounded_run_has_no_remainder() -> None:
    """Unknown is not zero."""
    snapshot = status().snapshot()

    assert (snapshot.remaining, snapshot.bounded_total, snapshot.lag) == (None, None, None)


def test_problems_are_listed_once_and_go_away() -> None:
    """Problems of partitions, of clusters and of the flow."""
    flow = status()
    lost = error_codes.CONNECTION_LOST
    flow.on_progress(progress(row(0, 0, code=lost, trouble="t-0: lost"), trouble="b is away"))
    flow.on_progress(progress(split=1, trouble="b is away"))
    flow.set_problem("orders", "cannot be created")

    snapshot = flow.snapshot()
    assert snapshot.problems == ("t-0: lost", "cannot be created", "b is away")
    assert snapshot.retriable_only

    flow.on_progress(progress(row(0, 0)))
    flow.on_progress(progress(split=1))
    flow.set_problem("orders", "")
    assert flow.snapshot().problems == ()


def test_a_problem_that_needs_manual_action_is_distinguished() -> None:
    """Authorization needs manual action."""
    flow = status()
    flow.on_progress(progress(row(0, 0, code=29, trouble="refused")))

    assert not flow.snapshot().retriable_only


def test_a_target_that_acknowledges_nothing_is_reported() -> None:
    """After half a minute."""
    flow = status()
    flow.on_progress(progress(unacked=29.0))
    assert flow.snapshot().problems == ()

    flow.on_progress(progress(unacked=31.0))
    assert "acknowledged nothing for 31 s" in flow.snapshot().problems[0]


def test_latency_state_and_load_are_those_of_all_tasks() -> None:
    flow = status()
    flow.set_state(FlowState.RETRYING, "because")
    flow.on_progress(progress(split=0, buckets={latency_histogram.bucket(10): 9}))
    flow.on_progress(progress(split=1, buckets={latency_histogram.bucket(1_000): 1}))

    snapshot = flow.snapshot()
    assert (snapshot.state, snapshot.reason) == (FlowState.RETRYING, "because")
    assert snapshot.replication_latency is not None
    assert 9 <= snapshot.replication_latency.p50_ms <= 11
    assert 900 <= snapshot.replication_latency.p99_ms <= 1_100
    assert snapshot.copy_latency is None
    assert snapshot.held_bytes == 128
    assert snapshot.task_cpu_seconds == {0: 1.5, 1: 1.5}


def test_a_flow_runs_once_every_task_has_reported() -> None:
    """Not while a cluster is still allocating executors."""
    flow = status()
    flow.await_reports(2, "in transactions")
    flow.on_progress(progress(row(1, 1)))
    flow.on_progress(progress(row(2, 2)))
    assert flow.snapshot().state is FlowState.STARTING

    flow.on_progress(progress(split=1))

    assert flow.snapshot().state is FlowState.RUNNING
    assert flow.snapshot().reason == "in transactions"


def test_a_flow_that_runs_stays_so_from_epoch_to_epoch() -> None:
    """A change of epoch is no change of state."""
    flow = status()
    flow.await_reports(1)
    flow.on_progress(progress(row(1, 1)))
    flow.begin_epoch(2, [(ORDERS, 1, None)])
    flow.await_reports(2)

    assert flow.snapshot().state is FlowState.RUNNING


def test_a_flow_that_was_stopped_is_not_woken_by_a_late_report() -> None:
    flow = status()
    flow.await_reports(1)
    flow.set_state(FlowState.STOPPED)
    flow.on_progress(progress(row(1, 1)))

    assert flow.snapshot().state is FlowState.STOPPED


def test_a_flow_that_retried_keeps_its_reason_until_it_runs() -> None:
    """The reason of the retries stays visible until then."""
    flow = status()
    flow.set_state(FlowState.RETRYING, "the epoch failed")
    flow.await_reports(1)
    assert flow.snapshot().reason == "the epoch failed"

    flow.on_progress(progress(row(1, 1)))

    assert (flow.snapshot().state, flow.snapshot().reason) == (FlowState.RUNNING, "")


def test_skipped_records_are_counted_by_partition() -> None:
    """Over the attempts of a task, epochs and restarts of the flow."""
    flow = status()
    for count in (4, 9, 9):
        flow.on_progress(progress(row(10, 1)._replace(skipped_records=count)))
    flow.on_progress(progress(row(10, 1)._replace(skipped_records=2), attempt=2))
    assert flow.snapshot().skipped_records == {ORDERS: 11}
    flow = flow.restarted()
    flow.begin_epoch(2, [(ORDERS, 10, None)])
    flow.on_progress(progress(row(10, 0)._replace(skipped_records=5)))
    assert flow.snapshot().skipped_records == {ORDERS: 16}


def test_a_flow_that_is_restarted_continues_counting() -> None:
    """Counters and the epoch's number continue; problems, partitions and the state are new."""
    old = status()
    old.on_progress(progress(row(10, 10, code=29, trouble="may not")))
    old.set_problem("topics", "nobody answers")
    old.count_change("created", 3)
    old.set_state(FlowState.FAILED, "broken")
    new = old.restarted()
    begun = new.snapshot()
    assert (begun.records, begun.bytes, begun.epoch) == (10, 100, 1)
    assert begun.topology_changes == {"created": 3}
    assert (begun.state, begun.problems, begun.partitions) == (FlowState.STARTING, (), 1)

    new.begin_epoch(new.epoch + 1, [(ORDERS, 10, None)])
    new.on_progress(progress(row(15, 5)))
    old.on_progress(progress(row(99, 99)))  # a late thread of the old one
    assert (new.snapshot().records, new.snapshot().epoch) == (15, 2)


def test_problems_belong_to_the_task_that_has_them() -> None:
    """Failures are separate from warnings; partitions without a task belong to none."""
    payments = TopicPartition("payments", 0)
    flow = FlowStatus("a->b")
    assert flow.tasks() == ()
    flow.begin_epoch(1, [(ORDERS, 0, None), (payments, 0, None)], {ORDERS: 0, payments: 1})
    flow.on_progress(progress(row(1, 1, code=29, trouble="forbidden"), split=0))
    flow.on_progress(
        progress(
            row(0, 0, code=5, trouble="no leader")._replace(topic="payments"),
            split=1,
            unacked=40.0,
            trouble="b does not answer",
        )
    )
    first, second = flow.tasks()
    assert (first.split, first.partitions) == (0, (ORDERS,))
    assert (first.failures, first.warnings) == (("forbidden",), ())
    assert (second.split, second.failures) == (1, ())
    assert second.warnings == (
        "no leader",
        "b does not answer",
        "the target has acknowledged nothing for 40 s",
    )


def test_a_task_of_the_next_epoch_inherits_what_is_wrong_with_its_partitions() -> None:
    """Until its own report: the status does not flicker with every epoch."""
    flow = FlowStatus("a->b")
    flow.begin_epoch(1, [(ORDERS, 0, None)], {ORDERS: 1})
    flow.on_progress(progress(row(1, 1, code=29, trouble="forbidden"), split=1))
    flow.begin_epoch(2, [(ORDERS, 1, None)], {ORDERS: 0})
    (task,) = flow.tasks()
    assert (task.split, task.failures) == (0, ("forbidden",))
    flow.on_progress(progress(row(2, 1)))
    assert flow.tasks()[0].failures == ()


def test_a_failure_has_its_trace_and_what_follows_has_none() -> None:
    """Neither a new state nor reports of tasks keep an older trace."""
    flow = status()
    flow.set_state(FlowState.FAILED, "broken", "Traceback")
    assert (flow.snapshot().reason, flow.snapshot().trace) == ("broken", "Traceback")
    flow.await_reports(1)
    flow.on_progress(progress(row(1, 1)))
    assert (flow.snapshot().state, flow.snapshot().trace) == (FlowState.RUNNING, "")
    flow.set_state(FlowState.FAILED, "broken", "Traceback")
    flow.set_state(FlowState.RETRYING, "trying")
    assert flow.snapshot().trace == ""


# --- Incidents are logged and counted once each, however often they are reported.


def incident(offset: int, kind: IncidentKind = IncidentKind.GAP, partition: int = 0) -> Incident:
    return Incident(kind, "t", partition, offset, offset, 1, "why", offset, "continue")


def test_incidents_are_counted_by_partition_and_kind() -> None:
    tally = IncidentCounter("a->b")
    tally.add([incident(1), incident(2), incident(3, partition=1)])
    tally.add([incident(1, IncidentKind.DEAD_LETTER)])
    assert tally.counts == {("t", 0, "gap"): 2, ("t", 1, "gap"): 1, ("t", 0, "dead-letter"): 1}


def test_a_repeated_report_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """A task that ran again meets the same gap."""
    tally = IncidentCounter("a->b")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            tally.add([incident(7)])
    assert tally.counts == {("t", 0, "gap"): 1}
    assert [record.message for record in caplog.records] == [f"a->b: {incident(7)}"]


def test_a_flood_does_not_drown_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Ten lines per kind in one report, then their number; all are counted."""
    tally = IncidentCounter("a->b")
    with caplog.at_level(logging.WARNING):
        tally.add([incident(number, IncidentKind.DEAD_LETTER) for number in range(500)])
    assert tally.counts == {("t", 0, "dead-letter"): 500}
    assert len(caplog.records) == 11
    assert caplog.records[-1].message == "a->b: dead-letter: 490 more"
    assert len(tally.recent) == 20
    assert tally.recent[-1] == str(incident(499, IncidentKind.DEAD_LETTER))


@pytest.mark.parametrize(
    "advertised", ["", "b1:9092", "inner:9092"], ids=["down", "stopped", "wrong listener"]
)
def test_a_flow_with_an_unreachable_cluster_is_retrying(advertised: str) -> None:
    """The reason is shown once; problems of single partitions are consequences."""
    cluster = ConnectionSettings("b", ("b1:9092",), "test")
    down = str(unreachable_error(cluster, "connecting", "ECONNREFUSED", advertised))
    lost = error_codes.CONNECTION_LOST
    flow = FlowStatus("a->b")
    flow.begin_epoch(1, [(ORDERS, 100, None), (PAYMENTS, 100, None)], {ORDERS: 0, PAYMENTS: 0})
    flow.set_state(FlowState.RUNNING)
    flow.on_progress(
        progress(
            row(100, 0, code=lost, trouble="b: a.orders-0: CONNECTION_LOST: b1"),
            PartitionProgress(
                *PAYMENTS, 100, 0, 100, 0, 0, lost, "b: a.payments-0: CONNECTION_LOST"
            ),
            trouble="cluster 'b': broker b1: ECONNREFUSED",
        )
    )
    assert len(flow.snapshot().problems) == 2  # one of the partitions, and the task's
    flow.set_problem("config sync", f"config sync: {down}")
    flow.set_problem("orders", "another problem")
    flow.set_unreachable("b", down, is_source=False)
    now = flow.snapshot()
    assert (now.state, now.reason) == (FlowState.RETRYING, down)
    assert now.problems == ("another problem",)
    assert not now.can_work
    (task,) = flow.tasks()
    assert task.warnings == (down,)
    assert flow.restarted().snapshot().state is FlowState.RETRYING

    flow.set_unreachable("b", "", is_source=False)
    assert flow.snapshot().state is FlowState.RUNNING
    assert flow.snapshot().can_work


def test_the_lag_is_unknown_without_the_source(clock: list[float]) -> None:
    """Also of a partition whose task waits at its end."""
    flow = FlowStatus("a->b")
    flow.begin_epoch(1, [(ORDERS, 100, None)], {ORDERS: 0})
    flow.on_progress(progress(row(500, 400, end=500)))
    clock[0] += 30.0
    flow.on_progress(progress())
    assert flow.snapshot().lag == 0
    flow.set_unreachable("a", "Cluster 'a' does not answer.", is_source=True)
    assert (flow.snapshot().lag, flow.snapshot().unknown_lags) == (None, 1)
