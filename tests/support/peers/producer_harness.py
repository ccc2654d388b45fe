# SPDX-License-Identifier: Apache-2.0
"""A producer between fakes: two partitions, a recording listener, logs with a broker's rules."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import NamedTuple

from sparkmirror.model import TopicPartition
from sparkmirror.wire.memory import MemoryBudget, SharedBuffer
from sparkmirror.wire.outgoing import OutgoingBatch
from sparkmirror.wire.produce_partition import ProducePartition, RefusedBatch
from sparkmirror.wire.producer import Producer
from sparkmirror.wire.record_batch import SEQUENCE_MASK
from sparkmirror.wire.reframe import OffsetRun
from sparkmirror.wire.settings import ProduceSettings
from support.data.record_batches import decode, encode, header, numbered
from support.peers.fake_cluster import FakeCluster, FakeConnection, FakeLoop, Request

TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
OUT_OF_ORDER = 45
SPACING = 200  # source offsets between two batches


class RecordingProduceListener:
    """Remembers what the producer reported."""

    def __init__(self) -> None:
        self.acks: dict[TopicPartition, list[int]] = {}
        self.bases: list[int] = []
        self.troubles: list[int] = []
        self.recoveries = 0
        self.answers = 0
        self.can_rewind = False
        self.rewinds = 0
        self.pieces: list[OutgoingBatch] | None = None  # to send instead of what was refused
        self.lost: list[TopicPartition] = []

    def on_acked(self, part: ProducePartition, out: OutgoingBatch) -> None:
        """Note which batch, by the source offset it began at."""
        self.acks.setdefault(part.tp, []).append(out.runs[0].first)
        self.bases.append(out.base_offset)

    def on_response(self) -> None:
        self.answers += 1

    def on_produce_error(self, _part: ProducePartition, code: int, _text: str) -> None:
        self.troubles.append(code)

    def on_rewind(self, _part: ProducePartition, _pause: float) -> bool:
        """Whether the test reads again what was refused."""
        self.rewinds += self.can_rewind
        return self.can_rewind

    def on_refused(self, _refused: RefusedBatch) -> list[OutgoingBatch] | None:
        """What the test wants to send instead."""
        return self.pieces

    def on_sequence_lost(self, part: ProducePartition, _pause: float) -> None:
        self.lost.append(part.tp)

    def on_produce_recovered(self, _part: ProducePartition) -> None:
        self.recoveries += 1


class Appended(NamedTuple):
    """One batch that the log remembers of a producer."""

    epoch: int
    first: int
    last: int
    base_offset: int


class IdempotentLog:
    """A partition's log with a broker's rules for producer ids and sequences.

    `last_sequence` is that of a batch of producer 50 before; None: the id is new here, and a
    broker then takes any first sequence.
    """

    def __init__(self, last_sequence: int | None) -> None:
        self.keys: list[bytes | None] = []
        self._known: dict[int, deque[Appended]] = {}
        if last_sequence is not None:
            self._known[50] = deque([Appended(0, -2, last_sequence, -1)], maxlen=5)

    def append(self, raw: bytes) -> tuple[int, int]:
        """Error code and base offset."""
        head = header(raw)
        known = self._known.setdefault(head.producer_id, deque(maxlen=5))
        last = (head.base_sequence + head.records_count - 1) & SEQUENCE_MASK
        for one in known:
            if (one.epoch, one.first, one.last) == (head.producer_epoch, head.base_sequence, last):
                return 0, one.base_offset
        if known and head.base_sequence != (known[-1].last + 1) & SEQUENCE_MASK:
            return OUT_OF_ORDER, -1
        base = len(self.keys)
        known.append(Appended(head.producer_epoch, head.base_sequence, last, base))
        self.keys += [one.key for one in decode(raw)]
        return 0, base


class ProducerHarness:
    """A producer between fakes, with two partitions led by broker 1."""

    def __init__(
        self,
        *,
        max_in_flight: int = 5,
        max_request_bytes: int = 1 << 20,
        is_known: bool = True,
        merged_bytes: int = 0,
        is_size_final: bool = False,
    ) -> None:
        self.loop = FakeLoop()
        self.cluster = FakeCluster({TP: 1, OTHER: 1})
        self.budget = MemoryBudget(1 << 20)
        self.listener = RecordingProduceListener()
        self.producer = Producer(
            self.loop,  # type: ignore[arg-type]
            self.cluster,  # type: ignore[arg-type]
            ProduceSettings(
                request_timeout_ms=1_000,
                max_request_bytes=max_request_bytes,
                max_in_flight=max_in_flight,
                enforces_max_request_bytes=is_size_final,
            ),
            self.budget,
            "test",
            merged_bytes,
        )
        self.producer.on_response = (self.listener.on_response,)
        self.parts = {
            tp: ProducePartition(tp, 50, 0, 0, listener=self.listener) for tp in (TP, OTHER)
        }
        self.offered: dict[TopicPartition, list[int]] = {TP: [], OTHER: []}
        self.logs = {
            tp: IdempotentLog(last_sequence=-1 if is_known else None) for tp in (TP, OTHER)
        }
        for part in self.parts.values():
            part.is_producer_known = is_known

    def offer(self, *counts: int, tp: TopicPartition = TP) -> None:
        """Queue batches of so many records each, all in one receive buffer."""
        buffer = SharedBuffer(self.budget, 1_000)
        for count in counts:
            first = len(self.offered[tp]) * SPACING
            view = memoryview(encode(numbered(first, count)))
            out = OutgoingBatch(
                view, count, first + count, 0, (OffsetRun(first, count),), has_own_bytes=False
            )
            out.pin(buffer, self.budget)
            self.offered[tp].append(first)
            self.producer.enqueue(self.parts[tp], out)
        buffer.release_owner()

    def batch(self, count: int) -> OutgoingBatch:
        """A record batch that is not offered to the producer."""
        view = memoryview(encode(numbered(0, count)))
        out = OutgoingBatch(view, count, count, 0, (OffsetRun(0, count),))
        out.pin(SharedBuffer(self.budget, 0), self.budget)
        return out

    def broker(self, node: int = 1) -> FakeConnection:
        """The connection to a broker."""
        return self.cluster.connection(node)

    def serve(self, request: Request) -> None:
        """Answer as a healthy leader would."""
        request.produced({tp: self.logs[tp].append(raw) for tp, raw in request.batches.items()})

    def settle(self) -> None:
        """Serve everything on all brokers until nothing is left to do."""
        self.producer.send_ready()
        for _ in range(200):
            for node in (1, 2):
                waiting = self.broker(node).waiting
                while waiting:
                    request = waiting.popleft()
                    if hasattr(request.content, "topic_data"):
                        self.serve(request)
                    else:
                        request.reply(
                            SimpleNamespace(error_code=0, producer_id=51, producer_epoch=0)
                        )
            if all(part.is_idle for part in self.parts.values()):
                return
            self.loop.advance(1.0)
            self.cluster.learn()
        raise AssertionError("the producer never finished")

    def check_all_copied_once(self) -> None:
        """In order, acknowledged once, in the log once, and nothing held."""
        for tp, firsts in self.offered.items():
            assert self.listener.acks.get(tp, []) == firsts
            seen = [int((key or b"")[1:]) // SPACING * SPACING for key in self.logs[tp].keys]
            assert list(dict.fromkeys(seen)) == firsts
            assert seen == sorted(seen)
        assert len(self.logs[TP].keys) == len(set(self.logs[TP].keys))
        assert self.budget.held == 0
        assert all(part.unanswered_requests == 0 for part in self.parts.values())


def sequences(connection: FakeConnection, tp: TopicPartition = TP) -> list[int]:
    """The sequences that wait for an answer."""
    return [header(r.batches[tp]).base_sequence for r in connection.waiting if tp in r.batches]
