# SPDX-License-Identifier: Apache-2.0
"""Whether a remote partition still holds what was committed; logs are lists of what lies where.

On real brokers: thorough/test_moved_logs.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.connectors import target_log_ends
from sparkmirror.connectors.target_log_ends import LogEndCheck, TargetLogEnds, _BatchState
from sparkmirror.kafka.descriptions import PartialResults
from sparkmirror.kafka.transactions import OpenTransaction
from sparkmirror.model import TopicPartition

TP = TopicPartition("a.t", 0)
OURS, OTHER = 7, 8
COMMITTED, COMMIT, ABORTED, ABORT, OPEN = "data", "commit", "aborted", "abort", "open"
Batch = tuple[str, int]  # what it holds, how many records


class Log(TargetLogEnds):
    """A partition's log instead of a cluster."""

    def __init__(self, batches: Iterable[Batch], *, first: int = 0, code: int = 0) -> None:
        self._first = self._end = first
        self._code = code
        self._batches: list[_BatchState] = []
        self._stable: int | None = None
        for kind, count in batches:
            if kind == OPEN and self._stable is None:
                self._stable = self._end
            self._batches.append(
                _BatchState(self._end, self._end + count, kind == COMMITTED, kind == COMMIT)
            )
            self._end += count
        self.asked = 0
        self._admin = self  # type: ignore[assignment]
        self._client = SimpleNamespace(  # type: ignore[assignment]
            connection=SimpleNamespace(alias="b"),
            broker_error=lambda _doing, code, _name: RuntimeError(code),
        )

    def end_offsets(self, wanted: Iterable[TopicPartition], level: str) -> Any:
        stable = self._end if self._stable is None else self._stable
        offset = self._end if level == "read_uncommitted" else stable
        return PartialResults(dict.fromkeys(wanted, offset), {})

    def earliest_offsets(self, wanted: Iterable[TopicPartition]) -> Any:
        return PartialResults(dict.fromkeys(wanted, self._first), {})

    def _fetch(self, positions: Mapping[TopicPartition, int]) -> Any:
        self.asked += 1
        if self._code:
            return {}, {TP: self._code}
        position = positions[TP]
        stable = self._end if self._stable is None else self._stable
        found = [
            one for one in self._batches if one.next_offset > position and one.next_offset <= stable
        ]
        return {TP: found[:2]}, {}

    def end_check(
        self, last: int, monkeypatch: pytest.MonkeyPatch, producer: int = OURS
    ) -> LogEndCheck:
        """Run the check; an open transaction belongs to that producer."""
        since = [] if self._stable is None else [OpenTransaction(TP, producer, self._stable)]
        monkeypatch.setattr(target_log_ends, "open_transactions", lambda *_: since)
        return self.check({TP: last}, {OURS})


@pytest.mark.parametrize(
    ("batches", "last"),
    [
        pytest.param([(COMMITTED, 5), (COMMIT, 1)], 4, id="as it was left"),
        pytest.param([(COMMITTED, 5), (COMMIT, 1)], 5, id="a position behind the marker"),
        pytest.param(
            [(COMMITTED, 5), (COMMIT, 1), (ABORTED, 9), (ABORT, 1)], 4, id="then an abort"
        ),
        pytest.param(
            [(COMMITTED, 5), (COMMIT, 1), (ABORTED, 9), (ABORT, 1)], 5, id="marker, then an abort"
        ),
    ],
)
def test_a_log_that_holds_its_last_record_is_left_alone(
    batches: list[Batch], last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever follows it."""
    assert Log(batches).end_check(last, monkeypatch) == ({}, {}, set())


@pytest.mark.parametrize(
    ("batches", "last", "end"),
    [
        pytest.param([(COMMITTED, 5), (COMMIT, 1)], 20, 5, id="shorter"),
        pytest.param([(COMMITTED, 5), (COMMIT, 1), (ABORT, 1)], 20, 5, id="a marker since"),
        pytest.param(
            [(COMMITTED, 5), (COMMIT, 1), (ABORTED, 40), (ABORT, 1)], 20, 5, id="grown past it"
        ),
        pytest.param(
            [(COMMITTED, 5), (COMMIT, 1), (ABORTED, 14), (ABORT, 1), (ABORTED, 9)], 20, 5,
            id="an abort marker in its place",
        ),
        pytest.param([(ABORTED, 30_000), (ABORT, 1)], 20, 0, id="nothing of it"),
        pytest.param(
            [(COMMITTED, 5), (COMMIT, 1), *[(ABORTED, 1)] * 5000, (ABORT, 1)], 4900, 5,
            id="far back",
        ),
    ],
)  # fmt: skip
def test_a_log_that_lost_records_counts_up_to_the_last_committed_one(
    batches: list[Batch], last: int, end: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it has grown since."""
    assert Log(batches).end_check(last, monkeypatch) == ({TP: end}, {}, set())


def test_a_transaction_without_its_marker_is_lost_and_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Aborting it decides about its records."""
    log = Log([(COMMITTED, 5), (COMMIT, 1), (OPEN, 10)])
    assert log.end_check(15, monkeypatch) == ({TP: 5}, {TP: 6}, set())


def test_a_strangers_open_transaction_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """It will end at some time."""
    log = Log([(COMMITTED, 5), (COMMIT, 1), (OPEN, 1)])
    assert log.end_check(4, monkeypatch, producer=OTHER) == ({}, {}, set())


@pytest.mark.parametrize("code", [1, 6, 29])
def test_a_doubt_that_cannot_be_answered_is_none(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention removed the record, the leader moves, or reading is not allowed."""
    log = Log([(COMMITTED, 5), (COMMIT, 1), (ABORTED, 9), (ABORT, 1)], code=code)
    assert log.end_check(4, monkeypatch) == ({}, {}, set())


def test_a_loss_that_may_not_be_read_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guessing would lose records."""
    with pytest.raises(RuntimeError, match="29"):
        Log([(COMMITTED, 5)], code=29).end_check(20, monkeypatch)
