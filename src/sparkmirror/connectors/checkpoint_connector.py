# SPDX-License-Identifier: Apache-2.0
"""MirrorCheckpointConnector: translates positions of consumer groups to the target.

`run` finds the groups, writes checkpoints and, if configured, sets offsets of idle groups on the
target, each at its interval. It also cleans the offset map. A failed round shows in the flow's
status and is retried; copying does not wait for it.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from functools import partial

from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.group_sync import GroupSync
from sparkmirror.connectors.offset_map_cleaner import OffsetMapCleaner
from sparkmirror.errors import SparkmirrorError, join_sentences
from sparkmirror.policy.loading import FlowPolicy
from sparkmirror.quantities import and_more, counted
from sparkmirror.spark.flow_status import FlowStatus

_CLEAN_SECONDS = 60.0
_FIRST_CLEAN_SECONDS = 10.0  # not during the start
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _PeriodicJob:
    """A job that runs at an interval; None: never."""

    interval: float | None
    due: float

    def is_due(self, now: float) -> bool:
        return self.interval is not None and now >= self.due

    def reschedule(self, now: float) -> None:
        self.due = now + (self.interval or 0.0)


class MirrorCheckpointConnector:
    """The groups of one enabled flow."""

    def __init__(self, settings: FlowSettings, policy: FlowPolicy, status: FlowStatus) -> None:
        self._settings = settings
        self._flow = settings.flow
        self._policy = policy
        self._status = status
        self._stop = threading.Event()
        self._groups: list[str] = []
        self._failures: dict[str, str] = {}
        self._refusals: dict[str, str] = {}  # failures that need manual action
        self.failure = ""  # the trace of the error that ended its thread
        self.has_emitted = False  # at least one checkpoint
        # Replaced as a whole: any thread may read it.
        self.position_counts: Mapping[str, int] = {}  # positions of groups by state

    @property
    def is_running(self) -> bool:
        """Always False: it has no helper threads."""
        return False

    @property
    def groups(self) -> tuple[str, ...]:
        """The selected groups of the last round."""
        return tuple(self._groups)

    @property
    def permanent_errors(self) -> tuple[str, ...]:
        """Errors that are retried, but need manual action."""
        return tuple({**self._refusals}.values())

    def stop(self) -> None:
        """Request the end; a running request ends first. Any thread; returns at once."""
        self._stop.set()

    def run(self, ready_topics: Container[str]) -> None:  # noqa: ARG002 - a round reports missing topics
        """Run rounds until `stop`."""
        try:
            with GroupSync(self._settings, self._policy) as rounds:
                cleaner = OffsetMapCleaner(
                    rounds.map, rounds.source_admin, self._status.set_problem
                )
                self._loop(rounds, cleaner)
        except Exception as error:  # noqa: BLE001 - a thread's root: report it in the status
            _log.exception(
                "%s: the checkpoint connector failed unexpectedly; restart it and report the trace",
                self._flow,
            )
            self._status.set_problem("checkpoints", f"ended: {type(error).__name__}: {error}")
            self.failure = traceback.format_exc()

    def _loop(self, rounds: GroupSync, cleaner: OffsetMapCleaner) -> None:
        settings, now = self._settings.checkpoint, time.monotonic()
        emits = settings.enabled and self._settings.source.offset_syncs_enabled
        sync_seconds = settings.sync_group_offsets_seconds
        # As in MM2 each job runs first after one interval.
        emit = _PeriodicJob(
            settings.emit_seconds if emits else None, now + (settings.emit_seconds or 0)
        )
        sync = _PeriodicJob(sync_seconds if emits else None, now + (sync_seconds or 0))
        rounds_due = [job.due for job in (emit, sync) if job.interval is not None]
        refresh = _PeriodicJob(
            settings.refresh_groups_seconds if emits else None, min(rounds_due, default=now)
        )
        clean = _PeriodicJob(_CLEAN_SECONDS, now + _FIRST_CLEAN_SECONDS)
        is_first = True
        while not self._stop.is_set():
            now = time.monotonic()
            is_round_due = emit.is_due(now) or sync.is_due(now)
            if refresh.is_due(now) or (is_round_due and is_first):
                find = partial(self._find_groups, rounds, is_first=is_first)
                is_first = not self._attempt("finding groups", find) and is_first
                refresh.reschedule(now)
            if is_round_due and not is_first:
                step = partial(
                    self._run_round, rounds, emits=emit.is_due(now), syncs=sync.is_due(now)
                )
                self._attempt("checkpoints", step)
            for job in (emit, sync):
                if job.is_due(now):
                    job.reschedule(now)
            if clean.is_due(now):
                self._attempt("offset map cleaning", partial(self._clean_map, rounds, cleaner))
                clean.reschedule(now)
            jobs = (emit, sync, refresh, clean)
            next_due = min(job.due for job in jobs if job.interval is not None)
            self._stop.wait(max(next_due - time.monotonic(), 0.0))

    def _attempt(self, what: str, step: Callable[[], None]) -> bool:
        """Run a step; a failure is reported, and the step runs again at its next time."""
        try:
            step()
        except SparkmirrorError as error:
            self._report(what, str(error))
            if not error.retriable:
                self._refusals[what] = f"{what}: {error}"
            return False
        self._report(what, "")
        self._refusals.pop(what, None)
        return True

    def _report(self, what: str, problem: str) -> None:
        """Show a problem in the status; log it when it starts and ends."""
        before = self._failures.get(what, "")
        if problem and not before:
            _log.warning(f"{self._flow}: {what}: {problem}")
        if before and not problem:
            _log.info(f"{self._flow}: {what}: works again")
        self._failures[what] = problem
        self._status.set_problem(what, f"{what}: {problem}" if problem else "")

    def _find_groups(self, rounds: GroupSync, *, is_first: bool) -> None:
        if is_first:
            rounds.checkpoints.refresh()  # checkpoints of earlier runs
        found = rounds.selected_groups()
        if found != self._groups:
            new, gone = set(found) - set(self._groups), set(self._groups) - set(found)
            _log.info(
                f"{self._flow}: {counted(len(found), 'consumer group')} ({len(new)} new, "
                f"{len(gone)} gone)"
            )
        self._groups = found

    def _run_round(self, rounds: GroupSync, *, emits: bool, syncs: bool) -> None:
        found = rounds.plan(self._groups, syncs_groups=syncs)
        planned_at = time.monotonic()
        if emits:
            rounds.write_checkpoints(found.checkpoints)
            latency_ms = (time.monotonic() - planned_at) * 1000
            self._status.add_checkpoints(found.checkpoints, latency_ms)
            self.has_emitted = self.has_emitted or bool(found.checkpoints)
        if syncs:
            found = rounds.commit_offsets(found)
        self.position_counts = Counter(one.state.value for one in found.positions)
        self._report("offset map", join_sentences(rounds.problems))
        self._status.mark_success()
        failed = sorted(found.failures)
        self._report("groups", _sentence(failed, found.failures.__getitem__) if failed else "")

    def _clean_map(self, rounds: GroupSync, cleaner: OffsetMapCleaner) -> None:
        rounds.refresh()
        deleted = cleaner.clean()
        if deleted:
            _log.debug("%s: %d chunks of the offset map deleted", self._flow, deleted)


def _sentence(groups: list[str], reason: Callable[[str], str]) -> str:
    return f"group '{groups[0]}'{and_more(len(groups) - 1)}: {reason(groups[0])}"
