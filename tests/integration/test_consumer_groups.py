# SPDX-License-Identifier: Apache-2.0
"""Consumer groups move: checkpoints, group sync, the reasons why not, and parking."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sparkmirror.cli.main import app
from sparkmirror.client import Fit, MirrorClient
from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.errors import ArgumentError
from support.clients.consumer_groups import NO_OFFSET, commit, committed, consumer, process
from support.clients.librdkafka import await_copy, create_topics, end_offsets, numbered, produce
from support.clients.load_generator import Load
from support.clients.offset_translations import partition_records
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

PARTITIONS = 2
RECORDS = 1_000
PROCESSED = 300  # by a group before it is parked


@dataclass(frozen=True, slots=True)
class Flow:
    """A running mirror of one topic."""

    file: Path
    alias: str
    topic: str
    source: LocalCluster
    target: LocalCluster

    @property
    def remote(self) -> str:
        """The topic's name on the target."""
        return f"{self.alias}.{self.topic}"


@pytest.fixture(scope="module")
def flow(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Flow]:
    """Groups are synced every second."""
    alias, topic = unique_name("groups"), unique_name("orders")
    topics = {topic: PARTITIONS, f"{topic}-load": PARTITIONS, f"{topic}-other": 1}
    create_topics(source_cluster, {**topics, f"other-{topic}": 1})
    produce(source_cluster, topic, numbered(RECORDS, PARTITIONS))
    produce(source_cluster, f"other-{topic}", numbered(10))
    file = mirror_file(
        tmp_path_factory.mktemp("groups"),
        {alias: source_cluster, "target": target_cluster},
        f"{alias}->target.enabled = true",
        f"{alias}->target.topics = {topic}.*",
        f"{alias}->target.groups = {alias}-.*",
        f"{alias}->target.emit.checkpoints.interval.seconds = 1",
        f"{alias}->target.sync.group.offsets.enabled = true",
        f"{alias}->target.sync.group.offsets.interval.seconds = 1",
        f"{alias}->target.refresh.groups.interval.seconds = 1",
        "target.offset.flush.interval.ms = 1000",
    )
    with MirrorProcess(file) as mirror:
        mirror.await_log(f"{alias}->target: RUNNING", PATIENCE_SECONDS)
        flow = Flow(file, alias, topic, source_cluster, target_cluster)
        await_copy(source_cluster, topic, target_cluster, flow.remote, PATIENCE_SECONDS)
        await_map(flow)
        yield flow


def await_map(flow: Flow) -> None:
    """Wait until the offset map holds all that was copied."""
    with MirrorClient.from_file(flow.file, "target") as client:

        def reaches_the_end() -> bool:
            last = RECORDS // PARTITIONS - 1
            found = [client.translate(flow.topic, n, last, flow.alias) for n in range(PARTITIONS)]
            return all(one is not None and one.fit is Fit.EXACT for one in found)

        eventually(reaches_the_end, PATIENCE_SECONDS, "the last records are in the map")


def await_round(flow: Flow) -> None:
    """Wait until groups have been synced that were committed just now."""
    group = unique_name(f"{flow.alias}-later")
    commit(flow.source, group, flow.topic, {0: 7})
    eventually(
        lambda: committed(flow.target, group, flow.remote, 1) == {0: 7},
        PATIENCE_SECONDS,
        "a group that was committed later is synced",
    )


def sparkmirror(*words: str, code: int = 0) -> str:
    """What a command prints, in this process; test_failover.py has real ones."""
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == code, done.output
    return done.stdout if code == 0 else done.stderr


def states(flow: Flow, group: str) -> dict[str, dict[str, Any]]:
    """What `groups` says, by topic partition."""
    found = json.loads(sparkmirror("groups", str(flow.file), "--group", group, "--json"))
    return {f"{one['topic']}-{one['partition']}": one for one in found}


def test_an_idle_group_is_synced_to_the_very_record(flow: Flow) -> None:
    """And continues being synced as it moves."""
    group = f"{flow.alias}-idle"
    for offsets in ({0: 17, 1: 400}, {0: 23, 1: 500}):
        commit(flow.source, group, flow.topic, offsets)
        eventually(
            lambda offsets=offsets: committed(flow.target, group, flow.remote, 2) == offsets,
            PATIENCE_SECONDS,
            "the group stands on the target where it stands on the source",
        )
    assert {one["state"] for one in states(flow, group).values()} == {"synced"}


def test_an_idle_group_is_never_moved_back(flow: Flow) -> None:
    """And the command says so."""
    group = f"{flow.alias}-ahead"
    commit(flow.target, group, flow.remote, {0: 300})
    commit(flow.source, group, flow.topic, {0: 100})
    eventually(
        lambda: states(flow, group)[f"{flow.topic}-0"]["state"] == "ahead on target",
        PATIENCE_SECONDS,
        "the state says it",
    )
    await_round(flow)
    assert committed(flow.target, group, flow.remote, 1) == {0: 300}


def test_a_group_with_members_on_the_target_is_never_touched(flow: Flow, protocol: str) -> None:
    """Whichever protocol it speaks; when they are gone it is synced."""
    group = f"{flow.alias}-active-{protocol}"
    with closing(consumer(flow.target, group, group_protocol=protocol)) as member:
        member.subscribe([flow.remote])
        eventually(lambda: member.poll(0.5) is not None, PATIENCE_SECONDS, "the member consumes")
        commit(flow.source, group, flow.topic, {0: 200})
        eventually(
            lambda: states(flow, group)[f"{flow.topic}-0"]["state"] == "active on target",
            PATIENCE_SECONDS,
            "the state says it",
        )
        await_round(flow)
        member.poll(0.1)
        assert committed(flow.target, group, flow.remote, 1) == {0: NO_OFFSET}
    eventually(
        lambda: committed(flow.target, group, flow.remote, 1) == {0: 200},
        PATIENCE_SECONDS,
        "the group is synced once nobody is there",
    )


