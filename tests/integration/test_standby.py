# SPDX-License-Identifier: Apache-2.0
"""Two processes with one file: one runs the pair, the other stands by and takes over.

Both serve the REST API, and either takes orders for whichever runs the pair.
"""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest
from typer.testing import CliRunner

from sparkmirror.cli.main import app
from sparkmirror.devcluster.cluster import LocalCluster
from support.clients.librdkafka import await_copy, compare_topics, create_topics, end_offsets
from support.clients.load_generator import Load
from support.measurements import measured
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

SESSION_SECONDS = 30.0  # no pause of a busy machine ends it
SHORT_SESSION_SECONDS = 6.0  # where one ends; the least that brokers allow by default
BEGIN_SECONDS = 15.0  # after the session: a task compares both sides first; 2 s as a rule
PER_SECOND = 200
PORT = re.compile(r"advertised as (http://127\.0\.0\.1:\d+)/")


class Twins:
    """A topic under load, and processes that run the same file."""

    def __init__(
        self, source: LocalCluster, target: LocalCluster, directory: Path, stack: ExitStack
    ) -> None:
        self.source, self.target = source, target
        self.session_seconds = SESSION_SECONDS
        self._directory, self._stack = directory, stack
        self._file: Path | None = None
        self.a, self.b = unique_name("a"), unique_name("b")
        self.topic = unique_name("orders")
        create_topics(source, {self.topic: 2})
        self.flow = f"{self.a}->{self.b}"

    def start(self, *options: str) -> MirrorProcess:
        """One more process."""
        self._file = self._file or self._written()  # once: a mirror that runs reads what changes
        return self._stack.enter_context(MirrorProcess(self._file, *options))

    def _written(self) -> Path:
        return mirror_file(
            self._directory,
            {self.a: self.source, self.b: self.target},
            f"{self.flow}.enabled = true",
            f"{self.flow}.emit.heartbeats.enabled = true",
            "emit.heartbeats.enabled = false",
            "heartbeats.replication.enabled = false",
            "sync.topic.acls.enabled = false",
            f"topics = {self.topic}",
            f"{self.b}.session.timeout.ms = {self.session_seconds * 1000:.0f}",
            f"{self.b}.heartbeat.interval.ms = 1000",
            "listeners = http://127.0.0.1:0",
        )

    def started(self) -> tuple[MirrorProcess, MirrorProcess]:
        """One that runs the pair and one that stands by."""
        first = self.start()
        first.await_log(f"{self.flow}: RUNNING", PATIENCE_SECONDS)
        second = self.start()
        second.await_log(f"{self.flow}: STANDBY stands by", PATIENCE_SECONDS)
        return first, second

    def listed(self) -> list[str]:
        """The connectors that the terminal client shows for the file, which names no port."""
        done = CliRunner().invoke(app, ["get", "connectors", "--json", "--url", str(self._file)])
        assert done.exit_code == 0, done.output
        return sorted(one["name"] for one in json.loads(done.stdout))

    def load(self) -> Load:
        """Records, until the end of the context."""
        return Load(self.source, self.topic, per_second=PER_SECOND, partitions=2)

    @property
    def copied(self) -> int:
        """Records on the target."""
        return sum(end_offsets(self.target, f"{self.a}.{self.topic}").values())

    def await_more(self) -> None:
        """Wait until a second's worth of further records has arrived."""
        wanted = self.copied + PER_SECOND
        eventually(lambda: self.copied > wanted, PATIENCE_SECONDS, "records flow")

    def compare(self) -> None:
        """Nothing is lost, nothing is twice, nothing is out of order."""
        remote = f"{self.a}.{self.topic}"
        await_copy(self.source, self.topic, self.target, remote, PATIENCE_SECONDS)
        assert compare_topics(self.source, self.topic, self.target, remote) > 0


