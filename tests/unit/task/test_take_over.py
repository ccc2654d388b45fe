# SPDX-License-Identifier: Apache-2.0
"""Take-over, the target's side: where a task continues after its predecessor died.

Unless a test says otherwise, records 0 to 29 are copied and stored, and 30 to 49 are copied only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from sparkmirror.state.incidents import IncidentKind
from sparkmirror.task import comparison_runner
from support.data.record_batches import Record, encode
from support.mirrors.interrupted_copy import (
    COPIED,
    STORED,
    fill,
    interrupted,
    kinds,
    resume,
    resume_with_more,
    stored,
)
from support.mirrors.scripted_invariants import copy_violations, translation_violations, violations
from support.mirrors.scripted_mirror import REGISTRY, ScriptedMirror
from support.peers.scripted_cluster import DESCRIBE_PRODUCERS, FETCH
from support.peers.scripted_log import bodies

NOT_ENOUGH_REPLICAS, FORBIDDEN = 19, 29


@pytest.fixture
def flow() -> Iterator[ScriptedMirror]:
    """A mirror whose second task died before it stored its position."""
    with interrupted() as made:
        yield made


# --- what the leader remembers


def test_copy_continues_exactly_when_the_leader_knows_the_producer(flow: ScriptedMirror) -> None:
    """The leader's last sequence is the goal of the comparison."""
    life = resume_with_more(flow)
    assert violations(flow) == []
    assert kinds(life) == []
    assert flow.target_log.end == COPIED + 10


def test_nothing_is_read_from_the_target_when_the_resume_point_is_the_last_sequence(
    flow: ScriptedMirror,
) -> None:
    """Only the first record batch is read back."""
    resume_with_more(flow)
    flow.target.requests.clear()
    resume(flow)
    assert flow.target.requests[FETCH] == 0
    assert violations(flow) == []


def test_copy_continues_exactly_when_the_producer_is_forgotten(flow: ScriptedMirror) -> None:
    """The comparison runs to the target's end."""
    flow.target_log.expire_producers()
    resume_with_more(flow)
    assert violations(flow) == []


def test_copy_continues_exactly_when_the_producer_is_forgotten_and_the_resume_point_is_the_end(
    flow: ScriptedMirror,
) -> None:
    """Nothing to compare."""
    resume_with_more(flow)
    flow.target_log.expire_producers()
    fill(flow.source_log, "more", 0, 1)
    resume(flow)
    assert violations(flow) == []


def test_copy_continues_exactly_when_describe_producers_is_missing(flow: ScriptedMirror) -> None:
    """Brokers before 2.8."""
    flow.target.switch_off(DESCRIBE_PRODUCERS)
    resume_with_more(flow)
    assert violations(flow) == []


def test_copy_continues_exactly_when_others_write_after_the_resume_point(
    flow: ScriptedMirror,
) -> None:
    """Their record batches are passed over and reported."""
    flow.target_log.append(bodies("other", 0, 3), producer=(77, 0, 0))
    life = resume_with_more(flow)
    assert violations(flow) == []
    assert {one.producer_id for report in life.reports for one in report.other_writers} == {77}


def test_a_new_producer_continues_when_the_leader_has_another_epoch(flow: ScriptedMirror) -> None:
    """Somebody fenced this flow's producer: at least once, and the ledger says so."""
    before = stored(flow).producer
    assert before is not None
    flow.target_log.append([b"fence"], producer=(before.producer_id, 1, 0))
    life = resume_with_more(flow)
    after = stored(flow).producer
    assert after is not None
    assert after.producer_id != before.producer_id
    assert str(IncidentKind.RESUME_MISMATCH) in kinds(life)
    assert {*flow.source_log.bodies} <= {*flow.target_log.bodies}


@pytest.mark.parametrize("api_key", [DESCRIBE_PRODUCERS, FETCH])
def test_a_new_producer_continues_at_the_resume_point_when_the_target_may_not_be_read(
    flow: ScriptedMirror, api_key: int
) -> None:
    """At least once: the twenty records behind the pair come twice, nothing is lost."""
    flow.target.refusals[api_key] = FORBIDDEN
    life = resume_with_more(flow)
    assert str(IncidentKind.NO_READ) in kinds(life)
    assert flow.target_log.bodies[-30:] == flow.source_log.bodies[-30:]


def test_a_new_producer_is_registered_before_its_first_record(flow: ScriptedMirror) -> None:
    """Otherwise a flow in the other direction would copy its records back."""
    old = stored(flow).producer
    assert old is not None
    flow.target_log.append([b"fence"], producer=(old.producer_id, 1, 0))
    registry = flow.target.log(REGISTRY)
    produce = registry.produce
    ends: list[int] = []  # of the remote partition while the registry cannot be written

    def unwritable(_raw: bytes) -> tuple[int, int]:
        ends.append(flow.target_log.end)
        return NOT_ENOUGH_REPLICAS, -1

    def writable() -> None:
        registry.produce = produce  # type: ignore[method-assign]

    registry.produce = unwritable  # type: ignore[method-assign]
    fill(flow.source_log, "new", 0, 1)
    life = resume(flow, at={20.0: writable})
    new = stored(flow).producer
    assert new is not None
    assert new.producer_id != old.producer_id
    assert {*ends} == {COPIED + 1}
    assert any(REGISTRY in report.error for report in life.reports)
    (entry,) = registry.records
    assert entry.key == b'{"producer":%d,"cluster":"b"}' % new.producer_id


