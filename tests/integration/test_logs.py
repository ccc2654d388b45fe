# SPDX-License-Identifier: Apache-2.0
"""The log of a whole run in JSON, with an incident and with the typical errors of MirrorMaker 2.

One process runs at DEBUG. The lines that docs/troubleshooting.md quotes must be among those that it
writes. The target is a broker of its own: an ACL, a wrong advertised.listeners and a suspended
process would disturb others.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation

from sparkmirror.config.keys.connector_classes import unknown_class_message
from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.devcluster.ports import HOST, ReservedPort
from support.clients.librdkafka import (
    Record,
    create_topics,
    delete_topic,
    end_offsets,
    numbered,
    produce,
)
from support.clusters.memory_disk import keep_in_memory
from support.mirrors.faulty_mirror import AUTHORIZER, allow_again, forbid
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess, command
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

PAGE = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
SECRET = "tiger-in-the-log"
FIELDS = {"time", "level", "logger", "flow", "connector", "message", "exception"}
Line = dict[str, Any]


def numberless(text: str) -> str:
    """A line without what differs from run to run."""
    return re.sub(r"\d[\d.:,]*", "#", text)


def quoted(heading: str) -> list[str]:
    """The lines that the page quotes under a heading."""
    section = PAGE.read_text("utf-8").partition(f"\n### {heading}")[2].partition("\n## ")[0]
    blocks = re.findall(r"```text\n(.*?)```", section.partition("\n### ")[0], re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """The address by which a cluster is known."""

    bootstrap_servers: str


@dataclass(slots=True)
class Run:
    """The running process; `source` is unique, so that tests share its cluster."""

    mirror: MirrorProcess
    source: str
    misled: str
    flow: str
    topic: str
    log_file: Path
    clusters: tuple[LocalCluster, LocalCluster]
    properties: Path

    def lines(self) -> list[Line]:
        """All lines, each of them a JSON object."""
        return [json.loads(line) for line in self.mirror.log.splitlines()]

    def levels(self, text: str) -> set[str]:
        """The levels of the lines whose message has a text."""
        return {one["level"] for one in self.lines() if text in one["message"]}

    def times_running(self) -> int:
        """How often the flow has become RUNNING."""
        return sum(one["message"] == f"{self.flow}: RUNNING" for one in self.lines())

    def quotable(self) -> set[str]:
        """All lines as the page quotes them: its names, and any numbers."""
        texts = {f"{one['level']} {one['message']}" for one in self.lines()}
        for real, shown in ((self.source, "primary"), (self.misled, "primary")):
            texts |= {one.replace(real, shown) for one in texts}
        return {numberless(one.replace(self.topic, "orders")) for one in texts}

    def await_message(self, text: str) -> Line:
        """Wait for a line whose message has a text."""

        def found() -> Line | None:
            return next((one for one in self.lines() if text in one["message"]), None)

        got = eventually(found, PATIENCE_SECONDS, f"{text!r} in {self.mirror.log_file}")
        assert got is not None
        return got

    def await_copied(self, topic: str, records: int) -> None:
        """Wait until the target has them."""
        remote = f"{self.source}.{topic}"
        eventually(
            lambda: sum(end_offsets(self.clusters[1], remote).values()) == records,
            PATIENCE_SECONDS,
            f"{records} records in {remote}",
            not_yet=(Exception,),
        )


@pytest.fixture(scope="module")
def run(
    source_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory, kafka_version: str
) -> Iterator[Run]:
    """A flow that works, and one from a cluster that advertises an address of nobody's."""
    directory = tmp_path_factory.mktemp("logs")
    source, misled, prefix = unique_name("primary"), unique_name("misled"), unique_name("logs")
    nobody = ReservedPort()
    nobody.reserve()
    target = LocalCluster(
        "target",
        directory / "target",
        version=kafka_version,
        config=AUTHORIZER,
        proxy_ports=[nobody.number],
    )
    folders = keep_in_memory(target)
    log_file = directory / "log" / "mirror.log"
    try:
        target.start()
        proxied = target.brokers[0].proxied_listener
        assert proxied is not None
        large = f"{prefix}-large"
        create_topics(source_cluster, {large: 1, prefix: 2})
        create_topics(target, {f"{source}.{large}": 1}, {"max.message.bytes": "20000"})
        clusters = {
            source: source_cluster,
            misled: Bootstrap(f"{HOST}:{proxied.port}"),
            "backup": target,
        }
        file = mirror_file(
            directory,
            clusters,
            f"{source}->backup.enabled = true",
            f"{source}->backup.topics = {prefix}.*",
            f"{misled}->backup.enabled = true",
            "emit.heartbeats.enabled = false",
            "emit.checkpoints.enabled = false",
            "sync.topic.configs.enabled = false",
            "refresh.topics.interval.seconds = 1",
            "backup.offset.flush.interval.ms = 500",
            "log.format = json",
            f"log.file = {log_file}",
            f"{source}.session.timeout.ms = 60000",  # in case the machine pauses
            "backup.session.timeout.ms = 60000",
            f"backup.ssl.truststore.password = {SECRET}",
        )
        with MirrorProcess(file, "--log-level", "debug") as mirror:
            flow = f"{source}->backup"
            made = Run(
                mirror, source, misled, flow, prefix, log_file, (source_cluster, target), file
            )
            made.await_message(f"{flow}: RUNNING")
            yield made
    finally:
        target.stop()
        for folder in folders:
            shutil.rmtree(folder)
        nobody.release()


