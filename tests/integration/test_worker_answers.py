# SPDX-License-Identifier: Apache-2.0
"""A real worker answers as Kafka Connect's does, and as the page about the REST API says."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from support.clients.librdkafka import create_topics
from support.data.rest_golden import check_response
from support.data.rest_script import run_script
from support.mirrors.java_connect import ConnectTopics
from support.mirrors.worker_process import WorkerProcess
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

PAGE = Path(__file__).parents[2] / "docs" / "rest.md"
LINE = re.compile(r"(?P<command>curl .*\S)\s+# (?P<status>\d{3})")

# The same questions are asked in the ordinary run, of a worker that keeps everything in memory.
pytestmark = pytest.mark.thorough


@pytest.fixture
def worker(target_cluster: LocalCluster, tmp_path: Path) -> Iterator[WorkerProcess]:
    """A new one."""
    with WorkerProcess(target_cluster, tmp_path, ConnectTopics(unique_name("answers"))) as started:
        started.await_health()
        yield started


def test_every_answer_is_javas(worker: WorkerProcess, target_cluster: LocalCluster) -> None:
    """Also while connectors really run, rest and begin again."""
    wrong: dict[str, str] = {}
    for step, heard in run_script(
        worker.worker_id, target_cluster.bootstrap_servers, worker.await_states
    ):
        try:
            check_response(step.name, heard)
        except AssertionError as error:
            wrong[step.name] = f"{heard}\n{error}"
    assert wrong == {}


def test_every_documented_request_is_answered_as_written(
    worker: WorkerProcess, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    """One after the other; a status or a task may take a moment to be there."""
    create_topics(source_cluster, {unique_name("orders"): 1})
    page = PAGE.read_text(encoding="utf-8").partition("\n## From the terminal\n")[0]
    for here, there in (
        ("localhost:8083", worker.worker_id),
        ("localhost:9092", source_cluster.bootstrap_servers),
        ("localhost:9192", target_cluster.bootstrap_servers),
    ):
        page = page.replace(here, there)
    for line in "".join(re.findall(r"```sh\n(.*?)```", page, re.DOTALL)).splitlines():
        found = LINE.fullmatch(line)
        assert found is not None, line
        eventually(lambda f=found: answer(f["command"]) == f["status"], PATIENCE_SECONDS, line)


def answer(command: str) -> str:
    """The status that curl prints."""
    return subprocess.run(
        ["bash", "-c", f"{command} -o /dev/null -w '%{{http_code}}'"],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_SECONDS,
    ).stdout
