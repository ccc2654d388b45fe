# SPDX-License-Identifier: Apache-2.0
"""Java MirrorMaker 2 and sparkmirror take over from each other, and Java reads what ours wrote."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from sparkmirror.devcluster.cluster import LocalCluster, start_all
from sparkmirror.errors import BrokerError
from sparkmirror.formats.mm2_records import Checkpoint, Heartbeat, OffsetSync
from sparkmirror.model import Flow
from support.clients.consumer_groups import consumer
from support.clients.java_mirror_client import formatted, offsets_in, run_java_queries
from support.clients.librdkafka import (
    Cluster,
    Record,
    compare_topics,
    create_topics,
    end_offsets,
    numbered,
    produce,
    read_topic,
    topics,
)
from support.measurements import measured
from support.mirrors.java_hand_over import (
    PARTITIONS,
    HandOver,
    SharedFlow,
    check_exact,
    check_no_skip,
    check_records,
    java_hands_over,
    mirrored_internals,
    shared_flow,
    sparkmirror_hands_over,
    stop,
)
from support.mirrors.java_mirror_maker import JavaMirror
from support.mirrors.mirror_process import MirrorProcess
from support.waiting import PATIENCE_SECONDS, eventually

LARGE = Record(b"large", b"x" * 5_000)
LIMITED = {"max.message.bytes": "2000"}


@pytest.fixture(scope="module")
def clusters(
    tmp_path_factory: pytest.TempPathFactory, kafka_version: str
) -> Iterator[tuple[LocalCluster, LocalCluster]]:
    """A source and a target that the tests of this file share."""
    directory = tmp_path_factory.mktemp("hand-over")
    source, target = (
        LocalCluster(name, directory / name, version=kafka_version) for name in ("source", "target")
    )
    start_all([source, target])
    try:
        yield source, target
    finally:
        source.stop()
        target.stop()


def tell(what: str, found: HandOver, again: dict[int, int]) -> None:
    """Print what was found."""
    measured(
        f"{what}: {found.compared} records compared, {found.pause_seconds:.1f} s between the two, "
        f"a group in the first one's part reads {again} records again"
    )


@pytest.mark.parametrize("location", ["source", "target"])
def test_sparkmirror_continues_where_java_stopped(
    clusters: tuple[LocalCluster, LocalCluster], tmp_path: Path, location: str
) -> None:
    """No record lost, none twice, and groups are synced wherever they stand."""
    one = shared_flow(tmp_path, *clusters, f"FLOW.offset-syncs.topic.location = {location}")
    found = java_hands_over(one)
    check_records(found)
    check_exact(one, "further", found.further)
    check_exact(one, "moves", found.further)
    tell(
        f"to sparkmirror, syncs on the {location}",
        found,
        check_no_skip(one, "inside", found.inside),
    )


def test_java_continues_where_sparkmirror_stopped(
    clusters: tuple[LocalCluster, LocalCluster], tmp_path: Path
) -> None:
    """Java finds positions and offset syncs that it understands, and passes our own topics over.

    The way back is mirrored as well, and nothing but MM2's own rule keeps internal topics out.
    """
    source, target = clusters
    one = shared_flow(
        tmp_path,
        source,
        target,
        "backup->ALIAS.enabled = true",
        "backup->ALIAS.topics = .*",
        "backup->ALIAS.topics.exclude = __.*, relay.*",
        "sync.topic.configs.enabled = false",  # or the target's limit is taken back
        target_alias="backup",
    )
    limited = f"{one.topic}-limited"
    create_topics(source, {limited: 1})
    create_topics(target, {f"{one.alias}.{limited}": 1}, LIMITED)
    produce(source, limited, [*numbered(3), (0, LARGE), *numbered(3, first=3)], linger_ms=0)
    found = sparkmirror_hands_over(
        one,
        lambda: eventually(
            lambda: end_offsets(target, f"{one.alias}.{limited}") == {0: 6},
            PATIENCE_SECONDS,
            "all but the large record are copied",
        ),
    )
    check_records(found)
    again = check_no_skip(one, "inside", found.inside)
    check_no_skip(one, "further", found.further)
    check_no_skip(one, "moves", found.further)
    own = {f"mm2-{name}.{one.alias}.internal" for name in ("offset-map", "ledger", "dead-letters")}
    assert own <= topics(target).keys()
    assert mirrored_internals(one) == set()
    copies = [record.value for record in read_topic(target, f"{one.alias}.{limited}")[0]]
    assert copies == [record.value for _, record in numbered(6)]
    tell("to Java", found, again)


def test_groups_are_translated_after_three_hops(
    clusters: tuple[LocalCluster, LocalCluster], tmp_path: Path
) -> None:
    """Sparkmirror, Java, sparkmirror: exact in its own parts, MM2's offset syncs in Java's."""
    one = shared_flow(tmp_path, *clusters)
    ends: list[dict[int, int]] = []
    # The last leg is short: MM2 forgets syncs the sooner the more comes after them.
    legs = ((MirrorProcess, 1_500), (JavaMirror, 1_500), (MirrorProcess, 200))
    for leg, (start, count) in enumerate(legs):
        produce(one.source, one.topic, numbered(count, PARTITIONS, first=1_500 * leg))
        ends.append(end_offsets(one.source, one.topic))
        with start(one.file) as mirror:
            one.await_copied(ends[leg], PATIENCE_SECONDS)
            if leg == 2:
                stands = {
                    name: {n: offset - 90 for n, offset in ends[number].items()}
                    for number, name in enumerate(("first", "second", "third"))
                }
                for name, offsets in stands.items():
                    one.commit(name, offsets)
                one.await_at("first", stands["first"], PATIENCE_SECONDS)
                one.await_moved("second", ends[0], PATIENCE_SECONDS)
                one.await_at("third", stands["third"], PATIENCE_SECONDS)
            stop(mirror)
    assert compare_topics(one.source, one.topic, one.target, one.remote) == 3_200
    check_exact(one, "first", stands["first"])
    check_exact(one, "third", stands["third"])
    again = check_no_skip(one, "second", stands["second"])
    measured(f"three legs: a group in Java's part reads {again} records again")


def commit_with_note(cluster: Cluster, group: str, offsets: list[TopicPartition]) -> None:
    """What a group commits, notes included."""
    with closing(consumer(cluster, group)) as one:
        one.commit(offsets=offsets, asynchronous=False)


def read_records(cluster: Cluster, topic: str) -> list[tuple[bytes, bytes]]:
    """Key and value of all that a small topic holds."""
    return [(one.key or b"", one.value or b"") for one in read_topic(cluster, topic)[0]]


def heartbeats(cluster: Cluster) -> list[Heartbeat]:
    """All heartbeats on a cluster, of whichever flow."""
    return [Heartbeat.from_record(*r) for r in read_records(cluster, "heartbeats")]


def check_formatter(
    one: SharedFlow, scratch: Path, cluster: Cluster, topic: str, formatter: str, lines: list[str]
) -> None:
    """MM2's formatter prints these lines of a topic."""
    assert lines
    assert formatted(cluster, scratch, topic, formatter, len(lines)) == lines
    measured(f"{one.alias}: {formatter} agrees on {len(lines)} records of {topic}")


