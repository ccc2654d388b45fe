# SPDX-License-Identifier: Apache-2.0
"""Transactions on the source that stay open, so that nothing behind them can be copied.

Seen from here: the log has records beyond the last stable offset, and that offset does not move.
After the time that the policy gives, the leader is asked who began the transaction.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.incident_desk import IncidentDesk, incident
from sparkmirror.state.incidents import Kind
from sparkmirror.wire import error_codes
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.fetch_session import SourcePartition
from sparkmirror.wire.producer_states import ActiveProducer, ProducerStates, ask_producer_states

Trouble = Callable[[SourcePartition, int, str], None]


class OpenTransactions:
    """Watches the partitions of one task, about once a second."""

    def __init__(
        self, source: Cluster, patience_seconds: float, desk: IncidentDesk, trouble: Trouble
    ) -> None:
        self._source = source
        self._patience_seconds = patience_seconds
        self._desk = desk
        self._trouble = trouble
        self._stuck: dict[TopicPartition, tuple[int, float]] = {}  # last stable offset, since
        self._named: dict[TopicPartition, SourcePartition] = {}  # in the status

    def look(self, parts: Iterable[SourcePartition]) -> None:
        """See which partitions are held back, and for how long."""
        now = time.monotonic()
        late: list[SourcePartition] = []
        for part in parts:
            offset, since = self._stuck.get(part.tp, (-1, now))
            if not part.is_held_back or offset != part.end_offset:
                since = now
                self._stuck[part.tp] = (part.end_offset, now)
                if self._named.pop(part.tp, None) is not None:
                    self._trouble(part, error_codes.NONE, "")
            if not part.is_held_back:
                continue
            if now - since >= self._patience_seconds and part.tp not in self._named:
                self._named[part.tp] = part
                late.append(part)
        if late:
            ask_producer_states(self._source, [part.tp for part in late], self._answered)

    def _answered(self, states: ProducerStates) -> None:
        asked = {*states.found, *states.failed}
        for tp in asked & self._named.keys():
            self._tell(self._named[tp], states.found.get(tp, ()))

    def _tell(self, part: SourcePartition, producers: Iterable[ActiveProducer]) -> None:
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
            f"{self._patience_seconds:g} s; finish it, or abort it with kafka-transactions.sh"
        )
        self._desk.report(
            incident(Kind.OPEN_TRANSACTION, part.tp, (part.end_offset, part.end_offset), -1, text)
        )
        self._trouble(part, error_codes.OPEN_TRANSACTION, text)
