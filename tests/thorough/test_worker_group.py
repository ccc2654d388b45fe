# SPDX-License-Identifier: Apache-2.0
"""Workers of one group under load: the leader is killed again and again, suspended, woken up.

The short versions are in tests/integration/test_workers.py.
"""

from __future__ import annotations

import http.client
import json
import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from support.clients.load_generator import observed
from support.measurements import measured
from support.mirrors.worker_group import (
    LEADS,
    MirroredTopic,
    WorkerGroup,
    is_accepted,
    seconds_until,
)
from support.mirrors.worker_process import WorkerProcess
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

KILLS = 5
ROUNDS = 5
PER_SECOND = 1_000
SESSION_SECONDS = 6.0
DEFAULT_SESSION_SECONDS = 10.0
WRITE_SECONDS = 15.0
FLOWS_SECONDS = 15.0  # beyond the session: a round of the group, and Spark's start
GAP_SECONDS = 3.0
LIST_SECONDS = 0.2
QUICK = {"session_timeout_ms": f"{SESSION_SECONDS * 1000:.0f}", "heartbeat_interval_ms": "1000"}

Grouped = Callable[..., WorkerGroup]


@pytest.fixture
def grouped(target_cluster: LocalCluster, tmp_path: Path) -> Iterator[Grouped]:
    """A function that makes a group; its workers end with the test."""
    with ExitStack() as stack:
        yield lambda **more: stack.enter_context(WorkerGroup(target_cluster, tmp_path, **more))


class Pair:
    """Two workers with a mirror and a heartbeat connector each."""

    def __init__(self, group: WorkerGroup, source: LocalCluster) -> None:
        self.group = group
        self.mirrors = [MirroredTopic.made(source, group.cluster) for _ in range(2)]
        self.beats = [unique_name("beat") for _ in range(2)]
        self.beat = group.beat()
        first, _ = group.of(2)
        for mirror in self.mirrors:
            first.create(mirror.name, mirror.config)
        for name in self.beats:
            first.create(name, self.beat)
        self.settle()

    def settle(self) -> None:
        """Wait until all of it runs, half of it on each worker."""
        asked = self.group.of(2)[0]
        self.group.await_shares(asked, 2, 2)

    def mirror_of(self, worker: WorkerProcess, asked: WorkerProcess) -> MirroredTopic | None:
        """One that a worker copies."""
        mine = (one for one in self.mirrors if self.group.owner(one.name, asked) is worker)
        return next(mine, None)


@contextmanager
def answered_all_the_time(worker: WorkerProcess) -> Iterator[list[tuple[int, float]]]:
    """Ask a worker for everything five times a second; codes and seconds."""
    stop = threading.Event()
    answers: list[tuple[int, float]] = []

    def ask() -> None:
        while not stop.wait(0.2):
            began = time.monotonic()
            try:
                code, _ = worker.request("GET", "/connectors?expand=status&expand=info")
            except OSError:
                code = 0
            answers.append((code, time.monotonic() - began))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    try:
        yield answers
    finally:
        stop.set()
        thread.join()


def replace_killed(pair: Pair, *, driver_only: bool) -> tuple[float, float]:
    """Kill the leader; the seconds until a change is carried out, and until its records flow."""
    group = pair.group
    leader = group.leader()
    survivor = group.other_than(leader)
    orphan = pair.mirror_of(leader, survivor) or pair.mirrors[0]
    orphan.await_more(PER_SECOND)
    with answered_all_the_time(survivor) as answers:
        began = time.monotonic()
        if driver_only:
            leader.process.kill_driver()
        else:
            leader.kill()
        write_seconds = seconds_until(
            began,
            lambda: is_accepted(survivor, pair.beats[0], pair.beat),
            "a change is carried out",
        )
        eventually(
            lambda: group.owner(orphan.name, survivor) is survivor, PATIENCE_SECONDS, "taken over"
        )
        before = orphan.copied()
        eventually(lambda: orphan.copied() > before, PATIENCE_SECONDS, "records arrive again")
        flow_seconds = time.monotonic() - began
    leader.process.await_end_of_all()
    assert {code for code, _ in answers} == {200}
    slowest = max(seconds for _, seconds in answers)
    measured(
        f"leader killed ({'driver' if driver_only else 'everything'}): a change after "
        f"{write_seconds:.1f} s, records after {flow_seconds:.1f} s, the slowest of "
        f"{len(answers)} answers after {slowest * 1000:.0f} ms"
    )
    return write_seconds, flow_seconds


