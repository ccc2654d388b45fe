# SPDX-License-Identifier: Apache-2.0
"""Options that every suite shares, and two real clusters for those that need brokers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from sparkmirror.devcluster.cluster import LocalCluster, start_all
from sparkmirror.devcluster.jars import DEFAULT_KAFKA
from support.clusters.memory_disk import keep_in_memory

# The same examples in each run, however slow the machine is just now; `make fuzz` draws new ones.
settings.register_profile(
    "suite",
    max_examples=50,
    deadline=None,
    derandomize="FUZZ_SECONDS" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("suite")


LONGEST = (
    "what_you_see", "nothing_silent", "versions", "documented_commands", "failures", "workers",
    "failover", "standby", "worker", "plan_apply", "fidelity", "offset_translation", "flows",
    "hot_reload", "acl_sync", "capacity", "security", "consumer_groups", "secured_control_plane",
    "membership", "copy_job", "profiles", "loops", "offset_resets",
)  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare `--kafka`, the broker version, and `--thorough`, the long versions of some tests."""
    parser.addoption(
        "--kafka",
        default=DEFAULT_KAFKA,
        metavar="VERSION",
        help=f"Kafka version of the brokers (default {DEFAULT_KAFKA})",
    )
    parser.addoption(
        "--thorough",
        action="store_true",
        help="only what is left out or shorter without it: ten kills in a row, a million records",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests marked `thorough`, unless --thorough is set.

    The slowest files run first, so that no core is idle at the end.
    """
    order = {f"test_{name}.py": place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.name, len(order)))
    long = [one for one in items if one.get_closest_marker("thorough")]
    if config.getoption("--thorough"):
        long += [one for one in items if "is_thorough" in getattr(one, "fixturenames", ())]
        left_out = [item for item in items if item not in long]
    else:
        left_out = long
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the directory with the logs of brokers and mirrors of failed tests."""
    if not terminalreporter.stats.keys() & {"failed", "error"}:
        return
    directory = config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    terminalreporter.write_line(f"Logs of brokers and mirrors: {directory}")


@pytest.fixture(scope="session")
def kafka_version(request: pytest.FixtureRequest) -> str:
    """The broker version of this run."""
    return str(request.config.getoption("--kafka"))


@pytest.fixture(scope="session")
def is_thorough(request: pytest.FixtureRequest) -> bool:
    """Whether --thorough is set."""
    return bool(request.config.getoption("--thorough"))


@pytest.fixture(scope="session")
def shared_clusters(
    tmp_path_factory: pytest.TempPathFactory, kafka_version: str
) -> Iterator[dict[str, LocalCluster]]:
    """Clusters `source` and `target`, one broker each, started once per session."""
    directory = tmp_path_factory.mktemp("clusters")
    clusters = {
        name: LocalCluster(name, directory / name, version=kafka_version)
        for name in ("source", "target")
    }
    folders = [folder for cluster in clusters.values() for folder in keep_in_memory(cluster)]
    try:
        start_all(clusters.values())
        yield clusters
    finally:
        for cluster in clusters.values():
            cluster.stop()
        # pytest keeps the directories of three sessions: the logs are worth it, not the data.
        on_disk = [b.data for c in clusters.values() for b in c.brokers if not b.data.is_symlink()]
        for folder in [*folders, *on_disk]:
            shutil.rmtree(folder)


@pytest.fixture(scope="session")
def source_cluster(shared_clusters: dict[str, LocalCluster]) -> LocalCluster:
    """The shared source cluster; tests must not stop or damage it."""
    return shared_clusters["source"]


@pytest.fixture(scope="session")
def target_cluster(shared_clusters: dict[str, LocalCluster]) -> LocalCluster:
    """The shared target cluster; tests must not stop or damage it."""
    return shared_clusters["target"]
