# SPDX-License-Identifier: Apache-2.0
"""Take-over, the source's side: its log changed while the mirror was down.

Unless a test says otherwise, records 0 to 29 are copied and stored, and 30 to 49 are copied only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from sparkmirror.state.incidents import IncidentKind
from support.mirrors.interrupted_copy import (
    COPIED,
    STORED,
    fill,
    interrupted,
    kinds,
    ledger_offsets,
    resume,
    resume_with_more,
    stored,
)
from support.mirrors.scripted_invariants import copy_violations, translation_violations, violations
from support.mirrors.scripted_mirror import ScriptedMirror


@pytest.fixture
def flow() -> Iterator[ScriptedMirror]:
    """A mirror whose second task died before it stored its position."""
    with interrupted() as made:
        yield made


# --- the source's bounds


def test_nothing_is_copied_twice_when_retention_on_the_source_passed_the_resume_point(
    flow: ScriptedMirror,
) -> None:
    """Records 30 to 34 are gone from the source, but all of them are on the target."""
    flow.source_log.delete_before(35)
    life = resume_with_more(flow)
    assert violations(flow) == []
    assert kinds(life) == []


def test_nothing_is_copied_twice_when_retention_on_the_source_ends_at_the_copied_end(
    flow: ScriptedMirror,
) -> None:
    """Nothing overlaps, nothing is missing."""
    flow.source_log.delete_before(COPIED)
    life = resume_with_more(flow)
    assert violations(flow) == []
    assert kinds(life) == []


def test_the_gap_names_only_what_was_never_copied_when_retention_passed_the_copied_end(
    flow: ScriptedMirror,
) -> None:
    """Records 50 to 59 were never copied."""
    fill(flow.source_log, "gone", 0, 1)
    flow.source_log.delete_before(60)
    resume_with_more(flow)
    assert ledger_offsets(flow, IncidentKind.GAP) == [*range(50, 60)]
    assert violations(flow) == []


def test_the_gap_is_exact_when_retention_passed_the_copied_end_and_part_of_a_batch(
    flow: ScriptedMirror,
) -> None:
    """The log start lies within a record batch."""
    fill(flow.source_log, "gone", 0, 2)
    flow.source_log.delete_before(63)
    resume_with_more(flow)
    assert ledger_offsets(flow, IncidentKind.GAP) == [*range(50, 63)]
    assert violations(flow) == []


def test_copy_is_exact_when_the_resume_point_is_the_end_and_retention_passed_it(
    flow: ScriptedMirror,
) -> None:
    """No comparison; the gap is what was deleted."""
    resume_with_more(flow)
    fill(flow.source_log, "gone", 0, 1)
    flow.source_log.delete_before(70)
    fill(flow.source_log, "more", 0, 1)
    resume(flow)
    assert ledger_offsets(flow, IncidentKind.GAP) == [*range(60, 70)]
    assert violations(flow) == []


@pytest.mark.parametrize("modulus", [2, 5, 20])
def test_nothing_is_copied_twice_when_the_source_was_compacted(
    flow: ScriptedMirror, modulus: int
) -> None:
    """The cleaner removed records behind the pair that are on the target."""
    fill(flow.source_log, "tail", 0, 1)
    flow.source_log.compact(lambda one: one.offset % modulus == 0)
    life = resume_with_more(flow)
    assert violations(flow) == []
    assert kinds(life) == []


def test_nothing_is_copied_twice_when_the_first_record_behind_the_resume_point_was_compacted(
    flow: ScriptedMirror,
) -> None:
    """One removed record."""
    flow.source_log.compact(lambda one: one.offset != STORED)
    life = resume_with_more(flow)
    assert violations(flow) == []
    assert kinds(life) == []


# --- a source that was cut


@pytest.mark.parametrize("regrown", [1, 6])
@pytest.mark.parametrize("end", [0, 20, 30, 40])
def test_new_records_arrive_when_the_source_was_cut_while_the_mirror_was_down(
    flow: ScriptedMirror, end: int, regrown: int
) -> None:
    """Below or behind the pair; the new log is shorter or longer than the old one."""
    flow.source_log.truncate(end)
    fill(flow.source_log, "again", 0, regrown)
    life = resume(flow)
    assert copy_violations(flow) == []
    assert translation_violations(flow) == []
    assert ledger_offsets(flow, IncidentKind.SOURCE_TRUNCATED) == [*range(end, COPIED)]
    assert str(IncidentKind.RESUME_MISMATCH) not in kinds(life)


@pytest.mark.parametrize("end", [20, 30, 40])
def test_the_cut_is_recorded_when_the_source_has_not_grown_since(
    flow: ScriptedMirror, end: int
) -> None:
    """The target has more than the source."""
    flow.source_log.truncate(end)
    resume(flow)
    assert ledger_offsets(flow, IncidentKind.SOURCE_TRUNCATED) == [*range(end, COPIED)]
    assert violations(flow) == []


def test_new_records_arrive_when_the_source_is_cut_during_the_comparison(
    flow: ScriptedMirror,
) -> None:
    """The comparison waits for the target's high watermark when the source loses its tail."""
    flow.target_log.readable_limit = STORED

    def cut() -> None:
        flow.source_log.truncate(40)
        fill(flow.source_log, "again", 0, 3)

    def catch_up() -> None:
        flow.target_log.readable_limit = None

    resume(flow, at={1.5: cut, 2.5: catch_up})
    assert ledger_offsets(flow, IncidentKind.SOURCE_TRUNCATED) == [*range(40, COPIED)]
    assert violations(flow) == []


