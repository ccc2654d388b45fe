# SPDX-License-Identifier: Apache-2.0
"""Crashes and moved logs at awkward moments: nothing is lost, repeated or told wrongly."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sparkmirror.config.settings import IncidentPolicies
from sparkmirror.connectors.source_topics import MirroredPartition
from sparkmirror.connectors.start_positions import KnownPosition, StartPositions
from sparkmirror.formats.source_offsets import StoredPosition
from sparkmirror.kafka.descriptions import LogEnd
from sparkmirror.model import ProducerState, TopicPartition
from sparkmirror.state.incidents import IncidentKind
from sparkmirror.task import comparison_runner
from sparkmirror.task.copy_partition import ClusterAliases, CopyPartition
from sparkmirror.task.messages import PartitionStart, Split
from sparkmirror.task.source_log_recovery import SourceLogRecovery
from sparkmirror.wire.settings import FetchSettings
from support.mirrors import scripted_mirror
from support.mirrors.interrupted_copy import (
    fill,
    interrupted,
    kinds,
    ledger_offsets,
    resume,
    resume_with_more,
)
from support.mirrors.scripted_invariants import copy_violations
from support.mirrors.scripted_mirror import MAP, OFFSETS, Crash, ScriptedMirror, mirror
from support.peers import scripted_log
from support.peers.scripted_cluster import DESCRIBE_PRODUCERS
from support.peers.scripted_log import INVALID_RECORD


def refuse(flow: ScriptedMirror, *values: bytes) -> None:
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
            flow.source_log.truncate(40)
            fill(flow.source_log, "n", 40, 2)

        life = resume(flow, at={20.0: cut})
        assert "dead-letter" in kinds(life)
        assert copy_violations(flow) == []


def stored_offset(flow: ScriptedMirror) -> int:
    """The last source offset that the offsets topic calls copied."""
    found = flow.stored()
    assert found is not None
    return found.offset


def test_nothing_comes_twice_when_a_task_dies_after_it_became_a_new_producer() -> None:
    """The new producer id is used before it is stored; the successor takes it for a stranger."""
    with interrupted() as flow:
        flow.target.switch_off(DESCRIBE_PRODUCERS)
        flow.target_log.delete_before(flow.target_log.end)
        flow.fetch = FetchSettings()  # other cuts than before: nothing is known as a duplicate
        life = flow.run(Crash(produces=5, is_answered=True))
        assert flow.target_log.bodies[-1] == b"r-49"
        life = resume_with_more(flow)
        found = flow.target_log.bodies
        twice = sorted({one or b"" for one in found if found.count(one) > 1})
        assert not twice or "resume-mismatch" in kinds(life)


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
        assert copy_violations(flow) == []
        assert ledger_offsets(flow, IncidentKind.GAP) == [*range(50, 60), *range(70, 80)]


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
        assert stored_offset(flow) == 39
        fill(flow.source_log, "gone", 50, 1)
        flow.source_log.delete_before(60)
        resume_with_more(flow)
        assert copy_violations(flow) == []
        assert ledger_offsets(flow, IncidentKind.GAP) == [*range(30, 40), *range(50, 60)]


def test_a_stopped_partition_tells_only_of_the_cut() -> None:
    """With the policy stop, what is said of a cut stays true while the partition waits."""
    with mirror() as flow:
        flow.small_batches()
        flow.policies = replace(flow.policies, source_truncated="stop")
        fill(flow.source_log, "r", 0, 5)

        def cut() -> None:
            flow.source_log.truncate(40)
            fill(flow.source_log, "n", 40, 3)

        life = flow.run(at={10.0: cut})
        assert life.is_stuck
        told = {(one.first_offset, one.last_offset) for one in life.incidents}
        assert told == {(40, 49)}, [one.cause for one in life.incidents]


class Anything:
    """Takes every call."""

    def __getattr__(self, _name: str) -> Callable[..., None]:
        return lambda *_all, **_more: None


class SlowReporter(Anything):
    """A ledger that answers when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def record(self, _found: Any, then: Callable[[], None]) -> None:
        """Wait."""
        self.waiting.append(then)


def test_nothing_is_skipped_when_a_transaction_is_aborted_while_the_ledger_is_written() -> None:
    """Exactly-once: 30 to 49 are acknowledged, not committed; the source is cut at 40; abort."""
    start = PartitionStart("t", 0, "a.t", 30, 29, leader_epoch=0, is_handed_over=True)
    mine = CopyPartition(start, ClusterAliases("a", "b"))
    mine.set_savepoint()
    mine.set_position(50)
    mine.source.position = 50
    reporter = SlowReporter()

    class Settings(Anything):
        policies = IncidentPolicies()
        fetch = FetchSettings()

    class Immediate(Anything):
        def store_position(self, _part: CopyPartition, then: Callable[[], None]) -> None:
            then()  # as TransactionalDelivery does

    anything = cast(Any, Anything())
    log = SourceLogRecovery(
        anything,
        anything,
        anything,
        cast(Any, Settings()),
        cast(Any, reporter),
        cast(Any, Immediate()),
        anything,
        {mine.source.tp: mine},
        anything,
    )
    log.on_diverged(mine.source, 40)
    assert len(reporter.waiting) == 1
    mine.roll_back()  # the transaction is aborted: 30 to 49 are on the target no more
    assert mine.position == 30
    reporter.waiting[0]()
    assert mine.position == 30


