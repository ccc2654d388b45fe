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
from support.measurements import measured
from support.mirrors.cluster_flow import ClusterFlow

pytestmark = pytest.mark.thorough

# Spark itself tries for a minute to reach a standalone master; the machine runs five at a time.
ANSWER_SECONDS = 120.0
MOST_LINES = 30  # of the whole log: a REST address, a state, the reason
MASTERS = {
    "spark://127.0.0.1:1": "spark://127.0.0.1:1",
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
            flow.start(f"spark.master = {master}")
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
