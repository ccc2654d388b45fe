# SPDX-License-Identifier: Apache-2.0
"""Take-over, the source's side: its log changed while the mirror was down.

Unless a test says otherwise, records 0 to 29 are copied and stored, and 30 to 49 are copied only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from sparkmirror.state.incidents import Kind
from support.interrupted_copy import (
    COPIED,
    STORED,
    fill,
    interrupted,
    kinds,
    named,
    resume,
    resume_with_more,
    stored,
)
from support.scripted_lives import Mirror
from support.scripted_verdict import copy_faults, faults, translation_faults


@pytest.fixture
def flow() -> Iterator[Mirror]:
    """A mirror whose second task died before it stored its position."""
    with interrupted() as made:
        yield made


# --- the source's bounds


def test_nothing_is_copied_twice_when_retention_on_the_source_passed_the_pair(
    flow: Mirror,
) -> None:
    """Records 30 to 34 are gone from the source, but all of them are on the target."""
    flow.source_log.delete_before(35)
    life = resume_with_more(flow)
    assert faults(flow) == []
    assert kinds(life) == []


def test_nothing_is_copied_twice_when_retention_on_the_source_ends_at_the_copied_end(
    flow: Mirror,
) -> None:
    """Nothing overlaps, nothing is missing."""
    flow.source_log.delete_before(COPIED)
    life = resume_with_more(flow)
    assert faults(flow) == []
    assert kinds(life) == []


def test_the_gap_names_only_what_was_never_copied_when_retention_passed_the_copied_end(
    flow: Mirror,
) -> None:
    """Records 50 to 59 were never copied."""
    fill(flow.source_log, "gone", 0, 1)
    flow.source_log.delete_before(60)
    resume_with_more(flow)
    assert named(flow, Kind.GAP) == [*range(50, 60)]
    assert faults(flow) == []


def test_the_gap_is_exact_when_retention_passed_the_copied_end_and_part_of_a_batch(
    flow: Mirror,
) -> None:
    """The log start lies within a record batch."""
    fill(flow.source_log, "gone", 0, 2)
    flow.source_log.delete_before(63)
    resume_with_more(flow)
    assert named(flow, Kind.GAP) == [*range(50, 63)]
    assert faults(flow) == []


def test_copy_is_exact_when_the_pair_is_the_end_and_retention_passed_it(flow: Mirror) -> None:
    """No comparison; the gap is what was deleted."""
    resume_with_more(flow)
    fill(flow.source_log, "gone", 0, 1)
    flow.source_log.delete_before(70)
    fill(flow.source_log, "more", 0, 1)
    resume(flow)
    assert named(flow, Kind.GAP) == [*range(60, 70)]
    assert faults(flow) == []


@pytest.mark.parametrize("modulus", [2, 5, 20])
def test_nothing_is_copied_twice_when_the_source_was_compacted(flow: Mirror, modulus: int) -> None:
    """The cleaner removed records behind the pair that are on the target."""
    fill(flow.source_log, "tail", 0, 1)
    flow.source_log.compact(lambda one: one.offset % modulus == 0)
    life = resume_with_more(flow)
    assert faults(flow) == []
    assert kinds(life) == []


def test_nothing_is_copied_twice_when_the_first_record_behind_the_pair_was_compacted(
    flow: Mirror,
) -> None:
    """One removed record."""
    flow.source_log.compact(lambda one: one.offset != STORED)
    life = resume_with_more(flow)
    assert faults(flow) == []
    assert kinds(life) == []


# --- a source that was cut


@pytest.mark.parametrize("regrown", [1, 6])
@pytest.mark.parametrize("end", [0, 20, 30, 40])
def test_new_records_arrive_when_the_source_was_cut_while_the_mirror_was_down(
    flow: Mirror, end: int, regrown: int
) -> None:
    """Below or behind the pair; the new log is shorter or longer than the old one."""
    flow.source_log.cut(end)
    fill(flow.source_log, "again", 0, regrown)
    life = resume(flow)
    assert copy_faults(flow) == []
    assert translation_faults(flow) == []
    assert named(flow, Kind.SOURCE_TRUNCATED) == [*range(end, COPIED)]
    assert str(Kind.RESUME_MISMATCH) not in kinds(life)


@pytest.mark.parametrize("end", [20, 30, 40])
def test_the_cut_is_recorded_when_the_source_has_not_grown_since(flow: Mirror, end: int) -> None:
    """The target has more than the source."""
    flow.source_log.cut(end)
    resume(flow)
    assert named(flow, Kind.SOURCE_TRUNCATED) == [*range(end, COPIED)]
    assert faults(flow) == []


def test_new_records_arrive_when_the_source_is_cut_during_the_comparison(flow: Mirror) -> None:
    """The comparison waits for the target's high watermark when the source loses its tail."""
    flow.target_log.readable_limit = STORED

    def cut() -> None:
        flow.source_log.cut(40)
        fill(flow.source_log, "again", 0, 3)

    def catch_up() -> None:
        flow.target_log.readable_limit = None

    resume(flow, at={1.5: cut, 2.5: catch_up})
    assert named(flow, Kind.SOURCE_TRUNCATED) == [*range(40, COPIED)]
    assert faults(flow) == []


