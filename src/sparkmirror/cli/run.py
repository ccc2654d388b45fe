# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror run`: run the flows of a file until a stop signal."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console

from sparkmirror.cli.logging_setup import LogLevelName, print_failure, set_up_logging
from sparkmirror.cli.run_loop import (
    FATAL,
    OK,
    START_FAILED,
    Ending,
    run_until_stopped,
)
from sparkmirror.cli.run_view import choose_view
from sparkmirror.config.files.tracked_files import record_file_reads
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.errors import ConfigError, SparkmirrorError
from sparkmirror.runtime.mirror import Mirror
from sparkmirror.runtime.reload import Reloader, ReloadRules
from sparkmirror.spark.flow_status import FlowState

_STUCK_SECONDS = 30.0
_IDLE = (FlowState.FAILED, FlowState.STANDBY, FlowState.PAUSED, FlowState.STOPPED)


def run_file(
    file: Path,
    *,
    clusters: tuple[str, ...] = (),
    once: bool = False,
    master: str | None = None,
    log_level: LogLevelName = LogLevelName.INFO,
) -> int:
    """Run a configuration file. Returns the exit code."""
    console = Console(stderr=True)
    log_output = set_up_logging(console, log_level)
    try:
        with record_file_reads() as files:
            log_output.apply(MirrorConfig.load(file).log)  # before the file's warnings are logged
            mirror = Mirror(
                file,
                targets=clusters,
                once=once,
                master=master,
                serves=not once,
                log_output=log_output,
            )
    except SparkmirrorError as error:
        print_failure(console, log_output, error)
        return FATAL if isinstance(error, ConfigError) else START_FAILED
    refused = f"{file.name} was rejected; the previous configuration stays in use."
    rules = ReloadRules(rereads_own_file=True, refused=refused)
    reloader = None if once else Reloader(file, files, mirror, mirror.reloads, rules)
    view = choose_view(console, once=once, progress_seconds=lambda: mirror.progress_seconds)
    end = _EndOfRun(mirror, once=once)
    return run_until_stopped(mirror, view, reloader, end.check)


class _EndOfRun:
    """Decides when a run ends without a signal: Spark failed, or `--once` is done or stuck."""

    def __init__(self, mirror: Mirror, *, once: bool) -> None:
        self._mirror = mirror
        self._once = once
        self._has_copied = False
        self._stuck_since: float | None = None

    def check(self) -> Ending | None:
        failure = self._mirror.failure()
        if failure is not None:
            return Ending(FATAL if self._has_copied else START_FAILED, str(failure))
        self._has_copied |= any(one.epoch for one in self._mirror.snapshots())
        if not self._once:
            return None
        if self._mirror.is_done():
            return Ending(OK)
        if not self._is_stuck():
            self._stuck_since = None
            return None
        now = time.monotonic()
        self._stuck_since = self._stuck_since or now
        is_hopeless = now - self._stuck_since > _STUCK_SECONDS
        return Ending(FATAL, self._stuck_reason()) if is_hopeless else None

    def _is_stuck(self) -> bool:
        """Whether no flow makes progress, and none will without manual action."""
        copying = self._mirror.copying_snapshots()
        unfinished = [one for one in copying if one.state is not FlowState.DONE]
        return bool(unfinished) and all(
            one.state in _IDLE
            or (one.problems and not one.retriable_only and one.records_per_second == 0)
            for one in unfinished
        )

    def _stuck_reason(self) -> str:
        copying = self._mirror.copying_snapshots()
        waiting = [one for one in copying if one.state is FlowState.STANDBY]
        if not waiting:
            return "no flow makes progress, and the problems above need manual action."
        listed = "; ".join(f"{one.flow} {one.reason}" for one in waiting)
        return f"no flow can run here: {listed}. Stop that process first, or let it copy."
