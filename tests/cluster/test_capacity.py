# SPDX-License-Identifier: Apache-2.0
"""Flows use the slots that Spark's executors have: workers leave, join and are shared."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.clusters.spark_cluster import SparkCluster
from support.measurements import measured
from support.mirrors.cluster_flow import NOT_YET, PER_SECOND, ClusterFlow, NewFlow, Seen
from support.waiting import PATIENCE_SECONDS, eventually

STALL_SECONDS = 20.0  # of any partition
JOIN_SECONDS = 30.0  # until a new executor carries work, after it has registered
SOME = 500  # records of a partition, ten seconds' worth
LAG_SECONDS = 10.0  # by which the lag that is shown may be behind
BUILD = Path(__file__).resolve().parents[2] / "build"


class Watch:
    """Compares once a second what the operator is told with the truth."""

    def __init__(self, flow: ClusterFlow) -> None:
        self._flow = flow
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self.seen: list[tuple[Seen, int]] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join(PATIENCE_SECONDS)

    def assert_true_lag(self) -> None:
        """The lag is never far below what is really missing."""
        assert self.seen
        seen, real = max(self.seen, key=lambda one: one[1] - one[0].lag)
        measured(f"lag: at worst {seen.lag:.0f} was shown of {real}; highest {self.highest}")
        assert real - seen.lag <= LAG_SECONDS * PER_SECOND, seen

    @property
    def highest(self) -> int:
        return max(real for _, real in self.seen)

    def _run(self) -> None:
        while not self._stop.wait(1.0):
            try:
                self.seen.append((self._flow.seen(), self._flow.real_lag()))
            except NOT_YET:
                continue


def test_all_slots_are_used_and_a_killed_worker_loses_nothing(
    spark: SparkCluster, new_flow: NewFlow
) -> None:
    """Four slots of eight tasks, then two: each record is copied once."""
    flow = new_flow()
    flow.start(f"spark.master = {spark.url}")
    with flow.load():
        flow.await_tasks(4)
        flow.await_every_partition()
        spark.kill_worker(spark.workers[0])
        flow.await_every_partition()
        flow.await_tasks(2)
    flow.assert_equal()


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_no_partition_stalls_while_workers_leave_and_join(
    spark: SparkCluster, new_flow: NewFlow
) -> None:
    """The plot of `make cluster`: build/cluster-throughput.png."""
    flow = new_flow()
    flow.start(f"spark.master = {spark.url}")
    with flow.load(), flow.progress() as progress:
        flow.await_tasks(4)
        flow.await_every_partition()
        watch = Watch(flow)
        with watch.running():
            begin = progress.mark("4 slots in use")
            flow.await_every_partition(SOME)
            killed = progress.mark("worker 1 of 2 killed, no spare slot")
            spark.kill_worker(spark.workers[0])
            flow.await_tasks(2)
            progress.mark("2 tasks")
            flow.await_every_partition(SOME)
            spark.add_worker(cores=4)
            joined = progress.mark("worker with 4 cores joined")
            flow.await_tasks(6)
            used = progress.mark("6 tasks")
            flow.await_every_partition(SOME)
            progress.mark("an executor killed")
            spark.executors()[0].kill()
            flow.await_every_partition(SOME)
            flow.await_tasks(6)
            progress.mark("6 tasks")
            second = progress.mark("worker with 4 cores killed")
            spark.kill_worker(spark.workers[-1])
            flow.await_tasks(2)
            progress.mark("2 tasks")
            flow.await_every_partition(SOME)
            end = progress.mark("end")
    worst = progress.longest_stall(begin, end)
    progress.plot(
        BUILD / "cluster-throughput.png",
        f"8 partitions while workers leave and join; the longest stall: {worst}",
    )
    measured(f"longest stall: {worst}, at {worst.since:.1f} s")
    measured(
        f"after the kills: {progress.longest_stall(killed, joined)}, "
        f"{progress.longest_stall(second, end)}"
    )
    measured(f"a new worker has tasks after {used - joined:.1f} s")
    flow.assert_equal()
    watch.assert_true_lag()
    assert worst.seconds < STALL_SECONDS
    assert used - joined < JOIN_SECONDS


@pytest.mark.thorough
def test_a_split_without_a_slot_is_shown(spark: SparkCluster, new_flow: NewFlow) -> None:
    """All workers are gone: the flow is not RUNNING, the lag grows, and it resumes with one."""
    flow = new_flow()
    flow.start(f"spark.master = {spark.url}")
    with flow.load():
        flow.await_tasks(4)
        flow.await_every_partition()
        for worker in spark.workers:
            spark.kill_worker(worker)

        def is_told() -> Seen:
            seen = flow.seen()
            assert seen.state != "RUNNING" or seen.reason, seen
            assert flow.real_lag() - seen.lag <= LAG_SECONDS * PER_SECOND, seen
            assert "executor" in seen.reason, seen
            assert flow.real_lag() > 5 * PER_SECOND
            return seen

        seen = eventually(is_told, 60.0, "the loss is shown", not_yet=NOT_YET)
        measured(str(seen))
        assert "executor" in flow.described()
        spark.add_worker()
        flow.await_tasks(2)
        flow.await_every_partition()
    flow.assert_equal()


@pytest.mark.thorough
def test_killed_executors_and_python_processes_are_replaced(
    spark: SparkCluster, new_flow: NewFlow
) -> None:
    """SIGKILL to a Python process, then to both executors at once."""
    flow = new_flow()
    flow.start(f"spark.master = {spark.url}")
    with flow.load(), flow.progress() as progress:
        flow.await_tasks(4)
        flow.await_every_partition()
        begin = progress.mark("a Python process killed")
        eventually(spark.python_workers, PATIENCE_SECONDS, "Python processes")[0].kill()
        flow.await_every_partition(SOME)
        progress.mark("all executors killed")
        for one in spark.executors():
            one.kill()
        flow.await_every_partition(SOME)
        flow.await_tasks(4)
        end = progress.mark("end")
    measured(f"longest stall: {progress.longest_stall(begin, end)}")
    flow.assert_equal()
    assert progress.longest_stall(begin, end).seconds < 2 * STALL_SECONDS


@pytest.mark.thorough
@pytest.mark.parametrize("whole", [False, True], ids=["driver", "driver and JVM"])
def test_a_killed_driver_is_started_again(
    spark: SparkCluster, new_flow: NewFlow, *, whole: bool
) -> None:
    """The next process gets all slots, and each record is copied once."""
    flow = new_flow()
    flow.start(f"spark.master = {spark.url}")
    with flow.load():
        flow.await_tasks(4)
        flow.await_every_partition()
        if whole:
            flow.mirror.kill_everything()
        else:
            flow.mirror.kill_driver()
        flow.start()
        flow.await_tasks(4)
        flow.await_every_partition()
    flow.assert_equal()


@pytest.mark.thorough
def test_a_standby_takes_over_with_all_slots(spark: SparkCluster, new_flow: NewFlow) -> None:
    """The first process holds all cores until it dies; then its successor has them."""
    flow = new_flow(has_metrics=False)
    first = flow.start(f"spark.master = {spark.url}")
    with flow.load():
        flow.await_tasks(4)
        second = flow.start()
        second.await_log(f"{flow.flow}: STANDBY", PATIENCE_SECONDS)
        flow.await_every_partition()
        first.kill_everything()
        flow.await_tasks(4)
        flow.await_every_partition()
    flow.assert_equal()


@pytest.mark.thorough
def test_exactly_once_survives_a_killed_worker_and_executor(
    spark: SparkCluster, new_flow: NewFlow
) -> None:
    """Transactions: each record is committed once."""
    flow = new_flow()
    flow.start(f"spark.master = {spark.url}", "b.exactly.once.source.support = enabled")
    with flow.load():
        flow.await_tasks(4)
        flow.await_every_partition()
        spark.executors()[0].kill()
        flow.await_every_partition(SOME)
        spark.kill_worker(spark.workers[0])
        flow.await_tasks(2)
        flow.await_every_partition()
    flow.assert_equal()


@pytest.mark.thorough
def test_two_flows_share_the_cluster_with_another_application(
    spark: SparkCluster, new_flow: NewFlow, tmp_path: Path
) -> None:
    """Each flow works with one slot, and gets two when the other application ends."""
    first, second = new_flow(), new_flow()
    with spark.other_application(tmp_path / "other.log", cores=2):
        first.start(
            f"spark.master = {spark.url}",
            f"clusters = {first.alias}, {second.alias}, b",
            f"{second.alias}.bootstrap.servers = {second.source.bootstrap_servers}",
            f"{second.flow}.enabled = true",
            f"{second.flow}.topics = {second.topic}",
            f"{second.flow}.tasks.max = 8",
        )
        second.mirror = first.mirror
        with first.load(), second.load():
            first.await_tasks(1)
            second.await_tasks(1)
            first.await_every_partition()
            second.await_every_partition()
    with first.load(), second.load():
        first.await_tasks(2)
        second.await_tasks(2)
        first.await_every_partition()
        second.await_every_partition()
    first.assert_equal()
    second.assert_equal()