def test_new_records_arrive_when_nothing_was_written_after_the_pair_and_the_source_was_cut(
    flow: Mirror,
) -> None:
    """No comparison."""
    resume_with_more(flow)
    flow.source_log.cut(55)
    fill(flow.source_log, "again", 0, 3)
    resume(flow)
    assert named(flow, Kind.SOURCE_TRUNCATED) == [*range(50, 60)]
    assert faults(flow) == []


def test_no_truncation_is_recorded_when_a_comparison_crosses_a_leader_epoch() -> None:
    """The source has another leader since the pair was stored, and lost nothing."""
    with interrupted(lambda flow: flow.source_log.elect()) as flow:
        life = resume_with_more(flow)
        assert kinds(life) == []
        assert faults(flow) == []


def silently_skipped(flow: Mirror) -> list[int]:
    """Offsets of source records that are neither on the target nor in the ledger."""
    arrived = {*flow.target_log.bodies}
    told = {
        at
        for kind in (Kind.SOURCE_TRUNCATED, Kind.GAP, Kind.RESUME_MISMATCH)
        for at in named(flow, kind)
    }
    return [
        one.offset
        for one in flow.source_log.records
        if one.value not in arrived and one.offset not in told
    ]


@pytest.mark.parametrize("regrown", [0, 1])
def test_nothing_is_skipped_silently_when_the_source_is_shorter_and_no_epoch_is_stored(
    flow: Mirror, regrown: int
) -> None:
    """As with positions of MirrorMaker 2: which of the source's records are new is not known."""
    resume_with_more(flow)
    flow.store(replace(stored(flow), leader_epoch=-1))
    flow.source_log.cut(20)
    fill(flow.source_log, "again", 0, regrown)
    resume(flow)
    assert {*range(20 + 10 * regrown, 60)} <= {*named(flow, Kind.SOURCE_TRUNCATED)}
    assert silently_skipped(flow) == []


@pytest.mark.parametrize("regrown", [0, 1, 6])
def test_nothing_is_skipped_silently_when_the_source_was_restored_with_older_epochs(
    regrown: int,
) -> None:
    """The leader does not know the stored epoch: the fetch is out of range, not diverging."""
    with interrupted(lambda flow: flow.source_log.cut(STORED, 7)) as flow:
        resume_with_more(flow)
        assert stored(flow).leader_epoch == 7
        flow.source_log.cut(20, 2)
        fill(flow.source_log, "again", 0, regrown)
        resume(flow)
        assert silently_skipped(flow) == []


def test_new_records_arrive_when_the_source_is_cut_twice_while_the_task_runs(flow: Mirror) -> None:
    """The first cut is known by its epoch; the second one lies below it."""

    def cut_again() -> None:
        flow.source_log.cut(10)
        fill(flow.source_log, "again", 0, 4)

    resume(flow, at={8.0: lambda: flow.source_log.cut(40), 16.0: cut_again})
    assert {*named(flow, Kind.SOURCE_TRUNCATED)} == {*range(10, COPIED)}
    assert faults(flow) == []
