# SPDX-License-Identifier: Apache-2.0
"""The driver's account of a flow's incidents: each is logged and counted once.

The same incident may be reported again, by a task that Spark ran a second time or by the next
epoch; it is known by its identity. Not locked: the owner does that.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterable

from sparkmirror.state.incidents import Incident, Kind, KnownIncidents

_RECENT = 20
_LINES_A_REPORT = 10  # of one kind: a flood shall not drown the log
_log = logging.getLogger(__name__)

Tally = dict[tuple[str, int, str], int]  # source topic, partition, kind -> how many


class IncidentTally:
    """What happened to one flow since the process started."""

    def __init__(self, flow: str) -> None:
        self._flow = flow
        self._known = KnownIncidents()
        self._counts: Counter[tuple[str, int, str]] = Counter()
        self._recent: deque[str] = deque(maxlen=_RECENT)

    def take(self, incidents: Iterable[Incident]) -> None:
        """Log and count what has not been seen before."""
        lines: Counter[Kind] = Counter()
        for one in incidents:
            if not self._known.is_new(one):
                continue
            self._counts[one.topic, one.partition, str(one.kind)] += 1
            self._recent.append(str(one))
            lines[one.kind] += 1
            if lines[one.kind] <= _LINES_A_REPORT:
                _log.warning("%s: %s", self._flow, one)
        for kind, count in lines.items():
            if count > _LINES_A_REPORT:
                _log.warning("%s: %s: %d more", self._flow, kind, count - _LINES_A_REPORT)

    @property
    def counts(self) -> Tally:
        """How many of each kind, by source partition."""
        return dict(self._counts)

    @property
    def recent(self) -> tuple[str, ...]:
        """The latest ones in words, oldest first."""
        return tuple(self._recent)
