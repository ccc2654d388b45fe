# SPDX-License-Identifier: Apache-2.0
"""Writes MM2's offset syncs, for Java's checkpoint connector and tools.

On connections of their own, as they go to the source by default, whose others are busy with long
polls. Syncs never hold a record up: while they cannot be written, the newest of each partition
waits, and the status says why. Owned by the task's thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sparkmirror.formats.map_chunk import MappedRun
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.sync_rule import SyncQueue
from sparkmirror.wire import error_codes
from sparkmirror.wire.budget import Budget
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.loop import Loop, Timer
from sparkmirror.wire.outgoing import Outgoing, halve_own
from sparkmirror.wire.producer import ProduceLimits, Producer, TargetPartition
from sparkmirror.wire.record_batch import build

_GATHER_SECONDS = 0.2  # what becomes due meanwhile goes out together
_LIMITS = ProduceLimits(
    acks=-1, timeout_ms=30_000, max_request_bytes=1 << 20, max_in_flight=1, merged_bytes=0
)
_SYNCS_A_RECORD_BATCH = 5_000


class SyncWriter:
    """Partition 0 of the offset-syncs topic."""

    def __init__(
        self,
        loop: Loop,
        cluster: Cluster,
        topic: str,
        offset_lag_max: int,
        client_id: str,
        max_request_bytes: int | None = None,
    ) -> None:
        self._loop = loop
        self._cluster = cluster
        self._budget = Budget(1 << 20)
        limits = _LIMITS
        if max_request_bytes is not None:
            limits = replace(_LIMITS, max_request_bytes=max_request_bytes, is_size_final=True)
        self._producer = Producer(loop, cluster, limits, self._budget, self, client_id)
        self._line = TargetPartition(TopicPartition(topic, 0))
        self._queue = SyncQueue(offset_lag_max)
        self._timer: Timer | None = None
        self.trouble = ""

    @property
    def is_settled(self) -> bool:
        """Everything that was due has been written, or cannot be."""
        return bool(self.trouble) or (self._line.is_idle and not self._queue.is_due)

    def start(self) -> None:
        """Find the leader."""
        self._producer.start([self._line.tp.topic])

    def see(self, tp: TopicPartition, runs: Iterable[MappedRun]) -> None:
        """These count as copied."""
        for run in runs:
            self._queue.see(tp, *run)
        if self._timer is None and self._queue.is_due:
            self._timer = self._loop.call_later(_GATHER_SECONDS, self._send)

    def promote(self) -> None:
        """Positions have been stored."""
        self._queue.promote()
        self._send()

    def tick(self) -> None:
        """What is looked at once a second."""
        self._cluster.check_deadlines()

    def close(self) -> None:
        """Hang up."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._producer.close()
        self._cluster.close()

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._line.is_idle or not self._queue.is_due:
            return
        syncs = self._queue.take()
        for at in range(0, len(syncs), _SYNCS_A_RECORD_BATCH):
            some = syncs[at : at + _SYNCS_A_RECORD_BATCH]
            view = memoryview(build([(sync.key(), sync.value()) for sync in some]))
            self._producer.offer(self._line, Outgoing(view, len(some), 0, 0, ()))
        self._producer.pump()

    # --- from the producer

    def acked(self, part: TargetPartition, out: Outgoing) -> None:
        """The syncs are there."""

    def answered(self) -> None:
        """What has become due meanwhile may go."""
        if self._line.is_idle and self._timer is None and self._queue.is_due:
            self._timer = self._loop.call_later(_GATHER_SECONDS, self._send)

    def produce_trouble(self, part: TargetPartition, code: int, text: str) -> None:
        """It is tried again; until then the status says so."""
        self.trouble = (
            f"{self._cluster.alias}: {part.tp} cannot be written, so Java's tools see old offset "
            f"syncs: {error_codes.name(code)}: {text or error_codes.advice(code)}"
        )

    def produce_recovered(self, part: TargetPartition) -> None:  # noqa: ARG002 - there is one only
        """Forget it again."""
        self.trouble = ""

    def rewound(self, part: TargetPartition, pause: float) -> bool:  # noqa: ARG002 - see below
        """Nothing is read for syncs: they wait."""
        return False

    def refused(
        self,
        part: TargetPartition,  # noqa: ARG002 - there is one only
        out: Outgoing,
        code: int,
        text: str,  # noqa: ARG002 - `produce_trouble` hears of it
        record_errors: Mapping[int, str],  # noqa: ARG002 - as above
    ) -> list[Outgoing] | None:
        """There is no other form to send them in, but they need not go together."""
        return halve_own(out, self._budget) if code == error_codes.MESSAGE_TOO_LARGE else None

    def sequence_lost(self, part: TargetPartition, pause: float) -> None:
        """Cannot happen without a producer id."""
