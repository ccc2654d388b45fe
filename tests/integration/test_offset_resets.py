# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror offsets reset` and `recopy`: which records are on the target, and what translates.

All tests share one mirror with two flows: `calm` in the default mode, `exact` exactly-once.
"""

from __future__ import annotations

import json
import re
import shlex
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sparkmirror.cli.main import app
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.offset_reset_plan import (
    ResetWish,
    mirrored_partitions,
    plan_reset,
    read_positions,
    request_resets,
)
from sparkmirror.connectors.offset_resets import OffsetResets
from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.map_topic import MapTopic
from sparkmirror.offsets.offset_map import Fit
from sparkmirror.state.ledger import read_ledger
from support.clients.consumer_groups import NO_OFFSET, commit, committed
from support.clients.librdkafka import (
    Cluster,
    create_topics,
    delete_topic,
    messages,
    numbered,
    produce,
    topics,
)
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

MODES = ("calm", "exact")
both_modes = pytest.mark.parametrize("mode", MODES)
# With a start of the mirror for each mode.
both_modes_thorough = pytest.mark.parametrize(
    "mode", ["calm", pytest.param("exact", marks=pytest.mark.thorough)]
)


class Mirror:
    """Two flows between the shared clusters, and their process."""

    def __init__(self, source: LocalCluster, target: LocalCluster, directory: Path) -> None:
        self.source, self.target = source, target
        self.names = {name: unique_name(name) for name in (*MODES, "sink", "vault")}
        calm, exact, sink, vault = self.names.values()
        self.file = mirror_file(
            directory,
            {calm: source, exact: source, sink: target, vault: target},
            f"{calm}->{sink}.enabled = true",
            f"{exact}->{vault}.enabled = true",
            f"{calm}->{sink}.topics = {calm}-.*",
            f"{exact}->{vault}.topics = {exact}-.*",
            f"{vault}.exactly.once.source.support = enabled",
            "groups = reset-.*",
            "refresh.topics.interval.seconds = 1",
            "refresh.groups.interval.seconds = 1",
            "emit.checkpoints.interval.seconds = 1",
            "sync.group.offsets.enabled = true",
            "sync.group.offsets.interval.seconds = 1",
            "emit.heartbeats.enabled = false",
            "replication.factor = 1",
        )
        self.flows = {"calm": f"{calm}->{sink}", "exact": f"{exact}->{vault}"}
        self.process: MirrorProcess | None = None

    def start(self) -> None:
        self.process = MirrorProcess(self.file)
        for flow in self.flows.values():
            self.process.await_log(f"{flow}: RUNNING", PATIENCE_SECONDS)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill_everything()
            self.process.show_log()
        self.process = None

    def settings(self, mode: str) -> FlowSettings:
        config = MirrorConfig.load(self.file)
        return next(
            config.flow_settings(one) for one in config.flows() if str(one) == self.flows[mode]
        )

    def topic(self, mode: str, records: int = 0) -> str:
        """A topic of a flow with so many records in one partition, which are copied."""
        topic = unique_name(self.names[mode])
        create_topics(self.source, {topic: 1})
        if records:
            produce(self.source, topic, numbered(records))
            self.await_values(mode, topic, self.values(self.source, topic))
        return topic

    def remote(self, mode: str, topic: str) -> str:
        return f"{self.names[mode]}.{topic}"

    @staticmethod
    def values(cluster: Cluster, topic: str) -> list[bytes]:
        return [one.value() for chunk in messages(cluster, [(topic, 0)]) for one in chunk]

    def await_values(self, mode: str, topic: str, expected: list[bytes]) -> None:
        """Wait until the remote topic has exactly these records in this order."""
        remote = self.remote(mode, topic)

        def arrived() -> bool:
            assert remote in topics(self.target)
            assert self.values(self.target, remote) == expected
            return True

        eventually(arrived, PATIENCE_SECONDS, f"{len(expected)} records in {remote}")

    def run(self, mode: str, verb: str, topic: str, *more: str, code: int = 0) -> dict[str, Any]:
        """Run `sparkmirror offsets <verb>` and return its JSON."""
        command = ["offsets", verb, str(self.file), "--flow", self.flows[mode], "--topic", topic]
        done = CliRunner().invoke(app, [*command, "--yes", "--json", *more])
        assert done.exit_code == code, done.output
        return json.loads(done.stdout) if done.stdout.startswith("{") else {}

    def check_translation(self, mode: str, topic: str, *, first: int = 0) -> None:
        """Every source offset translates exactly: to a record with the same value."""
        originals = {
            one.offset(): one.value()
            for chunk in messages(self.source, [(topic, 0)])
            for one in chunk
        }
        copies = {
            one.offset(): one.value()
            for chunk in messages(self.target, [(self.remote(mode, topic), 0)])
            for one in chunk
        }
        settings = self.settings(mode)
        tp = TopicPartition(topic, 0)
        with closing(ClusterClient(settings.target_admin)) as client:
            offsets = MapTopic(client, f"mm2-offset-map.{settings.flow.source}.internal")

            def translated() -> bool:
                offsets.refresh()
                for offset, value in originals.items():
                    if offset < first:
                        continue
                    found = offsets.to_target(tp, offset)
                    assert found is not None
                    assert found.fit is Fit.EXACT, (offset, found)
                    at = min(one for one in copies if one >= found.offset)  # after markers
                    assert copies[at] == value, (offset, found)
                return True

            eventually(translated, PATIENCE_SECONDS, f"{topic} translates exactly")

    def ledger(self, mode: str, topic: str) -> list[tuple[str, int, str]]:
        settings = self.settings(mode)
        found = read_ledger(settings.target_admin, f"mm2-ledger.{settings.flow.source}.internal")
        return [(one.kind, one.records, one.policy) for one in found.entries if one.topic == topic]


@pytest.fixture(scope="module")
def mirror(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Mirror]:
    made = Mirror(source_cluster, target_cluster, tmp_path_factory.mktemp("resets"))
    made.start()
    try:
        yield made
    finally:
        made.kill()


@both_modes
def test_a_reset_backwards_copies_again_while_records_flow(mirror: Mirror, mode: str) -> None:
    topic = mirror.topic(mode, 300)
    first = mirror.values(mirror.source, topic)
    ended = threading.Event()

    def write() -> None:
        number = 300
        while not ended.wait(0.05):
            produce(mirror.source, topic, numbered(20, first=number))
            number += 20

    writer = threading.Thread(target=write)
    writer.start()
    try:
        planned = mirror.run(mode, "reset", topic, "--to", "100", "--dry-run")
        done = mirror.run(mode, "reset", topic, "--to", "100")
    finally:
        ended.set()
        writer.join()
    assert (planned["state"], done["state"]) == ("planned", "done")
    assert planned["partitions"][0]["nextOffset"] == 100
    assert planned["partitions"][0]["recordsTwice"] >= 200
    originals = mirror.values(mirror.source, topic)

    def all_arrived() -> int:
        copies = mirror.values(mirror.target, mirror.remote(mode, topic))
        assert copies[-1:] == originals[-1:]
        again = len(copies) - len(originals)
        assert again >= 200
        before = 100 + again
        assert copies == [*originals[:before], *originals[100:]]
        return again

    again = eventually(all_arrived, PATIENCE_SECONDS, "all records from offset 100 on, again")
    assert originals[:300] == first
    assert mirror.ledger(mode, topic) == [("offsets-reset", again, "reset")]
    mirror.check_translation(mode, topic)


@both_modes
def test_a_reset_forwards_leaves_records_out(mirror: Mirror, mode: str) -> None:
    topic = mirror.topic(mode, 50)
    name = f"{mirror.flows[mode]}.MirrorSourceConnector"
    paused = CliRunner().invoke(app, ["pause", name, "--url", str(mirror.file)])
    assert paused.exit_code == 0, paused.output
    produce(mirror.source, topic, numbered(50, first=50))

    def is_paused() -> bool:
        return (
            mirror.run(mode, "reset", topic, "--to", "80", "--timeout", "0")["state"] == "pending"
        )

    eventually(is_paused, PATIENCE_SECONDS, "the flow is paused")
    command = ["offsets", "show", str(mirror.file), "--flow", mirror.flows[mode]]
    shown = CliRunner().invoke(app, command)
    assert f"reset of {topic}-0 to 80" in shown.stderr
    assert "not carried out yet" in shown.stderr
    resumed = CliRunner().invoke(app, ["resume", name, "--url", str(mirror.file)])
    assert resumed.exit_code == 0, resumed.output
    originals = mirror.values(mirror.source, topic)
    mirror.await_values(mode, topic, [*originals[:50], *originals[80:]])
    assert mirror.ledger(mode, topic) == [("offsets-reset", 30, "reset")]
    mirror.check_translation(mode, topic, first=80)


@both_modes
def test_a_reset_to_a_time_starts_at_the_first_later_record(mirror: Mirror, mode: str) -> None:
    topic = mirror.topic(mode, 40)
    wanted = numbered(40)[30][1].timestamp_ms
    text = datetime.fromtimestamp(wanted / 1000, UTC).isoformat()
    done = mirror.run(mode, "reset", topic, "--to", text)
    assert done["partitions"][0]["nextOffset"] == 30
    originals = mirror.values(mirror.source, topic)
    mirror.await_values(mode, topic, [*originals, *originals[30:]])
    mirror.check_translation(mode, topic)
    mirror.run(mode, "reset", topic, "--to", "latest")
    produce(mirror.source, topic, numbered(5, first=40))
    originals = mirror.values(mirror.source, topic)
    mirror.await_values(mode, topic, [*originals[:40], *originals[30:]])


@both_modes
def test_groups_are_not_moved_past_records_that_are_copied_again(mirror: Mirror, mode: str) -> None:
    """A group keeps its position among the earlier copies until the new ones have reached it."""
    topic = mirror.topic(mode, 200)
    remote, group = mirror.remote(mode, topic), unique_name("reset")
    commit(mirror.source, group, topic, {0: 150})

    def position() -> int:
        return committed(mirror.target, group, remote, 1)[0]

    copies = mirror.values(mirror.target, remote)

    def is_placed() -> bool:
        at = position()
        return at != NO_OFFSET and next_value(mirror.target, remote, at) == copies[150]

    eventually(is_placed, PATIENCE_SECONDS, "the group is synced")
    earlier = position()
    mirror.run(mode, "reset", topic, "--to", "earliest")
    seen: set[int] = set()

    def has_followed() -> bool:
        seen.add(position())
        return max(seen) > earlier

    eventually(has_followed, PATIENCE_SECONDS, "the group is at the new copy")
    mirror.await_values(mode, topic, [*copies, *copies])
    assert len(seen) <= 2, f"moved in between: {seen}"
    assert max(seen) > earlier + 150
    assert next_value(mirror.target, remote, max(seen)) == copies[150]


def next_value(cluster: Cluster, topic: str, offset: int) -> bytes:
    found = [one for chunk in messages(cluster, [(topic, 0)]) for one in chunk]
    return next(one.value() for one in found if one.offset() >= offset)


@both_modes
def test_a_recreated_source_topic_is_copied_after_the_named_command(
    mirror: Mirror, mode: str
) -> None:
    topic = mirror.topic(mode, 60)
    before = mirror.values(mirror.source, topic)
    delete_topic(mirror.source, topic)
    eventually(lambda: topic not in topics(mirror.source), PATIENCE_SECONDS, "it is deleted")
    create_topics(mirror.source, {topic: 1})
    produce(mirror.source, topic, numbered(20, first=1000))
    mirror.run(mode, "reset", topic, "--to", "earliest")
    mirror.await_values(mode, topic, [*before, *mirror.values(mirror.source, topic)])
    mirror.check_translation(mode, topic)


@both_modes
def test_a_recreated_remote_topic_is_copied_again(mirror: Mirror, mode: str) -> None:
    """Refused while it has records; with the flag they are deleted, and all are copied once."""
    topic = mirror.topic(mode, 60)
    remote = mirror.remote(mode, topic)
    group = unique_name("reset")
    commit(mirror.source, group, topic, {0: 40})
    delete_topic(mirror.target, remote)
    produce(mirror.source, topic, numbered(10, first=60))
    originals = mirror.values(mirror.source, topic)
    mirror.await_values(mode, topic, originals[60:])  # target.recreated.policy=continue
    refused = mirror.run(mode, "recopy", topic, code=1)
    assert "--delete-target-records" in refused["partitions"][0]["problem"]
    mirror.await_values(mode, topic, originals[60:])
    done = mirror.run(mode, "recopy", topic, "--delete-target-records")
    assert done["state"] == "done"
    mirror.await_values(mode, topic, originals)
    mirror.check_translation(mode, topic)

    def is_placed() -> bool:
        at = committed(mirror.target, group, remote, 1)[0]
        return at != NO_OFFSET and next_value(mirror.target, remote, at) == originals[40]

    eventually(is_placed, PATIENCE_SECONDS, "the group is at the same record")
    assert ("offsets-reset", 70, "recopy") in mirror.ledger(mode, topic)


def test_a_wrong_topic_partition_or_offset_changes_nothing(mirror: Mirror) -> None:
    topic = mirror.topic("calm", 10)
    for more in (("--partition", "7"), ("--to", "11"), ("--to", "yesterday")):
        mirror.run("calm", "reset", topic, *more, code=1)
    mirror.run("calm", "reset", topic[:-1], code=1)
    assert read_positions(mirror.settings("calm")).resets == {}
    no_terminal = ["offsets", "reset", str(mirror.file), "--topic", topic]
    done = CliRunner().invoke(app, [*no_terminal, "--flow", mirror.flows["calm"]])
    assert done.exit_code == 2
    assert "--yes" in done.output


def test_the_documented_commands_work(mirror: Mirror) -> None:
    """Those of the page's first block, one after the other: the topic is copied again."""
    topic = mirror.topic("calm", 20)
    originals = mirror.values(mirror.source, topic)
    page = (Path(__file__).parents[2] / "docs" / "offsets.md").read_text()
    lines = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)[0].splitlines()
    assert len(lines) == 3
    names = {"mm2.properties": str(mirror.file), "orders": topic}
    names["primary->backup"] = mirror.flows["calm"]
    for line, expected in zip(lines, (originals, originals * 2, originals), strict=True):
        words = [names.get(word, word) for word in shlex.split(line)]
        done = CliRunner().invoke(app, words[1:])
        assert done.exit_code == 0, f"{line}: {done.output}"
        mirror.await_values("calm", topic, expected)


