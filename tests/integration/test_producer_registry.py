# SPDX-License-Identifier: Apache-2.0
"""The registry of producers on real brokers, and what a flow does with it before it copies."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparkmirror.cli.main import app
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.earlier_producers import EarlierProducers
from sparkmirror.connectors.known_flows import other_records
from sparkmirror.connectors.loop_protection import LoopProtection
from sparkmirror.connectors.source_topics import MirroredPartition
from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.errors import ClusterError
from sparkmirror.formats.producer_registry import (
    PRODUCERS_TOPIC,
    RegisteredFlow,
    RegisteredProducer,
)
from sparkmirror.formats.source_offsets import StoredPosition
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import Closable
from sparkmirror.kafka.topic_log import TopicLog
from sparkmirror.model import Flow, ProducerState, TopicPartition
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.state import producer_registry
from sparkmirror.state.offset_store import OffsetStore
from sparkmirror.state.producer_registry import ProducerRegistry
from sparkmirror.task.messages import OtherWriter, PartitionStart, Split
from sparkmirror.topology import internal_topics
from sparkmirror.topology.internal_topics import Side, ensure_internal_topics, producers_topic
from sparkmirror.topology.replication_factors import ReplicationFactorChooser
from support.clients.librdkafka import create_topics, delete_topic
from support.mirrors.mirror_file import mirror_file
from support.unique_names import unique_name
from support.waiting import eventually

IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


def file(
    clusters: dict[str, LocalCluster], flows: Sequence[str], *lines: str
) -> dict[Flow, FlowSettings]:
    """The settings of flows between real clusters."""
    text = [
        f"clusters = {', '.join(clusters)}",
        *(
            f"{alias}.bootstrap.servers = {one.bootstrap_servers}"
            for alias, one in clusters.items()
        ),
        *(f"{flow}.enabled = true" for flow in flows),
        *lines,
    ]
    config = MirrorConfig.parse("\n".join(text))
    return {one.flow: one for one in config.enabled_settings()}


class Bench(Closable):
    """The flows of one file, and the loop protection of the first one."""

    def __init__(
        self, clusters: dict[str, LocalCluster], flows: Sequence[str], *lines: str
    ) -> None:
        self.topic = unique_name("orders")
        self.all = [*file(clusters, flows, f"topics = {self.topic}", *lines).values()]
        self.settings = next(one for one in self.all if str(one.flow) == flows[0])
        self.status = FlowStatus(str(self.settings.flow))
        self.opened: list[Closable] = []
        self.loops = self.protection(self.settings)
        self.source = ProducerRegistry(self.settings.source_admin)
        self.target = ProducerRegistry(self.settings.target_admin)
        self.opened += [self.source, self.target]
        for side, connection in (
            (Side.SOURCE, self.settings.source_admin),
            (Side.TARGET, self.settings.target_admin),
        ):
            with ClusterAdmin(connection) as admin:
                topic = producers_topic(self.settings, side)
                ensure_internal_topics([topic], admin, ReplicationFactorChooser())
        self.source.refresh()
        self.target.refresh()

    def protection(self, settings: FlowSettings) -> LoopProtection:
        loops = LoopProtection(settings, ReplicationFactorChooser(), self.status, lambda: self.all)
        self.opened.append(loops)
        return loops

    def close(self) -> None:
        for one in self.opened:
            one.close()

    def prepare(self, loops: LoopProtection | None = None) -> tuple[str, ...]:
        """Prepare the flow; returns the clusters whose records it skips."""
        tp = TopicPartition(self.topic, 0)
        mirrored = (MirroredPartition(tp, self.topic, None, None),)
        loops = loops or self.loops
        loops.prepare(mirrored, {PRODUCERS_TOPIC})
        return loops.skip_origins(self.topic)

    def register(self, producer_id: int) -> None:
        """Register what a task starts with."""
        start = PartitionStart(
            self.topic, 0, self.topic, 0, producer=ProducerState(producer_id, 0, 0)
        )
        self.loops.register([Split(0, (start,))], {})

    def flow_of(self, source: str, target: str, *, java: bool = False, age: float = 0) -> None:
        """Register another flow on the source."""
        now = int(time.time() * 1000)
        topics = (self.topic,)
        flow = RegisteredFlow(
            unique_name("x->y"), source, target, topics, (), java, now, int(now - age * 1000)
        )
        self.source.register([], [flow])


@pytest.fixture
def aliases(source_cluster: LocalCluster, target_cluster: LocalCluster) -> dict[str, LocalCluster]:
    """Fresh names of the shared clusters."""
    return {unique_name("a"): source_cluster, unique_name("b"): target_cluster}


@pytest.fixture
def one_way(aliases: dict[str, LocalCluster]) -> Iterator[Bench]:
    """A flow that keeps names, without an opposite flow in its file."""
    with Bench(aliases, ["->".join(aliases)], IDENTITY) as bench:
        yield bench


def test_a_flow_and_its_producer_ids_are_registered_on_the_target(one_way: Bench) -> None:
    one_way.prepare()
    one_way.register(10**12)
    one_way.target.refresh()
    found = one_way.target.producers[10**12]
    flow = str(one_way.settings.flow)
    assert (found.flow, found.source_cluster_id) == (flow, one_way.source.cluster_id)
    [registered] = [one for one in one_way.target.flows.values() if one.flow == flow]
    assert registered.topics == (one_way.topic,)


def test_only_records_of_the_target_are_skipped_when_no_other_flow_is_known(
    one_way: Bench,
) -> None:
    assert one_way.prepare() == (one_way.target.cluster_id,)


def test_a_registered_flow_of_another_process_counts_and_is_passed_on(one_way: Bench) -> None:
    """T reaches X; X also writes to both clusters, so its records come directly."""
    third = unique_name("third")
    for source, target in (
        (one_way.target.cluster_id, third),
        (third, one_way.source.cluster_id),
        (third, one_way.target.cluster_id),
    ):
        one_way.flow_of(source, target)
    assert set(one_way.prepare()) == {one_way.target.cluster_id, third}
    one_way.target.refresh()
    assert third in {one.source_cluster_id for one in one_way.target.flows.values()}


def test_a_flow_that_appears_later_is_noticed_by_the_refresh(one_way: Bench) -> None:
    third = unique_name("third")
    changes: list[bool] = []
    one_way.loops.on_change = lambda: changes.append(True)
    one_way.prepare()
    one_way.loops.refresh()
    assert not changes
    for source, target in ((one_way.target.cluster_id, third), (third, one_way.target.cluster_id)):
        one_way.flow_of(source, target)
    one_way.loops.refresh()
    assert changes
    assert third in one_way.loops.skip_origins(one_way.topic)


def test_a_registered_flow_that_has_not_run_for_long_does_not_count(one_way: Bench) -> None:
    one_way.flow_of(one_way.target.cluster_id, unique_name("third"), age=8 * 24 * 3600)
    assert one_way.prepare() == (one_way.target.cluster_id,)


def test_a_ring_with_a_registered_flow_is_refused(one_way: Bench) -> None:
    third = unique_name("third")
    one_way.flow_of(one_way.target.cluster_id, third)
    one_way.flow_of(third, one_way.source.cluster_id)
    with pytest.raises(ClusterError, match="around a ring under one name"):
        one_way.prepare()


def test_a_topic_that_java_copied_is_refused_unless_a_key_allows_it(one_way: Bench) -> None:
    one_way.flow_of(one_way.target.cluster_id, one_way.source.cluster_id, java=True)
    with pytest.raises(ClusterError, match="Java MirrorMaker 2 has copied topic"):
        one_way.prepare()
    source = replace(one_way.settings.source, loop_java_policy="copy")
    allowed = one_way.protection(replace(one_way.settings, source=source))
    assert one_way.prepare(allowed) == (one_way.target.cluster_id,)


def test_a_take_over_from_java_stays_registered(one_way: Bench) -> None:
    """The stored positions do not show it after the first record."""
    one_way.prepare()
    one_way.loops.register_java()
    again = one_way.protection(one_way.settings)
    one_way.prepare(again)
    again.refresh()
    one_way.target.refresh()
    flow = str(one_way.settings.flow)
    [found] = [one for one in one_way.target.flows.values() if one.flow == flow]
    assert found.took_over_from_java


def test_a_producer_id_of_another_source_is_refused_and_named(one_way: Bench) -> None:
    """A restored cluster issues ids again."""
    other = RegisteredProducer(2 * 10**12, one_way.target.cluster_id, "x->y", unique_name("id"))
    one_way.target.register([other])
    one_way.prepare()
    assert one_way.loops.is_taken(2 * 10**12)
    assert not one_way.loops.is_taken(2 * 10**12 + 1)
    with pytest.raises(
        ClusterError, match=r"producer id 2000000000000 of .* is registered for x->y"
    ):
        one_way.register(2 * 10**12)


def test_producers_of_earlier_versions_are_imported_from_the_source(
    aliases: dict[str, LocalCluster],
) -> None:
    """The opposite flow ran before there was a registry, and left its positions."""
    here, there = aliases
    with Bench(aliases, [f"{here}->{there}", f"{there}->{here}"], IDENTITY) as bench:
        offsets = f"mm2-offsets.{there}.internal"
        create_topics(aliases[here], {offsets: 1}, {"cleanup.policy": "compact"})
        store = OffsetStore(
            bench.settings.source_admin,
            offsets,
            connector="MirrorSourceConnector",
            source_alias=there,
        )
        position = StoredPosition(1, 1, ProducerState(3 * 10**12, 0, 2))
        store.write({TopicPartition(bench.topic, 0): position})
        bench.prepare()
        bench.source.refresh()
        found = bench.source.producers[3 * 10**12]
        assert (found.flow, found.source_cluster_id) == (
            f"{there}->{here}",
            bench.target.cluster_id,
        )


def test_writers_are_foreign_unless_a_flow_or_applications_may_write_the_topic(
    one_way: Bench,
) -> None:
    unknown, registered = 4 * 10**12, 5 * 10**12
    one_way.prepare()
    ids = (one_way.target.cluster_id, "x->y", unique_name("id"))
    one_way.target.register(
        [RegisteredProducer(registered, *ids)],
        [RegisteredFlow(ids[1], ids[2], ids[0], ("another",), (), False, 0, 0)],
    )
    writers = [OtherWriter(one_way.topic, 0, one) for one in (unknown, registered)]
    causes = one_way.loops.foreign_writers(writers)
    assert "belongs to no flow" in causes[writers[0]]
    assert "is registered for x->y, which does not copy this topic" in causes[writers[1]]
    one_way.flow_of(one_way.target.cluster_id, one_way.source.cluster_id)
    one_way.loops.refresh()
    assert list(one_way.loops.foreign_writers(writers)) == [writers[1]]


def test_without_the_registry_only_a_flow_that_renames_topics_may_run(one_way: Bench) -> None:
    """Nobody listens at the target's address."""
    dead = replace(
        one_way.settings.target_admin,
        bootstrap_servers=("127.0.0.1:1",),
        connect_timeout_seconds=0.1,
    )
    keeps, renames = (
        one_way.protection(replace(one_way.settings, target_admin=dead)) for _ in range(2)
    )
    with pytest.raises(ClusterError):
        one_way.prepare(keeps)
    tp = TopicPartition(one_way.topic, 0)
    renames.prepare((MirroredPartition(tp, f"a.{tp.topic}", None, None),), {PRODUCERS_TOPIC})
    problems = one_way.status.snapshot().problems
    assert any("cannot recognize these records" in one for one in problems)
    assert renames.skip_origins(one_way.topic) == ()


