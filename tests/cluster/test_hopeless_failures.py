# SPDX-License-Identifier: Apache-2.0
"""What no retry can repair is FAILED, with one sentence about the cause and one about the remedy.

All flows of this file run at the same time, each on one core of the same cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from support.clusters.executor_environment import empty_python, other_pythons
from support.clusters.spark_cluster import SparkCluster
from support.measurements import measured
from support.mirrors.cluster_flow import ClusterFlow

pytestmark = pytest.mark.thorough

FAILED_SECONDS = 240.0  # six at a time start on two cores
MOST_CHARACTERS = 700  # of a reason: a sentence or three, not a trace
ABSENT = "/nowhere/bin/python3"


@dataclass(frozen=True, slots=True)
class Case:
    """A setting that cannot work, and what its reason must name."""

    lines: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


def cases(folder: Path) -> dict[str, Case]:
    """Return the cases; Pythons are made in the folder."""
    empty, others = empty_python(folder / "empty"), list(other_pythons().items())
    assert others, "install another Python 3, for example with pyenv: executors must refuse it"
    (_, old), (newer, new) = others[0], others[-1]
    return {
        "executor cannot start": Case(
            ("spark.executor.extraJavaOptions = -javaagent:/nowhere.jar",), ("executor", "code 1")
        ),
        "executor too large": Case(
            ("spark.executor.memory = 1000g",), ("spark.executor.memory", "1024000 MiB")
        ),
        "missing module": Case(
            (), ("cryptography", "sparkmirror pack"), {"PYSPARK_PYTHON": str(empty)}
        ),
        "newer Python": Case((f"spark.pyspark.python = {new}",), (newer, "spark.pyspark.python")),
        # PySpark may not even start with it, so its version cannot be told.
        "older Python": Case(
            (f"spark.pyspark.python = {old}",), ("Python", "spark.pyspark.python")
        ),
        "Python path missing": Case(
            (f"spark.pyspark.python = {ABSENT}",), (ABSENT, "spark.pyspark.python")
        ),
        "control port refused": Case(
            ("spark.sparkmirror.control.host = 127.0.0.9", "spark.driver.bindAddress = 127.0.0.1"),
            ("127.0.0.9", "spark.sparkmirror.control.host"),
        ),
    }


NAMES = (
    "executor cannot start",
    "executor too large",
    "missing module",
    "newer Python",
    "older Python",
    "Python path missing",
    "control port refused",
)


@pytest.fixture(scope="module")
def flows(
    shared_spark: SparkCluster,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path_factory: pytest.TempPathFactory,
    python: Path,
) -> Iterator[dict[str, tuple[Case, ClusterFlow]]]:
    """One flow for each case, all started."""
    directory = tmp_path_factory.mktemp("hopeless")
    with ExitStack() as stack:
        found = {}
        for name, case in cases(directory).items():
            is_own = any("pyspark.python" in line for line in case.lines)
            flow = ClusterFlow(
                (source_cluster, target_cluster),
                directory / name.replace(" ", "-"),
                stack,
                python=None if is_own else python,
                environment=case.environment,
            )
            flow.start(f"spark.master = {shared_spark.url}", "spark.cores.max = 1", *case.lines)
            found[name] = (case, flow)
        yield found


@pytest.mark.parametrize("name", NAMES)
def test_the_reason_is_named(flows: dict[str, tuple[Case, ClusterFlow]], name: str) -> None:
    """FAILED over REST, or the process ends; the reason is short and has the remedy."""
    case, flow = flows[name]
    reason = flow.await_failed(FAILED_SECONDS)
    measured(f"{name}: {reason}")
    assert [one for one in case.named if one not in reason] == []
    assert len(reason) < MOST_CHARACTERS
    assert not re.search(r"^\s+at [\w.$]+\(|Traceback", flow.mirror.log, re.MULTILINE)
