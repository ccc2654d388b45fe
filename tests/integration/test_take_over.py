# SPDX-License-Identifier: Apache-2.0
"""Compare-and-append on real brokers: however many writers a flow has, each record arrives once.

Copy tasks without Spark, each on its own thread, all for the same split and as the same
producer: a predecessor that does not know it has been replaced is just another of these.
"""

from __future__ import annotations

import random

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.model import ProducerState
from sparkmirror.task.messages import OtherWriter
from support.clients.librdkafka import compare_topics, numbered, produce
from support.clients.load_generator import Load
from support.mirrors.copy_tasks import PARTITIONS, TaskFlow
from support.waiting import PATIENCE_SECONDS, eventually


@pytest.fixture
def flow(source_cluster: LocalCluster, target_cluster: LocalCluster) -> TaskFlow:
    """Between the clusters that all tests share."""
    return TaskFlow(source_cluster, target_cluster)


def test_three_tasks_at_once_copy_each_record_once(flow: TaskFlow) -> None:
    """They contend for every sequence; the loser compares and continues after the winner."""
    load = Load(flow.source, flow.topic, per_second=500, partitions=PARTITIONS)
    with load, flow.task() as one, flow.task() as two, flow.task() as three:
        eventually(lambda: flow.copied() > 1500, PATIENCE_SECONDS, "records arrive")
        for task in (one, two, three):
            eventually(lambda: task.reports, PATIENCE_SECONDS, "every task takes part")  # noqa: B023 - called at once
    flow.finish()
    assert compare_topics(flow.source, flow.topic, flow.target, flow.remote) > 1500


def test_a_successor_sees_what_a_task_wrote_that_never_said_so(flow: TaskFlow) -> None:
    """Nothing was stored since the pair: all of it is compared, the rest is copied.

    Several fetches' worth on each side, so that either has to wait for the other.
    """
    noise = random.Random(1)
    large = [
        (index, record._replace(value=noise.randbytes(500)))
        for index, record in numbered(20_000, PARTITIONS)
    ]
    produce(flow.source, flow.topic, large, compression_type="lz4")
    with flow.task():
        eventually(lambda: flow.copied() >= 20_000, PATIENCE_SECONDS, "records arrive")
    produce(flow.source, flow.topic, numbered(1_000, PARTITIONS, first=20_000))

    receipts = flow.finish()

    assert sum(one.records for one in receipts) == 1_000
    assert all(one.is_clean for one in receipts)
    assert compare_topics(flow.source, flow.topic, flow.target, flow.remote) == 21_000


def test_another_writer_is_seen_and_stepped_over(flow: TaskFlow) -> None:
    """A stranger writes into the remote topic: its producer is named, our records come once."""
    produce(flow.source, flow.topic, numbered(500, PARTITIONS))
    with flow.task() as driver:
        eventually(lambda: flow.copied() >= 500, PATIENCE_SECONDS, "records arrive")
        produce(flow.target, flow.remote, numbered(10, PARTITIONS, first=9_000))
        produce(flow.source, flow.topic, numbered(100, PARTITIONS, first=500))
        eventually(lambda: flow.copied() >= 610, PATIENCE_SECONDS, "more records arrive")

        def seen() -> set[OtherWriter]:
            return {one for report in driver.reports for one in report.other_writers}

        eventually(lambda: len(seen()) == PARTITIONS, PATIENCE_SECONDS, "the stranger is seen")
    assert all(one.topic == flow.remote for one in seen())
    assert flow.producer.producer_id not in {one.producer_id for one in seen()}

    flow.finish()

    assert flow.copied() == 610


def test_a_resume_point_of_another_producer_starts_no_comparison(flow: TaskFlow) -> None:
    """A stored producer that the target does not know any more writes on as a fresh one."""
    produce(flow.source, flow.topic, numbered(200, PARTITIONS))
    flow.producer = ProducerState(flow.producer.producer_id + 1000, 0, 77)

    receipts = flow.finish()

    assert sum(one.records for one in receipts) == 200
    assert all(one.is_clean for one in receipts)
    assert compare_topics(flow.source, flow.topic, flow.target, flow.remote) == 200
