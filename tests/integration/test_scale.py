# SPDX-License-Identifier: Apache-2.0
"""Many topics in one task: all arrive, and while nothing happens they cost next to nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from support.clients.librdkafka import (
    create_topics,
    numbered,
    produce_many,
    read_topics,
    topics,
)
from support.measurements import measured
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.waiting import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.thorough

TOPICS, PARTITIONS, RECORDS = 200, 5, 5
IDLE_SECONDS = 8.0
MOST_IDLE_CPU = 0.05  # of a core
NAMES = {f"many-{number:03}": PARTITIONS for number in range(TOPICS)}


@pytest.fixture(scope="module")
def mirror(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[MirrorProcess]:
    """A flow of 1,000 topic partitions in one task."""
    create_topics(source_cluster, NAMES)
    records = numbered(PARTITIONS * RECORDS, PARTITIONS)
    produce_many(source_cluster, [(topic, *one) for topic in NAMES for one in records])
    file = mirror_file(
        tmp_path_factory.mktemp("scale"),
        {"crowd": source_cluster, "hall": target_cluster},
        "crowd->hall.enabled = true",
        "topics = many-.*",
    )
    with MirrorProcess(file) as running:
        yield running
        running.show_log()


def test_two_hundred_topics_arrive(
    mirror: MirrorProcess, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    """200 topics of 5 partitions with 5 records each, every one in its place."""
    remote = {f"crowd.{name}": count for name, count in NAMES.items()}
    eventually(
        lambda: remote.items() <= topics(target_cluster).items(),
        PATIENCE_SECONDS,
        "topics are made",
    )
    expected = {
        (f"crowd.{topic}", index): records
        for (topic, index), records in read_topics(source_cluster, NAMES).items()
    }
    assert sum(len(records) for records in expected.values()) == TOPICS * PARTITIONS * RECORDS
    eventually(
        lambda: read_topics(target_cluster, remote) == expected, PATIENCE_SECONDS, "all records"
    )
    measured(f"all there {time.monotonic() - mirror.started:.1f} s after the start")


def test_idle_partitions_cost_next_to_nothing(mirror: MirrorProcess) -> None:
    """The Python process of the task uses less than a twentieth of a core."""
    mirror.await_log("crowd->hall: RUNNING", PATIENCE_SECONDS)
    [worker] = mirror.python_workers()
    time.sleep(3)  # the arrival of the records is not what is measured
    before, began = worker.cpu_times(), time.monotonic()
    time.sleep(IDLE_SECONDS)
    after, spent = worker.cpu_times(), time.monotonic() - began
    used = (after.user + after.system - before.user - before.system) / spent
    measured(f"idle: {used:.1%} of a core")
    assert used < MOST_IDLE_CPU
