# SPDX-License-Identifier: Apache-2.0
"""Positions that are kept on another cluster than the records: a Connect worker on the source.

A connection and a producer of their own, which only tasks of such connectors have. Positions that
cannot be written hold no record up; the status says why, and a successor compares more. Owned by
the task's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sparkmirror.wire import error_codes
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.memory import MemoryBudget
from sparkmirror.wire.outgoing import OutgoingBatch, halve_batch
from sparkmirror.wire.producer import ProduceLimits, ProducePartition, Producer

_LIMITS = ProduceLimits(
    acks=-1, timeout_ms=30_000, max_request_bytes=1 << 20, max_in_flight=1, merged_bytes=0
)


class InternalProducer:
    """The way to the cluster that holds the offsets topic."""

    def __init__(
        self, loop: EventLoop, cluster: Cluster, client_id: str, on_answer: Callable[[], None]
    ) -> None:
        self._cluster = cluster
        self._budget = MemoryBudget(1 << 20)
        self._on_response = on_answer
        self.producer = Producer(loop, cluster, _LIMITS, self._budget, self, client_id)
        self._write_error = ""

    @property
    def error(self) -> str:
        """Why positions cannot be written; empty if all is well."""
        return self._write_error or str(self._cluster.error or "")

    def start(self, topic: str) -> None:
        """Find the leaders."""
        self.producer.track_topics([topic])

    def tick(self) -> None:
        """What is looked at once a second."""
        self._cluster.check_timeouts()

    def close(self) -> None:
        """Hang up."""
        self.producer.close()
        self._cluster.close()

    # --- from the producer

    def on_acked(self, part: ProducePartition, out: OutgoingBatch) -> None:
        """`PositionWriter.is_idle` tells."""

    def on_produce_response(self) -> None:
        """A flush may be over."""
        self._on_response()

    def on_produce_error(self, part: ProducePartition, code: int, text: str) -> None:
        """It is tried again; until then the status says so."""
        self._write_error = (
            f"{self._cluster.alias}: {part.tp} cannot be written, so positions are not stored: "
            f"{error_codes.name(code)}: {text or error_codes.advice(code)}"
        )

    def on_produce_recovered(self, part: ProducePartition) -> None:  # noqa: ARG002 - all alike
        """Forget it again."""
        self._write_error = ""

    def on_rewind(self, part: ProducePartition, pause: float) -> bool:  # noqa: ARG002 - see below
        """Nothing is read for positions: they wait."""
        return False

    def on_refused(
        self,
        part: ProducePartition,  # noqa: ARG002 - all alike
        out: OutgoingBatch,
        code: int,
        text: str,  # noqa: ARG002 - `produce_trouble` hears of it
        record_errors: Mapping[int, str],  # noqa: ARG002 - as above
    ) -> list[OutgoingBatch] | None:
        """There is no other form to send them in, but they need not go together."""
        return halve_batch(out, self._budget) if code == error_codes.MESSAGE_TOO_LARGE else None

    def on_sequence_lost(self, part: ProducePartition, pause: float) -> None:
        """Cannot happen without a producer id."""
