# SPDX-License-Identifier: Apache-2.0
"""The terminal client against a real worker of Java's Connect, and against ours."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from support.clients.connect_rest import ConnectRestClient
from support.clients.librdkafka import create_topics
from support.mirrors.java_connect import ConnectTopics, JavaConnect, heartbeat_config
from support.mirrors.worker_process import WorkerProcess
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

DOCUMENT = Path(__file__).parents[2] / "docs" / "rest.md"
SECONDS = 120
ODD = 'odd "name" ü \N{GRINNING FACE} ?&'  # Java's server takes no slash and no percent sign


@pytest.fixture(scope="module", params=["java", "ours"])
def worker(
    request: pytest.FixtureRequest,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ConnectRestClient]:
    """One worker on the target for all tests; every test deletes what it created."""
    create_topics(source_cluster, {unique_name("orders.new"): 2})
    scratch = tmp_path_factory.mktemp("connect")
    topics = ConnectTopics(unique_name("terminal-client"))
    kind = JavaConnect if request.param == "java" else WorkerProcess
    with kind(target_cluster, scratch, topics) as started:
        eventually(
            lambda: started.request("GET", "/health")[0] == 200,
            PATIENCE_SECONDS,
            "it is healthy",
            not_yet=(OSError,),
        )
        yield started


def run(worker: ConnectRestClient, line: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """A command as it is typed."""
    path = f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        shlex.split(line),
        cwd=directory,
        env={**os.environ, "PATH": path, "SPARKMIRROR_URL": f"http://{worker.worker_id}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )


def document_lines() -> list[str]:
    """The commands of the page's section, without their comments."""
    section = DOCUMENT.read_text().partition("\n## From the terminal\n")[2].partition("\n## ")[0]
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", section, re.DOTALL))
    return [line.partition("#")[0].strip() for line in blocks.splitlines()]


def test_the_documented_commands_work(
    worker: ConnectRestClient,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path: Path,
) -> None:
    """Each line of the page succeeds with the page's own files, in the order it is written."""
    (tmp_path / "mm2").mkdir()
    files = re.findall(r"`(mm2/\w+\.json)`:\n\n```json\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert len(files) == 2
    for name, text in files:
        real = text.replace("primary-1:9092", source_cluster.bootstrap_servers)
        real = real.replace("backup-1:9092", target_cluster.bootstrap_servers)
        (tmp_path / name).write_text(real)
    outputs = {}
    lines = document_lines()
    assert len(lines) >= 15
    for line in lines:
        done = run(worker, line, tmp_path)
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
        outputs[line] = done.stdout
    deployed = outputs["sparkmirror deploy -f mm2/ --wait 60s"].splitlines()
    assert [line.split("\t")[:3] for line in deployed] == [
        ["heartbeats", "created", "RUNNING"],
        ["orders", "created", "RUNNING"],
    ]
    assert "would be created" in outputs["sparkmirror deploy -f mm2/ --dry-run"]
    assert "orders\tsource\tRUNNING\t2/2\t" in outputs["sparkmirror get connectors"]
    assert outputs["sparkmirror get connectors --state FAILED"] == ""
    renewed = outputs["sparkmirror redeploy -f mm2/ --wait 60s"].splitlines()
    assert [line.split("\t")[1:3] for line in renewed] == [["created", "RUNNING"]] * 2
    assert worker.get("/connectors") == []


def test_a_connector_follows_its_target_state(
    worker: ConnectRestClient, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """Created, unchanged, updated, paused, failed, mended, redeployed, deleted; an odd name too."""
    file = tmp_path / "odd.json"
    config = heartbeat_config(target_cluster) | {"name": ODD, "producer.override.acks": "all"}
    name = shlex.quote(ODD)

    def deployed(verb: str = "deploy") -> tuple[int, str, str, str]:
        file.write_text(json.dumps(config))
        done = run(worker, f"sparkmirror {verb} -f odd.json --wait 60s --json", tmp_path)
        [found] = json.loads(done.stdout)
        assert found["name"] == ODD
        return done.returncode, found["result"], found.get("state", ""), done.stderr

    def state() -> str:
        done = run(worker, f"sparkmirror get connectors {name} --json", tmp_path)
        assert done.returncode == 0, done.stderr
        [found] = json.loads(done.stdout)
        return str(found["state"])

    assert deployed() == (0, "created", "RUNNING", "")
    assert deployed() == (0, "unchanged", "RUNNING", "")
    config["emit.heartbeats.interval.seconds"] = "2"
    assert deployed() == (0, "updated", "RUNNING", "")
    assert run(worker, f"sparkmirror pause {name}", tmp_path).returncode == 0
    eventually(lambda: state() == "PAUSED", PATIENCE_SECONDS, "it rests")
    assert deployed()[:3] == (0, "unchanged", "PAUSED")
    assert run(worker, f"sparkmirror resume {name}", tmp_path).returncode == 0
    eventually(lambda: state() == "RUNNING", PATIENCE_SECONDS, "it goes on")

    good = config["target.cluster.bootstrap.servers"]
    config["target.cluster.bootstrap.servers"] = "127.0.0.1:no"
    code, result, settled, complaint = deployed()
    if isinstance(worker, JavaConnect):  # which finds out when it runs
        assert (code, result, settled) == (1, "updated", "FAILED"), complaint
        assert "has FAILED" in complaint
        assert run(worker, "sparkmirror get connectors --state failed", tmp_path).stdout
    else:
        assert (code, result) == (1, "failed"), complaint
        assert "target.cluster.bootstrap.servers must list host:port pairs" in complaint
    config["target.cluster.bootstrap.servers"] = good
    assert deployed()[0] == 0
    assert deployed("redeploy") == (0, "created", "RUNNING", "")

    config["tasks.max"] = "none"
    code, result, _, complaint = deployed()
    assert (code, result) == (1, "failed")
    assert "tasks.max" in complaint
    assert deployed("redeploy")[:2] == (1, "refused")
    assert state() == "RUNNING"  # nothing was deleted
    assert run(worker, f"sparkmirror delete --yes {name}", tmp_path).returncode == 0
    assert run(worker, f"sparkmirror delete --yes {name}", tmp_path).returncode == 1
    assert run(worker, f"sparkmirror describe {name}", tmp_path).returncode == 1


def test_a_connector_may_begin_at_rest(
    worker: ConnectRestClient, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """`initial_state` in the file."""
    document = {
        "name": "late",
        "config": heartbeat_config(target_cluster),
        "initial_state": "STOPPED",
    }
    (tmp_path / "late.json").write_text(json.dumps(document))
    done = run(worker, "sparkmirror deploy -f late.json --wait 60s", tmp_path)
    assert done.stdout.split("\t")[:3] == ["late", "created", "STOPPED"], done.stderr
    done = run(worker, "sparkmirror undeploy -f late.json", tmp_path)
    assert (done.returncode, done.stdout.split("\t")[:2]) == (0, ["late", "deleted"])