class Api:
    """The REST API of a process."""

    def __init__(self, mirror: MirrorProcess) -> None:
        mirror.await_log("The REST API is served", PATIENCE_SECONDS)
        found = PORT.search(mirror.log)
        assert found is not None
        self._url = found[1]

    def ask(self, path: str, method: str = "GET", body: object = None) -> tuple[int, Any]:
        """Status and body of an answer."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(  # noqa: S310 - a server of ours
            self._url + quote(path, safe="/?=&"),
            data=data,
            method=method,
            headers={"Content-Type": "application/json"},
        )
        try:
            with urlopen(request, timeout=PATIENCE_SECONDS) as answer:  # noqa: S310
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except HTTPError as refused:
            return refused.code, json.loads(refused.read())

    def state(self, connector: str) -> str:
        """What a connector does."""
        _, found = self.ask(f"/connectors/{connector}/status")
        return str(found["connector"]["state"])


@pytest.fixture
def twins(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> Iterator[Twins]:
    """Nothing runs yet."""
    with ExitStack() as stack:
        yield Twins(source_cluster, target_cluster, tmp_path, stack)


def test_the_standby_accepts_commands_and_takes_over(twins: Twins) -> None:
    """An order given to either reaches the pair, and outlives the process."""
    copies, beats = (f"{twins.flow}.Mirror{kind}Connector" for kind in ("Source", "Heartbeat"))
    with twins.load():
        first, second = twins.started()
        active, standby = Api(first), Api(second)
        assert active.ask("/connectors")[1] == [
            copies,
            f"{twins.flow}.MirrorCheckpointConnector",
            beats,
        ]
        assert twins.listed() == sorted(active.ask("/connectors")[1])
        twins.await_more()
        assert [active.state(copies), standby.state(copies)] == ["RUNNING", "UNASSIGNED"]
        _, seen = standby.ask(f"/connectors/{copies}/status")
        assert "stands by" in seen["connector"]["warning"]
        eventually(
            lambda: (
                active.ask(f"/connectors/{copies}/topics")[1][copies]["topics"]
                == [f"{twins.a}.{twins.topic}"]
            ),
            PATIENCE_SECONDS,
            "its topic is known",
        )
        refused, answer = active.ask(f"/connectors/{copies}/config", "PUT", {"name": copies})
        assert (refused, "mm2.properties" in answer["message"]) == (403, True)

        began = time.monotonic()
        assert standby.ask(f"/connectors/{copies}/pause", "PUT")[0] == 202
        eventually(lambda: active.state(copies) == "PAUSED", PATIENCE_SECONDS, "the copying rests")
        measured(f"paused {time.monotonic() - began:.1f} s after another process was asked")
        still = twins.copied
        assert active.ask(f"/connectors/{copies}/offsets")[1]["offsets"]

        began = time.monotonic()
        code, _ = first.terminate()
        assert code == 0
        assert copies in twins.listed()  # by the other process
        eventually(lambda: standby.state(beats) == "RUNNING", PATIENCE_SECONDS, "taken over")
        measured(f"taken over {time.monotonic() - began:.1f} s after SIGTERM")
        assert standby.state(copies) == "PAUSED"
        assert twins.copied == still
        assert standby.ask(f"/connectors/{copies}/resume", "PUT")[0] == 202
        twins.await_more()
        eventually(lambda: standby.state(copies) == "RUNNING", PATIENCE_SECONDS, "it says so")
    twins.compare()


@pytest.mark.thorough
def test_a_process_that_is_killed_is_replaced_within_its_session(twins: Twins) -> None:
    """SIGKILL to all of it under load; nothing is lost, nothing is twice."""
    twins.session_seconds = SHORT_SESSION_SECONDS
    with twins.load():
        first, second = twins.started()
        twins.await_more()
        first.kill_everything()
        began, before = time.monotonic(), twins.copied
        eventually(lambda: twins.copied > before, PATIENCE_SECONDS, "the other one copies")
        took = time.monotonic() - began
        measured(f"first record {took:.1f} s after kill -9, session {SHORT_SESSION_SECONDS:.0f} s")
        assert took < SHORT_SESSION_SECONDS + BEGIN_SECONDS
        twins.await_more()
        assert second.is_running
    twins.compare()


@pytest.mark.thorough
@pytest.mark.parametrize("whole", [False, True], ids=["driver", "everything"])
def test_a_process_suspended_for_too_long_becomes_a_standby(
    twins: Twins,
    whole: bool,
) -> None:
    """SIGSTOP for longer than the session, then SIGCONT: it ends its pair and writes nothing."""
    twins.session_seconds = SHORT_SESSION_SECONDS
    with twins.load():
        first, second = twins.started()
        twins.await_more()
        asleep = [one for one in first.processes() if whole or one.pid == first.pid]
        for one in asleep:
            one.send_signal(signal.SIGSTOP)
        second.await_log(f"{twins.flow}: RUNNING", PATIENCE_SECONDS)
        twins.await_more()
        for one in asleep:
            one.send_signal(signal.SIGCONT)
        first.await_log(f"{twins.flow}: STANDBY", PATIENCE_SECONDS)
        twins.await_more()
        assert first.is_running
        code, _ = second.terminate()
        assert code == 0
        twins.await_more()  # and takes over again
    twins.compare()


@pytest.mark.thorough
def test_a_bounded_run_does_not_run_beside_another_process(twins: Twins) -> None:
    """It waits, says for whom, and gives up."""
    first = twins.start()
    first.await_log(f"{twins.flow}: RUNNING", PATIENCE_SECONDS)
    once = twins.start("--once")
    assert once.wait(PATIENCE_SECONDS) == 2
    assert "stands by" in once.log
    assert "no flow can run here" in once.log
    assert first.is_running
