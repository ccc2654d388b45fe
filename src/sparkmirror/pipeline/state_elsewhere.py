# SPDX-License-Identifier: Apache-2.0
"""Positions that are kept on another cluster than the records: a Connect worker on the source.

A connection and a producer of their own, which only tasks of such connectors have. Positions that
cannot be written hold no record up; the status says why, and a successor compares more. Owned by
the task's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sparkmirror.wire import error_codes
from sparkmirror.wire.budget import Budget
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.loop import Loop
from sparkmirror.wire.outgoing import Outgoing, halve_own
from sparkmirror.wire.producer import ProduceLimits, Producer, TargetPartition

_LIMITS = ProduceLimits(
    acks=-1, timeout_ms=30_000, max_request_bytes=1 << 20, max_in_flight=1, merged_bytes=0
)


class StateElsewhere:
    """The way to the cluster that holds the offsets topic."""

    def __init__(
        self, loop: Loop, cluster: Cluster, client_id: str, on_answer: Callable[[], None]
    ) -> None:
        self._cluster = cluster
        self._budget = Budget(1 << 20)
        self._on_answer = on_answer
        self.producer = Producer(loop, cluster, _LIMITS, self._budget, self, client_id)
        self._refusal = ""

    @property
    def trouble(self) -> str:
        """Why positions cannot be written; empty if all is well."""
        return self._refusal or str(self._cluster.trouble or "")

    def start(self, topic: str) -> None:
        """Find the leaders."""
        self.producer.start([topic])

    def tick(self) -> None:
        """What is looked at once a second."""
        self._cluster.check_deadlines()

    def close(self) -> None:
        """Hang up."""
        self.producer.close()
        self._cluster.close()

    # --- from the producer

    def acked(self, part: TargetPartition, out: Outgoing) -> None:
        """`PositionWriter.is_idle` tells."""

    def answered(self) -> None:
        """A flush may be over."""
        self._on_answer()

    def produce_trouble(self, part: TargetPartition, code: int, text: str) -> None:
        """It is tried again; until then the status says so."""
        self._refusal = (
            f"{self._cluster.alias}: {part.tp} cannot be written, so positions are not stored: "
            f"{error_codes.name(code)}: {text or error_codes.advice(code)}"
        )

    def produce_recovered(self, part: TargetPartition) -> None:  # noqa: ARG002 - all alike
        """Forget it again."""
        self._refusal = ""

    def rewound(self, part: TargetPartition, pause: float) -> bool:  # noqa: ARG002 - see below
        """Nothing is read for positions: they wait."""
        return False

    def refused(
        self,
        part: TargetPartition,  # noqa: ARG002 - all alike
        out: Outgoing,
        code: int,
        text: str,  # noqa: ARG002 - `produce_trouble` hears of it
        record_errors: Mapping[int, str],  # noqa: ARG002 - as above
    ) -> list[Outgoing] | None:
        """There is no other form to send them in, but they need not go together."""
        return halve_own(out, self._budget) if code == error_codes.MESSAGE_TOO_LARGE else None

    def sequence_lost(self, part: TargetPartition, pause: float) -> None:
        """Cannot happen without a producer id."""
