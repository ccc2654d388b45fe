# SPDX-License-Identifier: Apache-2.0
"""A Connect group goes from Java's workers to ours and back: same file, same topics, same REST."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from support.clients.connect_rest import ConnectRestClient
from support.clients.librdkafka import numbered, produce
from support.measurements import measured
from support.mirrors.java_connect import JavaConnect
from support.mirrors.worker_hand_over import HEARTBEAT, PARTITIONS, SOURCE, TASKS_OF, WorkerHandOver
from support.mirrors.worker_process import WorkerProcess
from support.waiting import eventually

STAND_BY_SECONDS = 40.0
STORED_SECONDS = 20.0
# Looking once a second, and a join. The records wait for Spark's start besides.
TAKE_OVER_SECONDS = 5.0
SESSION_SECONDS = 10.0  # Connect's default: a worker that was killed has its place for so long
MODES = pytest.mark.parametrize(
    ("exactly_once", "killed"),
    [
        pytest.param(False, False, id="default"),
        pytest.param(True, False, id="exactly-once"),
        pytest.param(True, True, id="exactly-once, killed"),
    ],
)
# What Java's worker says of itself on its own topics as well.
HARMLESS = (
    "Catching up to assignment's config offset.",  # the first look of every start
    "CONCURRENT_TRANSACTIONS",
)


def check_remarks(java: JavaConnect) -> None:
    """Nothing that we left has made a worker of Java's warn."""
    lines = java.log_file.read_text(encoding="utf-8", errors="replace").splitlines()
    remarks = [line for line in lines if " WARN " in line or " ERROR " in line]
    assert [line for line in remarks if not any(words in line for words in HARMLESS)] == []


def await_stand_by(ours: WorkerProcess) -> str:
    """Wait until a worker says that another kind has its group; in which words."""

    def says() -> str:
        assert ours.process.is_running, ours.process.log
        code, answer = ours.request("GET", "/health")
        assert code == 503
        assert "is on standby" in answer["message"], answer
        return str(answer["message"])

    return eventually(
        says, STAND_BY_SECONDS, "it stands by", not_yet=(AssertionError, OSError, KeyError)
    )


def told_configs(worker: ConnectRestClient) -> dict[str, Any]:
    """All connectors with their configurations, as a worker tells them."""
    told = worker.get("/connectors?expand=info")
    return {name: one["info"]["config"] for name, one in told.items()}


def told_tasks(worker: ConnectRestClient) -> dict[str, Any]:
    """The tasks of all connectors; of what they share it is not said which of them has what."""
    found: dict[str, Any] = {}
    for name in worker.get("/connectors"):
        configs = [one["config"] for one in worker.get(f"/connectors/{name}/tasks")]
        shared = {
            key: sorted(part for one in configs for part in one.pop(key, "").split(","))
            for key in ("task.assigned.partitions", "task.assigned.groups")
        }
        found[name] = (configs, shared)
    return found


@MODES
def test_ours_waits_for_javas_worker_and_continues_where_it_stopped(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path: Path,
    *,
    exactly_once: bool,
    killed: bool,
) -> None:
    """Same connectors, nothing lost, nothing twice, and no status tells of Java's worker."""
    one = WorkerHandOver.made(source_cluster, target_cluster, tmp_path, exactly_once=exactly_once)
    with ExitStack() as stack:
        with one.load() as load:
            java = stack.enter_context(one.java())
            one.create(java)
            one.await_more()
            configs, tasks = told_configs(java), told_tasks(java)
            ours = stack.enter_context(one.ours())
            assert one.topics.group in await_stand_by(ours)
            assert told_configs(ours) == configs
            code, answer = ours.request("PUT", f"/connectors/{SOURCE}/pause")
            assert code == 409, answer
            one.await_running(java)
            one.await_more()
            if killed:
                java.kill()
            else:
                java.stop()
            stopped = time.monotonic()
            ours.await_health()
            joined = time.monotonic() - stopped
            one.await_running(ours)
            running = time.monotonic() - stopped
            one.await_more()
            assert (told_configs(ours), told_tasks(ours)) == (configs, tasks)
            one.commit(100)
            one.await_group(0)
        one.await_all(load.sent)
        code, _ = ours.process.terminate()
        assert code == 0
    assert joined < TAKE_OVER_SECONDS + SESSION_SECONDS * killed
    assert one.fenced() == (TASKS_OF if exactly_once else {})
    measured(f"to ours: {load.sent} records, joined in {joined:.1f} s, ran after {running:.1f} s")