def test_a_young_topic_is_no_problem(run: Run) -> None:
    """Java logs UNKNOWN_TOPIC_OR_PARTITION and LEADER_NOT_AVAILABLE until its leaders answer."""
    source, young = run.clusters[0], f"{run.topic}-young"
    create_topics(source, {young: 20, f"{run.topic}-gone": 1})
    produce(source, young, numbered(100, 20))
    run.await_copied(young, 100)
    assert run.levels(young) <= {"DEBUG", "INFO"}


def test_a_deleted_topic_and_a_wrong_listener_are_named(run: Run) -> None:
    gone = f"{run.topic}-gone"
    run.await_copied(gone, 0)
    delete_topic(run.clusters[0], gone)
    run.await_message(f"{gone} was deleted on the source")
    run.await_message(f"{run.misled}->backup: RETRYING Cluster '{run.misled}' answered at")
    lines = quoted("Error while fetching metadata")
    assert len(lines) == 2
    assert set(map(numberless, lines)) <= run.quotable()


def test_an_incident_is_a_line_with_flow_and_connector(run: Run) -> None:
    large = f"{run.topic}-large"
    produce(run.clusters[0], large, [(0, Record(b"k", b"large" * 10_000))])
    line = run.await_message(f"dead-letter: {large}-0")
    assert line["flow"] == run.flow
    assert line["connector"] == f"{run.flow}.MirrorSourceConnector"
    assert (line["level"], line["logger"]) == ("WARNING", "sparkmirror.spark.incident_counter")
    [shown] = quoted("A record is refused")
    assert numberless(shown) in run.quotable()


def test_positions_that_cannot_be_written_are_a_problem_until_they_can(run: Run) -> None:
    """Java: Failed to commit offsets."""
    source, target = run.clusters
    offsets = f"mm2-offsets.{run.source}.internal"
    forbid(target, offsets, AclOperation.WRITE)
    produce(source, run.topic, numbered(100, 2))
    run.await_message(" cannot be written: TOPIC_AUTHORIZATION_FAILED")  # of its 25 partitions
    allow_again(target, offsets)
    run.await_message(f"{run.flow}: all problems are resolved")
    lines = quoted("Failed to commit offsets")
    assert len(lines) == 2
    assert set(map(numberless, lines)) <= run.quotable()


@pytest.mark.thorough
def test_a_target_that_acknowledges_nothing_is_named(run: Run) -> None:
    """Java: Failed to flush, timed out while waiting for producer to flush."""
    broker = run.clusters[1].brokers[0].pid
    assert broker is not None
    started = run.times_running()
    os.kill(broker, signal.SIGSTOP)
    try:
        produce(run.clusters[0], run.topic, numbered(100, 2))
        run.await_message(f"{run.flow}: RETRYING Cluster 'backup' accepts connections at")
    finally:
        os.kill(broker, signal.SIGCONT)
    eventually(lambda: run.times_running() > started, PATIENCE_SECONDS, "it continues")
    lines = quoted("Failed to flush")
    assert len(lines) == 2
    assert set(map(numberless, lines)) <= run.quotable()


