# SPDX-License-Identifier: Apache-2.0
"""A fetcher between fakes: two partitions and a listener that keeps what was read."""

from __future__ import annotations

from collections.abc import Sequence

from sparkmirror.model import TopicPartition
from sparkmirror.wire.fetch_partition import FetchPartition
from sparkmirror.wire.fetcher import Fetcher
from sparkmirror.wire.memory import MemoryBudget, SharedBuffer
from sparkmirror.wire.outgoing import AbortedTransaction, OutgoingBatch, prepare_batches
from sparkmirror.wire.settings import FetchSettings
from support.data.record_batches import encode, numbered
from support.peers.fake_cluster import (
    FakeCluster,
    FakeConnection,
    FakeLoop,
    Request,
    partition_data,
)

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
LIMIT = 8 << 20
MAX_PARTITION_BYTES = 1_000


class RecordingFetchListener:
    """Keeps what was read until the test acknowledges it."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self.taken: dict[TopicPartition, list[OutgoingBatch]] = {}
        self.troubles: list[tuple[TopicPartition, int]] = []
        self.recovered: list[TopicPartition] = []
        self.outside: list[FetchPartition] = []
        self.diverging: list[tuple[TopicPartition, int]] = []
        self.fetches = 0

    def on_records(
        self,
        part: FetchPartition,
        records: memoryview,
        aborted: Sequence[AbortedTransaction],
        buffer: SharedBuffer,
    ) -> int:
        batches = prepare_batches(records, part.position, aborted)
        part.last_leader_epoch = batches.leader_epoch
        for out in batches.batches:
            out.pin(buffer, self._budget)
            part.queued_bytes += out.size
            self.taken.setdefault(part.tp, []).append(out)
        return batches.position

    def on_response(self) -> None:
        self.fetches += 1

    def on_fetch_error(self, part: FetchPartition, code: int, _text: str) -> None:
        self.troubles.append((part.tp, code))

    def on_fetch_recovered(self, part: FetchPartition) -> None:
        self.recovered.append(part.tp)

    def on_out_of_range(self, part: FetchPartition) -> None:
        self.outside.append(part)

    def on_diverged(self, part: FetchPartition, end_offset: int) -> None:
        """Note partition and where its log parted."""
        self.diverging.append((part.tp, end_offset))

    def on_ended_early(self, part: FetchPartition) -> None: ...


class FetcherHarness:
    """A fetcher of partitions A and B, led by broker 1 unless the test says otherwise."""

    def __init__(
        self,
        *,
        leaders: dict[TopicPartition, int] | None = None,
        fetch_version: int = 12,
        stop_at: int | None = None,
        max_partition_bytes: int = MAX_PARTITION_BYTES,
        max_bytes: int = 4 << 20,
    ) -> None:
        self.loop = FakeLoop()
        self.cluster = FakeCluster(leaders or {A: 1, B: 1}, fetch_version=fetch_version)
        self.budget = MemoryBudget(LIMIT)
        self.listener = RecordingFetchListener(self.budget)
        self.settings = FetchSettings(
            fetch_max_bytes=max_bytes, max_partition_fetch_bytes=max_partition_bytes
        )
        self.fetcher = Fetcher(
            self.loop,  # type: ignore[arg-type]
            self.cluster,  # type: ignore[arg-type]
            self.settings,
            self.budget,
        )
        self.fetcher.log_changes = self.listener
        self.fetcher.on_response = (self.listener.on_response,)
        self.parts = {
            tp: FetchPartition(tp, 0, stop_at=stop_at, listener=self.listener)
            for tp in sorted({A, B, *(leaders or ())})
        }

    def start(self) -> None:
        self.fetcher.add(self.parts.values())

    def broker(self, node: int = 1, lane: int = 0) -> FakeConnection:
        """The connection to a broker."""
        return self.cluster.connection(node, lane)

    def request(self, node: int = 1, lane: int = 0) -> Request:
        """The one request that waits at a broker."""
        (found,) = self.broker(node, lane).waiting
        self.broker(node, lane).waiting.clear()
        return found

    def request_after(self, *answer: tuple[str, object], session_id: int = 0) -> Request:
        """Answer the request that waits; the next one."""
        self.request().fetched(*answer, session_id=session_id)
        return self.request()

    def offsets(self, tp: TopicPartition) -> list[int]:
        """The source offsets that were read."""
        return [
            offset
            for out in self.listener.taken.get(tp, [])
            for run in out.runs
            for offset in range(run.first, run.first + run.length)
        ]

    def acknowledge(self, tp: TopicPartition) -> None:
        """Everything of a partition is on the target."""
        part = self.parts[tp]
        for out in self.listener.taken.pop(tp, []):
            out.release()
            part.queued_bytes -= out.size
            self.fetcher.on_drained(part)
        self.fetcher.send_fetches()


def data(tp: TopicPartition, first: int, count: int = 2) -> tuple[str, object]:
    """Records of a partition in a response."""
    return tp.topic, partition_data(tp.partition, encode(numbered(first, count)))


def error(tp: TopicPartition, code: int) -> tuple[str, object]:
    """An error of a partition in a response."""
    return tp.topic, partition_data(tp.partition, error=code)


def named(*wanted: tuple[TopicPartition, int]) -> dict[tuple[str, int], int]:
    return {tuple(tp): position for tp, position in wanted}  # type: ignore[misc]