def test_a_leader_that_is_killed_again_and_again(
    grouped: Grouped, source_cluster: LocalCluster
) -> None:
    """Everything at once and only the driver, in turn; a new worker comes each time."""
    pair = Pair(grouped(**QUICK), source_cluster)
    with pair.mirrors[0].load(PER_SECOND), pair.mirrors[1].load(PER_SECOND):
        for kill in range(KILLS):
            write_seconds, flow_seconds = replace_killed(pair, driver_only=kill % 2 == 1)
            assert write_seconds < WRITE_SECONDS
            assert flow_seconds < SESSION_SECONDS + FLOWS_SECONDS
            pair.settle()
    for mirror in pair.mirrors:
        measured(f"{mirror.check()} records, none lost, none twice")
    assert all(len(urls) == 1 for urls in pair.group.leaders().values())


def test_the_usual_session_timeout(grouped: Grouped, source_cluster: LocalCluster) -> None:
    """Nobody has to configure anything for changes to be carried out within 15 s."""
    pair = Pair(grouped(), source_cluster)
    with pair.mirrors[0].load(PER_SECOND), pair.mirrors[1].load(PER_SECOND):
        write_seconds, flow_seconds = replace_killed(pair, driver_only=False)
    assert write_seconds < WRITE_SECONDS
    assert flow_seconds < DEFAULT_SESSION_SECONDS + FLOWS_SECONDS
    assert all(mirror.check() > 0 for mirror in pair.mirrors)


def test_a_worker_that_comes_back_stops_nothing_that_stays(
    grouped: Grouped, source_cluster: LocalCluster
) -> None:
    """Of two mirrors on one worker one moves; the other one's Spark job continues without a gap."""
    group = grouped(**QUICK)
    [first] = group.of(1)
    mirrors = [MirroredTopic.made(source_cluster, group.cluster) for _ in range(2)]
    with mirrors[0].load(PER_SECOND), mirrors[1].load(PER_SECOND):
        for mirror in mirrors:
            first.create(mirror.name, mirror.config)
        for mirror in mirrors:
            mirror.await_more(PER_SECOND)
        epochs = {one.name: group.epoch(first, one) for one in mirrors}
        with (
            observed(group.cluster, mirrors[0].remote) as one,
            observed(group.cluster, mirrors[1].remote) as other,
        ):
            group.of(2)
            newcomer = group.other_than(first)
            group.await_shares(newcomer, 1, 1)
            for mirror in mirrors:
                mirror.await_more(PER_SECOND)
        gaps = {mirrors[0].name: one.longest_seconds, mirrors[1].name: other.longest_seconds}
        [stayed] = [mirror for mirror in mirrors if group.owner(mirror.name, newcomer) is first]
        [moved] = [mirror for mirror in mirrors if mirror is not stayed]
        measured(f"longest pause: {gaps[stayed.name]:.1f} s stayed, {gaps[moved.name]:.1f} s moved")
        assert group.epoch(first, stayed) == epochs[stayed.name]
        assert gaps[stayed.name] < GAP_SECONDS
    assert all(mirror.check() > 0 for mirror in mirrors)


def test_workers_that_start_at_the_same_instant(grouped: Grouped) -> None:
    """One leads, in every generation, and one key is written."""
    for _ in range(ROUNDS):
        group = grouped(**QUICK)
        group.start(2)
        workers = group.of(2)
        group.leader().process.await_log(LEADS, PATIENCE_SECONDS)
        beats = [unique_name("beat") for _ in workers]
        for worker, name in zip(workers, beats, strict=True):
            worker.create(name, group.beat())
        group.await_shares(workers[0], 1, 1)
        assert all(len(urls) == 1 for urls in group.leaders().values()), group.leaders()
        assert [LEADS in worker.process.log for worker in workers].count(True) == 1
        assert group.session_keys() == 1
        for worker in workers:
            worker.kill()


class Hanging:
    """A change that is sent to a worker which does not answer for now."""

    def __init__(
        self, worker: WorkerProcess, path: str, config: dict[str, str] | None = None
    ) -> None:
        host, _, port = worker.worker_id.partition(":")
        self._connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE_SECONDS)
        body = None if config is None else json.dumps(config)
        headers = {"Content-Type": "application/json"}
        self._connection.request("PUT", f"/connectors/{path}", body, headers)

    def give_up(self) -> None:
        """Nobody waits for it any more."""
        self._connection.close()

    def answer(self) -> int:
        """The status, when there is one."""
        try:
            return self._connection.getresponse().status
        finally:
            self._connection.close()


