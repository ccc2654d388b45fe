# SPDX-License-Identifier: Apache-2.0
"""The master dies and returns, or ends the application: copying continues without help."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.clusters.spark_cluster import SparkCluster
from support.measurements import measured
from support.mirrors.cluster_flow import NOT_YET, NewFlow
from support.waiting import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.thorough

STALL_SECONDS = 20.0


def test_copying_continues_when_the_master_returns_with_its_memory(
    tmp_path: Path, new_flow: NewFlow
) -> None:
    """`spark.deploy.recoveryMode` FILESYSTEM: executors stay, and a new worker is used."""
    with SparkCluster(tmp_path / "spark", recovery=True) as spark:
        spark.add_worker()
        spark.add_worker()
        flow = new_flow()
        flow.start(f"spark.master = {spark.url}")
        with flow.load(), flow.progress() as progress:
            flow.await_tasks(4)
            flow.await_every_partition()
            begin = progress.mark("master killed")
            spark.master.kill()
            flow.await_every_partition()
            spark.start_master()
            progress.mark("master started again")
            spark.add_worker()
            flow.await_tasks(6)
            flow.await_every_partition()
            end = progress.mark("6 tasks")
        worst = progress.longest_stall(begin, end)
        measured(f"longest stall: {worst}")
        flow.assert_equal()
        assert worst.seconds < STALL_SECONDS


def test_copying_continues_when_the_master_returns_without_its_memory(
    spark: SparkCluster, new_flow: NewFlow
) -> None:
    """The new master does not know the application: it needs a new SparkContext."""
    flow = new_flow()
    flow.start(f"spark.master = {spark.url}")
    with flow.load(), flow.progress() as progress:
        flow.await_tasks(4)
        flow.await_every_partition()
        begin = progress.mark("master killed")
        spark.master.kill()
        spark.start_master()
        progress.mark("master started again")
        flow.mirror.await_log("Replacing the SparkContext", PATIENCE_SECONDS)
        progress.mark("SparkContext replaced")
        flow.await_every_partition()
        flow.await_tasks(4)
        end = progress.mark("4 tasks")
    measured(f"longest stall: {progress.longest_stall(begin, end)}")
    flow.assert_equal()


def test_copying_continues_when_the_master_removes_the_application(
    spark: SparkCluster, new_flow: NewFlow
) -> None:
    """Its operator kills the application in the master's web page; the log says why it stopped."""
    flow = new_flow()
    flow.start(f"spark.master = {spark.url}")
    with flow.load():
        flow.await_tasks(4)
        flow.await_every_partition()
        spark.kill_applications()

        def is_told() -> str:
            seen = flow.seen()
            assert seen.state != "RUNNING" or seen.reason, seen
            return seen.reason

        measured(eventually(is_told, 30.0, "the loss is shown", not_yet=NOT_YET))
        flow.await_every_partition()
        flow.await_tasks(4)
    flow.assert_equal()
    assert "removed" in flow.mirror.log or "KILLED" in flow.mirror.log
