# SPDX-License-Identifier: Apache-2.0
"""A target that lost records: how far back both sides are compared again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from sparkmirror.model import ProducerState
from sparkmirror.state.incidents import Incident
from sparkmirror.task import target_truncation
from sparkmirror.task.copy_partition import ClusterAliases, CopyPartition, ResumePoint
from sparkmirror.task.messages import PartitionStart
from sparkmirror.task.target_truncation import TargetTruncation
from sparkmirror.wire import error_codes

EARLIEST = 100


class Task:
    """Counts comparisons and keeps incidents."""

    def __init__(self) -> None:
        self.comparisons: list[float] = []
        self.incidents: list[Incident] = []

    def compare(self, _part: CopyPartition, pause: float) -> None:
        """Note the pause."""
        self.comparisons.append(pause)

    def report(self, incident: Incident) -> None:
        """As IncidentReporter."""
        self.incidents.append(incident)

    def record(self, incidents: Sequence[Incident], then: Callable[[], None]) -> None:
        """As IncidentReporter, with a ledger that answers at once."""
        self.incidents += incidents
        then()


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Task:
    """A task whose source begins at offset 100."""

    def bounds(*_: Any, done: Callable[[int, int], None], **_more: Any) -> None:
        done(EARLIEST, 10**9)

    monkeypatch.setattr(target_truncation, "request_log_bounds", bounds)
    return Task()


def log(task: Task, policy: str = "recopy") -> TargetTruncation:
    """What is under test."""
    return TargetTruncation(None, "b", policy, task, task)  # type: ignore[arg-type]


def partition(position: int, downstream: int, sequence: int) -> CopyPartition:
    """A partition that stands there."""
    producer = ProducerState(7, 0, sequence)
    start = PartitionStart("t", 0, "a.t", position, downstream, producer=producer)
    return CopyPartition(start, ClusterAliases("a", "b"))


def test_the_resume_point_moves_before_the_loss(task: Task) -> None:
    """What is stored and reported stays where it was until the place is found."""
    part = partition(500_000, 400_000, 300_000)
    log(task).on_truncated(part, 10)
    back = 50_000 + 10
    assert part.resume_point == ResumePoint(
        500_000 - back, 400_000 - back, ProducerState(7, 0, 300_000 - back)
    )
    assert (part.position, part.downstream, part.next_sequence) == (500_000, 400_000, 300_000)
    assert part.stored_position().producer == ProducerState(7, 0, 300_000)
    assert task.comparisons == [0.0]
    (incident,) = task.incidents
    assert (incident.first_offset, incident.last_offset, incident.records) == (499_990, 499_999, 10)


def test_it_moves_further_back_while_both_sides_do_not_agree(task: Task) -> None:
    """Holes in the source's offsets make the first guess too short; there is an end to it."""
    part, under_test = partition(10_000_000, 400_000, 300_000), log(task)
    under_test.on_truncated(part, 10)
    positions = [part.resume_point.position]
    while under_test.retry_earlier(part):
        positions.append(part.resume_point.position)
    assert positions == sorted(positions, reverse=True)
    assert len(set(positions)) == len(positions) == 5
    assert part.resume_point.position == EARLIEST


def test_an_empty_target_is_copied_from_the_beginning(task: Task) -> None:
    """There is nothing to compare with."""
    part = partition(5_000, 999, 1_000)
    log(task).on_truncated(part, 1_000)
    assert part.resume_point == ResumePoint(EARLIEST, -1, ProducerState(7, 0, 0))
    part.apply_estimate()
    assert (part.position, part.downstream, part.next_sequence) == (EARLIEST, -1, 0)
    assert part.is_dirty


def test_a_partition_that_lost_nothing_is_not_changed(task: Task) -> None:
    """A mismatch of another kind is none of this module's business."""
    assert not log(task).retry_earlier(partition(500, 400, 300))


def test_a_policy_of_stop_waits(task: Task) -> None:
    """It looks again much later, and nothing moves."""
    part = partition(500, 400, 300)
    log(task, "stop").on_truncated(part, 10)
    assert part.estimate is None
    assert part.error_code == error_codes.TARGET_TRUNCATED
    assert task.comparisons[0] > 3
    assert task.incidents[0].policy == "stop"
