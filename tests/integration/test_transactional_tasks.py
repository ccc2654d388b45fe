# SPDX-License-Identifier: Apache-2.0
"""Copy tasks that write in transactions, on real brokers and without Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.errors import FencedError
from sparkmirror.kafka.transactions import TransactionalIds
from sparkmirror.model import NO_PRODUCER
from sparkmirror.state.offset_store import OffsetStore
from sparkmirror.task.messages import Split, TransactionStart
from support.clients.librdkafka import (
    Record,
    compare_topics,
    create_topics,
    duplicates,
    end_offsets,
    numbered,
    produce,
    read_topic,
)
from support.clients.load_generator import Load
from support.mirrors.copy_tasks import PARTITIONS, FakeControlChannel, TaskFlow
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually


class TransactionalFlow(TaskFlow):
    """A flow whose tasks get the same transactional id, one after the other."""

    def __init__(
        self, source: LocalCluster, target: LocalCluster, config: dict[str, str] | None = None
    ) -> None:
        super().__init__(source, target, config)
        self.name = unique_name("a-mm2-MirrorSourceConnector-0")

    def fence(self) -> TransactionStart:
        """Take the id over."""
        with TransactionalIds(self.connection(self.target)) as ids:
            identity = ids.fence([self.name], transaction_timeout_ms=600_000)[self.name]
        return TransactionStart(self.name, *identity)

    def successor(self, *, is_bounded: bool = False) -> Split:
        """What the next task gets: a fresh identity, then what is committed."""
        transaction = self.fence()
        stored = OffsetStore(
            self.connection(self.target),
            self.offsets,
            connector="MirrorSourceConnector",
            source_alias="a",
        ).read()
        split = self.split(
            end_offsets(self.source, self.topic) if is_bounded else None, transaction
        )
        starts = [
            replace(
                start,
                position=stored.positions[start.source].offset + 1
                if start.source in stored.positions
                else 0,
                producer=NO_PRODUCER,
                is_handed_over=True,
            )
            for start in split.partitions
        ]
        return replace(split, partitions=tuple(starts))

    def committed(self) -> int:
        """How many records a read_committed consumer sees."""
        return sum(map(len, read_topic(self.target, self.remote).values()))

    def await_more(self, what: str) -> None:
        """Wait until some further records are committed."""
        before = self.committed()
        eventually(lambda: self.committed() > before + 400, PATIENCE_SECONDS, what)


@pytest.fixture
def flow(source_cluster: LocalCluster, target_cluster: LocalCluster) -> TransactionalFlow:
    """Between the clusters that all tests share."""
    return TransactionalFlow(source_cluster, target_cluster)


def test_tasks_that_are_replaced_without_knowing_add_nothing(flow: TransactionalFlow) -> None:
    """Three at once, the newest holds the id: the others are fenced and end."""
    load = Load(flow.source, flow.topic, per_second=500, partitions=PARTITIONS)
    with load, flow.task(flow.successor()):
        eventually(lambda: flow.committed() > 200, PATIENCE_SECONDS, "the first one writes")
        with flow.task(flow.successor()):
            flow.await_more("the second one writes")
            with flow.task(flow.successor()):
                flow.await_more("and the third")
                eventually(lambda: len(flow.failures) == 2, PATIENCE_SECONDS, "two are fenced")
    assert [type(error) for error in flow.failures] == [FencedError, FencedError]
    flow.failures.clear()
    flow.copy(flow.successor(is_bounded=True), FakeControlChannel())
    assert compare_topics(flow.source, flow.topic, flow.target, flow.remote) > 1000


def test_a_flow_that_begins_with_transactions_sees_what_it_wrote_without(
    flow: TransactionalFlow,
) -> None:
    """A task without them died before it stored anything: both sides are compared once."""
    produce(flow.source, flow.topic, numbered(5_000, PARTITIONS))
    with flow.task():
        eventually(lambda: flow.copied() >= 5_000, PATIENCE_SECONDS, "records arrive")
    produce(flow.source, flow.topic, numbered(1_000, PARTITIONS, first=5_000))
    ends = end_offsets(flow.source, flow.topic)

    receipts = flow.copy(flow.split(ends, flow.fence()), FakeControlChannel())

    assert sum(one.records for one in receipts) == 1_000
    assert all(one.is_clean for one in receipts)
    assert compare_topics(flow.source, flow.topic, flow.target, flow.remote) == 6_000


def test_a_record_that_is_refused_does_not_hold_a_transaction(
    source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    """It becomes a dead letter, outside of the transaction; all others are committed."""
    flow = TransactionalFlow(source_cluster, target_cluster, {"max.message.bytes": "20000"})
    create_topics(flow.target, {f"{flow.offsets}-ledger": 1, f"{flow.offsets}-dead-letters": 1})
    produce(flow.source, flow.topic, numbered(500, PARTITIONS))
    produce(flow.source, flow.topic, [(0, Record(b"large", b"." * 100_000))])
    produce(flow.source, flow.topic, numbered(500, PARTITIONS, first=500))

    flow.copy(flow.successor(is_bounded=True), FakeControlChannel())

    originals = read_topic(flow.source, flow.topic)
    fitting = {
        index: [record for record in records if record.key != b"large"]
        for index, records in originals.items()
    }
    copies = read_topic(flow.target, flow.remote)
    assert sum(duplicates(fitting[index], copies[index]) for index in fitting) == 0
    (letter,) = read_topic(flow.target, f"{flow.offsets}-dead-letters")[0]
    assert letter.key == b"large"
    assert len(read_topic(flow.target, f"{flow.offsets}-ledger")[0]) == 1