def test_java_reads_what_a_running_mirror_wrote(
    clusters: tuple[LocalCluster, LocalCluster], tmp_path: Path
) -> None:
    """RemoteClusterUtils translates as our checkpoints say; MM2's formatters print our records."""
    source, target = clusters
    one = shared_flow(
        tmp_path, source, target, "FLOW.offset-syncs.topic.location = target", target_alias="rest"
    )
    produce(source, one.topic, numbered(1_000, PARTITIONS))
    offsets = {"first": {0: 0, 1: 0}, "middle": {0: 17, 1: 333}, "end": {0: 500, 1: 500}}
    for name, stands in offsets.items():
        one.commit(name, stands)
    commit_with_note(
        source, one.group("noted"), [TopicPartition(one.topic, 0, 77, metadata="a note")]
    )
    wanted = {one.group(name): stands for name, stands in offsets.items()}
    wanted[one.group("noted")] = {0: 77}
    checkpoints_topic = f"{one.alias}.checkpoints.internal"
    with MirrorProcess(one.file) as mirror:
        eventually(
            lambda: all(one.checkpointed(name) == there for name, there in offsets.items()),
            PATIENCE_SECONDS,
            "every group has its exact checkpoint",
            not_yet=(BrokerError,),  # while there is no checkpoints topic
        )
        [answer] = run_java_queries(target, tmp_path, f"groups {one.alias} .*")
        java = offsets_in(answer)
        says = {g: {tp.partition: at.offset for tp, at in all_.items()} for g, all_ in java.items()}
        assert says == wanted
        flow = Flow(one.alias, one.target_alias)
        eventually(
            lambda: flow in {beat.flow for beat in heartbeats(target)},
            PATIENCE_SECONDS,
            "there are heartbeats",
        )
        code, _ = mirror.terminate()
        assert code == 0
    checkpoints = [Checkpoint.from_record(*r) for r in read_records(target, checkpoints_topic)]
    last = {(c.group, c.topic_partition): c for c in checkpoints}
    assert {
        (group, (tp.topic, tp.partition)): (at.offset, at.metadata)
        for group, all_ in java.items()
        for tp, at in all_.items()
    } == {(g, tuple(tp)): (c.downstream_offset, c.metadata) for (g, tp), c in last.items()}
    syncs_topic = f"mm2-offset-syncs.{one.alias}.internal"
    syncs = [OffsetSync.from_record(*r) for r in read_records(target, syncs_topic)]
    beats = heartbeats(target)
    check_formatter(
        one,
        tmp_path,
        target,
        syncs_topic,
        "OffsetSyncFormatter",
        [
            f"OffsetSync{{topicPartition={s.topic_partition}, upstreamOffset={s.upstream_offset}, "
            f"downstreamOffset={s.downstream_offset}}}"
            for s in syncs
        ],
    )
    check_formatter(
        one,
        tmp_path,
        target,
        checkpoints_topic,
        "CheckpointFormatter",
        [
            f"Checkpoint{{consumerGroupId={c.group}, topicPartition={c.topic_partition}, "
            f"upstreamOffset={c.upstream_offset}, downstreamOffset={c.downstream_offset}, "
            f"metadata={c.metadata}}}"
            for c in checkpoints
        ],
    )
    check_formatter(
        one,
        tmp_path,
        target,
        "heartbeats",
        "HeartbeatFormatter",
        [
            f"Heartbeat{{sourceClusterAlias={h.flow.source}, targetClusterAlias={h.flow.target}, "
            f"timestamp={h.timestamp_ms}}}"
            for h in beats
        ],
    )
