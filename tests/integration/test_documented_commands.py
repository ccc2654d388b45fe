# SPDX-License-Identifier: Apache-2.0
"""Every command in the README, and in the page about planning, works as it is written there."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sysconfig
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparkmirror.cli.main import app
from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.devcluster.ports import ReservedPort
from sparkmirror.system.cache_directory import cache_directory
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

README = Path(__file__).parents[2] / "README.md"
PLAN = README.parent / "docs" / "plan.md"
# They run until they are stopped, at the same time: the second one stands by.
TOGETHER = {
    "connect-mirror-maker mm2.properties": "primary->backup: RUNNING",
    "sparkmirror run mm2.properties": "primary->backup: STANDBY",
}
ONCE = "sparkmirror run mm2.properties --once"


def commands(heading: str, document: Path = README) -> list[str]:
    """The lines of the shell blocks under a heading, without their comments."""
    section = document.read_text().partition(f"# {heading}\n")[2].partition("\n## ")[0]
    lines = "\n".join(re.findall(r"```sh\n(.*?)```", section, re.DOTALL)).splitlines()
    return [line.partition("#")[0].strip() for line in lines]


def run(line: str) -> str:
    """What a command that needs no process of its own prints; it succeeds."""
    command, *arguments = shlex.split(line)
    assert command == "sparkmirror"
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, f"{line}: {done.output}"
    return done.output


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The scripts on the PATH, and its own cache that shares only what was downloaded."""
    cache = tmp_path / "cache"
    cache.mkdir()
    for shared in ("kafka", "class-data"):
        (cache_directory() / shared).mkdir(parents=True, exist_ok=True)
        (cache / shared).symlink_to(cache_directory() / shared)
    path = f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "SPARKMIRROR_CACHE": str(cache)}


def test_the_commands_for_looking_around_work(
    environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Each line of the README's local block succeeds, in the order it is written."""
    up, *lines, down = commands("Without a Kafka installation")
    assert (up, down) == ("sparkmirror local up --detach", "sparkmirror local down")
    assert len(lines) >= 5
    monkeypatch.setenv("SPARKMIRROR_CACHE", environment["SPARKMIRROR_CACHE"])
    monkeypatch.chdir(tmp_path)

    def begin_or_end(line: str) -> None:
        done = subprocess.run(
            shlex.split(line),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"

    outputs = {}
    try:
        begin_or_end(up)
        for line in lines:
            capfd.readouterr()
            outputs[line] = run(line)
            outputs[line] += capfd.readouterr().out  # of Kafka's own tool
    finally:
        begin_or_end(down)
    assert "source" in outputs["sparkmirror local status"]
    assert "orders" in outputs["sparkmirror local describe source orders"]
    consumed = outputs["sparkmirror local consume source orders --from-beginning --max 5"]
    assert len(consumed.splitlines()) == 5


def write_readme_file(directory: Path, source: LocalCluster, target: LocalCluster) -> None:
    """The README's own properties file, with real addresses in it."""
    text = re.findall(r"```properties\n(.*?)```", README.read_text(), re.DOTALL)[0]
    text = text.replace("primary-1:9092, primary-2:9092", source.bootstrap_servers)
    text = text.replace("backup-1:9092", target.bootstrap_servers)
    (directory / "mm2.properties").write_text(text)


@pytest.mark.thorough
def test_the_commands_for_planning_work(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each line of the block about planning succeeds, in the order it is written."""
    write_readme_file(tmp_path, source_cluster, target_cluster)
    monkeypatch.chdir(tmp_path)
    lines = commands("Plan before you run", PLAN)
    assert len(lines) >= 5
    for line in lines:
        run(line)
    assert (tmp_path / "plan.json").exists()


def test_the_commands_for_ones_own_clusters_work(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each line of the README's block succeeds with the README's own file, real addresses in it."""
    write_readme_file(tmp_path, source_cluster, target_cluster)
    monkeypatch.chdir(tmp_path)
    lines = commands("Your own clusters")
    assert {*TOGETHER, ONCE} < set(lines)
    begun: list[tuple[str, subprocess.Popen[bytes], Path]] = []

    def begin(line: str) -> Path:
        log = tmp_path / f"{len(begun)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                shlex.split(line), env=environment, stdout=output, stderr=subprocess.STDOUT
            )
        begun.append((line, process, log))
        return log

    try:
        for line in lines:
            if line not in {*TOGETHER, ONCE}:
                run(line)
        for line, said in TOGETHER.items():
            log = begin(line)
            eventually(lambda log=log, said=said: said in log.read_text(), PATIENCE_SECONDS, line)
        for _, process, _ in reversed(begun):
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_SECONDS)
        begin(ONCE)
        for line, process, log in begun:
            assert process.wait(PATIENCE_SECONDS) == 0, f"{line}: {log.read_text()}"
    finally:
        for _, process, _ in begun:
            process.kill()
            process.wait()


def test_the_commands_for_a_connect_cluster_work(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The worker runs with the README's own file, on another port; the others ask it."""
    port = ReservedPort()
    port.reserve()
    text = re.findall(r"```properties\n(.*?)```", README.read_text(), re.DOTALL)[1]
    text = text.replace("backup-1:9092", target_cluster.bootstrap_servers)
    for word in ("connect-cluster", "connect-configs", "connect-offsets", "connect-status"):
        text = text.replace(word, unique_name(word))
    file = tmp_path / "connect-distributed.properties"
    file.write_text(f"{text}\nlisteners = http://127.0.0.1:{port.number}\n")
    (tmp_path / "mm2").mkdir()
    heartbeats = {
        "name": "heartbeats",
        "connector.class": "MirrorHeartbeatConnector",
        "source.cluster.alias": unique_name("primary"),
        "source.cluster.bootstrap.servers": source_cluster.bootstrap_servers,
        "target.cluster.alias": "backup",
        "target.cluster.bootstrap.servers": target_cluster.bootstrap_servers,
    }
    (tmp_path / "mm2" / "heartbeats.json").write_text(json.dumps(heartbeats))
    first, *others = commands("Connectors in a Connect cluster")
    log = tmp_path / "worker.log"
    port.prepare_bind()
    with log.open("wb") as output:
        worker = subprocess.Popen(
            shlex.split(first),
            cwd=tmp_path,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        eventually(
            lambda: "leads its group" in log.read_text(), PATIENCE_SECONDS, "the worker is there"
        )
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("SPARKMIRROR_URL", f"http://127.0.0.1:{port.number}")
        *before, last = others
        for line in before:
            run(line)
        eventually(lambda: "heartbeats\tsource\tRUNNING\t1/1" in run(last), PATIENCE_SECONDS, last)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE_SECONDS) == 0, log.read_text()
    finally:
        worker.kill()
        worker.wait()
        port.release()


def test_the_demo_ends_by_itself_with_equal_counts(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """`sparkmirror demo` counts the same number of orders on both sides and exits with 0."""
    done = subprocess.run(
        ["sparkmirror", "demo", "--duration", "3"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    there = re.search(r"^source +orders +([\d,]+)$", done.stdout, re.MULTILINE)
    here = re.search(r"^target +source\.orders +([\d,]+)$", done.stdout, re.MULTILINE)
    assert there is not None
    assert here is not None
    assert there[1] == here[1]
    assert int(there[1].replace(",", "")) > 0
