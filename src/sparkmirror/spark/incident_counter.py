# SPDX-License-Identifier: Apache-2.0
"""Counts the incidents of a flow: each is logged and counted once.

A second attempt of a Spark task, or the next epoch, may report the same incident again; its
identity tells. Not thread-safe; its owner locks.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterable

from sparkmirror.state.incidents import Incident, IncidentKind, SeenIncidents

_MAX_RECENT = 20
_MAX_LINES_PER_KIND = 10  # log lines per kind and report
_log = logging.getLogger(__name__)

IncidentCounts = dict[tuple[str, int, str], int]  # source topic, partition, kind -> count


class IncidentCounter:
    """The incidents of one flow since the process started."""

    def __init__(self, flow: str) -> None:
        self._flow = flow
        self._known = SeenIncidents()
        self._counts: Counter[tuple[str, int, str]] = Counter()
        self._recent: deque[str] = deque(maxlen=_MAX_RECENT)
        self._kinds: Counter[str] = Counter()
        self._records: Counter[str] = Counter()
        self.ledger_entries = 0

    def add(self, incidents: Iterable[Incident]) -> None:
        """Log and count new incidents."""
        lines: Counter[IncidentKind] = Counter()
        for one in incidents:
            if not self._known.is_new(one):
                continue
            self._counts[one.topic, one.partition, str(one.kind)] += 1
            self._recent.append(str(one))
            self._kinds[str(one.kind)] += 1
            self._records[str(one.kind)] += max(one.records, 0)
            self.ledger_entries += one.belongs_in_ledger
            lines[one.kind] += 1
            if lines[one.kind] <= _MAX_LINES_PER_KIND:
                _log.warning("%s: %s", self._flow, one)
        for kind, count in lines.items():
            if count > _MAX_LINES_PER_KIND:
                _log.warning("%s: %s: %d more", self._flow, kind, count - _MAX_LINES_PER_KIND)

    @property
    def counts(self) -> IncidentCounts:
        """The number of each kind, by source partition."""
        return dict(self._counts)

    @property
    def kinds(self) -> dict[str, int]:
        """The number of incidents of each kind; 0 if there was none."""
        return {str(kind): self._kinds[str(kind)] for kind in IncidentKind}

    @property
    def records(self) -> dict[str, int]:
        """The records of the incidents of each kind, as far as they are known."""
        return {str(kind): self._records[str(kind)] for kind in IncidentKind}

    @property
    def recent(self) -> tuple[str, ...]:
        """The latest ones as text, oldest first."""
        return tuple(self._recent)
