# SPDX-License-Identifier: Apache-2.0
"""MirrorCheckpointConnector: where consumer groups go on if they move to the target.

`run` finds the groups, writes checkpoints and sets offsets of idle groups on the target if the
file asks for it, each at its own interval. It also cleans the offset map, which it reads anyway. A
failed round shows in the flow's status and is tried again; the copy does not wait for any of this.
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
from sparkmirror.spark.flow_status import FlowStatus

_KEEP_SECONDS = 60.0
_FIRST_KEEP_SECONDS = 10.0  # not while everything starts
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _PeriodicJob:
    """Something to do at an interval; None: never."""

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
        self._refusals: dict[str, str] = {}  # those failures that a person must see to
        self.failure = ""  # the trace of what ended its thread
        self.has_emitted = False  # a checkpoint
        # Replaced as a whole: any thread may read it.
        self.position_counts: Mapping[str, int] = {}  # positions of groups by state

    @property
    def is_running(self) -> bool:
        """Always False: it has no helper threads."""
        return False

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that it looks after, as it last found them."""
        return tuple(self._groups)

    @property
    def permanent_errors(self) -> tuple[str, ...]:
        """What is tried again, but will not go away by itself."""
        return tuple({**self._refusals}.values())

    def stop(self) -> None:
        """Ask for the end, within a request's time. Any thread; returns at once."""
        self._stop.set()

    def run(self, ready_topics: Container[str]) -> None:  # noqa: ARG002 - a round reports what it lacks
        """Run rounds until the end."""
        try:
            with GroupSync(self._settings, self._policy) as rounds:
                keeper = OffsetMapCleaner(rounds.map, rounds.source_admin, self._status.set_problem)
                self._loop(rounds, keeper)
        except Exception as error:  # noqa: BLE001 - the status of its task must tell
            _log.exception("%s: the checkpoint connector failed", self._flow)
            self._status.set_problem("checkpoints", f"ended: {type(error).__name__}: {error}")
            self.failure = traceback.format_exc()

    def _loop(self, rounds: GroupSync, keeper: OffsetMapCleaner) -> None:
        settings, now = self._settings.checkpoint, time.monotonic()
        emits = settings.enabled and self._settings.source.offset_syncs_enabled
        sync_seconds = settings.sync_group_offsets_seconds
        # As in MM2 everything comes after one interval first: a start has enough to do.
        emit = _PeriodicJob(
            settings.emit_seconds if emits else None, now + (settings.emit_seconds or 0)
        )
        sync = _PeriodicJob(sync_seconds if emits else None, now + (sync_seconds or 0))
        rounds_due = [job.due for job in (emit, sync) if job.interval is not None]
        refresh = _PeriodicJob(
            settings.refresh_groups_seconds if emits else None, min(rounds_due, default=now)
        )
        keep = _PeriodicJob(_KEEP_SECONDS, now + _FIRST_KEEP_SECONDS)
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
            if keep.is_due(now):
                self._attempt("offset map's upkeep", partial(self._clean_map, rounds, keeper))
                keep.reschedule(now)
            jobs = (emit, sync, refresh, keep)
            next_due = min(job.due for job in jobs if job.interval is not None)
            self._stop.wait(max(next_due - time.monotonic(), 0.0))

    def _attempt(self, what: str, step: Callable[[], None]) -> bool:
        """Do something; a failure is said, and it is tried again at its next time."""
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

    def _report(self, what: str, trouble: str) -> None:
        """Into the status, and once into the log."""
        before = self._failures.get(what, "")
        if trouble and not before:
            _log.warning(f"{self._flow}: {what}: {trouble}")
        if before and not trouble:
            _log.info(f"{self._flow}: {what}: well again")
        self._failures[what] = trouble
        self._status.set_problem(what, f"{what}: {trouble}" if trouble else "")

    def _find_groups(self, rounds: GroupSync, *, is_first: bool) -> None:
        if is_first:
            rounds.checkpoints.refresh()  # what was written before this start
        found = rounds.selected_groups()
        if found != self._groups:
            new, gone = set(found) - set(self._groups), set(self._groups) - set(found)
            _log.info(
                f"{self._flow}: {len(found)} consumer groups ({len(new)} new, {len(gone)} gone)"
            )
        self._groups = found

    def _run_round(self, rounds: GroupSync, *, emits: bool, syncs: bool) -> None:
        found = rounds.plan(self._groups, syncs_groups=syncs)
        if emits:
            rounds.write_checkpoints(found.checkpoints)
            self.has_emitted = self.has_emitted or bool(found.checkpoints)
        if syncs:
            found = rounds.commit_offsets(found)
        self.position_counts = Counter(one.state.value for one in found.positions)
        self._report("offset map", join_sentences(rounds.problems))
        failed = sorted(found.failures)
        self._report("groups", _sentence(failed, found.failures.__getitem__) if failed else "")

    def _clean_map(self, rounds: GroupSync, keeper: OffsetMapCleaner) -> None:
        rounds.refresh()
        deleted = keeper.clean()
        if deleted:
            _log.debug("%s: %d chunks of the offset map deleted", self._flow, deleted)


def _sentence(groups: list[str], reason: Callable[[str], str]) -> str:
    more = f" and {len(groups) - 1} more" if len(groups) > 1 else ""
    return f"group '{groups[0]}'{more}: {reason(groups[0])}"
