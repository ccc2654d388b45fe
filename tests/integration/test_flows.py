# SPDX-License-Identifier: Apache-2.0
"""Three flows in one running process: both directions, new topics, deleted ones.

All tests share the one process; each has topics of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.formats.mm2_records import Heartbeat
from sparkmirror.model import Flow
from support.clients.librdkafka import (
    Record,
    await_copy,
    compare_topics,
    create_topics,
    delete_topic,
    end_offsets,
    grow_topic,
    numbered,
    produce,
    read_topic,
    topics,
)
from support.clients.load_generator import Load, await_more, observed
from support.measurements import measured
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

NOTICED_SECONDS = 10.0
LONGEST_PAUSE_SECONDS = 2.0
PER_SECOND, LINGER_MS = 100, 100
EAST, WEST, LATE = (unique_name(alias) for alias in ("east", "west", "late"))
PREFIX = unique_name("flows")
BOTH, DOOMED, NEWS = f"{PREFIX}-both", f"{PREFIX}-doomed", unique_name("news")


@pytest.fixture(scope="module")
def mirror(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[MirrorProcess]:
    """East and west mirror each other; `late` is east again, read from its end."""
    create_topics(source_cluster, {BOTH: 2, DOOMED: 1, NEWS: 1})
    create_topics(target_cluster, {BOTH: 2})
    produce(source_cluster, NEWS, numbered(500))
    file = mirror_file(
        tmp_path_factory.mktemp("flows"),
        {EAST: source_cluster, WEST: target_cluster, LATE: source_cluster},
        f"{EAST}->{WEST}.enabled = true",
        f"{WEST}->{EAST}.enabled = true",
        f"{LATE}->{WEST}.enabled = true",
        # Wide enough to match what the other direction writes: only the cycle check keeps it out.
        f"topics = .*{PREFIX}-.*",
        f"{LATE}->{WEST}.topics = {NEWS}",
        f"{LATE}.consumer.auto.offset.reset = latest",
        "emit.heartbeats.enabled = false",
        f"{WEST}->{EAST}.emit.heartbeats.enabled = true",
        "sync.topic.acls.enabled = false",
    )
    with MirrorProcess(file) as running:
        for flow in (f"{EAST}->{WEST}", f"{WEST}->{EAST}", f"{LATE}->{WEST}"):
            running.await_log(f"{flow}: RUNNING", PATIENCE_SECONDS)
        yield running
        running.show_log()


def test_both_directions_flow_without_cycles(
    mirror: MirrorProcess, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    """A topic of the same name on both sides arrives on each other's side, and nowhere else."""
    east_there, west_here = f"{EAST}.{BOTH}", f"{WEST}.{BOTH}"
    produce(source_cluster, BOTH, numbered(1000, 2))
    produce(target_cluster, BOTH, numbered(700, 2, first=5000))
    await_copy(source_cluster, BOTH, target_cluster, east_there, PATIENCE_SECONDS)
    await_copy(target_cluster, BOTH, source_cluster, west_here, PATIENCE_SECONDS)
    # A topic that is made now is noticed by both directions only in a round that sees the copies.
    marker = f"{PREFIX}-marker"
    for cluster in (source_cluster, target_cluster):
        create_topics(cluster, {marker: 1})
    for cluster, name in (
        (source_cluster, f"{WEST}.{marker}"),
        (target_cluster, f"{EAST}.{marker}"),
    ):
        eventually(lambda: name in topics(cluster), PATIENCE_SECONDS, f"{name} is made")  # noqa: B023 - called at once
    for cluster in (source_cluster, target_cluster):
        round_trips = [
            name
            for name in topics(cluster)
            if f"{EAST}.{WEST}." in name or f"{WEST}.{EAST}." in name
        ]
        assert round_trips == []
    assert compare_topics(source_cluster, BOTH, target_cluster, east_there) == 1000
    assert compare_topics(target_cluster, BOTH, source_cluster, west_here) == 700
    assert mirror.is_running


@pytest.mark.usefixtures("mirror")
def test_heartbeats_are_mirrored(target_cluster: LocalCluster) -> None:
    """The heartbeats that west->east leaves on east arrive on west as east.heartbeats."""

    def beats() -> list[Heartbeat]:
        records = read_topic(target_cluster, f"{EAST}.heartbeats").get(0, [])
        found = [Heartbeat.from_record(one.key or b"", one.value or b"") for one in records]
        return [beat for beat in found if beat.flow == Flow(WEST, EAST)]

    eventually(lambda: len(beats()) >= 3, PATIENCE_SECONDS, "three heartbeats are mirrored")


