# SPDX-License-Identifier: Apache-2.0
"""Handles a target that lost acknowledged records: estimates an earlier resume point.

The number of lost sequences is known, their source offsets are not. So the resume point moves back
by that many records plus an overlap, and source and target are compared from there: copying
continues after the last record that the target still has. If source offsets have holes, the first
estimate is too late, and the resume point moves back further. Owned by the task's thread.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from sparkmirror.model import TopicPartition
from sparkmirror.state.incidents import STOP, IncidentKind
from sparkmirror.task.comparison import EstimateBounds
from sparkmirror.task.copy_partition import CopyPartition, EstimatedPoint, ResumePoint
from sparkmirror.task.events import PartitionEvents
from sparkmirror.task.incident_reporter import IncidentReporter, new_incident
from sparkmirror.wire import error_codes
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.log_queries import request_log_bounds
from sparkmirror.wire.record_batch import SEQUENCE_MASK

_OVERLAP = 50_000  # records that source and target still share; more than in one record batch
_REWIND_FACTOR = 4
_MAX_REWIND = 256


class _Rewind(NamedTuple):
    point: ResumePoint  # when the loss was detected
    missing: int  # records
    factor: int  # offsets to go back per record


class TargetTruncation:
    """The truncated remote partitions of a task."""

    def __init__(
        self,
        source: Cluster,
        target_alias: str,
        policy: str,
        reporter: IncidentReporter,
        events: PartitionEvents,
    ) -> None:
        self._source = source
        self._target_alias = target_alias
        self._policy = policy
        self._reporter = reporter
        self._events = events
        self._rewinds: dict[TopicPartition, _Rewind] = {}

    def on_truncated(self, part: CopyPartition, missing: int) -> None:
        """Apply the policy to the loss of the last `missing` records on the target."""
        point = part.resume_point
        found = new_incident(
            IncidentKind.TARGET_TRUNCATED,
            part.source.tp,
            (max(0, point.position - missing), point.position - 1),
            missing,
            f"{self._target_alias}: {part.target.tp} was truncated, maybe by an unclean leader "
            f"election; its records up to offset {point.downstream} were acknowledged",
            self._policy,
        )
        if self._policy == STOP:
            self._reporter.report(found)
            part.set_target_error(error_codes.TARGET_TRUNCATED)
            self._events.compare(part, part.target.backoff.next_pause(slow=True))
            return
        part.set_target_error(
            error_codes.TARGET_TRUNCATED, "comparing source and target to copy the lost records"
        )
        self._rewinds[part.source.tp] = _Rewind(point, missing, 1)
        self._reporter.record([found], lambda: self._estimate_point(part))

    def retry_earlier(self, part: CopyPartition) -> bool:
        """After a mismatch, compare from an earlier point. Returns false if there is none."""
        rewind = self._rewinds.get(part.source.tp)
        if rewind is None or rewind.factor >= _MAX_REWIND:
            return False
        self._rewinds[part.source.tp] = rewind._replace(factor=rewind.factor * _REWIND_FACTOR)
        self._estimate_point(part)
        return True

    def on_resumed(self, part: CopyPartition) -> None:
        """Forget the loss: the partition copies again."""
        self._rewinds.pop(part.source.tp, None)

    def _estimate_point(self, part: CopyPartition) -> None:
        point, missing, factor = self._rewinds[part.source.tp]

        def bounds(earliest: int, _latest: int) -> None:
            overlap = min(_OVERLAP, max(0, point.downstream + 1 - missing))
            back = (missing + overlap) * factor
            is_empty = point.downstream < missing  # nothing to compare with: copy everything
            sequence = (point.producer.next_sequence - missing - overlap) & SEQUENCE_MASK
            earlier = ResumePoint(
                earliest if is_empty else max(earliest, point.position - back),
                max(-1, point.downstream - back),
                replace(point.producer, next_sequence=sequence),
            )
            lost_from = point.position - missing
            estimate = EstimateBounds(point.producer.next_sequence, lost_from, earliest)
            part.estimate = EstimatedPoint(earlier, estimate)
            self._events.compare(part, 0.0)

        def failed(code: int) -> None:
            part.set_target_error(code)
            self._events.compare(part, part.source.backoff.next_pause())

        request_log_bounds(
            self._source, part.source.tp, read_committed=False, done=bounds, failed=failed
        )
