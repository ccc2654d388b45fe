# SPDX-License-Identifier: Apache-2.0
"""A task's own hand in the ledger: an incident is written before the position that covers it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from sparkmirror.pipeline.side_topic import SideTopic
from sparkmirror.state.incidents import Incident
from sparkmirror.state.ledger import entry_of
from sparkmirror.wire.new_batch import NewRecord, new_batch


class LedgerWriter:
    """Writes to the ledger topic of one flow."""

    def __init__(self, topic: SideTopic, flow: str) -> None:
        self._topic = topic
        self._flow = flow

    def write(self, incidents: Sequence[Incident]) -> int:
        """Queue entries; the ticket says when they are on the target (0: nothing to write)."""
        entries = [entry_of(self._flow, one) for one in incidents if one.belongs_in_ledger]
        if not entries:
            return 0
        records = [NewRecord(entry.key(), entry.value()) for entry in entries]
        return self._topic.write(new_batch(records, int(time.time() * 1000)), len(records))

    def has(self, ticket: int) -> bool:
        """Whether everything up to the ticket is on the target."""
        return self._topic.has(ticket)
