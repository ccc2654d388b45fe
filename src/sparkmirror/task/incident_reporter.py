# SPDX-License-Identifier: Apache-2.0
"""What a task reports: incidents and notices to the driver, incidents to the ledger as well.

Incidents that belong in the ledger have a callback, which runs when the entry is on the target; a
position moves past an incident only then. Owned by the task's thread.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sparkmirror.model import TopicPartition
from sparkmirror.state.incidents import Incident, IncidentKind, SeenIncidents
from sparkmirror.state.ledger import entry_for_incident
from sparkmirror.task.copy_partition import CopyPartition
from sparkmirror.task.messages import OtherWriter
from sparkmirror.task.on_demand_topic import OnDemandTopic
from sparkmirror.wire.batch_builder import NewRecord, build_batch

# A ledger that cannot be written is a trouble of its own, and no reason to copy nothing any more.
LEDGER_TIMEOUT_SECONDS = 30.0
_MAX_PER_REPORT = 500  # incidents; the others follow with the next one


class _LedgerWait(NamedTuple):
    ticket: int
    deadline: float
    then: Callable[[], None]


class IncidentReporter:
    """The incidents of one task."""

    def __init__(self, flow: str, ledger: OnDemandTopic) -> None:
        self._flow = flow
        self._ledger = ledger
        self._known = SeenIncidents()
        self._unreported: deque[Incident] = deque()
        self._waiting: deque[_LedgerWait] = deque()
        self._notices: list[str] = []
        self.other_writers: set[OtherWriter] = set()  # on remote topics, as long as the task runs

    @property
    def is_idle(self) -> bool:
        """Nobody waits for the ledger."""
        return not self._waiting

    def report(self, incident: Incident) -> None:
        """Tell the driver, once."""
        if self._known.is_new(incident):
            self._unreported.append(incident)

    def record(self, incidents: Sequence[Incident], then: Callable[[], None]) -> None:
        """Tell the driver and the ledger; `then` is called when the entries are there."""
        for one in incidents:
            self.report(one)
        entries = [
            entry_for_incident(self._flow, one) for one in incidents if one.belongs_in_ledger
        ]
        if not entries:
            then()
            return
        records = [NewRecord(entry.key(), entry.value()) for entry in entries]
        ticket = self._ledger.write(build_batch(records, int(time.time() * 1000)), len(records))
        self._waiting.append(_LedgerWait(ticket, time.monotonic() + LEDGER_TIMEOUT_SECONDS, then))

    def report_at(
        self, kind: IncidentKind, part: CopyPartition, cause: str, policy: str = ""
    ) -> None:
        """Record an incident at a partition's position; nothing waits for the ledger."""
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
        """Let those go on whose entries are on the target, or who have waited long enough."""
        now = time.monotonic()
        while self._waiting:
            first = self._waiting[0]
            if not self._ledger.is_acked(first.ticket) and now < first.deadline:
                return
            self._waiting.popleft()
            first.then()

    def drain(self) -> tuple[Incident, ...]:
        """What the driver is to be told next."""
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
    """Something that happens now; the offsets are the first and the last on the source."""
    first, last = offsets or (-1, -1)
    moment = int(time.time() * 1000)
    return Incident(kind, tp.topic, tp.partition, first, last, records, cause, moment, policy)