def test_check_and_plan_refuse_what_would_fail(
    one_way: Bench, aliases: dict[str, LocalCluster], tmp_path: Path
) -> None:
    """A registered flow of another file makes it a topic that Java has copied."""
    create_topics(aliases[one_way.settings.flow.source], {one_way.topic: 1})
    one_way.flow_of(one_way.target.cluster_id, one_way.source.cluster_id, java=True)
    lines = (f"{one_way.settings.flow}.enabled = true", f"topics = {one_way.topic}", IDENTITY)
    described = mirror_file(tmp_path, aliases, *lines)
    for command, code in ((["check", "--connect"], 1), (["plan"], 4)):
        ran = CliRunner().invoke(app, [*command, str(described)])
        assert ran.exit_code == code
        assert "Java MirrorMaker 2 has copied topic" in ran.output + ran.stderr


@pytest.mark.parametrize("is_recreated", [False, True])
def test_a_registry_that_was_deleted_is_written_again(
    aliases: dict[str, LocalCluster], monkeypatch: pytest.MonkeyPatch, *, is_recreated: bool
) -> None:
    """With what other flows have registered, too."""
    name = unique_name("producers")
    for module in (producer_registry, internal_topics):
        monkeypatch.setattr(module, "PRODUCERS_TOPIC", name)
    with Bench(aliases, ["->".join(aliases)], IDENTITY) as bench:
        cluster = aliases[bench.settings.flow.target]
        other = RegisteredProducer(8 * 10**12, bench.target.cluster_id, "x->y", unique_name("id"))
        bench.target.register([other])
        bench.prepare()
        bench.register(7 * 10**12)
        delete_topic(cluster, name)
        if is_recreated:
            create_topics(cluster, {name: 1}, {"cleanup.policy": "compact"})

        def is_written() -> bool:
            bench.loops.refresh()
            with ProducerRegistry(bench.settings.target_admin) as after:
                after.refresh()
                return {7 * 10**12, 8 * 10**12} <= after.producers.keys() and bool(after.flows)

        eventually(is_written, 60, "the entries are in the new topic", not_yet=(ClusterError,))


