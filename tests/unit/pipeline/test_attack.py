# SPDX-License-Identifier: Apache-2.0
"""Sequences of events in which exact resume loses, repeats or misreports records."""

from __future__ import annotations

from dataclasses import replace

from sparkmirror.state.incidents import Kind
from support.interrupted_copy import fill, interrupted, kinds, named, resume, resume_with_more
from support.scripted_cluster import DESCRIBE_PRODUCERS
from support.scripted_lives import Crash, Mirror, mirror
from support.scripted_log import INVALID_RECORD
from support.scripted_verdict import copy_faults, faults


def refuse(flow: Mirror, *values: bytes) -> None:
    """Let the target refuse record batches with one of these values."""
    log = flow.target_log
    produce = log.produce

    def choosy(raw: bytes) -> tuple[int, int]:
        if any(value in raw for value in values):
            return INVALID_RECORD, -1
        return produce(raw)

    log.produce = choosy  # type: ignore[method-assign]


def test_a_new_record_arrives_when_a_refused_one_had_its_offset_before_a_cut() -> None:
    """Record 45 is set aside; then the source is cut at 40 and has another record 45."""
    with mirror() as flow:
        flow.small_batches()
        fill(flow.source_log, "r", 0, 5)
        refuse(flow, b"r-45")

        def cut() -> None:
            flow.source_log.cut(40)
            fill(flow.source_log, "n", 40, 2)

        life = resume(flow, at={20.0: cut})
        assert "dead-letter" in kinds(life)
        assert copy_faults(flow) == []


def test_nothing_comes_twice_when_a_record_of_a_new_epoch_was_refused() -> None:
    """An election without loss, then a refused record; the mirror dies before it stores."""
    with mirror() as flow:
        flow.small_batches()
        fill(flow.source_log, "r", 0, 3)
        resume(flow)
        flow.source_log.elect()
        fill(flow.source_log, "r", 30, 2)
        refuse(flow, b"r-35")
        life = flow.run(Crash(seconds=4.0))
        assert life.was_killed
        assert flow.target_log.bodies[-1] == b"r-49"
        assert stored_offset(flow) == 29
        life = resume_with_more(flow)
        assert copy_faults(flow) in ([], ["lost 1: r-35"])
        assert named(flow, Kind.SOURCE_TRUNCATED) == []


def stored_offset(flow: Mirror) -> int:
    found = flow.stored()
    assert found is not None
    return found.offset


def test_nothing_comes_twice_when_a_task_dies_after_it_became_a_new_producer() -> None:
    """The new producer id is used before it is stored; the successor takes it for a stranger."""
    with interrupted() as flow:
        flow.target.switch_off(DESCRIBE_PRODUCERS)
        flow.target_log.delete_before(flow.target_log.end)
        life = flow.run(Crash(seconds=4.0))
        before = [*flow.target_log.bodies]
        life = resume_with_more(flow)
        found = flow.target_log.bodies
        twice = sorted({one for one in found if found.count(one) > 1})
        assert not twice or "resume-mismatch" in kinds(life), (before, twice)


def test_a_second_gap_names_only_what_was_never_copied() -> None:
    """Records 60 to 69 were copied behind a first gap; then the mirror died, and more is gone."""
    with interrupted() as flow:
        fill(flow.source_log, "gone", 50, 1)
        fill(flow.source_log, "r", 60, 1)
        flow.source_log.delete_before(60)
        flow.run(Crash(produces=1, is_answered=True))
        assert flow.target_log.bodies[-1] == b"r-69"
        fill(flow.source_log, "gone", 70, 1)
        flow.source_log.delete_before(80)
        resume_with_more(flow)
        assert copy_faults(flow) == []
        assert named(flow, Kind.GAP) == [*range(50, 60), *range(70, 80)]


def test_a_gap_while_copying_and_another_one_while_down() -> None:
    """Retention overtakes a task that runs; it dies before it stores; more is gone."""
    with mirror() as flow:
        flow.small_batches()
        fill(flow.source_log, "r", 0, 3)

        def overtake() -> None:
            fill(flow.source_log, "gone", 30, 1)
            fill(flow.source_log, "r", 40, 1)
            flow.source_log.delete_before(40)

        flow.run(Crash(seconds=13.0), at={12.0: overtake})
        assert flow.target_log.bodies[-1] == b"r-49", flow.target_log.bodies[-1]
        assert stored_offset(flow) == 29
        fill(flow.source_log, "gone", 50, 1)
        flow.source_log.delete_before(60)
        resume_with_more(flow)
        assert copy_faults(flow) == []
        assert named(flow, Kind.GAP) == [*range(30, 40), *range(50, 60)]


def test_a_gap_behind_records_between_holes_names_only_what_was_never_copied() -> None:
    """Half of the offsets behind the pair held nothing, as with markers of transactions."""
    with mirror() as flow:
        flow.small_batches()
        fill(flow.source_log, "r", 0, 3)
        resume(flow)
        fill(flow.source_log, "r", 30, 2)
        flow.source_log.compact(lambda one: one.offset < 30 or one.offset % 2 == 0)
        flow.run(Crash(produces=2, is_answered=True))
        fill(flow.source_log, "gone", 50, 1)
        flow.source_log.delete_before(60)
        resume_with_more(flow)
        assert faults(flow) == []


def test_a_bounded_run_ends_when_the_source_was_cut_below_its_end() -> None:
    """The source had 50 records when the run was planned; then it is cut, and grows to 45."""
    with mirror() as flow:
        flow.small_batches()
        fill(flow.source_log, "r", 0, 4)
        resume(flow)
        fill(flow.source_log, "r", 40, 1)
        bounded = replace(flow.start(), stop_at=50)
        flow.source_log.cut(40)
        flow.source_log.append([b"n-%d" % one for one in range(40, 45)])
        life = flow.run(start=bounded, at={200.0: lambda: None})
        assert life.seconds < 100 or life.troubles, life.seconds


def test_a_stopped_partition_tells_only_of_the_cut() -> None:
    """With the policy stop, what is said of a cut stays true while the partition waits."""
    with mirror() as flow:
        flow.small_batches()
        flow.policies = replace(flow.policies, source_truncated="stop")
        fill(flow.source_log, "r", 0, 5)

        def cut() -> None:
            flow.source_log.cut(40)
            fill(flow.source_log, "n", 40, 3)

        life = flow.run(at={10.0: cut})
        assert life.is_stuck
        told = {(one.first_offset, one.last_offset) for one in life.incidents}
        assert told == {(40, 49)}, [one.cause for one in life.incidents]
