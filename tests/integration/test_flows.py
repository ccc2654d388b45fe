# SPDX-License-Identifier: Apache-2.0
"""Three flows in one running process: both directions, new topics, deleted ones.

All tests share the one process; each has topics of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from sparkmirror.formats.heartbeat import Heartbeat
from sparkmirror.local.cluster import LocalCluster
from sparkmirror.model import Flow
from support.figures import measured
from support.load import Load, observed
from support.mirror_file import mirror_file
from support.mirror_process import MirrorProcess
from support.waiting import eventually
from support.witness import (
    PATIENCE_SECONDS,
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

pytestmark = pytest.mark.alone

NOTICED_SECONDS = 10.0
LONGEST_PAUSE_SECONDS = 2.0


@pytest.fixture(scope="module")
def mirror(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[MirrorProcess]:
    """East and west mirror each other; `late` is east again, read from its end."""
    create_topics(
        source_cluster,
        {
            "flows-both": 2,
            "flows-steady": 1,
            "flows-doomed": 1,
            "late-news": 1,
        },
    )
    create_topics(target_cluster, {"flows-both": 2})
    produce(source_cluster, "late-news", numbered(500))
    file = mirror_file(
        tmp_path_factory.mktemp("flows"),
        {"east": source_cluster, "west": target_cluster, "late": source_cluster},
        "east->west.enabled = true",
        "west->east.enabled = true",
        "late->west.enabled = true",
        # Wide enough to match what the other direction writes: only the cycle check keeps it out.
        "topics = .*flows-.*",
        "late->west.topics = late-.*",
        "late.consumer.auto.offset.reset = latest",
    )
    with MirrorProcess(file) as running:
        for flow in ("east->west", "west->east", "late->west"):
            running.await_log(f"{flow}: RUNNING", PATIENCE_SECONDS)
        yield running
        running.show_log()


def test_both_directions_flow_without_cycles(
    mirror: MirrorProcess, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    """A topic of the same name on both sides arrives on each other's side, and nowhere else."""
    produce(source_cluster, "flows-both", numbered(1000, 2))
    produce(target_cluster, "flows-both", numbered(700, 2, first=5000))
    await_copy(source_cluster, "flows-both", target_cluster, "east.flows-both", PATIENCE_SECONDS)
    await_copy(target_cluster, "flows-both", source_cluster, "west.flows-both", PATIENCE_SECONDS)
    # A topic that is made now is noticed by both directions only in a round that sees the copies.
    for cluster in (source_cluster, target_cluster):
        create_topics(cluster, {"flows-marker": 1})
    for cluster, name in (
        (source_cluster, "west.flows-marker"),
        (target_cluster, "east.flows-marker"),
    ):
        eventually(lambda: name in topics(cluster), PATIENCE_SECONDS, f"{name} is made")  # noqa: B023 - called at once
    for cluster in (source_cluster, target_cluster):
        round_trips = [
            name for name in topics(cluster) if "east.west." in name or "west.east." in name
        ]
        assert round_trips == []
    assert compare_topics(source_cluster, "flows-both", target_cluster, "east.flows-both") == 1000
    assert compare_topics(target_cluster, "flows-both", source_cluster, "west.flows-both") == 700
    assert mirror.is_running


@pytest.mark.usefixtures("mirror")
def test_heartbeats_are_mirrored(target_cluster: LocalCluster) -> None:
    """The heartbeats that west->east leaves on east arrive on west as east.heartbeats."""

    def beats() -> list[Heartbeat]:
        records = read_topic(target_cluster, "east.heartbeats").get(0, [])
        found = [Heartbeat.from_record(one.key or b"", one.value or b"") for one in records]
        return [beat for beat in found if beat.flow == Flow("west", "east")]

    eventually(lambda: len(beats()) >= 3, PATIENCE_SECONDS, "three heartbeats are mirrored")


@pytest.mark.usefixtures("mirror")
def test_new_topics_and_partitions_flow_within_ten_seconds(
    source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    """They are noticed while another topic goes on flowing, without a pause or a repetition."""
    steady = "flows-steady"
    with (
        Load(source_cluster, steady, per_second=200),
        observed(target_cluster, f"east.{steady}") as gaps,
    ):
        eventually(lambda: gaps.records > 100, PATIENCE_SECONDS, "the steady topic flows")
        began = time.monotonic()
        create_topics(source_cluster, {"flows-new": 2})
        produce(source_cluster, "flows-new", numbered(10, 2))
        await_copy(source_cluster, "flows-new", target_cluster, "east.flows-new", PATIENCE_SECONDS)
        new_topic = time.monotonic() - began
        began = time.monotonic()
        grow_topic(source_cluster, "flows-new", 3)
        eventually(
            lambda: len(end_offsets(source_cluster, "flows-new")) == 3,
            PATIENCE_SECONDS,
            "it has grown",
        )
        produce(source_cluster, "flows-new", [(2, Record(b"new", b"partition"))])
        await_copy(source_cluster, "flows-new", target_cluster, "east.flows-new", PATIENCE_SECONDS)
        new_partition = time.monotonic() - began
    measured(
        f"new topic after {new_topic:.1f} s, new partition after {new_partition:.1f} s, "
        f"longest pause of the others {gaps.longest_seconds:.2f} s"
    )
    await_copy(source_cluster, steady, target_cluster, f"east.{steady}", PATIENCE_SECONDS)
    compare_topics(source_cluster, steady, target_cluster, f"east.{steady}")
    assert compare_topics(source_cluster, "flows-new", target_cluster, "east.flows-new") == 11
    assert new_topic < NOTICED_SECONDS
    assert new_partition < NOTICED_SECONDS
    assert gaps.longest_seconds < LONGEST_PAUSE_SECONDS


def test_a_deleted_topic_is_reported_and_the_others_flow(
    mirror: MirrorProcess, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    """The status names the topic; another one goes on without a pause."""
    produce(source_cluster, "flows-doomed", numbered(10))
    await_copy(
        source_cluster, "flows-doomed", target_cluster, "east.flows-doomed", PATIENCE_SECONDS
    )
    steady = "flows-steady"
    with (
        Load(source_cluster, steady, per_second=200),
        observed(target_cluster, f"east.{steady}") as gaps,
    ):
        eventually(lambda: gaps.records > 100, PATIENCE_SECONDS, "the steady topic flows")
        delete_topic(source_cluster, "flows-doomed")
        mirror.await_log("east: flows-doomed", PATIENCE_SECONDS)
        seen = gaps.records
        eventually(
            lambda: gaps.records > seen + 400, PATIENCE_SECONDS, "two seconds of records more"
        )
    assert gaps.longest_seconds < LONGEST_PAUSE_SECONDS
    await_copy(source_cluster, steady, target_cluster, f"east.{steady}", PATIENCE_SECONDS)
    compare_topics(source_cluster, steady, target_cluster, f"east.{steady}")


@pytest.mark.usefixtures("mirror")
def test_latest_means_only_records_written_after_the_start(
    source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    """With auto.offset.reset=latest the 500 old records stay where they are."""
    fresh = numbered(50, first=10_000)
    produce(source_cluster, "late-news", fresh)
    eventually(
        lambda: len(read_topic(target_cluster, "late.late-news")[0]) >= 50,
        PATIENCE_SECONDS,
        "the new records arrive",
    )
    assert read_topic(target_cluster, "late.late-news")[0] == [record for _, record in fresh]
