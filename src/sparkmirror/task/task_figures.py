# SPDX-License-Identifier: Apache-2.0
"""What a task reports for metrics: differences since the last report, and values of the moment.

Collected once a second from counters that the parts keep. Owned by the task's thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import mul, sub

from sparkmirror.task.copy_partition import CopyPartition
from sparkmirror.task.latency_histogram import Latencies
from sparkmirror.task.messages import PartitionTimes, RequestErrors, TaskFigures
from sparkmirror.task.task_parts import TaskParts


class FigureCollector:
    """Collects the figures of one task for each progress report."""

    def __init__(self, parts: TaskParts) -> None:
        self._parts = parts
        self._traffic = (0, 0, 0, 0)

    def drain(self) -> TaskFigures:
        """Return the figures since the last call."""
        parts, counts, latencies = self._parts, self._parts.reporter.counts, self._latencies
        source, target = parts.source.traffic, parts.target.traffic
        traffic = (source.received, source.sent, target.received, target.sent)
        before, self._traffic = self._traffic, traffic
        queued = (part.target for part in parts.partitions if not part.target.is_idle)
        return TaskFigures(
            source_received=traffic[0] - before[0],
            source_sent=traffic[1] - before[1],
            target_received=traffic[2] - before[2],
            target_sent=traffic[3] - before[3],
            raw_batches=counts.raw,
            reframed_batches=counts.reframed,
            merged_batches=counts.merged,
            skipped_records=counts.skipped_records,
            comparisons=counts.comparisons,
            commits=latencies.commits,
            commit_ms=int(latencies.commit_ms),
            commit_max_ms=int(latencies.commit_max_ms),
            waiting_partitions=sum(not part.is_taken_over for part in parts.partitions),
            comparing_partitions=parts.comparisons.running,
            unacked_records=sum(
                out.count
                for one in queued
                for batches in (one.in_flight, one.pending)
                for out in batches
            ),
            available_bytes=parts.budget.available,
        )

    @property
    def _latencies(self) -> Latencies:
        return self._parts.delivery.latencies

    def drain_errors(self) -> tuple[RequestErrors, ...]:
        """Return the request errors since the last call; clears all counts of the reporter."""
        counts = self._parts.reporter.counts
        errors = tuple(
            RequestErrors(side, code, count)
            for (side, code), count in counts.request_errors.items()
        )
        counts.clear()
        return errors


def drain_times(rows: Sequence[CopyPartition]) -> tuple[list[PartitionTimes], tuple[int, int]]:
    """Return and clear the times of a report's partitions, in its order.

    Also the sums of replication latencies and of copy latencies.
    """
    found = []
    replication_sum = copying_sum = 0
    for row, part in enumerate(rows):
        if not part.times:
            continue
        counts, latencies, copying = zip(*part.times, strict=True)
        part.times.clear()
        ages = tuple(map(sub, latencies, copying))
        latency_sum = int(sum(map(mul, counts, latencies)))
        copy_sum = int(sum(map(mul, counts, copying)))
        times = PartitionTimes(
            row,
            sum(counts),
            latency_sum - copy_sum,
            int(min(ages)),
            int(max(ages)),
            int(ages[-1]),
            latency_sum,
            int(min(latencies)),
            int(max(latencies)),
            int(latencies[-1]),
        )
        if min(times) < 0:  # the clocks of producers and this machine differ
            times = PartitionTimes(*(max(one, 0) for one in times))
        replication_sum += times.latency_sum
        copying_sum += copy_sum
        found.append(times)
    return found, (replication_sum, copying_sum)
