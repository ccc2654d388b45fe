# SPDX-License-Identifier: Apache-2.0
"""A target that lost acknowledged records: estimates a resume point from which to copy them again.

The broker says how many of our sequences are gone, not which source offsets they had. The resume
point therefore moves back by that many records and some more, and both sides are compared from
there: the copy continues after the last record that the target still has. Where the source's
offsets have holes the first estimate is too short, and the resume point moves back further. Owned
by the task's thread.
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

_OVERLAP = 50_000  # records that both sides still have; more than one record batch holds
_REWIND_FACTOR = 4
_MAX_REWIND = 256


class _Rewind(NamedTuple):
    pair: ResumePoint  # as it was when the loss was noticed
    missing: int
    reach: int  # how many times the number of records to go back in offsets


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
        self._retreats: dict[TopicPartition, _Rewind] = {}

    def on_truncated(self, part: CopyPartition, missing: int) -> None:
        """Handle the loss of our last `missing` records on the target, by policy."""
        pair = part.resume_point
        found = new_incident(
            IncidentKind.TARGET_TRUNCATED,
            part.source.tp,
            (max(0, pair.position - missing), pair.position - 1),
            missing,
            f"{self._target_alias}: {part.target.tp} was cut off, as by an unclean leader "
            f"election; it should go on after offset {pair.downstream}",
            self._policy,
        )
        if self._policy == STOP:
            self._reporter.report(found)
            part.set_target_error(error_codes.TARGET_TRUNCATED)
            self._events.compare(part, part.target.backoff.next_pause(slow=True))
            return
        part.set_target_error(
            error_codes.TARGET_TRUNCATED, "comparing both sides to copy the rest again"
        )
        self._retreats[part.source.tp] = _Rewind(pair, missing, 1)
        self._reporter.record([found], lambda: self._estimate_point(part))

    def retry_earlier(self, part: CopyPartition) -> bool:
        """After a mismatch, compare again from an earlier point; returns false if there is none."""
        retreat = self._retreats.get(part.source.tp)
        if retreat is None or retreat.reach >= _MAX_REWIND:
            return False
        self._retreats[part.source.tp] = retreat._replace(reach=retreat.reach * _REWIND_FACTOR)
        self._estimate_point(part)
        return True

    def on_resumed(self, part: CopyPartition) -> None:
        """Forget the loss: the partition copies again."""
        self._retreats.pop(part.source.tp, None)

    def _estimate_point(self, part: CopyPartition) -> None:
        pair, missing, reach = self._retreats[part.source.tp]

        def bounds(earliest: int, _latest: int) -> None:
            overlap = min(_OVERLAP, max(0, pair.downstream + 1 - missing))
            back = (missing + overlap) * reach
            is_empty = pair.downstream < missing  # nothing to compare with: copy all that there is
            earlier = ResumePoint(
                earliest if is_empty else max(earliest, pair.position - back),
                max(-1, pair.downstream - back),
                replace(
                    pair.producer,
                    next_sequence=(pair.producer.next_sequence - missing - overlap) & SEQUENCE_MASK,
                ),
            )
            lost_from = pair.position - missing
            estimate = EstimateBounds(pair.producer.next_sequence, lost_from, earliest)
            part.estimate = EstimatedPoint(earlier, estimate)
            self._events.compare(part, 0.0)

        def failed(code: int) -> None:
            part.set_target_error(code)
            self._events.compare(part, part.source.backoff.next_pause())

        request_log_bounds(
            self._source, part.source.tp, read_committed=False, done=bounds, failed=failed
        )
