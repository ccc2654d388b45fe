# SPDX-License-Identifier: Apache-2.0
"""Masters that do not exist or are not supported: one sentence, no Java trace, within a minute."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.devcluster.ports import ReservedPort
from support.clusters.spark_cluster import SparkCluster
from support.measurements import measured
from support.mirrors.cluster_flow import NOT_YET, ClusterFlow, NewFlow
from support.waiting import eventually

pytestmark = pytest.mark.thorough

ANSWER_SECONDS = 120.0  # the machine runs four at a time
MOST_LINES = 30  # of the whole log: a REST address, a state, the reason
MASTERS = {
    "yarn": "HADOOP_CONF_DIR",
    "bogus": "bogus",
    "sc://127.0.0.1:1": "Spark Connect",
    "k8s://https://127.0.0.1:1": "k8s://https://127.0.0.1:1",
}
TRACE = re.compile(r"^\s+at [\w.$]+\(|NullPointerException|Traceback|JAVA_GATEWAY", re.MULTILINE)


@pytest.fixture(scope="module")
def flows(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, ClusterFlow]]:
    """One process for each master, all started."""
    directory: Path = tmp_path_factory.mktemp("masters")
    with ExitStack() as stack:
        found = {}
        for number, master in enumerate(MASTERS):
            flow = ClusterFlow((source_cluster, target_cluster), directory / str(number), stack)
            flow.start(f"spark.master = {master}", "spark.kubernetes.container.image = absent")
            found[master] = flow
        yield found


@pytest.mark.parametrize("master", MASTERS)
def test_a_master_that_cannot_work_is_named(flows: dict[str, ClusterFlow], master: str) -> None:
    """The flow is FAILED, or the process ends with an error, and the log has no trace of Java."""
    flow = flows[master]
    began = time.monotonic()
    reason = flow.await_failed(ANSWER_SECONDS)
    measured(f"{master}, {time.monotonic() - began:.0f} s: {reason}")
    log = flow.mirror.log
    assert not TRACE.search(log), log
    assert MASTERS[master] in reason
    assert len(log.splitlines()) < MOST_LINES


def test_dynamic_allocation_is_refused(new_flow: NewFlow) -> None:
    """Spark starts executors for waiting tasks, sparkmirror plans tasks for executors."""
    flow = new_flow()
    flow.start("spark.master = spark://127.0.0.1:1", "spark.dynamicAllocation.enabled = true")
    reason = flow.await_failed(ANSWER_SECONDS)
    measured(reason)
    assert "spark.dynamicAllocation.enabled" in reason
    assert not TRACE.search(flow.mirror.log), flow.mirror.log


def test_a_master_that_does_not_answer_is_awaited(new_flow: NewFlow, tmp_path: Path) -> None:
    """The flow says within seconds that it cannot reach it, and copies once it is there."""
    port = ReservedPort()
    port.reserve()
    flow = new_flow()
    flow.start(f"spark.master = spark://127.0.0.1:{port.number}")
    # Spark itself would try for a minute, and then fail with a NullPointerException.
    flow.mirror.await_log(f"Cannot reach the Spark master spark://127.0.0.1:{port.number}", 60.0)
    eventually(lambda: flow.seen().reason, 30.0, "REST says so", not_yet=NOT_YET)
    port.prepare_bind()
    with SparkCluster(tmp_path / "spark", port=port.number) as spark:
        spark.add_worker()
        with flow.load():
            flow.await_every_partition()
        flow.assert_equal()
    assert not TRACE.search(flow.mirror.log), flow.mirror.log
    port.release()
