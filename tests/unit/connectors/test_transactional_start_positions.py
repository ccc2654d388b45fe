# SPDX-License-Identifier: Apache-2.0
"""What an exactly-once flow does about a target that lost records: goes back, or waits.

Where the target ends is scripted; on real brokers: thorough/test_moved_logs.py.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.config.settings import IncidentPolicies
from sparkmirror.connectors import transactional_start_positions as module
from sparkmirror.connectors.source_topics import MirroredPartition
from sparkmirror.connectors.start_positions import KnownPosition
from sparkmirror.connectors.target_log_ends import LogEndCheck
from sparkmirror.connectors.transactional_start_positions import TransactionalStartPositions
from sparkmirror.errors import OpenTransactionError, UnreachableError
from sparkmirror.formats.source_offsets import StoredPosition
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.offset_map import Fit, Translation
from sparkmirror.state.incidents import Incident

TP = TopicPartition("t", 0)
TARGET = TopicPartition("a.t", 0)
MIRRORED = (MirroredPartition(TP, "a.t", "s", "t"),)
STORED = StoredPosition(99, 120, None, 3, "s", "t")
CUT = LogEndCheck({TARGET: 61}, {}, set(), set())


class Points:
    """Start positions with one partition that is stored up to offset 99."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, policy: str = "recopy") -> None:
        self.notes: dict[str, str] = {}
        self.incidents: list[Incident] = []
        self.written: dict[TopicPartition, StoredPosition] = {}
        self.tails = CUT
        self.place: Translation | None = Translation(50, Fit.EXACT)
        self.asked: list[dict[TopicPartition, int]] = []
        self.map_start = 0
        self.map_error: Exception | None = None
        self.error: Exception | None = None  # of whoever stores positions
        self.points: Any = object.__new__(TransactionalStartPositions)
        vars(self.points).update(
            _settings=SimpleNamespace(
                source=SimpleNamespace(name="MirrorSourceConnector"),
                target_admin=None,
                incident_policies=IncidentPolicies(target_truncated=policy),
            ),
            _flow=SimpleNamespace(target="b"),
            _status=SimpleNamespace(set_problem=self.set_problem),
            _on_demand_topics=SimpleNamespace(record_incidents=self.incidents.extend),
            _store=SimpleNamespace(write=self.write),
            _positions={TP: KnownPosition(STORED, is_handed_over=True)},
            _fenced={},
            _map_topic="map",
            _stopped=set(),
            _waiting=set(),
            _unchecked={TP},
        )
        monkeypatch.setattr(
            module,
            "ClusterClient",
            lambda _: SimpleNamespace(close=lambda: None),
        )
        monkeypatch.setattr(
            module,
            "TargetLogEnds",
            lambda _: SimpleNamespace(check=self.check),
        )
        offsets = SimpleNamespace(
            refresh=self.refresh,
            maps={TP: SimpleNamespace(is_empty=False)},
            bounds=lambda _tp: (0, 100, 0, 121),
            to_target=lambda _tp, _offset: Translation(self.map_start, Fit.BEFORE),
            to_source=lambda _tp, _end: self.place,
        )
        monkeypatch.setattr(module, "MapTopic", lambda *_: offsets)

    def set_problem(self, key: str, text: str) -> None:
        if text:
            self.notes[key] = text
        else:
            self.notes.pop(key, None)

    def check(self, last_records: dict[TopicPartition, int], _ids: object) -> LogEndCheck:
        self.asked.append(last_records)
        return self.tails

    def refresh(self) -> None:
        """Read the offset map."""
        if self.map_error is not None:
            raise self.map_error

    def write(self, positions: dict[TopicPartition, StoredPosition]) -> None:
        """Store positions."""
        if self.error is not None:
            raise self.error
        self.written |= positions

    def meet(self) -> None:
        """Run the start of an epoch."""
        self.points._stopped = set()
        self.points._handle_truncated(MIRRORED)

    @property
    def is_waiting(self) -> bool:
        """Whether the partition does not start."""
        return TP in self.points._stopped


