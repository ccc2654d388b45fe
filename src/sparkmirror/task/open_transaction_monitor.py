# SPDX-License-Identifier: Apache-2.0
"""Transactions on the source that stay open, so that nothing behind them can be copied.

Seen from here: the log has records beyond the last stable offset, and that offset does not move.
After the time that the policy gives, the leader is asked who began the transaction.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from sparkmirror.model import TopicPartition
from sparkmirror.state.incidents import IncidentKind
from sparkmirror.task.incident_reporter import IncidentReporter, new_incident
from sparkmirror.wire import error_codes
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.fetch_session import FetchPartition
from sparkmirror.wire.producer_queries import (
    ActiveProducer,
    ProducerDescriptions,
    describe_producers,
)

SetError = Callable[[FetchPartition, int, str], None]


class OpenTransactionMonitor:
    """Watches the partitions of one task, about once a second."""

    def __init__(
        self,
        source: Cluster,
        patience_seconds: float,
        reporter: IncidentReporter,
        trouble: SetError,
    ) -> None:
        self._source = source
        self._warning_seconds = patience_seconds
        self._reporter = reporter
        self._trouble = trouble
        self._stuck: dict[TopicPartition, tuple[int, float]] = {}  # last stable offset, since
        self._reported: dict[TopicPartition, FetchPartition] = {}  # in the status

    def check(self, parts: Iterable[FetchPartition]) -> None:
        """See which partitions are held back, and for how long."""
        now = time.monotonic()
        late: list[FetchPartition] = []
        for part in parts:
            offset, since = self._stuck.get(part.tp, (-1, now))
            if not part.is_behind_open_transaction or offset != part.end_offset:
                since = now
                self._stuck[part.tp] = (part.end_offset, now)
                if self._reported.pop(part.tp, None) is not None:
                    self._trouble(part, error_codes.NONE, "")
            if not part.is_behind_open_transaction:
                continue
            if now - since >= self._warning_seconds and part.tp not in self._reported:
                self._reported[part.tp] = part
                late.append(part)
        if late:
            describe_producers(self._source, [part.tp for part in late], self._on_producers)

    def _on_producers(self, states: ProducerDescriptions) -> None:
        asked = {*states.found, *states.failed}
        for tp in asked & self._reported.keys():
            self._report(self._reported[tp], states.found.get(tp, ()))

    def _report(self, part: FetchPartition, producers: Iterable[ActiveProducer]) -> None:
        open_ones = [one for one in producers if one.transaction_start >= 0]
        first = min(open_ones, key=lambda one: one.transaction_start, default=None)
        who = (
            f"producer id {first.producer_id} began it at offset {first.transaction_start}"
            if first is not None
            else "the broker does not say whose it is"
        )
        waiting = part.high_watermark - part.end_offset
        text = (
            f"{who}; {waiting} offsets have waited behind it for more than "
            f"{self._warning_seconds:g} s; finish it, or abort it with kafka-transactions.sh"
        )
        self._reporter.report(
            new_incident(
                IncidentKind.OPEN_TRANSACTION, part.tp, (part.end_offset, part.end_offset), -1, text
            )
        )
        self._trouble(part, error_codes.OPEN_TRANSACTION, text)