STEPS = ("_delete_records", "_update_map", "_record_incidents", "write", "write_resets")


@both_modes_thorough
def test_a_reset_survives_a_crash_at_every_step(
    mirror: Mirror, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing runs; each attempt dies after another step, and the last one by the CLI is exact."""
    topic = mirror.topic(mode, 30)
    other = mirror.topic(mode, 30)
    mirror.kill()
    settings = mirror.settings(mode)
    for wish in (ResetWish(topic, recopy=True, delete_records=True), ResetWish(other, start="10")):
        request_resets(settings, plan_reset(settings, wish))
    for step in STEPS:
        stored = read_positions(settings)
        resets = OffsetResets(settings, lambda _: None)
        owner: Any = resets if step.startswith("_") else resets._store
        real = getattr(owner, step)

        def dies(*arguments: Any, real: Any = real) -> None:
            real(*arguments)
            raise KeyboardInterrupt

        monkeypatch.setattr(owner, step, dies)
        with pytest.raises(KeyboardInterrupt):
            resets.apply(
                stored.resets, mirrored_partitions(settings, [topic, other]), stored.positions
            )
        if step == "write":
            request_resets(settings, plan_reset(settings, ResetWish(other, start="10")))
    assert read_positions(settings).resets == {}  # the last step deletes them
    done = mirror.run(mode, "reset", other, "--to", "5")
    assert done["state"] == "done", "this process joins the group and carries it out"
    mirror.start()
    originals = mirror.values(mirror.source, topic)
    mirror.await_values(mode, topic, originals)
    mirror.check_translation(mode, topic)
    originals = mirror.values(mirror.source, other)
    mirror.await_values(mode, other, [*originals, *originals[5:]])
    mirror.check_translation(mode, other, first=5)  # the map was not flushed before the kill


@both_modes_thorough
def test_a_request_survives_kill_minus_nine(mirror: Mirror, mode: str) -> None:
    """The mirror dies when the request is stored; the next one carries it out first."""
    topic = mirror.topic(mode, 80)
    settings = mirror.settings(mode)
    produce(mirror.source, topic, numbered(20, first=80))
    request_resets(settings, plan_reset(settings, ResetWish(topic, start="50")))
    mirror.kill()
    copied = mirror.values(mirror.target, mirror.remote(mode, topic))
    mirror.start()
    originals = mirror.values(mirror.source, topic)
    assert copied == originals[: len(copied)]
    mirror.await_values(mode, topic, [*copied, *originals[50:]])
    mirror.check_translation(mode, topic, first=50)


@pytest.mark.thorough
@both_modes
def test_a_standby_carries_a_reset_out_when_the_owner_dies(mirror: Mirror, mode: str) -> None:
    """While the command waits, the process that runs the flow is killed."""
    topic = mirror.topic(mode, 80)
    settings = mirror.settings(mode)
    with MirrorProcess(mirror.file) as standby:
        standby.await_log(f"{mirror.flows[mode]}: STANDBY", PATIENCE_SECONDS)
        request_resets(settings, plan_reset(settings, ResetWish(topic, start="50")))
        mirror.kill()
        done = mirror.run(mode, "reset", topic, "--to", "40", "--timeout", "180")
        assert done["state"] == "done"
        originals = mirror.values(mirror.source, topic)
        mirror.await_values(mode, topic, [*originals, *originals[40:]])
        mirror.check_translation(mode, topic, first=40)
    mirror.start()