def test_the_copy_goes_back_to_what_the_target_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the offset map; the ledger names the records, and the position is stored first."""
    points = Points(monkeypatch)
    points.meet()
    assert points.asked == [{TARGET: 120}]
    (incident,) = points.incidents
    assert (incident.first_offset, incident.last_offset, incident.records) == (50, 99, 50)
    moved = StoredPosition(49, 60, None, -1, "s", "t")
    assert points.written == {TP: moved}
    assert points.points._positions == {TP: KnownPosition(moved, is_handed_over=True)}
    assert not points.is_waiting
    points.meet()
    assert len(points.asked) == 1  # once is enough


def test_a_map_with_a_hole_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing records twice is better than losing them."""
    points = Points(monkeypatch)
    points.place = Translation(20, Fit.NEAR)
    points.meet()
    assert "may be written twice" in points.incidents[0].cause
    assert points.written[TP].offset == 19


def test_a_cut_that_took_no_record_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only markers are lost."""
    points = Points(monkeypatch)
    points.place = Translation(100, Fit.EXACT)
    points.meet()
    assert (points.incidents, points.written, points.is_waiting) == ([], {}, False)


@pytest.mark.parametrize("has_map", [True, False])
def test_a_partition_waits_for_manual_action(
    monkeypatch: pytest.MonkeyPatch, has_map: bool
) -> None:
    """By policy, or because the position is unknown."""
    points = Points(monkeypatch, "stop" if has_map else "recopy")
    points.place = points.place if has_map else None
    points.meet()
    remedy = "set it to recopy" if has_map else "--to earliest"
    assert remedy in points.notes[f"truncated {TP}"]
    assert (points.written, points.is_waiting) == ({}, True)
    assert not points.incidents[0].belongs_in_ledger
    points.tails = LogEndCheck({}, {}, set(), set())
    points.meet()
    assert (points.notes, points.is_waiting) == ({}, False)


def test_a_transaction_that_never_ends_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The position goes back first; aborting the transaction decides about its records."""
    points = Points(monkeypatch)
    points.tails = LogEndCheck({TARGET: 61}, {TARGET: 61}, set(), set())
    points.meet()
    assert points.written[TP].downstream == 60
    assert "starts at offset 61" in points.notes[f"truncated {TP}"]
    assert points.is_waiting
    points.tails = LogEndCheck({}, {}, set(), set())
    points.meet()
    assert points.asked[-1] == {TARGET: 60}
    assert not points.is_waiting


def test_a_partition_without_a_leader_is_checked_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its task detects what it can."""
    points = Points(monkeypatch)
    points.tails = LogEndCheck({}, {}, {TARGET}, set())
    points.meet()
    assert not points.is_waiting
    points.meet()
    assert len(points.asked) == 2


def test_a_target_truncated_before_the_offset_map_begins_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was copied before is not in the map: another mirror may have written it."""
    points = Points(monkeypatch)
    points.map_start = 62
    points.meet()
    assert (points.written, points.is_waiting) == ({}, True)


def test_a_position_that_could_not_be_stored_is_checked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the partition would start at the old one."""
    points = Points(monkeypatch)
    points.error = UnreachableError("not enough replicas", cluster="b")
    with pytest.raises(UnreachableError):
        points.meet()
    points.error = None
    points.meet()
    assert points.written[TP].offset == 49


def test_a_truncated_partition_that_may_not_be_read_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others continue."""
    points = Points(monkeypatch)
    points.tails = LogEndCheck({}, {}, set(), {TARGET})
    points.meet()
    assert "grant READ" in points.notes[f"truncated {TP}"]
    assert points.is_waiting


def test_a_map_that_a_transaction_blocks_makes_only_its_partitions_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The map was truncated as well."""
    points = Points(monkeypatch)
    points.map_error = OpenTransactionError("blocked by a transaction", cluster="b")
    points.meet()
    assert (points.written, points.is_waiting) == ({}, True)


def test_a_map_that_cannot_be_reached_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The flow retries: an outage is no reason to wait for a person."""
    points = Points(monkeypatch)
    points.map_error = UnreachableError("no broker responds", cluster="b")
    with pytest.raises(UnreachableError):
        points.meet()
    points.map_error = None
    points.meet()
    assert points.written[TP].offset == 49