def test_connectors_with_the_same_clusters_are_registered_side_by_side(one_way: Bench) -> None:
    """In a Connect cluster each has its own topics."""
    settings = one_way.settings
    others = [
        one_way.protection(
            replace(
                settings,
                source=replace(settings.source, name=name),
                policy=replace(settings.policy, topics=(one_way.topic, name)),
            )
        )
        for name in (unique_name("one"), unique_name("two"))
    ]
    for loops in (one_way.loops, *others, one_way.loops, *others):
        one_way.prepare(loops)
        loops.refresh()
    one_way.target.refresh()
    found = [one for one in one_way.target.flows.values() if one.flow == str(settings.flow)]
    assert len(found) == len({one.topics for one in found}) == 1 + len(others)
    assert all(one.seen_ms == one.since_ms for one in found)  # written once


def test_what_else_a_remote_topic_has_is_known_before_it_is_deleted(one_way: Bench) -> None:
    """Records of other flows into the target, and those that were produced there."""
    one_way.prepare()
    topics = {one_way.topic: one_way.topic}
    assert other_records(one_way.settings, topics) == {}
    third = unique_name("third")
    one_way.flow_of(third, one_way.target.cluster_id)
    assert set(other_records(one_way.settings, topics)) == {one_way.topic}
    assert other_records(one_way.settings, {one_way.topic: f"a.{one_way.topic}"}) == {}
    one_way.flow_of(one_way.target.cluster_id, third)
    one_way.flow_of(third, one_way.source.cluster_id)
    found = other_records(one_way.settings, topics)[one_way.topic]
    assert f"clients of '{one_way.settings.flow.target}', x->y" in found


def test_an_attempt_that_failed_for_new_topics_is_repeated(
    one_way: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flow without topics needs no registry on its source yet."""
    one_way.loops.prepare((), {PRODUCERS_TOPIC})
    error = ClusterError("unreachable", cluster="a")
    attempts: list[bool] = []

    def fail(_self: object, _sources: object) -> None:
        attempts.append(True)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(EarlierProducers, "read", fail)
        for _ in range(2):
            with pytest.raises(ClusterError, match="unreachable"):
                one_way.prepare()
    assert len(attempts) == 2
    assert one_way.prepare() == (one_way.target.cluster_id,)


def test_a_malformed_record_in_the_registry_is_skipped(one_way: Bench) -> None:
    with TopicLog(one_way.settings.target_admin, PRODUCERS_TOPIC) as log:
        log.append({0: [(b'{"producer":"none"}', b"[]"), (b"\xff", b"\xff")]})
    one_way.prepare()
    one_way.register(6 * 10**12)
    one_way.target.refresh()
    assert 6 * 10**12 in one_way.target.producers
