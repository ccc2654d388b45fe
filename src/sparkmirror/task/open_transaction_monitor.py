# SPDX-License-Identifier: Apache-2.0
"""Detects hanging transactions on the source, which block the records after them.

The sign: the high watermark is beyond the last stable offset, and the latter does not move. After
`open.transaction.warning.ms`, DescribeProducers finds the producer of the transaction.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from sparkmirror.model import TopicPartition
from sparkmirror.quantities import counted
from sparkmirror.state.incidents import IncidentKind
from sparkmirror.task.copy_partition import CopyPartition
from sparkmirror.task.incident_reporter import IncidentReporter, new_incident
from sparkmirror.wire import error_codes
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.producer_queries import (
    ActiveProducer,
    ProducerDescriptions,
    describe_producers,
)


class OpenTransactionMonitor:
    """The partitions of one task that an open transaction blocks."""

    def __init__(
        self,
        source: Cluster,
        warning_seconds: float,
        reporter: IncidentReporter,
        parts: Sequence[CopyPartition],
    ) -> None:
        self._source = source
        self._warning_seconds = warning_seconds
        self._reporter = reporter
        self._parts = parts
        self._stuck: dict[TopicPartition, tuple[int, float]] = {}  # last stable offset, since
        self._reported: dict[TopicPartition, CopyPartition] = {}  # shown in the status

    def check(self) -> None:
        """Find partitions that an open transaction has blocked for too long."""
        now = time.monotonic()
        late: list[TopicPartition] = []
        for mine in self._parts:
            part = mine.source
            offset, since = self._stuck.get(part.tp, (-1, now))
            if not part.is_behind_open_transaction or offset != part.end_offset:
                since = now
                self._stuck[part.tp] = (part.end_offset, now)
                if self._reported.pop(part.tp, None) is not None:
                    mine.set_source_error(error_codes.NONE)
            if not part.is_behind_open_transaction:
                continue
            if now - since >= self._warning_seconds and part.tp not in self._reported:
                self._reported[part.tp] = mine
                late.append(part.tp)
        if late:
            describe_producers(self._source, late, self._on_producers)

    def _on_producers(self, states: ProducerDescriptions) -> None:
        answered = {*states.found, *states.failed}
        for tp in answered & self._reported.keys():
            self._report(self._reported[tp], states.found.get(tp, ()))

    def _report(self, mine: CopyPartition, producers: Iterable[ActiveProducer]) -> None:
        part = mine.source
        open_ones = [one for one in producers if one.transaction_start >= 0]
        first = min(open_ones, key=lambda one: one.transaction_start, default=None)
        owner = (
            f"producer id {first.producer_id} started it at offset {first.transaction_start}"
            if first is not None
            else "its producer is unknown"
        )
        waiting = part.high_watermark - part.end_offset
        text = (
            f"{owner}; it has blocked {counted(waiting, 'offset')} for more than "
            f"{self._warning_seconds:g} s; finish it, or abort it with kafka-transactions.sh"
        )
        self._reporter.report(
            new_incident(
                IncidentKind.OPEN_TRANSACTION, part.tp, (part.end_offset, part.end_offset), -1, text
            )
        )
        mine.set_source_error(error_codes.OPEN_TRANSACTION, text)
