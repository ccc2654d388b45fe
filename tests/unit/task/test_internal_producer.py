# SPDX-License-Identifier: Apache-2.0
"""Errors and refusals of partitions of internal topics."""

from __future__ import annotations

from typing import cast

import pytest

from sparkmirror.model import TopicPartition
from sparkmirror.task.internal_producer import InternalTopicListener
from sparkmirror.task.offset_map_writer import OffsetMapWriter
from sparkmirror.task.on_demand_topic import OnDemandTopic
from sparkmirror.wire import error_codes
from sparkmirror.wire.memory import MemoryBudget
from sparkmirror.wire.outgoing import OutgoingBatch
from sparkmirror.wire.produce_partition import ProducePartition, RefusedBatch
from sparkmirror.wire.producer import Producer
from sparkmirror.wire.reframe import OffsetRun
from support.data.record_batches import encode, numbered

FORBIDDEN = 29


class FakeProducer:
    """Takes everything and sends nothing."""

    def track_topics(self, _topics: object) -> None:
        """Nothing to find."""

    def enqueue(self, part: ProducePartition, out: OutgoingBatch) -> None:
        """Keep it with its partition."""
        part.pending.append(out)

    def send_ready(self) -> None:
        """Nothing to send."""


@pytest.fixture
def producer() -> Producer:
    """A producer without connections."""
    return cast(Producer, FakeProducer())


@pytest.fixture
def budget() -> MemoryBudget:
    """Enough memory."""
    return MemoryBudget(1 << 20)


def batch(count: int, budget: MemoryBudget) -> OutgoingBatch:
    """A record batch of internal records."""
    view = memoryview(encode(numbered(0, count)))
    out = OutgoingBatch(view, count, count, 0, (OffsetRun(0, count),))
    out.pin(None, budget)
    return out


def test_the_error_names_cluster_partition_and_consequence(budget: MemoryBudget) -> None:
    """It is cleared when the partition can be written again."""
    listener = InternalTopicListener("b", budget, "positions are not stored")
    part = ProducePartition(TopicPartition("offsets", 3), listener=listener)
    listener.on_produce_error(part, FORBIDDEN, "no WRITE")
    assert listener.error == (
        "b: offsets-3 cannot be written, so positions are not stored: "
        "TOPIC_AUTHORIZATION_FAILED: no WRITE"
    )
    listener.on_produce_recovered(part)
    assert listener.error == ""


@pytest.mark.parametrize(("code", "counts"), [(error_codes.MESSAGE_TOO_LARGE, [2, 3]), (87, None)])
def test_what_is_too_large_is_halved(
    budget: MemoryBudget, code: int, counts: list[int] | None
) -> None:
    """Another refusal leaves the record batch as it is."""
    listener = InternalTopicListener("b", budget)
    part = ProducePartition(TopicPartition("offsets", 0), listener=listener)
    pieces = listener.on_refused(RefusedBatch(part, batch(5, budget), code, "", {}))
    assert (None if pieces is None else [one.count for one in pieces]) == counts
    assert not listener.on_rewind(part, 1.0)


def test_a_lost_sequence_is_handled_by_the_transaction(budget: MemoryBudget) -> None:
    """Without transactions internal records have no sequence."""
    listener = InternalTopicListener("b", budget)
    part = ProducePartition(TopicPartition("offsets", 0), listener=listener)
    listener.on_sequence_lost(part, 1.0)
    lost: list[ProducePartition] = []
    listener.handle_lost_sequence = lost.append
    listener.on_sequence_lost(part, 1.0)
    assert lost == [part]


def test_a_topic_that_the_driver_has_not_created_yet_is_no_error(
    producer: Producer, budget: MemoryBudget
) -> None:
    """Other errors are shown."""
    topic = OnDemandTopic(producer, "ledger", "b", budget)
    for code in (error_codes.UNKNOWN_TOPIC_OR_PARTITION, error_codes.NO_LEADER):
        topic.on_produce_error(topic.partition, code, "")
        assert topic.error == ""
    topic.on_produce_error(topic.partition, FORBIDDEN, "")
    assert topic.error.startswith("b: ledger-0 cannot be written: TOPIC_AUTHORIZATION_FAILED: ")


def test_a_ticket_counts_acknowledged_records(producer: Producer, budget: MemoryBudget) -> None:
    """Also those of a record batch that was halved."""
    topic = OnDemandTopic(producer, "ledger", "b", budget)
    ticket = topic.write(encode(numbered(0, 5)), 5)
    for count, is_acked in ((2, False), (3, True)):
        topic.on_acked(topic.partition, batch(count, budget))
        assert topic.is_acked(ticket) is is_acked


def test_a_refused_offset_map_is_disabled_and_wakes_the_delivery(
    producer: Producer, budget: MemoryBudget
) -> None:
    """A recovery of the topic does not enable it again; a passing error disables nothing."""
    offset_map = OffsetMapWriter(producer, "map", "b", budget)
    woken: list[bool] = []
    offset_map.on_disabled = lambda: woken.append(True)
    part = ProducePartition(offset_map.topic_partition, listener=offset_map.listener)
    offset_map.listener.on_produce_error(part, error_codes.NO_LEADER, "")
    assert (offset_map.topic, woken) == ("map", [])
    assert "map-0 cannot be written: " in offset_map.listener.error
    offset_map.listener.on_produce_error(part, FORBIDDEN, "")
    offset_map.listener.on_produce_recovered(part)
    assert (offset_map.topic, woken, offset_map.listener.error) == ("", [True], "")
    assert "groups are not translated exactly: TOPIC_AUTHORIZATION_FAILED" in offset_map.error