def test_a_late_batch_of_the_predecessor_is_copied_once_when_it_lands_after_the_question(
    flow: ScriptedMirror,
) -> None:
    """Compare-and-append: the successor is refused and compares again."""
    producer = stored(flow).producer
    assert producer is not None
    fill(flow.source_log, "new", 0, 2)
    late = [Record(n, 1_700_000_000_000 + n, b"k", b"new-%d" % n) for n in range(10)]
    raw = encode(late[:7], producer=(producer.producer_id, producer.producer_epoch, COPIED))

    def land(api_key: int, _request: object) -> None:
        if api_key == DESCRIBE_PRODUCERS and flow.target_log.end == COPIED:
            flow.target_log.produce(bytes(raw))

    on_attach = flow.target.attach

    def attach(loop: Any) -> None:
        on_attach(loop)
        flow.target.after_request = land

    flow.target.attach = attach  # type: ignore[method-assign]
    resume(flow)
    assert flow.target_log.end == COPIED + 20
    assert violations(flow) == []


# --- the target's bounds


def test_copy_continues_exactly_when_retention_on_the_target_passed_the_resume_point(
    flow: ScriptedMirror,
) -> None:
    """Compare what is left."""
    flow.target_log.delete_before(45)
    resume_with_more(flow)
    assert flow.target_log.bodies == [*bodies("r", 45, 5), *bodies("new", 0, 10)]
    assert stored(flow).offset + 1 == flow.source_log.end


def test_copy_continues_at_the_resume_point_when_the_target_deleted_all_that_was_written_after_it(
    flow: ScriptedMirror,
) -> None:
    """What was deleted there cannot be compared; nothing is lost, and the ledger says so."""
    flow.target_log.delete_before(COPIED)
    resume_with_more(flow)
    assert flow.target_log.bodies[-10:] == [*bodies("new", 0, 10)]
    assert stored(flow).offset + 1 == flow.source_log.end


@pytest.mark.parametrize("end", [0, 10, 20])
def test_lost_records_are_copied_again_when_the_target_ends_before_the_resume_point(
    flow: ScriptedMirror, end: int
) -> None:
    """An unclean election on the target; the leader knows how many sequences are gone."""
    flow.target_log.truncate(end)
    life = resume_with_more(flow)
    assert str(IncidentKind.TARGET_TRUNCATED) in kinds(life)
    assert copy_violations(flow) == []


def test_lost_records_are_copied_again_when_the_target_ends_behind_the_resume_point(
    flow: ScriptedMirror,
) -> None:
    """Nothing that is stored is lost: an ordinary comparison."""
    flow.target_log.truncate(40)
    life = resume_with_more(flow)
    assert kinds(life) == []
    assert violations(flow) == []


def test_lost_records_are_copied_again_when_the_producer_is_forgotten_too(
    flow: ScriptedMirror,
) -> None:
    """The end of the log tells how many are gone."""
    flow.target_log.truncate(20)
    flow.target_log.expire_producers()
    life = resume_with_more(flow)
    assert str(IncidentKind.TARGET_TRUNCATED) in kinds(life)
    assert copy_violations(flow) == []


@pytest.mark.parametrize("end", [0, 10, 20])
def test_lost_records_are_copied_again_when_describe_producers_is_missing(
    flow: ScriptedMirror, end: int
) -> None:
    """The end of the log tells how many are gone."""
    flow.target.switch_off(DESCRIBE_PRODUCERS)
    flow.target_log.truncate(end)
    life = resume_with_more(flow)
    assert str(IncidentKind.TARGET_TRUNCATED) in kinds(life)
    assert copy_violations(flow) == []


def test_the_status_names_the_problem_when_the_target_is_shorter_and_policy_is_stop(
    flow: ScriptedMirror,
) -> None:
    """Without DescribeProducers as well."""
    flow.policies = replace(flow.policies, target_truncated="stop")
    flow.target.switch_off(DESCRIBE_PRODUCERS)
    flow.target_log.truncate(10)
    life = flow.run()
    assert life.is_stuck
    assert "TARGET_TRUNCATED" in " ".join(life.troubles)


