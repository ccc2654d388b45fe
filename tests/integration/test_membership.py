# SPDX-License-Identifier: Apache-2.0
"""Workers of one group with a real coordinator: who leads, who runs what, and who has lost it."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.errors import BrokerError
from sparkmirror.formats.connect_protocol import PROTOCOL, PROTOCOL_TYPE, WorkerMetadata
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.coordinator_client import CoordinatorClient, JoinParameters
from sparkmirror.kafka.group_requests import find_coordinator_request
from sparkmirror.system.clock import steady_clock
from sparkmirror.wire.settings import ConnectionSettings
from support.mirrors.group_members import (
    SESSION_MS,
    SHORT_SESSION_MS,
    ConfigTopic,
    ExclusiveWork,
    GroupMember,
    GroupMemberProcess,
    group_settings,
)
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

SHORT_SECONDS = SHORT_SESSION_MS / 1000
ENDLESS_MS = round(3000 * PATIENCE_SECONDS)  # no test waits until such a session is over
CONNECTORS = ("a", "b", "c", "d")


@pytest.fixture
def group() -> str:
    """A group of its own for every test."""
    return unique_name("workers")


class Site:
    """Workers of one group in this process, and what they are to run."""

    def __init__(self, cluster: LocalCluster, group: str) -> None:
        self.topic = ConfigTopic(CONNECTORS)
        self.ground = ExclusiveWork()
        self.cluster = cluster
        self.group = group

    def worker(self, name: str, **more: object) -> GroupMember:
        """One that is not started yet."""
        settings = group_settings(self.group, **more)
        return GroupMember(
            self.cluster.bootstrap_servers, settings, self.topic, self.ground, name=name
        )

    def pair(self, name: str, piece: str) -> GroupMember:
        """A process that has one pair to run."""
        settings = group_settings(self.group)
        topic = ConfigTopic((), offset=0, piece=piece)
        return GroupMember(self.cluster.bootstrap_servers, settings, topic, self.ground, name=name)

    def await_all(self, workers: Sequence[GroupMember]) -> None:
        """Until these share everything, in the same generation, and know who leads."""

        def shared() -> bool:
            members = [worker.member for worker in workers]
            assert all(member.is_settled for member in members)
            assert len({member.generation for member in members}) == 1
            assert len({member.leader_url for member in members}) == 1
            assert sum(member.is_leader for member in members) == 1
            assert self.ground.running.keys() == set(self.topic.connectors)
            loads = [len(member.assignment) for member in members]
            assert max(loads) - min(loads) <= 1, loads
            return True

        eventually(shared, PATIENCE_SECONDS, f"{len(workers)} workers share the work")
        assert self.ground.faults == []


def generation(line: str) -> int:
    """The one that a worker wrote in; -1 if the line says something else."""
    what, *rest = line.split(" ")
    return int(rest[0]) if what == "write" else -1


def decided_at(line: str) -> float:
    """When a worker asked whether it may write; endless if the line says something else."""
    what, *rest = line.split(" ")
    return float(rest[1]) if what == "write" else float("inf")


@pytest.fixture
def site(target_cluster: LocalCluster, group: str) -> Site:
    """With nobody in it."""
    return Site(target_cluster, group)


def test_workers_that_start_at_the_same_instant_have_one_leader(site: Site) -> None:
    """At no time two of them lead; all see the same one, and everything runs once."""
    workers = [site.worker(f"w{number}") for number in range(4)]
    leaders: list[list[str]] = []
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.001):
            seen = [worker for worker in workers if worker.member.is_leader]
            # One that was seen first may have ended before the next one began.
            leaders.append([worker.url for worker in seen if worker.member.is_leader])

    watching = threading.Thread(target=watch)
    watching.start()
    with ExitStack() as stack:
        try:
            for worker in workers:
                stack.enter_context(worker)
            site.await_all(workers)
        finally:
            done.set()
            watching.join()
        assert max(len(one) for one in leaders) == 1
        leader = next(worker for worker in workers if worker.member.is_leader)
        assert leader.member.leader_url == leader.url
        assert {worker.member.leader_id for worker in workers} == {leader.member.member_id}
        for worker in workers:
            for connector in worker.member.assignment:
                assert leader.member.owner_url(connector) == worker.url
    assert site.ground.running == {}


def test_a_worker_that_comes_takes_work_without_stopping_what_stays(site: Site) -> None:
    """And one that goes leaves it to the others."""
    with site.worker("w0") as first:
        site.await_all([first])
        assert first.told("revoked") == []
        with site.worker("w1") as second:
            site.await_all([first, second])
            assert first.told("revoked") == [frozenset(second.connectors)]
            stayed = first.connectors
        site.await_all([first])
        assert first.told("revoked") == [frozenset(site.ground.running.keys() - stayed)]
        assert len(second.told("revoked")) == 1


def test_new_connectors_are_assigned_when_a_rebalance_is_requested(site: Site) -> None:
    """Those who did not know of them read on before they begin; deleted ones are revoked."""
    with site.worker("w0") as first, site.worker("w1") as second:
        site.await_all([first, second])
        site.topic.change(["a", "b", "e", "f"])
        follower = second if first.member.is_leader else first
        follower.configs.latest()
        follower.member.rejoin()
        site.await_all([first, second])
        for worker in (first, second):
            assert worker.configs.cached().config_offset == 2


@pytest.mark.thorough
def test_a_worker_that_cannot_read_the_configs_leaves_for_a_while(site: Site) -> None:
    """As in Connect: the others have its work, and it comes back without help."""
    quick = {"sync_timeout_ms": 300, "unsync_backoff_ms": 1_000}
    with site.worker("w0", **quick) as first, site.worker("w1", **quick) as second:
        site.await_all([first, second])
        leader, follower = (first, second) if first.member.is_leader else (second, first)
        held = frozenset(follower.connectors)
        follower.configs.is_broken = True
        site.topic.change([*CONNECTORS, "e"])
        leader.configs.latest()
        leader.member.rejoin()
        eventually(lambda: not follower.member.is_member, PATIENCE_SECONDS, "it has left")
        assert "cannot read the config topic" in (follower.member.problem or "")
        eventually(
            lambda: held <= leader.connectors, PATIENCE_SECONDS, "the other one has its work"
        )
        assert held <= follower.told("revoked")[0]
        follower.configs.is_broken = False
        site.await_all([first, second])
        assert follower.member.problem is None


@pytest.mark.thorough
def test_a_long_stop_does_not_cost_the_place(site: Site) -> None:
    """Heartbeats continue while work ends, for longer than a session."""
    with site.worker("w0", session_timeout_ms=SHORT_SESSION_MS) as first:
        site.await_all([first])
        first.slow.clear()
        with site.worker("w1") as second:
            eventually(lambda: not first.member.is_settled, PATIENCE_SECONDS, "a round begins")
            deadline = time.monotonic() + 2 * SHORT_SECONDS
            while time.monotonic() < deadline:
                assert first.member.is_member
                assert second.connectors == set()
                time.sleep(0.05)
            first.slow.set()
            site.await_all([first, second])
            assert len(first.told("revoked")) == 1


def test_a_killed_worker_is_replaced_within_its_session(
    target_cluster: LocalCluster, group: str, is_thorough: bool
) -> None:
    """`kill -9`, and the other one has everything, soon after the coordinator noticed."""
    topic = ConfigTopic(CONNECTORS)
    with (
        GroupMember(target_cluster.bootstrap_servers, group_settings(group), topic) as ours,
        GroupMemberProcess(target_cluster.bootstrap_servers, group, CONNECTORS) as other,
    ):
        eventually(
            lambda: len(ours.connectors) == 2 and other.is_writing,
            PATIENCE_SECONDS,
            "both work",
        )
        other.signal(signal.SIGKILL)
        killed, revoked = time.monotonic(), ours.told("revoked")
        eventually(lambda: len(ours.connectors) == 4, PATIENCE_SECONDS, "all of the work is ours")
        took = time.monotonic() - killed
        print(f"replaced {took:.1f} s after the kill, session {SHORT_SECONDS:g} s")
        assert not is_thorough or took < SHORT_SECONDS + 5
        assert ours.told("revoked") == revoked  # what ran here was not touched by the death


def test_a_worker_that_wakes_up_writes_nothing(
    target_cluster: LocalCluster, group: str, is_thorough: bool
) -> None:
    """Stopped for longer than its session: revoked comes first, and writing after a new place."""
    topic = ConfigTopic(CONNECTORS)
    with (
        GroupMember(target_cluster.bootstrap_servers, group_settings(group), topic) as ours,
        GroupMemberProcess(target_cluster.bootstrap_servers, group, CONNECTORS) as other,
    ):
        eventually(
            lambda: len(ours.connectors) == 2 and other.is_writing,
            PATIENCE_SECONDS,
            "both work",
        )
        for _ in range(5 if is_thorough else 1):
            other.signal(signal.SIGSTOP)
            eventually(
                lambda: len(ours.connectors) == 4, PATIENCE_SECONDS, "all of the work is ours"
            )
            before, last = len(other.lines), max(map(generation, other.lines))
            held = [line for line in other.lines if line.startswith("assigned")][-1]
            woken = steady_clock()
            other.signal(signal.SIGCONT)
            eventually(
                lambda: len(ours.connectors) == 2 and other.is_writing,
                PATIENCE_SECONDS,
                "both work again",
            )
            after = other.lines[before:]
            # What was decided before it fell asleep may still come out, once: no clock helps.
            late = [line for line in after if decided_at(line) < woken]
            assert len(late) <= 1
            after = [line for line in after if line not in late]
            assert after[0] == held.replace("assigned", "revoked"), (held, after[:5])
            assert after[1].startswith("assigned"), after[:5]
            assert min(generation(line) for line in after if line.startswith("write")) > last


@pytest.mark.thorough
def test_all_work_ends_while_the_coordinator_is_down(
    tmp_path: Path, kafka_version: str, group: str
) -> None:
    """All connectors end while ownership is unknown, and continue when it returns."""
    with LocalCluster("b", tmp_path, version=kafka_version) as cluster:
        site = Site(cluster, group)
        short = {"session_timeout_ms": SHORT_SESSION_MS}
        with site.worker("w0", **short) as first, site.worker("w1", **short) as second:
            site.await_all([first, second])
            cluster.kill()
            died = time.monotonic()
            for worker in (first, second):
                eventually(
                    lambda member=worker.member: not member.is_member, PATIENCE_SECONDS, "it doubts"
                )
            assert time.monotonic() - died < SHORT_SECONDS + 1
            eventually(lambda: site.ground.running == {}, 5.0, "all work has ended")
            eventually(lambda: first.member.problem, PATIENCE_SECONDS, "it says why")
            for broker in cluster.brokers:
                broker.start()
            site.await_all([first, second])
            assert (first.member.problem, second.member.problem) == (None, None)


@pytest.mark.thorough
def test_a_killed_coordinator_costs_no_member_its_membership(
    tmp_path: Path, kafka_version: str, group: str
) -> None:
    """Another broker takes over within the session: the same generation, and nothing stops."""
    with LocalCluster("c", tmp_path, brokers=3, version=kafka_version) as cluster:
        site = Site(cluster, group)
        with site.worker("w0") as first, site.worker("w1") as second:
            site.await_all([first, second])
            before = first.member.generation
            connection = ConnectionSettings("c", tuple(cluster.bootstrap_servers.split(",")), "t")
            with closing(ClusterClient(connection)) as client:
                coordinator = client.send(find_coordinator_request(group)).node_id
            told = [list(worker.events) for worker in (first, second)]
            next(b for b in cluster.brokers if b.node_id == coordinator).kill()
            deadline = time.monotonic() + SESSION_MS / 1000 + 5
            while time.monotonic() < deadline:
                assert first.member.is_member
                assert second.member.is_member
                time.sleep(0.1)
            assert [list(worker.events) for worker in (first, second)] == told
            assert first.member.generation == second.member.generation == before
            site.topic.change(["a"])
            second.configs.latest()
            second.member.rejoin()
            site.await_all([first, second])


def test_stopping_does_not_wait_for_others(site: Site) -> None:
    """A round that waits for a member that does not come holds nobody."""
    metadata = WorkerMetadata("http://silent:8083/", 1)
    how = JoinParameters(PROTOCOL_TYPE, {PROTOCOL: metadata.encode()}, ENDLESS_MS, ENDLESS_MS)
    connection = ConnectionSettings("connect", (site.cluster.bootstrap_servers,), "silent")
    with CoordinatorClient(connection, site.group) as silent:
        names: list[str] = []
        joined = eventually(
            lambda: silent.join("", how, names.append),
            PATIENCE_SECONDS,
            "the silent one is in",
            not_yet=(Exception,),
        )
        assert joined.is_leader
        assert names == [joined.member_id] * 2
        with site.worker("w0") as worker:
            eventually(lambda: worker.member.member_id, PATIENCE_SECONDS, "it has a name")
            time.sleep(0.5)
            assert not worker.member.is_member
            assert worker.member.stop(PATIENCE_SECONDS)  # the other one would wait for longer
        silent.leave(joined.member_id)


def test_a_worker_stands_by_while_others_have_its_group(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """It says why and what to do, once in the log, and takes over when the others have left."""
    caplog.set_level(logging.INFO, logger="sparkmirror.connect")
    metadata = WorkerMetadata("http://java:8083/", 1)
    how = JoinParameters(PROTOCOL_TYPE, {"sessioned": metadata.encode()}, ENDLESS_MS, ENDLESS_MS)
    connection = ConnectionSettings("connect", (site.cluster.bootstrap_servers,), "java")
    with CoordinatorClient(connection, site.group) as java:
        joined = eventually(
            lambda: java.join("", how, lambda _: None),
            PATIENCE_SECONDS,
            "the other one is in",
            not_yet=(Exception,),
        )
        java.sync(joined, how, {})
        with site.worker("w0") as worker, site.worker("w1") as second:
            for one in (worker, second):
                found = eventually(
                    lambda member=one.member: member.problem, PATIENCE_SECONDS, "it says so"
                )
                assert f"use group '{site.group}' on cluster 'connect'" in found, found
                assert "another group.id" in found
            tried = worker.member.error
            eventually(
                lambda: worker.member.error not in {tried, None}, PATIENCE_SECONDS, "another try"
            )
            assert java.heartbeat(joined.member_id, joined.generation) == 0  # nobody disturbed it
            assert not worker.member.is_member
            assert worker.events == []
            java.leave(joined.member_id)
            site.await_all([worker, second])
            assert worker.member.problem is None
            with pytest.raises(BrokerError, match=r"\(23\)"):
                java.join("", how, lambda _: None)
            site.await_all([worker, second])
    for sentence in ("is on standby", "joined the group"):
        lines = [line for line in caplog.messages if line.startswith(site.group)]
        assert sum(sentence in line for line in lines) == 2, lines  # one for each worker


def test_two_flows_in_one_group_run_both(site: Site) -> None:
    """Two aliases of one cluster: the leader gives each member its own, and a twin stands by."""

    def runs(**wanted: str) -> None:
        eventually(
            lambda: site.ground.running == wanted, PATIENCE_SECONDS, f"{wanted}, no {site.ground}"
        )
        assert site.ground.faults == []

    with site.pair("first", "p"), ExitStack() as others:
        runs(p="first")
        with site.pair("second", "q") as second:
            runs(p="first", q="second")
            others.enter_context(site.pair("twin", "q"))
            eventually(lambda: second.member.is_settled, PATIENCE_SECONDS, "nothing moves")
            runs(p="first", q="second")
        runs(p="first", q="twin")


def test_workers_and_flows_are_never_in_one_group(site: Site) -> None:
    """They would be given each other's work; the second stands by, and says why."""
    with site.pair("first", "p") as pair:
        eventually(lambda: pair.connectors == {"p"}, PATIENCE_SECONDS, "the pair runs")
        with site.worker("w0") as worker:
            found = eventually(lambda: worker.member.problem, PATIENCE_SECONDS, "it says so")
            assert "`sparkmirror run`" in found
            assert pair.connectors == {"p"}
            assert pair.member.stop(PATIENCE_SECONDS)
            site.await_all([worker])


def test_what_the_brokers_refuse_is_reported(site: Site) -> None:
    """A session that is too short for them: the worker says which key, and keeps trying."""
    with site.worker("w0", session_timeout_ms=100) as worker:
        found = eventually(lambda: worker.member.problem, PATIENCE_SECONDS, "it says so")
        assert "INVALID_SESSION_TIMEOUT" in found.upper().replace(" ", "_"), found
        assert "session.timeout.ms" in found
        assert (worker.member.is_member, worker.member.leader_url) == (False, None)


@pytest.mark.thorough
def test_generations_only_rise(site: Site) -> None:
    """Whoever is told of one has not been told of a later one before."""
    with site.worker("w0") as first:
        seen: list[int] = []
        for number in range(3):
            with site.worker(f"w{number + 1}") as other:
                site.await_all([first, other])
                seen.append(first.member.generation)
    assert all(before < after for before, after in pairwise(seen))
