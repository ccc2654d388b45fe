# SPDX-License-Identifier: Apache-2.0
"""The rules of the scripted log, as a real broker has them: the take-over tests stand on these."""

from __future__ import annotations

import pytest

from support.data.record_batches import encode, numbered, seal
from support.peers.scripted_log import (
    FENCED_LEADER_EPOCH,
    INVALID_RECORD,
    OLD_PRODUCER_EPOCH,
    OUT_OF_ORDER,
    OUT_OF_RANGE,
    UNKNOWN_LEADER_EPOCH,
    ScriptedLog,
    bodies,
)

LAST_SEQUENCE = (1 << 31) - 1


def batch(sequence: int, count: int = 1, *, epoch: int = 0, producer: int = 5) -> bytes:
    """A record batch as a producer sends it."""
    return bytes(encode(numbered(0, count), producer=(producer, epoch, sequence)))


@pytest.fixture
def log() -> ScriptedLog:
    """Seven record batches of one producer, sequences 0 to 6."""
    made = ScriptedLog()
    for sequence in range(7):
        assert made.produce(batch(sequence)) == (0, sequence)
    return made


def test_produce_answers_with_the_first_offset_when_a_batch_is_among_the_last_five(
    log: ScriptedLog,
) -> None:
    """The sixth from the end is out of order."""
    assert [log.produce(batch(sequence)) for sequence in (6, 2, 1)] == [
        (0, 6),
        (0, 2),
        (OUT_OF_ORDER, -1),
    ]
    assert log.end == 7


@pytest.mark.parametrize("sequence", [8, 0, LAST_SEQUENCE])
def test_produce_is_refused_when_the_sequence_is_not_the_next(
    log: ScriptedLog, sequence: int
) -> None:
    """A gap, or a step back."""
    assert log.produce(batch(sequence, 2)) == (OUT_OF_ORDER, -1)


def test_produce_takes_any_sequence_when_the_producer_is_not_known(log: ScriptedLog) -> None:
    """Never seen, or forgotten."""
    assert log.produce(batch(99, producer=6)) == (0, 7)
    log.expire_producers()
    assert log.produce(batch(500)) == (0, 8)
    assert log.produce(batch(500)) == (0, 8)


def test_produce_heeds_the_producer_epoch_when_it_changes(log: ScriptedLog) -> None:
    """A higher one begins at 0, a lower one is fenced."""
    assert log.produce(batch(7, epoch=1)) == (OUT_OF_ORDER, -1)
    assert log.produce(batch(0, epoch=1)) == (0, 7)
    assert log.produce(batch(1, epoch=0)) == (OLD_PRODUCER_EPOCH, -1)


def test_produce_takes_the_next_sequence_when_it_wraps() -> None:
    """From 2^31 - 1 to 0, also within a record batch."""
    log = ScriptedLog()
    log.produce(batch(LAST_SEQUENCE, 3))
    assert log.produce(batch(2)) == (0, 3)


def test_produce_is_refused_when_offsets_have_holes() -> None:
    """The last offset delta must be the count less one."""
    raw = seal(
        bytes(encode(numbered(0, 2)))[61:],
        base_offset=0,
        last_offset_delta=2,
        leader_epoch=-1,
        attributes=0,
        times=(1, 1),
        producer=(5, 0, 0),
        count=2,
    )
    assert ScriptedLog().produce(bytes(raw)) == (INVALID_RECORD, -1)


def test_producer_states_follow_the_log_when_it_is_cut(log: ScriptedLog) -> None:
    """The last sequence is that of the last record batch left; without one all is forgotten."""
    log.truncate(3)
    assert log.produce(batch(5)) == (OUT_OF_ORDER, -1)
    assert log.produce(batch(3)) == (0, 3)
    log.truncate(0)
    assert log.producers == {}


def test_reading_diverges_when_the_log_was_cut_and_grew_again(log: ScriptedLog) -> None:
    """The answer names the epoch that ends there; a reader from before the cut is out of range."""
    log.truncate(4, 2)
    log.append(bodies("new", 0, 6))
    assert log.read(7, 1 << 20, last_epoch=0).diverging == (0, 4)
    assert log.read(4, 1 << 20, last_epoch=0).diverging is None
    assert log.read(7, 1 << 20, last_epoch=1).diverging == (0, 4)
    assert log.read(7, 1 << 20, last_epoch=3).error == OUT_OF_RANGE
    assert log.read(7, 1 << 20, last_epoch=2).records


def test_reading_is_refused_when_the_leader_epoch_is_another(log: ScriptedLog) -> None:
    """The reader's metadata is too old, or the leader's."""
    log.elect()
    assert log.read(0, 1, leader_epoch=0).error == FENCED_LEADER_EPOCH
    assert log.read(0, 1, leader_epoch=2).error == UNKNOWN_LEADER_EPOCH


def test_reading_stops_at_the_high_watermark_when_it_lags(log: ScriptedLog) -> None:
    """Behind it there is nothing yet; behind the end it is out of range."""
    log.readable_limit = 3
    assert log.read(3, 1 << 20) == (0, b"", None)
    assert log.read(8, 1 << 20).error == OUT_OF_RANGE


def test_reading_is_out_of_range_when_the_log_start_passed_the_offset(log: ScriptedLog) -> None:
    """The history of epochs begins at the log start, too."""
    log.truncate(5, 3)
    log.append(bodies("new", 0, 2))
    log.delete_before(6)
    assert log.read(5, 1 << 20).error == OUT_OF_RANGE
    assert log.end_of_epoch(0) == (0, 6)


def test_the_cleaner_keeps_offsets_and_the_last_sequence_when_records_go(log: ScriptedLog) -> None:
    """Record batches without records go, but for the last one of a producer."""
    log.append(bodies("tail", 0, 1))
    log.append(bodies("tail", 1, 1))
    log.compact([0, 3])
    assert [one.offset for one in log.records] == [0, 3, 8]
    assert [(one.base_offset, len(one.records)) for one in log.batches] == [
        (0, 1),
        (3, 1),
        (6, 0),
        (8, 1),
    ]
