# SPDX-License-Identifier: Apache-2.0
"""One copy task from start to end: copy, drain, flush, report.

Runs on an executor, on one thread, without Spark. A task ends at its deadline, when the driver
requests it, or when a bounded run has copied everything. It then waits for acknowledgements, stores
its positions and returns receipts. It ends at once if its lease expires: no message from the driver
for `lease_seconds`, or the task was suspended for as long. Another task may then have written newer
positions.
"""

from __future__ import annotations

import time
from enum import Enum
from typing import Protocol

from sparkmirror.errors import FencedError, LeaseLostError, join_sentences
from sparkmirror.system.clock import steady_clock
from sparkmirror.task.messages import Progress, Receipt, Split, TaskSettings
from sparkmirror.task.task_builder import build_parts
from sparkmirror.task.task_figures import FigureCollector, drain_times
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.memory import no_garbage_collection

TICK_SECONDS = 1.0
DRAIN_SECONDS = 4.0  # how long an ending task waits for acknowledgements
FLUSH_SECONDS = 2.0


class ControlChannel(Protocol):
    """The task's connection to its driver."""

    @property
    def end_requested(self) -> bool:
        """Whether the driver has requested the end of this task."""

    @property
    def silence_seconds(self) -> float:
        """Seconds since the driver's last message."""

    def report(self, progress: Progress) -> None:
        """Send a progress report; does not block for long."""


class _Phase(Enum):
    COPYING = 1
    DRAINING = 2
    FLUSHING = 3
    DONE = 4


class CopyTask:
    """Copies one split until it ends; `run` returns the receipts."""

    def __init__(
        self, split: Split, settings: TaskSettings, control: ControlChannel, loop: EventLoop
    ) -> None:
        self._split = split
        self._settings = settings
        self._control = control
        self._loop = loop
        with no_garbage_collection():
            self.parts = build_parts(split, settings, loop)
        self._phase = _Phase.COPYING
        self._phase_deadline = time.monotonic() + settings.epoch_seconds
        self._is_lease_lost = False
        self._attempt = time.time_ns()
        self._figures = FigureCollector(self.parts)

    def run(self) -> list[Receipt]:
        """Copy until the task ends. Raises LeaseLostError or FencedError after cleaning up."""
        parts = self.parts
        parts.start()
        self._report()  # the driver learns that the task runs
        next_tick = time.monotonic() + TICK_SECONDS
        alive_at = steady_clock()
        try:
            while self._phase is not _Phase.DONE:
                wait = max(0.0, min(next_tick, self._phase_deadline) - time.monotonic())
                self._loop.run_once(wait)
                suspended = steady_clock() - alive_at - wait
                if suspended > self._settings.lease_seconds:
                    self._lose_lease()
                    break
                alive_at += suspended + wait
                now = time.monotonic()
                if now >= next_tick:
                    next_tick = now + TICK_SECONDS
                    parts.tick(now)
                    self._report()
                self._advance(now)
            self._report()
        finally:
            parts.close()
        if parts.delivery.is_fenced:
            raise FencedError(f"{self._settings.flow}: {parts.delivery.error}")
        if self._is_lease_lost:
            raise LeaseLostError(
                f"{self._settings.flow}: the task stopped: no message from the driver for "
                f"{self._settings.lease_seconds:g} s, or the task was suspended for as long"
            )
        return [part.receipt(self._split.index) for part in parts.partitions]

    def _advance(self, now: float) -> None:
        """Enter the next phase when the current one is complete."""
        parts = self.parts
        if parts.delivery.is_fenced:
            self._end()
        if self._control.silence_seconds > self._settings.lease_seconds:
            self._lose_lease()
        if self._phase is _Phase.COPYING:
            finished = all(part.is_finished for part in parts.partitions)
            if finished or self._control.end_requested or now >= self._phase_deadline:
                parts.stop_reading()
                self._enter_phase(_Phase.DRAINING, now + DRAIN_SECONDS)
        if self._phase is _Phase.DRAINING and (parts.is_drained or now >= self._phase_deadline):
            parts.delivery.flush()
            self._enter_phase(_Phase.FLUSHING, now + FLUSH_SECONDS)
        if self._phase is _Phase.FLUSHING and (parts.is_flushed or now >= self._phase_deadline):
            self._end()

    def _enter_phase(self, phase: _Phase, deadline: float) -> None:
        self._phase = phase
        self._phase_deadline = deadline

    def _lose_lease(self) -> None:
        self._is_lease_lost = True
        self._end()

    def _end(self) -> None:
        self.parts.stop_writing()
        self._phase = _Phase.DONE

    def _report(self) -> None:
        parts = self.parts
        changed = [part for part in parts.partitions if part.is_changed]
        for part in changed:
            part.is_changed = False
        latencies = parts.delivery.latencies
        times, sums = drain_times(changed)
        waiting = [part.target.waiting_since for part in parts.partitions if part.target.in_flight]
        self._control.report(
            Progress(
                split=self._split.index,
                attempt=self._attempt,
                partitions=tuple(part.progress() for part in changed),
                replication_latency=tuple(latencies.replication.items()),
                copy_latency=tuple(latencies.copying.items()),
                latency_sums=(sums[0], sums[1] + int(latencies.untimed_sum)),
                figures=self._figures.drain(),
                times=times,
                request_errors=self._figures.drain_errors(),
                held_bytes=parts.budget.held,
                oldest_unacked_seconds=time.monotonic() - min(waiting) if waiting else 0.0,
                cpu_seconds=time.process_time(),
                notices=parts.reporter.drain_notices(),
                error=join_sentences(parts.errors),
                other_writers=tuple(parts.reporter.other_writers),
                incidents=parts.reporter.drain(),
                missing_topics=parts.missing_topics,
            )
        )
        latencies.clear()