@MODES
def test_javas_worker_is_refused_while_ours_runs_and_continues_where_it_stopped(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path: Path,
    *,
    exactly_once: bool,
    killed: bool,
) -> None:
    """Nothing lost, nothing twice, and nothing in our topics that Java would warn of."""
    one = WorkerHandOver.made(source_cluster, target_cluster, tmp_path, exactly_once=exactly_once)
    with ExitStack() as stack:
        with one.load() as load:
            with one.ours() as ours:
                ours.await_health()
                one.create(ours)
                one.await_more()
                if not killed:
                    with pytest.raises(RuntimeError, match="Java's worker ended"), one.java():
                        pass
                    one.await_running(ours)
                    one.await_more()
                configs, tasks = told_configs(ours), told_tasks(ours)
                if killed:
                    ours.kill()
                    one.await_empty()
                else:
                    code, _ = ours.process.terminate()
                    assert code == 0
            assert one.fenced() == (TASKS_OF if exactly_once else {})
            java = stack.enter_context(one.java())
            one.await_running(java)
            one.await_more()
            assert (told_configs(java), told_tasks(java)) == (configs, tasks)
            one.commit(100)
            one.await_group(0)
            check_remarks(java)
        one.await_all(load.sent)
        java.stop()
    measured(f"to Java: {load.sent} records")


ALL_STORED = dict.fromkeys(range(PARTITIONS), 9)


def test_states_and_offsets_survive_every_hand_over(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """Paused, stopped and deleted connectors stay that; offsets set by one are the other's."""
    one = WorkerHandOver.made(source_cluster, target_cluster, tmp_path)
    produce(source_cluster, one.topic, numbered(10 * PARTITIONS, PARTITIONS))
    with one.java() as java:
        lead_lives(one, java, "java")
        java.create(SOURCE, one.configs()[SOURCE])
        copies_and_stops(one, java, {0: 10, 1: 10, 2: 10, 3: 10})
        one.alter(java, {0: 4})
        java.stop()
    with one.ours() as ours:
        ours.await_health()
        check_lives(ours, "java", SOURCE)
        assert one.stored(ours) == ALL_STORED | {0: 4}
        ours.request_ok("PUT", f"/connectors/{SOURCE}/resume")
        copies_and_stops(one, ours, {0: 15, 1: 10, 2: 10, 3: 10})
        one.alter(ours, {1: 6, 2: None})
        ours.request_ok("PUT", "/connectors/java-sleeps/resume")
        ours.await_states("java-sleeps", "RUNNING", "RUNNING")
        ours.request_ok("DELETE", "/connectors/java-rests")
        lead_lives(one, ours, "ours")
        assert ours.process.terminate()[0] == 0
    with one.java() as java:
        check_lives(java, "ours", SOURCE, "java-sleeps")
        java.await_states("java-sleeps", "RUNNING", "RUNNING")
        assert one.stored(java) == {0: 9, 1: 6, 3: 9}
        java.request_ok("PUT", f"/connectors/{SOURCE}/resume")
        copies_and_stops(one, java, {0: 15, 1: 13, 2: 20, 3: 10})
        java.request_ok("DELETE", f"/connectors/{SOURCE}/offsets")
        check_remarks(java)
        java.stop()
    with one.ours() as ours:
        ours.await_health()
        check_lives(ours, "ours", SOURCE, "java-sleeps")
        ours.await_states("java-sleeps", "RUNNING", "RUNNING")
        assert one.stored(ours) == {}
        ours.request_ok("PUT", f"/connectors/{SOURCE}/resume")
        copies_and_stops(one, ours, {0: 25, 1: 23, 2: 30, 3: 20})


def lead_lives(one: WorkerHandOver, worker: ConnectRestClient, who: str) -> None:
    """A connector is paused, one is stopped, one is deleted."""
    for name in (f"{who}-rests", f"{who}-sleeps", f"{who}-goes"):
        worker.create(name, one.configs()[HEARTBEAT])
        worker.await_states(name, "RUNNING", "RUNNING")
    worker.request_ok("PUT", f"/connectors/{who}-rests/pause")
    worker.request_ok("PUT", f"/connectors/{who}-sleeps/stop")
    worker.request_ok("DELETE", f"/connectors/{who}-goes")
    worker.await_states(f"{who}-rests", "PAUSED", "PAUSED")
    worker.await_states(f"{who}-sleeps", "STOPPED")


def check_lives(worker: ConnectRestClient, who: str, *others: str) -> None:
    """They still are, and there is no other connector than these."""
    worker.await_states(f"{who}-rests", "PAUSED", "PAUSED")
    worker.await_states(f"{who}-sleeps", "STOPPED")
    assert set(worker.get("/connectors")) == {f"{who}-rests", f"{who}-sleeps", *others}
    assert worker.request("GET", f"/connectors/{who}-goes/status")[0] == 404
    worker.await_states(SOURCE, "STOPPED")


def copies_and_stops(
    one: WorkerHandOver, worker: ConnectRestClient, counts: Mapping[int, int]
) -> None:
    """Wait for so many records on the target, stop the source connector and await its offsets."""
    one.await_counts(counts)
    worker.request_ok("PUT", f"/connectors/{SOURCE}/stop")
    worker.await_states(SOURCE, "STOPPED")
    eventually(lambda: one.stored(worker) == ALL_STORED, STORED_SECONDS, "offsets are stored")
