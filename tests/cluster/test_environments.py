# SPDX-License-Identifier: Apache-2.0
"""The Python of executors, the address of the driver, and what is left after a stop."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from support.clusters.executor_environment import empty_python, executor_python, packed
from support.clusters.secure_cluster import secure_cluster
from support.clusters.spark_cluster import SparkCluster
from support.data.security_configs import WAYS, file_lines
from support.mirrors.cluster_flow import ClusterFlow, NewFlow, own_temporary_folder
from support.mirrors.mirror_process import command
from support.waiting import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.thorough

TWO_CORES = ("spark.cores.max = 2",)  # of eight: the tests of this file share the cluster


def _copies(flow: ClusterFlow) -> None:
    """The flow copies some records, each once."""
    with flow.load():
        flow.await_every_partition()
    flow.assert_equal()


def _commands(spark: SparkCluster) -> set[str]:
    """The first words of the Python processes' commands."""
    workers = eventually(spark.python_workers, PATIENCE_SECONDS, "Python processes")
    return {one.cmdline()[0] for one in workers}


NAMINGS: dict[str, Callable[[Path], tuple[tuple[str, ...], dict[str, str]]]] = {
    "spark.pyspark.python": lambda python: ((f"spark.pyspark.python = {python}",), {}),
    "PYSPARK_PYTHON": lambda python: ((), {"PYSPARK_PYTHON": str(python)}),
    "spark.executorEnv.PYSPARK_PYTHON": lambda python: (
        (f"spark.executorEnv.PYSPARK_PYTHON = {python}",),
        {},
    ),
}


def test_executors_use_the_python_that_is_named(
    shared_spark: SparkCluster, new_flow: NewFlow, python: Path
) -> None:
    """By each of the three names that Spark has for it; three flows at the same time."""
    with ExitStack() as loads:
        flows = []
        for naming in NAMINGS.values():
            lines, environment = naming(python)
            flow = new_flow(python=None, environment=environment)
            flow.start(f"spark.master = {shared_spark.url}", *TWO_CORES, *lines)
            loads.enter_context(flow.load())
            flows.append(flow)
        for flow in flows:
            flow.await_every_partition()
        assert _commands(shared_spark) == {str(python)}
    for flow in flows:
        flow.assert_equal()


def test_executors_use_an_environment_that_spark_unpacks(
    shared_spark: SparkCluster, new_flow: NewFlow, tmp_path: Path
) -> None:
    """`spark.archives` with an archive as venv-pack writes it."""
    executor_python(tmp_path / "made")
    archive = packed(tmp_path / "made", tmp_path / "environment.tar.gz")
    shutil.rmtree(tmp_path / "made")
    flow = new_flow(python=None)
    flow.start(
        f"spark.master = {shared_spark.url}",
        *TWO_CORES,
        f"spark.archives = {archive}#env",
        "spark.pyspark.python = ./env/bin/python",
    )
    with flow.load():
        flow.await_every_partition()
        assert _commands(shared_spark) == {"./env/bin/python"}
    flow.assert_equal()


def test_executors_use_the_archive_that_sparkmirror_packs(
    shared_spark: SparkCluster, new_flow: NewFlow, tmp_path: Path
) -> None:
    """`sparkmirror pack` and the two lines that it prints."""
    archive = tmp_path / "packed.tar.gz"
    subprocess.run([command(), "pack", str(archive)], check=True, cwd=tmp_path)
    flow = new_flow(python=None)
    flow.start(
        f"spark.master = {shared_spark.url}",
        *TWO_CORES,
        f"spark.archives = {archive}#env",
        "spark.pyspark.python = ./env/bin/python",
    )
    with flow.load():
        flow.await_every_partition()
        [one, *_] = eventually(shared_spark.python_workers, PATIENCE_SECONDS, "Python processes")
        assert [area.path for area in one.memory_maps() if "/env/" in area.path]
    flow.assert_equal()


def test_check_connect_probes_the_cluster(
    shared_spark: SparkCluster, new_flow: NewFlow, python: Path, tmp_path: Path
) -> None:
    """It reports each executor; a Python without packages is an error."""
    flow = new_flow()
    flow.start(f"spark.master = {shared_spark.url}", *TWO_CORES)
    code, report = flow.checked()
    assert (code, report["ok"], report["slots"]) == (0, True, 2), report
    assert {one["executable"] for one in report["executors"]} == {str(python)}
    flow.environment["PYSPARK_PYTHON"] = str(empty_python(tmp_path / "empty"))
    code, report = flow.checked()
    assert (code, report["ok"]) == (1, False), report
    assert "cryptography" in str(report["executors"][0]["import_errors"])


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A directory for Spark's sockets, whose paths have at most 107 bytes."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def test_a_clean_stop_leaves_no_temporary_file(
    shared_spark: SparkCluster, new_flow: NewFlow, short_path: Path
) -> None:
    """Neither of the driver nor of its JVM; what executors wrote is the worker's to keep."""
    scratch = short_path / "temporary"
    flow = new_flow(environment=own_temporary_folder(scratch))
    flow.start(f"spark.master = {shared_spark.url}", *TWO_CORES)
    _copies(flow)
    assert any(scratch.iterdir())  # it was there that the driver wrote
    code, _ = flow.mirror.terminate()
    assert code == 0
    flow.mirror.await_end_of_all()
    left = [one for one in scratch.rglob("*") if one.is_file()]
    assert left == []
    assert [one.name for one in scratch.iterdir() if not one.name.startswith("hsperf")] == []
    eventually(lambda: not shared_spark.executors(), PATIENCE_SECONDS, "executors end")


def test_the_control_port_listens_where_spark_does(
    shared_spark: SparkCluster, new_flow: NewFlow, tmp_path: Path
) -> None:
    """The host's name resolves to 127.0.1.1, as on Debian; Spark advertises another address."""
    hosts = tmp_path / "hosts"
    name = subprocess.run(["uname", "-n"], capture_output=True, text=True, check=True).stdout
    hosts.write_text(f"127.0.0.1 localhost\n127.0.1.1 {name}")
    flow = new_flow(environment={"SPARK_LOCAL_IP": "127.0.0.2"}, driver_host="")
    flow.start_with_hosts(hosts, f"spark.master = {shared_spark.url}", *TWO_CORES)
    _copies(flow)
    listening = {
        (one.name(), at.laddr.ip)
        for one in flow.mirror.processes()
        for at in one.net_connections("tcp")
        if at.status == psutil.CONN_LISTEN
    }
    assert not [ip for _, ip in listening if ip == "127.0.1.1"], listening


def test_brokers_with_tls_are_copied(
    shared_spark: SparkCluster, new_flow: NewFlow, tmp_path: Path, kafka_version: str
) -> None:
    """Certificates and passwords reach executors with an environment and folders of their own."""
    (tmp_path / "secure").mkdir()
    with secure_cluster(tmp_path / "secure", version=kafka_version) as secure:
        flow = new_flow(clusters=(secure, secure))
        ways = {flow.alias: "mutual", "b": "scram256"}
        lines = []
        for alias, way in ways.items():
            (tmp_path / alias).mkdir()
            lines += file_lines(alias, WAYS[way](secure, tmp_path / alias))
        flow.start(
            f"spark.master = {shared_spark.url}",
            *TWO_CORES,
            *lines,
            "config.providers = directory",
            "config.providers.directory.class = "
            "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
            "replication.factor = 1",
        )
        _copies(flow)