def add_topic_and_partition(
    source: LocalCluster, target: LocalCluster, topic: str
) -> tuple[float, float]:
    """Create a topic, then let it grow; how long the records of either took to arrive."""
    remote = f"{EAST}.{topic}"
    began = time.monotonic()
    create_topics(source, {topic: 2})
    produce(source, topic, numbered(10, 2))
    await_copy(source, topic, target, remote, PATIENCE_SECONDS)
    new_topic = time.monotonic() - began
    began = time.monotonic()
    grow_topic(source, topic, 3)
    eventually(lambda: len(end_offsets(source, topic)) == 3, PATIENCE_SECONDS, "it has grown")
    produce(source, topic, [(2, Record(b"new", b"partition"))])
    await_copy(source, topic, target, remote, PATIENCE_SECONDS)
    new_partition = time.monotonic() - began
    assert compare_topics(source, topic, target, remote) == 11
    return new_topic, new_partition


def make_steady(source: LocalCluster, name: str) -> str:
    """A topic that continues flowing while something happens to others."""
    topic = f"{PREFIX}-{name}"
    create_topics(source, {topic: 1})
    return topic


@pytest.mark.usefixtures("mirror")
def test_new_topics_and_partitions_flow(
    source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    """They are noticed while another topic continues flowing, without loss or repetition."""
    steady = make_steady(source_cluster, "steady")
    with Load(source_cluster, steady, per_second=PER_SECOND, linger_ms=LINGER_MS) as load:
        eventually(lambda: load.sent > PER_SECOND, PATIENCE_SECONDS, "a second's worth")
        await_more(target_cluster, f"{EAST}.{steady}", load)
        add_topic_and_partition(source_cluster, target_cluster, f"{PREFIX}-new")
        await_more(target_cluster, f"{EAST}.{steady}", load)
    await_copy(source_cluster, steady, target_cluster, f"{EAST}.{steady}", PATIENCE_SECONDS)
    assert compare_topics(source_cluster, steady, target_cluster, f"{EAST}.{steady}") > 0


def test_a_deleted_topic_is_reported_and_the_others_flow(
    mirror: MirrorProcess, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    """The status names the topic; another one continues, without loss or repetition."""
    produce(source_cluster, DOOMED, numbered(10))
    await_copy(source_cluster, DOOMED, target_cluster, f"{EAST}.{DOOMED}", PATIENCE_SECONDS)
    steady = make_steady(source_cluster, "unmoved")
    with Load(source_cluster, steady, per_second=PER_SECOND, linger_ms=LINGER_MS) as load:
        eventually(lambda: load.sent > PER_SECOND, PATIENCE_SECONDS, "a second's worth")
        await_more(target_cluster, f"{EAST}.{steady}", load)
        delete_topic(source_cluster, DOOMED)
        mirror.await_log(f"{EAST}: {DOOMED}", PATIENCE_SECONDS)
        seen = load.sent
        eventually(lambda: load.sent > seen + 2 * PER_SECOND, PATIENCE_SECONDS, "some more")
        await_more(target_cluster, f"{EAST}.{steady}", load)
    await_copy(source_cluster, steady, target_cluster, f"{EAST}.{steady}", PATIENCE_SECONDS)
    compare_topics(source_cluster, steady, target_cluster, f"{EAST}.{steady}")
    assert f"{EAST}.{DOOMED}" in topics(target_cluster)


@pytest.mark.usefixtures("mirror")
def test_latest_means_only_records_written_after_the_start(
    source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    """With auto.offset.reset=latest the 500 old records stay where they are."""
    fresh = numbered(50, first=10_000)
    produce(source_cluster, NEWS, fresh)
    eventually(
        lambda: len(read_topic(target_cluster, f"{LATE}.{NEWS}")[0]) >= 50,
        PATIENCE_SECONDS,
        "the new records arrive",
    )
    assert read_topic(target_cluster, f"{LATE}.{NEWS}")[0] == [record for _, record in fresh]


@pytest.mark.thorough
def test_new_topics_and_partitions_flow_within_ten_seconds(
    mirror: MirrorProcess, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    """Neither they nor a topic that is deleted let another one wait."""
    steady = make_steady(source_cluster, "measured")
    quick = f"{PREFIX}-quick"
    await_copy(source_cluster, steady, target_cluster, f"{EAST}.{steady}", PATIENCE_SECONDS)
    with (
        Load(source_cluster, steady, per_second=PER_SECOND),
        observed(target_cluster, f"{EAST}.{steady}") as gaps,
    ):
        eventually(lambda: gaps.records > PER_SECOND, PATIENCE_SECONDS, "the steady topic flows")
        new_topic, new_partition = add_topic_and_partition(source_cluster, target_cluster, quick)
        delete_topic(source_cluster, quick)
        mirror.await_log(f"{EAST}: {quick}", PATIENCE_SECONDS)
        seen = gaps.records
        eventually(lambda: gaps.records > seen + 2 * PER_SECOND, PATIENCE_SECONDS, "it flows on")
    measured(
        f"new topic after {new_topic:.1f} s, new partition after {new_partition:.1f} s, "
        f"longest pause of the others {gaps.longest_seconds:.2f} s"
    )
    assert new_topic < NOTICED_SECONDS
    assert new_partition < NOTICED_SECONDS
    assert gaps.longest_seconds < LONGEST_PAUSE_SECONDS