def test_what_cannot_be_moved_has_a_reason(flow: Flow) -> None:
    """A filtered topic, and one of which nothing was mirrored."""
    group = f"{flow.alias}-reasons"
    commit(flow.source, group, f"other-{flow.topic}", {0: 5})
    commit(flow.source, group, f"{flow.topic}-other", {0: 0})
    found = states(flow, group)
    assert found[f"other-{flow.topic}-0"]["state"] == "topic filtered"
    assert found[f"{flow.topic}-other-0"]["state"] == "not mirrored"
    assert "no record" in found[f"{flow.topic}-other-0"]["reason"]
    lines = sparkmirror("groups", str(flow.file), "--group", group).splitlines()
    assert all(len(line.split("\t")) == 8 for line in lines)
    words = ["groups", str(flow.file), "--group", "nobody"]
    assert "has committed no offset" in sparkmirror(*words, code=1)


def test_offsets_are_translated_by_the_command(flow: Flow) -> None:
    """Both ways."""
    here = partition_records(flow.source, (flow.topic, 0))[flow.topic, 0]
    there = partition_records(flow.target, (flow.remote, 0))[flow.remote, 0]
    words = ["offsets", "translate", str(flow.file), "--topic", flow.topic, "--offset"]
    for offset in (0, 123, RECORDS // PARTITIONS - 1):
        found = json.loads(sparkmirror(*words, str(offset), "--json"))
        assert found["fit"] == "exact"
        assert there.at(found["offset"]) == here.at(offset)
        assert sparkmirror(*words, str(found["offset"]), "--back") == f"{offset}\texact\n"
    assert f"{flow.topic}-0" in sparkmirror("offsets", str(flow.file))


def test_a_group_is_parked_under_load_without_processing_twice_or_skipping(flow: Flow) -> None:
    """Its consumer stops in the middle, is parked, and continues on the target."""
    group, topic = f"{flow.alias}-parked", f"{flow.topic}-load"
    remote = f"{flow.alias}.{topic}"
    with Load(flow.source, topic, per_second=300, partitions=PARTITIONS) as load:
        first = process(flow.source, group, [topic], PROCESSED)
        said = sparkmirror("groups", "park", str(flow.file), "--group", group)
        assert f"Group '{group}' is parked" in said
        eventually(lambda: load.sent > PROCESSED, PATIENCE_SECONDS, "there is more to process")
    eventually(
        lambda: sum(end_offsets(flow.target, remote).values()) >= load.sent,
        PATIENCE_SECONDS,
        "all is mirrored",
    )
    second = process(flow.target, group, [remote])
    assert sorted([*first, *second]) == sorted(b"%d" % n for n in range(load.sent))


def test_a_group_that_still_consumes_is_not_parked(flow: Flow) -> None:
    """The command waits, says why, and gives up."""
    group = f"{flow.alias}-busy"
    with closing(consumer(flow.source, group)) as member:
        member.subscribe([flow.topic])
        eventually(lambda: member.poll(0.5) is not None, PATIENCE_SECONDS, "the member consumes")
        member.commit(asynchronous=False)
        words = ["groups", "park", str(flow.file), "--group", group, "--timeout", "2"]
        said = sparkmirror(*words, code=1)
    assert "it has members on" in said
    assert "stop its consumers" in said
    said = sparkmirror(*words[:-3], f"{flow.alias}-bussy", code=1)
    assert f"has no consumer group '{flow.alias}-bussy'" in said
    assert f"The nearest name is '{group}'." in said


def test_a_group_ahead_on_the_target_is_parked_only_with_rewind(flow: Flow) -> None:
    """Records would be processed again."""
    group = f"{flow.alias}-further"
    commit(flow.target, group, flow.remote, {0: 300, 1: 2})
    commit(flow.source, group, flow.topic, {0: 100, 1: 50})
    words = ["groups", "park", str(flow.file), "--group", group]
    assert "--rewind" in sparkmirror(*words, code=1)
    found = json.loads(sparkmirror(*words, "--rewind", "--json"))
    assert [one["targetOffset"] for one in found["parked"]] == [100, 50]
    assert committed(flow.target, group, flow.remote, 2) == {0: 100, 1: 50}


def test_users_own_programs_translate_any_offset(flow: Flow) -> None:
    """By the client library, without Spark."""
    here = partition_records(flow.source, (flow.topic, 1))[flow.topic, 1]
    there = partition_records(flow.target, (flow.remote, 1))[flow.remote, 1]
    with MirrorClient.from_file(flow.file, "target") as client:
        for offset in range(0, RECORDS // PARTITIONS, 37):
            found = client.translate(flow.topic, 1, offset, flow.alias)
            assert found is not None
            assert found.fit is Fit.EXACT
            assert there.at(found.offset) == here.at(offset)
            back = client.translate_back(flow.topic, 1, found.offset, flow.alias)
            assert back == (offset, Fit.EXACT)
        assert client.translate("nothing-like-it", 0, 0, flow.alias) is None
        with pytest.raises(ArgumentError, match="must be an integer"):
            client.translate(flow.topic, 0, -1, flow.alias)