def test_new_records_arrive_after_a_cut_when_the_offset_map_cannot_be_written() -> None:
    """Records matter more than the map; only other partitions' acknowledgements count as time."""
    with mirror() as flow:
        flow.small_batches()
        fill(flow.source_log, "r", 0, 5)

        def cut() -> None:
            flow.target.log(MAP).readable_limit = flow.target.log(MAP).end
            flow.source_log.truncate(40)
            fill(flow.source_log, "n", 40, 2)

        flow.run(at={10.0: cut})
        assert copy_violations(flow) == []


def test_new_records_arrive_when_no_epoch_is_known_and_the_lost_tail_is_written_again() -> None:
    """The first pair has no epoch; the source loses all, and a client repeats its request."""
    with mirror() as flow:
        flow.small_batches()
        fill(flow.source_log, "r", 0, 2)
        flow.run(Crash(produces=2, is_answered=True))
        assert len(flow.target_log.bodies) == 20
        flow.source_log.truncate(0)
        fill(flow.source_log, "n", 0, 1)
        fill(flow.source_log, "r", 0, 2)
        resume_with_more(flow)
        assert not [one for one in copy_violations(flow) if one.startswith("lost")]


def test_the_cut_is_recorded_when_the_task_ended_before_the_barrier_was_stored() -> None:
    """The receipt has the old pair, and the epoch of what was read behind the cut."""
    with interrupted() as flow:
        flow.source_log.truncate(40)
        fill(flow.source_log, "n", 40, 2)
        offsets = flow.target.log(OFFSETS)
        offsets.readable_limit = offsets.end

        def end() -> None:
            cast(Any, flow.task)._control.end_requested = True

        begun = flow.start()
        flow.run(at={8.0: end}, start=begun)
        receipt = flow.parts.partitions[0].receipt(0)
        offsets.readable_limit = None
        assert not receipt.is_clean
        begun = replace(
            begun,
            position=receipt.position,
            downstream=receipt.downstream,
            leader_epoch=receipt.leader_epoch,
            producer=ProducerState(
                receipt.producer_id, receipt.producer_epoch, receipt.next_sequence
            ),
        )
        life = resume(flow, start=begun)
        assert copy_violations(flow) == []
        assert "resume-mismatch" not in kinds(life)


def test_a_comparison_begins_when_others_wait_for_a_source_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As many comparisons as may run at once cannot read their source; the others starve."""
    monkeypatch.setattr(comparison_runner, "_MAX_RUNNING", 1)
    with interrupted() as flow:
        flow.source.create("u")
        flow.target.create("a.u")
        other = PartitionStart(
            "u", 0, "a.u", 0, -1, producer=ProducerState(5000, 0, 0), leader_epoch=0
        )
        fill(flow.source.log("u"), "u", 0, 2)
        flow.target.log("a.u").append(
            flow.source.log("u").bodies[:10],
            producer=(5000, 0, 0),  # type: ignore[arg-type]
        )
        log = flow.source_log
        log.read = lambda *_all: scripted_log.ReadResult(6)  # type: ignore[method-assign]
        made = Split
        monkeypatch.setattr(
            scripted_mirror, "Split", lambda index, parts: made(index, (*parts, other))
        )
        life = flow.run()
        assert life.is_stuck
        second = flow.parts.partitions[1]
        assert second.is_taken_over or second.error


def test_a_bounded_run_looks_at_a_partition_whose_source_ends_before_its_position(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """50 records were copied; the source was cut at 40 and has 45: five are new.

    With 50 again, only the leader epoch tells; a partition that this run has copied is done.
    """
    monkeypatch.setattr(StartPositions, "_handle_recreated", lambda *_all: None)
    monkeypatch.setattr(StartPositions, "_complete", lambda *_all: None)
    points = object.__new__(StartPositions)
    points._loops = SimpleNamespace(skip_origins=lambda _topic: ())  # type: ignore[assignment]
    tp = TopicPartition("t", 0)
    points._forgotten = deque()
    points._resets = {}
    points._stopped = set()
    stored = StoredPosition(49, 49, ProducerState(1, 0, 50), 0)
    points._positions = {tp: KnownPosition(stored)}
    points._copied = set()
    one = MirroredPartition(tp, "a.t", "", "")

    def starts(end: LogEnd) -> list[tuple[int, int | None]]:
        return [(start.position, start.stop_at) for start in points._starts((one,), {tp: end})]

    assert starts(LogEnd(45, 0)) == starts(LogEnd(45, -1)) == starts(LogEnd(50, 1)) == [(50, 51)]
    assert starts(LogEnd(50, 0)) == starts(LogEnd(50, -1)) == []
    assert starts(LogEnd(60, 1)) == [(50, 60)]
    points._copied = {tp}
    assert starts(LogEnd(45, 0)) == starts(LogEnd(50, 1)) == []


@pytest.mark.parametrize("cut", [None, 45, 20])
def test_a_bounded_run_ends_where_the_source_ends_if_that_has_lost_what_was_wanted(
    cut: int | None,
) -> None:
    """The source had 80 records when the run was planned; the mirror waits for nothing."""
    with interrupted() as flow:
        if cut is not None:
            flow.source_log.truncate(cut)
            fill(flow.source_log, "n", cut, 1)
        flow.run(start=replace(flow.start(), stop_at=80))
        assert flow.parts.partitions[0].is_finished
        assert copy_violations(flow) == []