def test_every_line_is_one_json_object(run: Run) -> None:
    """Also at DEBUG, and those of libraries, of Python and of threads; none has a secret."""
    lines = run.lines()
    assert {one["level"] for one in lines} >= {"INFO", "WARNING"}
    for one in lines:
        assert one.keys() <= FIELDS
        assert {"time", "level", "logger", "message"} <= one.keys()
        assert datetime.fromisoformat(one["time"]).utcoffset() is not None
    assert SECRET not in run.mirror.log
    named = [one for one in lines if one["message"].startswith(f"{run.flow}:")]
    assert named
    assert {one.get("flow") for one in named} == {run.flow}


def test_a_problem_is_logged_once(run: Run) -> None:
    """Not by the connector that has it and again from the status."""
    problems = [
        (one.get("flow"), numberless(one["message"]))
        for one in run.lines()
        if one["level"] == "WARNING" and one["logger"] != "sparkmirror.run"
    ]
    assert len(problems) == len(set(problems))


def test_another_log_file_and_format_apply_without_a_restart(run: Run) -> None:
    """Standard error follows; a file that cannot be written rejects the change."""
    before, text = run.properties.read_text("utf-8"), run.log_file.with_name("text.log")
    blocked = before.replace(f"log.file = {run.log_file}", f"log.file = {run.properties}/x.log")
    run.properties.write_text(blocked, "utf-8")
    run.await_message("Cannot write log.file")
    run.await_message("was rejected; the previous configuration stays in use")
    every = run.mirror.log.splitlines()
    run.properties.write_text(
        before.replace("log.format = json", "log.format = text").replace(
            f"log.file = {run.log_file}", f"log.file = {text}"
        ),
        "utf-8",
    )
    eventually(
        lambda: "was reloaded: log settings changed" in text.read_text("utf-8"),
        PATIENCE_SECONDS,
        "the other file is written",
        not_yet=(OSError, AssertionError),
    )
    assert run.log_file.read_text("utf-8").splitlines()[: len(every)] == every
    code, _seconds = run.mirror.terminate()
    assert code == 0
    last = run.mirror.log.splitlines()[-2:]
    assert re.fullmatch(rf"\S+ INFO {run.flow}: [\d,]+ records, .* copied", last[0])
    assert re.match(rf"\S+ WARNING {run.flow}: incidents: dead-letter 1; ", last[1])
    assert text.read_text("utf-8").splitlines()[-2:] == last


def test_a_directory_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    """Java: exception on not being able to create the log directory."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    file = tmp_path / "mm2.properties"
    lines = "clusters = a, b\na.bootstrap.servers = h:1\nb.bootstrap.servers = h:2\n"
    lines += "a->b.enabled = true\nlisteners =\n"
    said = []
    for more, cache in (
        (f"log.file = {blocked}/logs/mirror.log", tmp_path / "cache"),
        ("log.file.backups = 1", blocked / "cache"),
    ):
        file.write_text(f"{lines}{more}\n")
        done = subprocess.run(
            [command(), "run", str(file)],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
            env={**os.environ, "SPARKMIRROR_CACHE": str(cache)},
        )
        assert done.returncode == 3, done.stderr
        said.append(done.stderr)
    shown = [line.partition(" (")[2] for line in quoted("Log directory cannot be created")]
    assert len(shown) == 2
    for output, ending in zip(said, shown, strict=True):
        assert ending in output
    assert f"sparkmirror: Cannot write log.file {blocked}/logs/mirror.log" in said[0]
    assert f"Cannot write to {blocked}/cache/logs" in said[1]


def test_a_class_that_is_no_plugin_is_refused_in_connects_words() -> None:
    """Java: plugin class loader for connector ... was not found."""
    [shown] = quoted("Plugin class loader")
    assert unknown_class_message("org.example.Missing", "1").startswith(shown)


def test_errors_of_a_file_are_json_lines_if_it_says_so(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text("log.format = json\nclusters = a, b\na->b.enabled = maybe\n")
    done = subprocess.run(
        [command(), "run", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert {one["level"] for one in lines if "bootstrap.servers" in one["message"]} == {"ERROR"}
