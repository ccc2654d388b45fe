# SPDX-License-Identifier: Apache-2.0
"""Who meets an incident waits for the ledger, but not for ever; the driver hears of it once."""

from __future__ import annotations

import pytest

from sparkmirror.model import TopicPartition
from sparkmirror.state.incidents import Incident, IncidentKind
from sparkmirror.task import incident_reporter
from sparkmirror.task.copy_partition import ClusterAliases, CopyPartition
from sparkmirror.task.incident_reporter import (
    LEDGER_TIMEOUT_SECONDS,
    IncidentReporter,
    new_incident,
)
from sparkmirror.task.messages import PartitionStart

TP = TopicPartition("t", 0)


class Ledger:
    """A topic whose acknowledgements the test gives."""

    def __init__(self) -> None:
        self.written = self.acked = 0

    def write(self, _batch: bytearray, count: int) -> int:
        """Keep count."""
        self.written += count
        return self.written

    def is_acked(self, ticket: int) -> bool:
        """As far as the test says."""
        return self.acked >= ticket


class Clock:
    """Stands still until the test moves it."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        """Seconds."""
        return self.now

    def time(self) -> float:
        """Seconds."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The reporter's clock."""
    made = Clock()
    monkeypatch.setattr(incident_reporter, "time", made)
    return made


def gap(first: int, policy: str = "continue") -> Incident:
    """Something that belongs in the ledger, unless the partition stops."""
    return new_incident(IncidentKind.GAP, TP, (first, first + 9), 10, "why", policy)


@pytest.mark.usefixtures("clock")
def test_no_position_passes_an_incident_before_its_ledger_entry() -> None:
    """Each waits for its own entry, in order."""
    ledger, went_on = Ledger(), list[int]()
    reporter = IncidentReporter("a->b", ledger)  # type: ignore[arg-type]
    for first in (10, 20):
        reporter.record([gap(first)], lambda first=first: went_on.append(first))  # type: ignore[misc]
    reporter.check_acks()
    assert went_on == []
    ledger.acked = 1
    reporter.check_acks()
    assert (went_on, reporter.is_idle) == ([10], False)
    ledger.acked = 2
    reporter.check_acks()
    assert (went_on, reporter.is_idle) == ([10, 20], True)


def test_a_ledger_that_cannot_be_written_is_no_reason_to_stop(clock: Clock) -> None:
    """After half a minute the partition continues; the driver knows of the incident anyway."""
    went_on: list[bool] = []
    reporter = IncidentReporter("a->b", Ledger())  # type: ignore[arg-type]
    reporter.record([gap(10)], lambda: went_on.append(True))
    clock.now += LEDGER_TIMEOUT_SECONDS + 1
    reporter.check_acks()
    assert went_on == [True]


@pytest.mark.usefixtures("clock")
def test_what_left_no_mark_waits_for_nothing() -> None:
    """The ledger stays as it is."""
    ledger, went_on = Ledger(), list[bool]()
    reporter = IncidentReporter("a->b", ledger)  # type: ignore[arg-type]
    reporter.record([gap(10, "stop")], lambda: went_on.append(True))
    assert (went_on, ledger.written) == ([True], 0)


@pytest.mark.usefixtures("clock")
def test_the_driver_gets_each_incident_once_and_in_portions() -> None:
    """A message of the control channel has its limits."""
    reporter = IncidentReporter("a->b", Ledger())  # type: ignore[arg-type]
    for first in range(600):
        reporter.report(gap(first))
        reporter.report(gap(first))
    told = [len(reporter.drain()) for _ in range(3)]
    assert told == [500, 100, 0]


@pytest.mark.usefixtures("clock")
def test_an_incident_at_a_partition_names_its_position() -> None:
    """The first and the last offset are the position; nothing waits for the ledger."""
    reporter = IncidentReporter("a->b", Ledger())  # type: ignore[arg-type]
    part = CopyPartition(PartitionStart("t", 0, "a.t", 40), ClusterAliases("a", "b"))
    reporter.report_at(IncidentKind.REFUSED, part, "why")
    (incident,) = reporter.drain()
    assert (incident.first_offset, incident.last_offset, incident.records) == (40, 40, -1)
    assert reporter.is_idle


@pytest.mark.usefixtures("clock")
def test_a_notice_is_reported_once() -> None:
    """And then forgotten."""
    reporter = IncidentReporter("a->b", Ledger())  # type: ignore[arg-type]
    reporter.notice("compared")
    assert [reporter.drain_notices() for _ in range(2)] == [("compared",), ()]
