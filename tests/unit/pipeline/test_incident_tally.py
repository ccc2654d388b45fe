# SPDX-License-Identifier: Apache-2.0
"""Incidents are logged and counted once each, however often they are reported."""

from __future__ import annotations

import logging

import pytest

from sparkmirror.pipeline.incident_tally import IncidentTally
from sparkmirror.state.incidents import Incident, Kind


def incident(offset: int, kind: Kind = Kind.GAP, partition: int = 0) -> Incident:
    """Something that happened at an offset."""
    return Incident(kind, "t", partition, offset, offset, 1, "why", offset, "continue")


def test_incidents_are_counted_by_partition_and_kind() -> None:
    """As the metric has them."""
    tally = IncidentTally("a->b")
    tally.take([incident(1), incident(2), incident(3, partition=1)])
    tally.take([incident(1, Kind.DEAD_LETTER)])
    assert tally.counts == {("t", 0, "gap"): 2, ("t", 1, "gap"): 1, ("t", 0, "dead-letter"): 1}


def test_a_repeated_report_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """A task that ran again meets the same gap."""
    tally = IncidentTally("a->b")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            tally.take([incident(7)])
    assert tally.counts == {("t", 0, "gap"): 1}
    assert [record.message for record in caplog.records] == [f"a->b: {incident(7)}"]


def test_a_flood_does_not_drown_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Ten lines of a kind in one report, then their number; all are counted."""
    tally = IncidentTally("a->b")
    with caplog.at_level(logging.WARNING):
        tally.take([incident(number, Kind.DEAD_LETTER) for number in range(500)])
    assert tally.counts == {("t", 0, "dead-letter"): 500}
    assert len(caplog.records) == 11
    assert caplog.records[-1].message == "a->b: dead-letter: 490 more"
    assert len(tally.recent) == 20
    assert tally.recent[-1] == str(incident(499, Kind.DEAD_LETTER))
