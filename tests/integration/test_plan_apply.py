# SPDX-License-Identifier: Apache-2.0
"""`plan` touches nothing and tells all; `apply` does exactly that, or refuses."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import admin as confluent
from confluent_kafka.admin import ConfigResource
from typer.testing import CliRunner

from sparkmirror.cli.main import app
from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.formats.mm2_records import OffsetSync
from sparkmirror.kafka.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from sparkmirror.model import TopicPartition
from support.clients.acls import AUTHORIZER, acl_binding, acls, grant, revoke
from support.clients.cluster_snapshot import snapshot
from support.clients.consumer_groups import commit, committed
from support.clients.librdkafka import (
    Record,
    admin,
    create_topics,
    delete_topic,
    grow_topic,
    numbered,
    produce,
    topic_partitions,
    topics,
)
from support.clusters.topic_histories import alter_configs, set_configs
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess, command
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

RECORDS = 1_000
QUESTION = b"[y/N]"
EVERYTHING = AclBinding(
    ResourceType.CLUSTER,
    "kafka-cluster",
    PatternType.LITERAL,
    "User:ANONYMOUS",
    "*",
    Operation.ALL,
    Permission.ALLOW,
)
RESOURCES = (
    (ResourceType.CLUSTER, "kafka-cluster"),
    (ResourceType.TOPIC, "*"),
    (ResourceType.GROUP, "*"),
)


@dataclass(frozen=True, slots=True)
class Ground:
    """Two clusters, a file, topics that nobody else uses."""

    file: Path
    alias: str
    topic: str
    source: LocalCluster
    target: LocalCluster

    @property
    def remote(self) -> str:
        """The topic's name on the target."""
        return f"{self.alias}.{self.topic}"

    @property
    def far(self) -> str:
        """The target's alias."""
        return f"{self.alias}-far"

    @property
    def flow(self) -> str:
        """The flow's name."""
        return f"{self.alias}->{self.far}"

    @property
    def out(self) -> Path:
        """Where plans go."""
        return self.file.with_name("plan.json")

    def snapshots(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """All that both clusters show."""
        names = self.alias, self.topic, "heartbeats"
        return snapshot(self.source, *names), snapshot(self.target, *names)


@pytest.fixture
def ground(source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path) -> Ground:
    """One topic with records, a file that mirrors it, and nothing on the target."""
    alias, topic = unique_name("plan"), unique_name("orders")
    create_topics(source_cluster, {topic: 2}, {"retention.ms": "7200000"})
    produce(source_cluster, topic, numbered(RECORDS, 2))
    return Ground(
        write_file(tmp_path, alias, topic, source_cluster, target_cluster),
        alias,
        topic,
        source_cluster,
        target_cluster,
    )


def write_file(
    directory: Path, alias: str, topic: str, source: LocalCluster, target: LocalCluster, *more: str
) -> Path:
    """A file that mirrors one topic, its configs and its groups."""
    flow = f"{alias}->{alias}-far"
    return mirror_file(
        directory,
        {alias: source, f"{alias}-far": target},
        f"{flow}.enabled = true",
        f"{flow}.topics = {topic}.*",
        f"{flow}.groups = {alias}-.*",
        f"{flow}.sync.group.offsets.enabled = true",
        f"{alias}-far->{alias}.emit.heartbeats.enabled = false",
        "heartbeats.replication.enabled = false",  # those of other tests are not counted
        *more,
    )


def sparkmirror(*words: str | Path, code: int = 0) -> str:
    """What a command prints, errors included, in this process."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, done.output
    return done.output


def planned(ground: Ground) -> dict[str, Any]:
    """The plan of the flow, as JSON."""
    document = json.loads(sparkmirror("plan", ground.file, "--json"))
    (flow,) = document["flows"]
    return dict(flow)


def doings(flow: dict[str, Any]) -> list[str]:
    """What each action does."""
    return [action["do"] for action in flow["actions"]]


def plan_and_apply(ground: Ground) -> None:
    """Carry out what there is to do."""
    sparkmirror("plan", ground.file, "--out", ground.out)
    assert " done, 0 failed." in sparkmirror("apply", ground.out, "--yes")


def await_nothing_left(ground: Ground) -> dict[str, Any]:
    """Wait until brokers show what was applied, and return a plan that has nothing to do."""

    def found() -> dict[str, Any]:
        flow = planned(ground)
        assert flow["actions"] == []
        return flow

    return eventually(found, PATIENCE_SECONDS, "nothing is left to do")


def remove(cluster: LocalCluster, *names: str) -> None:
    """Delete topics and wait until they are gone."""
    for name in names:
        delete_topic(cluster, name)
    eventually(lambda: not topics(cluster).keys() & {*names}, PATIENCE_SECONDS, f"{names} are gone")


def await_partitions(cluster: LocalCluster, topic: str, count: int) -> None:
    """Wait until the broker shows so many partitions; 0 where there is no such topic."""
    eventually(
        lambda: topic_partitions(cluster, topic) == count,
        PATIENCE_SECONDS,
        f"{topic} has {count} partitions",
    )


def test_a_plan_touches_nothing_and_after_it_was_applied_nothing_is_left(ground: Ground) -> None:
    """Every topic that a run needs is in it, and what there is to copy."""
    before = ground.snapshots()
    text = sparkmirror("plan", ground.file, "--out", ground.out)
    assert ground.snapshots() == before
    assert f"{ground.flow}\tcreate\ttopic {ground.remote} on {ground.far}\t2 partitions" in text
    assert "retention.ms=7200000" in text
    assert f"{RECORDS:,} records (" in text
    plan = json.loads(ground.out.read_text())
    assert (plan["version"], plan["file"]) == (1, str(ground.file.resolve()))
    assert plan["flows"][0]["forecast"]["records"] == RECORDS
    assert plan["flows"][0]["forecast"]["bytes"] > 0
    assert " done, 0 failed." in sparkmirror("apply", ground.out, "--yes")
    again = await_nothing_left(ground)
    await_partitions(ground.target, ground.remote, 2)
    assert set_configs(ground.target, ground.remote)["retention.ms"] == "7200000"
    assert topics(ground.source)[f"mm2-offset-syncs.{ground.far}.internal"] == 1
    assert again["forecast"]["records"] == RECORDS
    assert "Nothing to change." in sparkmirror("plan", ground.file)
    assert f"{ground.out} is done" in sparkmirror("apply", ground.out, "--yes")


def test_topics_that_match_nothing_are_noticed(ground: Ground) -> None:
    ground.file.write_text(f"{ground.file.read_text()}{ground.flow}.topics = {ground.topic}x\n")
    (sentence,) = [one for one in planned(ground)["notices"] if "matches no topic" in one]
    assert sentence.endswith(
        f"matches no topic of cluster '{ground.alias}'. The nearest name is '{ground.topic}'."
    )


def test_plans_include_topics_created_by_other_flows(ground: Ground) -> None:
    """Heartbeats of one direction are mirrored by the other: still one plan is enough."""
    text = ground.file.read_text()
    back = f"{ground.far}->{ground.alias}"
    text = text.replace(f"{back}.emit.heartbeats.enabled = false", f"{back}.enabled = true")
    text = text.replace("heartbeats.replication.enabled = false", "")
    text += f"{back}.topics = {ground.remote}.*\n"
    text += "replication.policy.separator = -x-\n"  # heartbeats of other tests are not ours
    ground.file.write_text(text)
    plan_and_apply(ground)

    def left() -> list[list[str]]:
        flows = json.loads(sparkmirror("plan", ground.file, "--json"))["flows"]
        return [doings(one) for one in flows]

    eventually(lambda: left() == [[], []], PATIENCE_SECONDS, "nothing is left to do")
    assert f"{ground.alias}-x-heartbeats" in topics(ground.target)
    assert f"{ground.far}-x-heartbeats" in topics(ground.source)


def test_what_changed_in_between_is_refused_by_name(ground: Ground) -> None:
    """Nothing at all is done then, also what would still fit."""
    sparkmirror("plan", ground.file, "--out", ground.out)
    create_topics(ground.target, {ground.remote: 1})
    before = ground.snapshots()
    refusal = sparkmirror("apply", ground.out, "--yes", code=3)
    assert ground.snapshots() == before
    assert f"create topic {ground.remote} on {ground.far}: 2 partitions" in refusal
    assert "sparkmirror plan again" in refusal


def test_a_plan_is_refused_once_the_file_says_something_else(ground: Ground) -> None:
    """Or has lost the flow, or names another cluster."""
    sparkmirror("plan", ground.file, "--out", ground.out)
    text = ground.file.read_text()
    ground.file.write_text(text + f"{ground.flow}.replication.factor = 1\n")
    assert "have changed" in sparkmirror("apply", ground.out, "--yes", code=3)
    ground.file.write_text(text.replace(f"{ground.flow}.enabled = true", ""))
    sparkmirror("apply", ground.out, "--yes", code=3)
    swapped = text.replace(ground.target.bootstrap_servers, ground.source.bootstrap_servers)
    ground.file.write_text(swapped)
    assert "is another cluster" in sparkmirror("apply", ground.out, "--yes", code=3)
    elsewhere = ground.file.with_name("moved.properties")
    elsewhere.write_text(text)
    sparkmirror("apply", ground.out, "--yes", "--file", elsewhere)
    await_partitions(ground.target, ground.remote, 2)


def test_growth_and_new_topics_are_planned_beside_what_is_there(ground: Ground) -> None:
    """What is only in the newer plan is left alone and mentioned."""
    plan_and_apply(ground)
    await_nothing_left(ground)
    grow_topic(ground.source, ground.topic, 5)
    sparkmirror("plan", ground.file, "--out", ground.out)
    create_topics(ground.source, {f"{ground.topic}-new": 1})
    done = sparkmirror("apply", ground.out, "--yes")
    assert f"skipped: {ground.flow}: create topic {ground.remote}-new" in done
    await_partitions(ground.target, ground.remote, 5)
    assert topic_partitions(ground.target, f"{ground.remote}-new") == 0
    assert doings(planned(ground)) == ["create-topic"]


def drift(ground: Ground, configs: dict[str, str]) -> None:
    """Somebody else sets configs of the copy."""
    alter_configs(ground.target, ConfigResource.Type.TOPIC, ground.remote, configs)
    eventually(
        lambda: configs.items() <= set_configs(ground.target, ground.remote).items(),
        PATIENCE_SECONDS,
        f"{ground.remote} has {configs}",
    )


def test_a_drifted_config_is_planned_and_put_right(ground: Ground) -> None:
    """The plan tells what it is and what it will be; a value that moved on is refused."""
    plan_and_apply(ground)
    await_nothing_left(ground)
    drift(ground, {"retention.ms": "1234567", "max.compaction.lag.ms": "7654321"})
    (action,) = planned(ground)["actions"]
    assert action["do"] == "alter-topic"
    assert action["before"] == {"max.compaction.lag.ms": "7654321", "retention.ms": "1234567"}
    assert action["after"] == {"max.compaction.lag.ms": None, "retention.ms": "7200000"}
    sparkmirror("plan", ground.file, "--out", ground.out)
    drift(ground, {"retention.ms": "2222222"})
    assert "was 2222222" in sparkmirror("apply", ground.out, "--yes", code=3)
    plan_and_apply(ground)
    await_nothing_left(ground)
    assert set_configs(ground.target, ground.remote)["retention.ms"] == "7200000"


@pytest.fixture(scope="module")
def mirrored(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Ground:
    """Topics that were copied once, up to their ends."""
    alias, topic = unique_name("plan"), unique_name("orders")
    create_topics(source_cluster, {topic: 2, f"{topic}-gone": 1, f"{topic}-taken": 1})
    produce(source_cluster, topic, numbered(RECORDS, 2))
    produce(source_cluster, f"{topic}-gone", numbered(5))
    directory = tmp_path_factory.mktemp("mirrored")
    file = write_file(directory, alias, topic, source_cluster, target_cluster)
    with MirrorProcess(file, "--once") as mirror:
        assert mirror.wait(PATIENCE_SECONDS) == 0
    return Ground(file, alias, topic, source_cluster, target_cluster)


def test_an_idle_group_is_moved_to_the_very_record(mirrored: Ground) -> None:
    """After a copy: what is stored counts for the forecast, the map for the groups."""
    found = planned(mirrored)
    assert (found["actions"], found["forecast"]["records"]) == ([], 0)
    produce(mirrored.source, mirrored.topic, numbered(60, 2, first=RECORDS))
    group = f"{mirrored.alias}-idle"
    commit(mirrored.source, group, mirrored.topic, {0: 17, 1: 400})
    before = mirrored.snapshots()
    found = planned(mirrored)
    sparkmirror("plan", mirrored.file, "--out", mirrored.out)
    assert mirrored.snapshots() == before
    assert found["forecast"]["records"] == 60
    moves = [
        (one["do"], one["group"], one["partition"], one["before"], one["after"])
        for one in found["actions"]
    ]
    assert moves == [
        ("move-group", group, 0, None, 17),
        ("move-group", group, 1, None, 400),
    ]
    commit(mirrored.source, group, mirrored.topic, {0: 23})  # it goes on: the plan holds
    sparkmirror("apply", mirrored.out, "--yes")
    assert committed(mirrored.target, group, mirrored.remote, 2) == {0: 17, 1: 400}
    (move,) = planned(mirrored)["actions"]
    assert (move["before"], move["after"]) == (17, 23)
    sparkmirror("plan", mirrored.file, "--out", mirrored.out)
    commit(mirrored.target, group, mirrored.remote, {0: 20})
    assert "from 20 to 23" in sparkmirror("apply", mirrored.out, "--yes", code=3)
    plan_and_apply(mirrored)
    await_nothing_left(mirrored)


def test_remote_topics_are_deleted_only_if_configured(mirrored: Ground) -> None:
    """Not another topic of that name; and what comes back begins at its beginning."""
    gone, taken = f"{mirrored.remote}-gone", f"{mirrored.remote}-taken"
    remove(mirrored.source, *(f"{mirrored.topic}-{name}" for name in ("gone", "taken")))
    found = planned(mirrored)
    assert "delete-topic" not in doings(found)
    assert [one for one in found["notices"] if f"'{gone}' is kept" in one]
    file = mirrored.file.with_name("deletions.properties")
    deletions = f"{mirrored.flow}.sync.topic.deletions.enabled = true\n"
    file.write_text(mirrored.file.read_text() + deletions)
    asked = replace(mirrored, file=file)
    text = sparkmirror("plan", file, "--out", asked.out)
    assert f"{asked.flow}\tdelete\ttopic {gone} on {asked.far}" in text
    assert "2 to delete" in text
    remove(asked.target, taken)
    create_topics(asked.target, {taken: 1})  # somebody else's
    assert f"delete topic {taken}" in sparkmirror("apply", asked.out, "--yes", code=3)
    assert {gone, taken} <= topics(asked.target).keys()
    assert "not the topic that was written" in sparkmirror("plan", file, "--out", asked.out)
    assert "1 done, 0 failed." in sparkmirror("apply", asked.out, "--yes")
    eventually(
        lambda: {gone, taken} & topics(asked.target).keys() == {taken},
        PATIENCE_SECONDS,
        "the copy has followed",
    )
    assert "delete-topic" not in doings(planned(asked))
    create_topics(asked.source, {f"{asked.topic}-gone": 1})
    produce(asked.source, f"{asked.topic}-gone", numbered(8))
    to_copy = planned(asked)["forecast"]["biggest"]
    assert [one["records"] for one in to_copy if one["topic"] == f"{asked.topic}-gone"] == [8]


def test_a_cluster_out_of_reach_does_not_hide_the_others(ground: Ground) -> None:
    """Its flow is named, the other one planned, no file written; the exit code is 4."""
    lines = ground.file.read_text().replace(
        f"clusters = {ground.alias}, ", f"clusters = nobody, {ground.alias}, "
    )
    lines += f"nobody.bootstrap.servers = 127.0.0.1:1\nnobody->{ground.far}.enabled = true\n"
    lines += "nobody.admin.connect.timeout.ms = 500\n"
    ground.file.write_text(lines + "emit.heartbeats.enabled = false\n")
    text = sparkmirror("plan", ground.file, "--out", ground.out, code=4)
    assert f"cannot plan nobody->{ground.far}: Cluster 'nobody' cannot be reached" in text
    assert f"create\ttopic {ground.remote}" in text
    assert f"{ground.out} was not written" in text
    assert not ground.out.exists()
    sparkmirror("plan", ground.file, "--flow", ground.flow, "--out", ground.out)
    assert json.loads(ground.out.read_text())["notPlanned"] == []


def test_what_is_no_plan_is_rejected_with_an_error(ground: Ground) -> None:
    """Damaged, foreign, newer, or not there; and without a terminal somebody must say --yes."""
    sparkmirror("plan", ground.file, "--out", ground.out)
    assert "--yes" in sparkmirror("apply", ground.out, code=2)
    good = ground.out.read_text()
    for text, sentence in (
        (good[: len(good) // 2], "damaged"),
        ('["apples"]', "not a JSON object"),
        (good.replace('"version": 1', '"version": 2'), "its version is 2"),
        (good.replace('"do": "create-topic"', '"do": "burn-topic"'), "burn-topic"),
    ):
        ground.out.write_text(text)
        assert sentence in " ".join(sparkmirror("apply", ground.out, "--yes", code=2).split())
    sparkmirror("apply", ground.out.with_name("absent.json"), "--yes", code=2)
    assert ground.remote not in topics(ground.target)


def on_a_terminal(reply: str, *words: str | Path) -> tuple[int, str]:
    """The exit code and the output of a command that asks a question on a terminal."""
    terminal, far_end = pty.openpty()
    process = subprocess.Popen(
        [command(), *map(str, words)], stdin=far_end, stdout=far_end, stderr=far_end
    )
    os.close(far_end)
    said = b""
    with os.fdopen(terminal, "r+b", buffering=0) as line, contextlib.suppress(OSError):
        while some := line.read(4096):  # OSError: the other end is closed
            is_first = QUESTION not in said
            said += some
            if is_first and QUESTION in said:
                line.write(f"{reply}\n".encode())
    return process.wait(PATIENCE_SECONDS), said.decode()


def test_a_terminal_asks_for_confirmation(ground: Ground) -> None:
    """What is to be done is shown once more; whoever says no gets nothing."""
    sparkmirror("plan", ground.file, "--out", ground.out)
    code, said = on_a_terminal("n", "apply", ground.out)
    assert (code, "Nothing was changed." in said) == (1, True)
    assert ground.remote in said
    assert ground.remote not in topics(ground.target)
    code, said = on_a_terminal("y", "apply", ground.out)
    assert (code, "0 failed." in said) == (0, True)
    await_partitions(ground.target, ground.remote, 2)


@pytest.fixture(scope="module")
def young_cluster(
    tmp_path_factory: pytest.TempPathFactory, kafka_version: str
) -> Iterator[LocalCluster]:
    """A cluster with ACLs, of which no group has heard yet."""
    directory = tmp_path_factory.mktemp("young")
    with LocalCluster("young", directory, version=kafka_version, config=AUTHORIZER) as cluster:
        grant(cluster, *(replace(EVERYTHING, resource_type=t, name=n) for t, n in RESOURCES))
        yield cluster


@pytest.mark.thorough
def test_a_new_cluster_is_as_empty_after_a_plan_as_before(
    ground: Ground, young_cluster: LocalCluster, tmp_path: Path
) -> None:
    """Brokers create topics of their own when they are asked about groups; they are not asked."""
    group = f"{ground.alias}-idle"
    commit(ground.source, group, ground.topic, {0: 5})
    place_by_offset_syncs(ground)
    file = write_file(tmp_path, ground.alias, ground.topic, ground.source, young_cluster)
    text = file.read_text()
    before = snapshot(young_cluster)
    assert "__consumer_offsets" not in before["topics"]
    moves = [
        action
        for action in planned(replace(ground, target=young_cluster))["actions"]
        if action["do"] == "move-group"
    ]
    assert [(move["group"], move["after"]) for move in moves] == [(group, 3)]
    assert snapshot(young_cluster) == before
    back = text.replace(f"{ground.flow}.", f"{ground.far}->{ground.alias}.")
    file.write_text(f"{back}{ground.far}->{ground.alias}.initial.offsets.group = {group}\n")
    sparkmirror("plan", file)
    assert snapshot(young_cluster) == before


def place_by_offset_syncs(ground: Ground) -> None:
    """What Java MirrorMaker 2 leaves on the source: the group can be placed on the target."""
    syncs = f"mm2-offset-syncs.{ground.far}.internal"
    create_topics(ground.source, {syncs: 1}, {"cleanup.policy": "compact"})
    sync = OffsetSync(TopicPartition(ground.topic, 0), 4, 2)
    produce(ground.source, syncs, [(0, Record(sync.key(), sync.value()))])


@pytest.mark.thorough
def test_rights_are_granted_and_taken_away_as_planned(
    young_cluster: LocalCluster, tmp_path: Path
) -> None:
    """Only those that came from us; both aliases are the same cluster here."""
    alias, topic = unique_name("plan"), unique_name("orders")
    create_topics(young_cluster, {topic: 1})
    flow = f"{alias}->{alias}-far"
    removals = f"{flow}.sync.acls.removals.enabled = true"
    no_heartbeats = f"{flow}.heartbeats.replication.enabled = false"
    file = write_file(tmp_path, alias, topic, young_cluster, young_cluster, removals, no_heartbeats)
    ground = Ground(file, alias, topic, young_cluster, young_cluster)
    principal = f"User:{alias}"
    right = AclBinding(
        ResourceType.TOPIC,
        topic,
        PatternType.LITERAL,
        principal,
        "*",
        Operation.READ,
        Permission.ALLOW,
    )
    carried = replace(right, name=ground.remote)
    grant(young_cluster, right)
    before = snapshot(young_cluster)
    found = planned(ground)
    assert snapshot(young_cluster) == before
    grants = [action for action in found["actions"] if action["do"] == "grant-acl"]
    assert grants == [{"do": "grant-acl", **carried.as_dict()}]
    plan_and_apply(ground)
    await_nothing_left(ground)
    assert acls(young_cluster, principal) == {right, carried}
    strangers = replace(carried, operation=Operation.DESCRIBE)
    grant(young_cluster, strangers)
    revoke(young_cluster, right)
    text = sparkmirror("plan", file, "--out", ground.out)
    assert f"{flow}\trevoke\tACL on {ground.far}\tallow {principal} READ" in text
    assert "1 to revoke" in text
    sparkmirror("apply", ground.out, "--yes")
    await_nothing_left(ground)
    assert acls(young_cluster, principal) == {strangers}


@pytest.mark.thorough
def test_what_we_may_not_see_is_reported_and_the_rest_is_planned(
    young_cluster: LocalCluster, ground: Ground
) -> None:
    """Sizes of logs and ACLs need the right to describe the cluster."""
    here = replace(ground, source=young_cluster)
    create_topics(young_cluster, {ground.topic: 1})
    produce(young_cluster, ground.topic, numbered(7))
    write_file(ground.file.parent, ground.alias, ground.topic, young_cluster, ground.target)
    assert "7 records (" in sparkmirror("plan", here.file)
    may_not = replace(EVERYTHING, operation=Operation.DESCRIBE, permission=Permission.DENY)
    with closing_door(young_cluster, may_not):
        eventually(
            lambda: "7 records to copy, of unknown size." in sparkmirror("plan", here.file),
            PATIENCE_SECONDS,
            "the sizes are not told any more",
        )
        found = planned(here)
    assert "create-topic" in doings(found)
    assert found["forecast"]["biggest"] == [{"topic": here.topic, "records": 7, "bytes": None}]
    said = " ".join(found["notices"])
    assert "The number of bytes to copy is unknown" in said
    assert "ACL sync needs DESCRIBE" in said


@contextlib.contextmanager
def closing_door(cluster: LocalCluster, denial: AclBinding) -> Iterator[None]:
    """Denies us something for a while; whether it is there yet nobody may see."""
    client = admin(cluster)
    for future in client.create_acls([acl_binding(confluent.AclBinding, denial)]).values():
        future.result(PATIENCE_SECONDS)
    try:
        yield
    finally:
        for future in client.delete_acls(
            [acl_binding(confluent.AclBindingFilter, denial)]
        ).values():
            future.result(PATIENCE_SECONDS)
