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
from sparkmirror.errors import BrokerError
from sparkmirror.kafka.descriptions import PartialResults
from sparkmirror.kafka.transactions import OpenTransaction
from sparkmirror.model import TopicPartition

TP = TopicPartition("a.t", 0)
OURS, OTHER, FORGOTTEN, NOBODY_KNOWS = 7, 8, 9, 10
COMMITTED, COMMIT, ABORTED, ABORT, OPEN = "data", "commit", "aborted", "abort", "open"
Batch = tuple[str, int]  # what it holds, how many records


class Log(TargetLogEnds):
    """A partition's log in the place of a cluster."""

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
            broker_error=lambda _doing, code, _name: BrokerError(
                "no", cluster="b", code=code, retriable=False
            ),
            retry=lambda _doing, step: step(),
        )

    def end_offsets(self, wanted: Iterable[TopicPartition], level: str) -> Any:
        """As of the admin."""
        stable = self._end if self._stable is None else self._stable
        offset = self._end if level == "read_uncommitted" else stable
        return PartialResults(dict.fromkeys(wanted, offset), {})

    def earliest_offsets(self, wanted: Iterable[TopicPartition]) -> Any:
        """As of the admin."""
        return PartialResults(dict.fromkeys(wanted, self._first), {})

    def _fetch(self, positions: Mapping[TopicPartition, int], _partition_bytes: int) -> Any:
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
        """Check it. An open transaction belongs to that producer."""
        since = [] if self._stable is None else [OpenTransaction(TP, producer, self._stable)]

        def open_transactions(*_: object) -> list[OpenTransaction]:
            if producer == NOBODY_KNOWS:
                raise BrokerError("too old", cluster="b", code=35, retriable=False)
            return since

        ids = SimpleNamespace(names_by_producer_id=lambda: {OURS: "ours", OTHER: "another"})
        monkeypatch.setattr(target_log_ends, "open_transactions", open_transactions)
        monkeypatch.setattr(target_log_ends, "TransactionalIds", lambda *_: ids)
        monkeypatch.setattr(target_log_ends, "_STABLE_SECONDS", 0.0)
        monkeypatch.setattr(target_log_ends, "PAUSE_SECONDS", 0.0)
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
def test_a_log_with_its_last_record_is_not_truncated(
    batches: list[Batch], last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever came behind it."""
    assert Log(batches).end_check(last, monkeypatch) == ({}, {}, set(), set())


@pytest.mark.parametrize(
    ("batches", "last", "end"),
    [
        pytest.param([(COMMITTED, 5), (COMMIT, 1)], 20, 5, id="shorter"),
        pytest.param(
            [(COMMITTED, 5), (COMMIT, 1), (ABORTED, 1), (ABORT, 1)], 6, 5, id="as long as before"
        ),
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
    assert Log(batches).end_check(last, monkeypatch) == ({TP: end}, {}, set(), set())


@pytest.mark.parametrize("producer", [OURS, FORGOTTEN])
def test_a_transaction_without_its_marker_is_lost_and_open(
    monkeypatch: pytest.MonkeyPatch, producer: int
) -> None:
    """Its records are there, and whoever aborts it decides about them."""
    log = Log([(COMMITTED, 5), (COMMIT, 1), (OPEN, 10)])
    assert log.end_check(15, monkeypatch, producer) == ({TP: 5}, {TP: 6}, set(), set())


def test_an_old_broker_cannot_tell_whose_transaction_is_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Writing behind one of ours could commit it."""
    log = Log([(COMMITTED, 5), (COMMIT, 1), (OPEN, 10)])
    assert log.end_check(4, monkeypatch, NOBODY_KNOWS) == ({}, {TP: 6}, set(), set())


@pytest.mark.parametrize("last", [4, 8])
def test_an_open_transaction_of_another_producer_blocks_nothing(
    monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    """It will end some time. A last record behind its start cannot be read until then."""
    log = Log([(COMMITTED, 5), (COMMIT, 1), (OPEN, 1), (COMMITTED, 2), (COMMIT, 1)])
    unknown = {TP} if last > 6 else set()
    assert log.end_check(last, monkeypatch, OTHER) == ({}, {}, unknown, set())


@pytest.mark.parametrize(("code", "unknown"), [(1, set()), (6, {TP}), (29, set())])
def test_a_doubt_that_cannot_be_answered_is_none(
    monkeypatch: pytest.MonkeyPatch, code: int, unknown: set[TopicPartition]
) -> None:
    """Retention removed the record, the leader moves, or READ is not permitted."""
    log = Log([(COMMITTED, 5), (COMMIT, 1), (ABORTED, 9), (ABORT, 1)], code=code)
    assert log.end_check(4, monkeypatch) == ({}, {}, unknown, set())


def test_a_loss_that_may_not_be_read_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Going on at a guess would lose records."""
    found = Log([(COMMITTED, 5)], code=29).end_check(20, monkeypatch)
    assert found == ({}, {}, set(), {TP})
