# SPDX-License-Identifier: Apache-2.0
"""Spark clusters of real processes, and the Python environment of their executors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from support.clusters.executor_environment import executor_python
from support.clusters.spark_cluster import SparkCluster
from support.mirrors.cluster_flow import ClusterFlow, NewFlow
from support.unique_names import unique_name


@pytest.fixture(autouse=True)
def _is_in_make_cluster(is_thorough: bool) -> None:
    """All tests are selected by --thorough, also those that `make integration` runs."""
    del is_thorough


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The executors' Python: it has the dependencies, but neither sparkmirror nor the tests."""
    return executor_python(tmp_path_factory.mktemp("executors") / "env")


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[SparkCluster]:
    """A master and two workers with two cores each, which the test may kill."""
    with SparkCluster(tmp_path / "spark") as cluster:
        cluster.add_worker()
        cluster.add_worker()
        yield cluster


@pytest.fixture(scope="module")
def shared_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """The same for the tests of a file that leave it as it is."""
    with SparkCluster(tmp_path_factory.mktemp("spark")) as cluster:
        cluster.add_worker(cores=4, memory="4g")
        cluster.add_worker(cores=4, memory="4g")
        yield cluster


@pytest.fixture
def new_flow(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path, python: Path
) -> Iterator[NewFlow]:
    """Make flows; their processes end with the test."""
    with ExitStack() as stack:

        def make(**options: Any) -> ClusterFlow:
            named = {"clusters": (source_cluster, target_cluster), "python": python, **options}
            return ClusterFlow(directory=tmp_path / unique_name("flow"), stack=stack, **named)

        yield make