@pytest.mark.parametrize("everything", [True, False], ids=["everything", "driver"])
def test_a_suspended_leader_that_wakes_up_writes_nothing(
    grouped: Grouped, source_cluster: LocalCluster, everything: bool
) -> None:
    """It finds out that it leads no more, is given work again, and no record is lost or twice."""
    pair = Pair(grouped(**QUICK), source_cluster)
    group = pair.group
    with pair.mirrors[0].load(PER_SECOND), pair.mirrors[1].load(PER_SECOND):
        leader = group.leader()
        survivor = group.other_than(leader)
        orphan = pair.mirror_of(leader, survivor) or pair.mirrors[0]
        orphan.await_more(PER_SECOND)
        keys = group.session_keys()
        leader.suspend(everything=everything)
        began = time.monotonic()
        forgone = pair.beat | {"emit.heartbeats.interval.seconds": "77"}
        awaited = pair.beat | {"emit.heartbeats.interval.seconds": "66"}
        Hanging(leader, f"{pair.beats[0]}/config", forgone).give_up()
        Hanging(leader, f"{pair.beats[0]}/stop").give_up()
        hanging = Hanging(leader, f"{pair.beats[1]}/config", awaited)
        write_seconds = seconds_until(
            began,
            lambda: is_accepted(survivor, pair.beats[0], pair.beat),
            "a change is carried out",
        )
        eventually(
            lambda: group.owner(orphan.name, survivor) is survivor, PATIENCE_SECONDS, "taken over"
        )
        orphan.await_more()
        flow_seconds = time.monotonic() - began
        orphan.await_more(PER_SECOND)
        assert group.session_keys() == keys + 1
        epoch = group.written()[-1].epoch
        length = len(group.written())

        leader.wake_up()
        code = hanging.answer()
        group.await_shares(survivor, 2, 2)
        for mirror in pair.mirrors:
            mirror.await_more(PER_SECOND)
        measured(
            f"leader suspended ({'everything' if everything else 'driver'}): a change after "
            f"{write_seconds:.1f} s, records after {flow_seconds:.1f} s; woken up, it answered "
            f"{code}, and {len(group.written()) - length} records were written to the config topic"
        )
        assert group.leader() is survivor
        assert group.session_keys() == keys + 1
        assert {one.epoch for one in group.written()[length:]} <= {epoch}
        changed = survivor.get(f"/connectors/{pair.beats[1]}/config")
        assert code in {200, 409}  # the leader has carried it out, or nobody
        assert (changed.get("emit.heartbeats.interval.seconds") == "66") == (code == 200)
        left = survivor.get(f"/connectors/{pair.beats[0]}/config")
        assert left.get("emit.heartbeats.interval.seconds") != "77"
        later = b"".join(one.value or b"" for one in group.written()[length:])
        assert b'"77"' not in later
        assert b"STOPPED" not in later
        assert "the client has disconnected" in leader.process.log  # one line a minute at most
        assert "Traceback" not in leader.process.log
    assert write_seconds < WRITE_SECONDS
    for mirror in pair.mirrors:
        measured(f"{mirror.check()} records, none lost, none twice")
    epochs = [one.epoch for one in group.written()]
    assert epochs == sorted(epochs)


@pytest.mark.parametrize("running", [5, 100])
def test_a_hundred_connectors_are_listed_at_once(grouped: Grouped, running: int) -> None:
    """Through the leader and through the other one."""
    group = grouped(**QUICK)
    group.of(2)
    leader = group.leader()
    follower = group.other_than(leader)
    began = time.monotonic()
    for number in range(100):
        state = None if number < running else "STOPPED"
        leader.create(f"beat-{number:03}", group.beat(), state)
    measured(f"100 connectors were created in {time.monotonic() - began:.1f} s")
    listed = "/connectors?expand=status&expand=info"
    eventually(lambda: len(leader.get(listed)) == 100, PATIENCE_SECONDS, "all have a status")
    eventually(
        lambda: sum(map(len, group.shares(leader).values())) == running,
        PATIENCE_SECONDS,
        f"{running} connectors run",
    )
    for worker in (leader, follower):
        times = []
        for _ in range(20):
            began = time.monotonic()
            found = worker.get(listed)
            times.append(time.monotonic() - began)
            assert len(found) == 100
        measured(
            f"100 connectors, {running} run, through the "
            f"{'leader' if worker is leader else 'follower'}: median "
            f"{statistics.median(times) * 1000:.0f} ms, most {max(times) * 1000:.0f} ms"
        )
        assert statistics.median(times) < LIST_SECONDS


def test_connectors_that_are_deleted_and_made_again_at_any_moment(grouped: Grouped) -> None:
    """Whatever the first one was about to say, the second one is never seen to run."""
    group = grouped(**QUICK)
    one, other = group.of(2)
    moments = random.Random(3)
    for number in range(40):
        name = f"again-{number % 3}"
        one.create(name, group.beat())
        time.sleep(1.5 * moments.random())
        other.request_ok("DELETE", f"/connectors/{name}")
        one.create(name, group.beat(), "STOPPED")
        seen: set[str] = set()

        def stopped(name: str = name, seen: set[str] = seen) -> bool:
            answers = [
                worker.request("GET", f"/connectors/{name}/status") for worker in (one, other)
            ]
            states = [found["connector"]["state"] for code, found in answers if code == 200]
            seen.update(states)
            return states == ["STOPPED", "STOPPED"]

        eventually(stopped, PATIENCE_SECONDS, f"{name} is stopped")
        assert "RUNNING" not in seen, number
        other.request_ok("DELETE", f"/connectors/{name}")