def test_new_records_arrive_when_nothing_was_written_after_the_resume_point_and_the_source_was_cut(
    flow: ScriptedMirror,
) -> None:
    """No comparison."""
    resume_with_more(flow)
    flow.source_log.truncate(55)
    fill(flow.source_log, "again", 0, 3)
    resume(flow)
    assert ledger_offsets(flow, IncidentKind.SOURCE_TRUNCATED) == [*range(50, 60)]
    assert violations(flow) == []


def test_no_truncation_is_recorded_when_a_comparison_crosses_a_leader_epoch() -> None:
    """The source has another leader since the pair was stored, and lost nothing."""
    with interrupted(lambda flow: flow.source_log.elect()) as flow:
        life = resume_with_more(flow)
        assert kinds(life) == []
        assert violations(flow) == []


def silently_skipped(flow: ScriptedMirror) -> list[int]:
    """Offsets of source records that are neither on the target nor in the ledger."""
    arrived = {*flow.target_log.bodies}
    told = {
        at
        for kind in (IncidentKind.SOURCE_TRUNCATED, IncidentKind.GAP, IncidentKind.RESUME_MISMATCH)
        for at in ledger_offsets(flow, kind)
    }
    return [
        one.offset
        for one in flow.source_log.records
        if one.value not in arrived and one.offset not in told
    ]


@pytest.mark.parametrize("regrown", [0, 1])
def test_nothing_is_skipped_silently_when_the_source_is_shorter_and_no_epoch_is_stored(
    flow: ScriptedMirror, regrown: int
) -> None:
    """As with positions of MirrorMaker 2: which of the source's records are new is not known."""
    resume_with_more(flow)
    flow.store(replace(stored(flow), leader_epoch=-1))
    flow.source_log.truncate(20)
    fill(flow.source_log, "again", 0, regrown)
    resume(flow)
    assert {*range(20 + 10 * regrown, 60)} <= {*ledger_offsets(flow, IncidentKind.SOURCE_TRUNCATED)}
    assert silently_skipped(flow) == []


@pytest.mark.parametrize("regrown", [0, 1, 6])
def test_nothing_is_skipped_silently_when_the_source_was_restored_with_older_epochs(
    regrown: int,
) -> None:
    """The leader does not know the stored epoch: the fetch is out of range, not diverging."""
    with interrupted(lambda flow: flow.source_log.truncate(STORED, 7)) as flow:
        resume_with_more(flow)
        assert stored(flow).leader_epoch == 7
        flow.source_log.truncate(20, 2)
        fill(flow.source_log, "again", 0, regrown)
        resume(flow)
        assert silently_skipped(flow) == []


def test_new_records_arrive_when_the_source_is_cut_twice_while_the_task_runs(
    flow: ScriptedMirror,
) -> None:
    """The first cut is known by its epoch; the second one lies below it."""

    def cut_again() -> None:
        flow.source_log.truncate(10)
        fill(flow.source_log, "again", 0, 4)

    resume(flow, at={8.0: lambda: flow.source_log.truncate(40), 16.0: cut_again})
    assert {*ledger_offsets(flow, IncidentKind.SOURCE_TRUNCATED)} == {*range(10, COPIED)}
    assert violations(flow) == []