@pytest.mark.parametrize("end", [0, 30])
def test_lost_records_are_copied_again_when_the_target_loses_them_while_the_task_runs(
    flow: ScriptedMirror, end: int
) -> None:
    """With its last record batch a leader forgets the producer, and takes any sequence of it.

    The record batch that it took comes again behind those that were lost.
    """
    life = resume(
        flow,
        at={
            8.0: lambda: flow.target_log.truncate(end),
            9.0: lambda: fill(flow.source_log, "new", 0, 1),
        },
    )
    assert str(IncidentKind.TARGET_TRUNCATED) in kinds(life)
    if end:
        assert copy_violations(flow) == []
    else:
        assert flow.target_log.bodies[10:] == flow.source_log.bodies


# --- what cannot be read yet


def test_copy_waits_and_reports_it_when_appended_records_are_not_readable(
    flow: ScriptedMirror,
) -> None:
    """The high watermark lags behind; it comes after ten seconds."""
    flow.target_log.readable_limit = 40

    def catch_up() -> None:
        flow.target_log.readable_limit = None

    life = resume(flow, at={10.0: catch_up})
    assert any("not readable yet" in one for one in life.troubles)
    assert life.reports[-1].partitions == () or not life.reports[-1].partitions[0].error
    assert violations(flow) == []
    assert kinds(life) == []


def test_copy_is_exact_when_the_source_does_not_know_its_end_yet(
    flow: ScriptedMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new leader's high watermark lags behind: its log was not cut, and the status says so."""
    monkeypatch.setattr(comparison_runner, "_REPORT_AFTER_SECONDS", 0.5)
    flow.source_log.readable_limit = STORED

    def catch_up() -> None:
        flow.source_log.readable_limit = None

    life = resume(flow, at={2.5: catch_up})
    assert any("COMPARING" in one and "on the source" in one for one in life.troubles)
    assert violations(flow) == []
    assert kinds(life) == []


def test_a_mismatch_is_recorded_when_the_first_batch_reads_back_differently(
    flow: ScriptedMirror,
) -> None:
    """A broker that changes records, or another one at the same address."""
    fill(flow.source_log, "new", 0, 1)

    def spoil(_key: int, _request: object) -> None:
        log = flow.target_log
        if log.end > COPIED and log.batches[-1].base_offset == COPIED:
            last = log.batches[-1]
            other = [one._replace(value=b"spoilt") for one in last.records]
            raw = encode(other, producer=last.producer, leader_epoch=last.leader_epoch)
            log.batches[-1] = last._replace(raw=bytes(raw))

    on_attach = flow.target.attach

    def attach(loop: Any) -> None:
        on_attach(loop)
        flow.target.after_request = spoil

    flow.target.attach = attach  # type: ignore[method-assign]
    life = resume(flow)
    assert str(IncidentKind.RESUME_MISMATCH) in kinds(life)


# --- batches and sequences on the target


@pytest.mark.parametrize("ahead", [1, 5, 9])
def test_copy_is_exact_when_a_batch_straddles_the_next_sequence(
    flow: ScriptedMirror, ahead: int
) -> None:
    """The stored pair lies within a record batch of the target."""
    move_pair(flow, STORED + ahead)
    life = resume_with_more(flow)
    assert violations(flow) == []
    assert kinds(life) == []


@pytest.mark.parametrize("ahead", [11, 15, 19])
def test_copy_is_exact_when_the_last_batch_straddles_the_next_sequence(
    flow: ScriptedMirror, ahead: int
) -> None:
    """Nothing follows it on the target."""
    move_pair(flow, STORED + ahead)
    life = resume_with_more(flow)
    assert violations(flow) == []
    assert kinds(life) == []


def move_pair(flow: ScriptedMirror, position: int) -> None:
    """Store a pair at which source and target agree, within a record batch."""
    before = stored(flow)
    assert before.producer is not None
    producer = replace(before.producer, next_sequence=position)
    flow.store(replace(before, offset=position - 1, downstream=position - 1, producer=producer))


@pytest.mark.parametrize("prepare", [lambda _flow: None, lambda flow: flow.target.switch_off(61)])
def test_nothing_is_lost_when_sequences_are_missing_on_the_target(
    flow: ScriptedMirror, prepare: Callable[[ScriptedMirror], None]
) -> None:
    """Records 30 to 39 vanished between two record batches of ours."""
    producer = stored(flow).producer
    assert producer is not None
    flow.target_log.truncate(STORED)
    flow.target_log.expire_producers()
    flow.target_log.append(
        bodies("r", 40, 10), producer=(producer.producer_id, producer.producer_epoch, 40)
    )
    prepare(flow)
    life = resume_with_more(flow)
    assert {*flow.source_log.bodies} <= {*flow.target_log.bodies}
    assert str(IncidentKind.RESUME_MISMATCH) in kinds(life)
    assert translation_violations(flow) == []


def test_copy_is_exact_when_the_target_was_compacted(flow: ScriptedMirror) -> None:
    """Every second record of ours is gone there, and its sequences are not contiguous."""
    flow.target_log.compact(lambda one: one.offset % 2 == 0)
    resume_with_more(flow)
    found = flow.target_log.bodies
    assert len({*found}) == len(found)
    assert found[-10:] == [*bodies("new", 0, 10)]
