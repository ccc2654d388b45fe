# SPDX-License-Identifier: Apache-2.0
"""Two workers of one group: they share connectors, either answers everything, one is killed.

Most tests share a group and two mirrors, for Spark takes its time to start; the last ones kill. The
long versions are in tests/thorough.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from support.clients.librdkafka import numbered, produce
from support.clients.load_generator import observed
from support.measurements import measured
from support.mirrors.worker_group import (
    LEADS,
    PARTITIONS,
    MirroredTopic,
    WorkerGroup,
    is_accepted,
    retry_after_rebalance,
    seconds_until,
)
from support.mirrors.worker_process import WorkerProcess
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

SESSION_MS = "30000"  # no pause of a busy machine ends it
SHORT_SESSION_MS = "8000"  # of the first worker, which leads: it will be killed


@pytest.fixture(scope="module")
def group(
    target_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerGroup]:
    """Two workers, one after the other, so that the first one leads."""
    with WorkerGroup(
        target_cluster, tmp_path_factory.mktemp("workers"), session_timeout_ms=SESSION_MS
    ) as made:
        made.start(session_timeout_ms=SHORT_SESSION_MS, heartbeat_interval_ms="1000")
        made.of(1)
        made.of(2)
        yield made


@pytest.fixture(scope="module")
def mirrors(
    group: WorkerGroup, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> list[MirroredTopic]:
    """One on each worker; they may still be starting."""
    made = [MirroredTopic.made(source_cluster, target_cluster) for _ in range(2)]
    asked = group.of(2)[0]
    for mirror in made:
        asked.create(mirror.name, mirror.config)
    for worker in group.running:  # further connectors are shared by their number, of any class
        worker.process.await_log(" 1 connector here", PATIENCE_SECONDS)
    return made


@pytest.mark.thorough
def test_two_that_start_at_the_same_instant_have_one_leader(
    target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """The group says so in each of its generations, and one of them writes."""
    with WorkerGroup(target_cluster, tmp_path, session_timeout_ms=SESSION_MS) as group:
        group.start(2)
        one, other = group.of(2)
        leader = group.leader()
        leader.process.await_log(LEADS, PATIENCE_SECONDS)
        assert all(len(urls) == 1 for urls in group.leaders().values()), group.leaders()
        assert [LEADS in worker.process.log for worker in (one, other)].count(True) == 1
        assert group.session_keys() == 1


def test_either_worker_answers_every_request(
    group: WorkerGroup, mirrors: list[MirroredTopic]
) -> None:
    """Asked is the one that does not run the connector, and once it does not lead either."""
    leader = group.leader()
    follower = group.other_than(leader)
    names = [unique_name("beat") for _ in range(4)]
    for asked, name in zip((leader, follower) * 2, names, strict=True):
        asked.create(name, group.beat(), "PAUSED" if name == names[0] else None)
    leader.request_ok("PUT", f"/connectors/{names[0]}/resume")
    group.await_shares(follower, 3, 3)  # with the mirrors
    shares = group.shares(follower, names)
    assert group.shares(leader, names) == shares
    everything = sorted([*names, *(one.name for one in mirrors)])
    assert follower.get("/connectors") == leader.get("/connectors") == everything
    for asked, owner in ((follower, leader), (leader, follower)):
        ask_everything(asked, owner, min(shares[owner.worker_id]))
    for asked, name in zip((leader, follower) * 2, names, strict=True):
        asked.request_ok("DELETE", f"/connectors/{name}")
        for worker in (leader, follower):
            assert worker.request("GET", f"/connectors/{name}/status")[0] == 404
            assert name not in worker.get("/connectors")


def ask_everything(asked: WorkerProcess, owner: WorkerProcess, name: str) -> None:
    """Everything that a client can ask about a connector, and what the other worker knows then."""
    path = f"/connectors/{name}"
    config = asked.get(f"{path}/config")
    config["emit.heartbeats.interval.seconds"] = "2"
    assert asked.request_ok("PUT", f"{path}/config", config)["config"] == config
    assert owner.get(f"{path}/config") == config
    asked.request_ok("PATCH", f"{path}/config", {"emit.heartbeats.interval.seconds": "1"})
    assert owner.get(path)["config"] == config | {"emit.heartbeats.interval.seconds": "1"}
    asked.await_states(name, "RUNNING", "RUNNING")
    for verb, state in (("pause", "PAUSED"), ("resume", "RUNNING")):
        asked.request_ok("PUT", f"{path}/{verb}")
        owner.await_states(name, state, state)
    for restart in ("restart", "tasks/0/restart"):
        assert retry_after_rebalance(asked, "POST", f"{path}/{restart}")[0] == 204
        owner.await_states(name, "RUNNING", "RUNNING")
    code, found = retry_after_rebalance(asked, "POST", f"{path}/restart?includeTasks=true")
    assert (code, found["connector"]["state"]) == (202, "RESTARTING")
    asked.request_ok("PUT", f"{path}/stop")
    owner.await_states(name, "STOPPED")
    aliases = {
        "sourceClusterAlias": config["source.cluster.alias"],
        "targetClusterAlias": config["target.cluster.alias"],
    }
    entry = {"partition": aliases, "offset": {"offset": 0}}
    assert retry_after_rebalance(asked, "PATCH", f"{path}/offsets", {"offsets": [entry]})[0] == 200
    assert owner.get(f"{path}/offsets") == {"offsets": [entry]}
    assert retry_after_rebalance(asked, "DELETE", f"{path}/offsets")[0] == 200
    assert owner.get(f"{path}/offsets") == {"offsets": []}
    asked.request_ok("PUT", f"{path}/resume")
    owner.await_states(name, "RUNNING", "RUNNING")


@pytest.mark.thorough
def test_a_deleted_connector_leaves_no_status(
    group: WorkerGroup, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    """Though it ran where the leader, who deletes it, has not heard of it before."""
    group.of(2)
    follower = group.other_than(group.leader())
    made: list[MirroredTopic] = []
    while not made or group.owner(made[-1].name, follower) is not follower:
        made.append(MirroredTopic.made(source_cluster, target_cluster))
        follower.create(made[-1].name, made[-1].config)
        follower.await_states(made[-1].name, "RUNNING", "RUNNING")
    name, config = made[-1].name, made[-1].config
    follower.request_ok("DELETE", f"/connectors/{name}")
    follower.create(name, config, "STOPPED")
    seen = [worker.request("GET", f"/connectors/{name}/status") for worker in group.running]
    assert "RUNNING" not in [found["connector"]["state"] for code, found in seen if code == 200]
    follower.await_states(name, "STOPPED")
    for one in made:
        follower.request_ok("DELETE", f"/connectors/{one.name}")


def test_a_connector_that_is_made_again_begins_where_it_ended(
    group: WorkerGroup, mirrors: list[MirroredTopic]
) -> None:
    """Nobody ever sees what the deleted one did, and no record comes twice."""
    one, other = group.running
    mirror = mirrors[0]
    status = f"/connectors/{mirror.name}/status"
    produce(mirror.source, mirror.topic, numbered(500, PARTITIONS))
    eventually(lambda: mirror.copied() == 500, PATIENCE_SECONDS, "records arrive")
    other.await_states(mirror.name, "RUNNING", "RUNNING")
    other.request_ok("DELETE", f"/connectors/{mirror.name}")
    assert [worker.request("GET", status)[0] for worker in (one, other)] == [404, 404]

    one.create(mirror.name, mirror.config, "STOPPED")
    seen = set()

    def stopped() -> bool:
        answers = [worker.request("GET", status) for worker in (one, other)]
        states = [found["connector"]["state"] for code, found in answers if code == 200]
        seen.update(states)
        return states == ["STOPPED", "STOPPED"]

    eventually(stopped, PATIENCE_SECONDS, "it is stopped")
    assert seen == {"STOPPED"}
    produce(mirror.source, mirror.topic, numbered(100, PARTITIONS, first=500))
    other.request_ok("PUT", f"/connectors/{mirror.name}/resume")
    eventually(lambda: mirror.copied() >= 600, PATIENCE_SECONDS, "more records arrive")
    assert mirror.check() == 600


def test_a_killed_leader_is_replaced(group: WorkerGroup, mirrors: list[MirroredTopic]) -> None:
    """Its connector continues elsewhere, the other one just continues; nothing is lost or twice."""
    leader = group.leader()
    survivor = group.other_than(leader)
    names = sorted(one.name for one in mirrors)
    group.await_shares(survivor, 1, 1)
    orphan, other = sorted(mirrors, key=lambda one: group.owner(one.name, survivor) is survivor)
    with orphan.load(200), other.load(200):
        for mirror in mirrors:
            mirror.await_more()
        epoch = group.epoch(survivor, other)
        with observed(other.target, other.remote) as gaps:
            began = time.monotonic()
            leader.kill()
            assert survivor.get("/connectors") == names
            write_seconds = seconds_until(
                began,
                lambda: is_accepted(survivor, orphan.name, orphan.config),
                "a change is carried out",
            )
            group.await_shares(survivor, 2)
            orphan.await_more()
            eventually(lambda: gaps.records, PATIENCE_SECONDS, "the other one goes on")
            measured(
                f"after a leader was killed: a change after {write_seconds:.1f} s, records after "
                f"{time.monotonic() - began:.1f} s"
            )
        assert group.leader() is survivor
        assert group.epoch(survivor, other) == epoch
        measured(f"the longest pause of the flow that went on: {gaps.longest_seconds:.1f} s")
    assert all(mirror.check() > 0 for mirror in mirrors)


@pytest.mark.thorough
def test_a_new_worker_gets_connectors_without_restarting_the_others(
    group: WorkerGroup, mirrors: list[MirroredTopic]
) -> None:
    """One of two connectors moves to it, and the leader stays."""
    group.of(2)
    survivor = group.leader()
    assert group.other_than(survivor).process.terminate()[0] == 0
    group.await_shares(survivor, 2)
    for mirror in mirrors:
        survivor.await_states(mirror.name, "RUNNING", "RUNNING")
    epochs = {one.name: group.epoch(survivor, one) for one in mirrors}
    group.of(2)
    newcomer = group.other_than(survivor)
    newcomer.process.await_log(" 1 connector here", PATIENCE_SECONDS)
    [stayed] = eventually(
        lambda: group.shares(newcomer).get(survivor.worker_id), PATIENCE_SECONDS, "one stayed"
    )
    [mirror] = [one for one in mirrors if one.name == stayed]
    assert group.epoch(survivor, mirror) == epochs[stayed]
    assert group.leader() is survivor
