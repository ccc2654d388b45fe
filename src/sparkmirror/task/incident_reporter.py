# SPDX-License-Identifier: Apache-2.0
"""Reports a task's incidents and notices to the driver, and writes incidents to the ledger.

A callback runs when the ledger entry is on the target; only then does a position move past the
incident. Owned by the task's thread.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sparkmirror.model import TopicPartition
from sparkmirror.state.incidents import Incident, IncidentKind, SeenIncidents
from sparkmirror.state.ledger import entry_for_incident
from sparkmirror.state.remedies import RUN_CONNECTOR, with_command
from sparkmirror.task.copy_partition import CopyPartition
from sparkmirror.task.messages import OtherWriter
from sparkmirror.task.on_demand_topic import OnDemandTopic
from sparkmirror.wire.batch_builder import NewRecord, build_batch

# Copying continues after this time if the ledger cannot be written; the status shows its error.
LEDGER_TIMEOUT_SECONDS = 30.0
_MAX_PER_REPORT = 500  # incidents; the others follow in the next report


class _LedgerWait(NamedTuple):
    ticket: int
    deadline: float
    then: Callable[[], None]


class TaskCounts:
    """Counts for metrics since the last progress report."""

    __slots__ = ("comparisons", "merged", "raw", "reframed", "request_errors", "skipped_records")

    def __init__(self) -> None:
        self.request_errors: Counter[tuple[str, int]] = Counter()  # by side and error code
        self.clear()

    def clear(self) -> None:
        self.raw = self.reframed = self.merged = 0  # record batches of the source
        self.skipped_records = self.comparisons = 0
        self.request_errors.clear()


class IncidentReporter:
    """The incidents of one task, and its counts."""

    def __init__(self, flow: str, ledger: OnDemandTopic, connector: str = RUN_CONNECTOR) -> None:
        self._flow = flow
        self._connector = connector
        self._ledger = ledger
        self._known = SeenIncidents()
        self._unreported: deque[Incident] = deque()
        self._waiting: deque[_LedgerWait] = deque()
        self._notices: list[str] = []
        self.counts = TaskCounts()
        self.other_writers: set[OtherWriter] = set()  # on remote topics, since the task started

    @property
    def is_idle(self) -> bool:
        """Whether no callback waits for the ledger."""
        return not self._waiting

    def report(self, incident: Incident) -> None:
        """Report an incident to the driver, once."""
        if self._known.is_new(incident):
            self._unreported.append(self._with_command(incident))

    def record(self, incidents: Sequence[Incident], then: Callable[[], None]) -> None:
        """Report incidents and write their ledger entries; calls `then` when these are written."""
        for one in incidents:
            self.report(one)
        entries = [
            entry_for_incident(self._flow, self._with_command(one))
            for one in incidents
            if one.belongs_in_ledger
        ]
        if not entries:
            then()
            return
        records = [NewRecord(entry.key(), entry.value()) for entry in entries]
        ticket = self._ledger.write(build_batch(records, int(time.time() * 1000)), len(records))
        self._waiting.append(_LedgerWait(ticket, time.monotonic() + LEDGER_TIMEOUT_SECONDS, then))

    def _with_command(self, incident: Incident) -> Incident:
        return with_command(incident, self._flow, self._connector)

    def report_at(
        self, kind: IncidentKind, part: CopyPartition, cause: str, policy: str = ""
    ) -> None:
        """Record an incident at a partition's position, without a callback."""
        at = (part.position, part.position)
        self.record([new_incident(kind, part.source.tp, at, -1, cause, policy)], lambda: None)

    def notice(self, text: str) -> None:
        """Add a text to the next progress report."""
        self._notices.append(text)

    def drain_notices(self) -> tuple[str, ...]:
        """Remove and return the notices since the last call."""
        notices = tuple(self._notices)
        self._notices.clear()
        return notices

    def check_acks(self) -> None:
        """Run the callbacks whose entries are on the target or have timed out."""
        now = time.monotonic()
        while self._waiting:
            first = self._waiting[0]
            if not self._ledger.is_acked(first.ticket) and now < first.deadline:
                return
            self._waiting.popleft()
            first.then()

    def drain(self) -> tuple[Incident, ...]:
        """Remove and return the incidents for the next progress report."""
        count = min(len(self._unreported), _MAX_PER_REPORT)
        return tuple(self._unreported.popleft() for _ in range(count))


def new_incident(
    kind: IncidentKind,
    tp: TopicPartition,
    offsets: tuple[int, int] | None,
    records: int,
    cause: str,
    policy: str = "",
) -> Incident:
    """Create an incident with the current time; `offsets`: the first and last source offset."""
    first, last = offsets or (-1, -1)
    moment = int(time.time() * 1000)
    return Incident(kind, tp.topic, tp.partition, first, last, records, cause, moment, policy)
