# SPDX-License-Identifier: Apache-2.0
"""Reloads the files of a process when they have changed; applies all changes or none.

`poll` runs on the main thread, about twice a second. A rejected reload changes nothing: each error
is logged, and `errors` has them until a reload succeeds.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sparkmirror.config.files.tracked_files import (
    FileWatcher,
    RecordedFiles,
    format_paths,
    record_file_reads,
)
from sparkmirror.errors import SparkmirrorError
from sparkmirror.metrics.process_view import ReloadMetrics, ReloadResult

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reloaded:
    """The result of a reload."""

    sentence: str
    is_change: bool
    needs_restart: bool = False  # something takes effect at the next start


class Reloadable(Protocol):
    """A process that can reload its files: `Mirror` or `Worker`."""

    def reload(self) -> Reloaded:
        """Read and apply; SparkmirrorError: rejected, and nothing has changed."""


@dataclass(frozen=True, slots=True)
class ReloadRules:
    """The differences between `run` and `worker`."""

    rereads_own_file: bool  # False: changes of the file itself need a restart, as in Connect
    refused: str  # the last line of a rejection


class Reloader:
    """Watches one file and all files that it refers to."""

    def __init__(
        self,
        file: Path,
        files: RecordedFiles,
        runtime: Reloadable,
        metrics: ReloadMetrics,
        rules: ReloadRules,
    ) -> None:
        """`files` are the files read at the start."""
        self._file = file
        self._watch = FileWatcher(files)
        self._runtime = runtime
        self._metrics = metrics
        self._rules = rules
        self.errors: tuple[str, ...] = ()

    def poll(self, *, is_requested: bool = False) -> None:
        """Reload if files have changed; `is_requested`: reload in any case."""
        changed = self._watch.poll()
        others = [one for one in changed if one != self._file]
        if self._rules.rereads_own_file:
            is_due = bool(changed)
        else:
            is_due = bool(others)
            if self._file in changed:
                _log.warning(f"{self._file} has changed; restart the process to apply it.")
        if is_due or is_requested:
            cause = f"{format_paths(others)} changed: " if others else ""
            self._reload(cause if is_due else "SIGHUP: ")

    def _reload(self, cause: str) -> None:
        is_applied = False
        with record_file_reads() as files:
            try:
                reloaded = self._runtime.reload()
                is_applied = True
            except SparkmirrorError as error:
                self._refuse(cause, str(error))
            except Exception as error:  # noqa: BLE001 - logged and shown, as a thread's root does
                # An edited file must not end a running process.
                _log.exception(
                    f"{cause}cannot reload {self._file.name}; restart the process to apply it"
                )
                self._refuse(cause, f"{type(error).__name__}: {error}")
            else:
                self.errors = ()
                is_change = reloaded.is_change
                result = ReloadResult.APPLIED if is_change else ReloadResult.UNCHANGED
                self._metrics.record(result)
                level = logging.WARNING if reloaded.needs_restart else logging.INFO
                _log.log(level, f"{cause}{reloaded.sentence}")
        # Files that an incomplete reload has not read are still watched.
        self._watch.watch(files, is_complete=is_applied and self._rules.rereads_own_file)

    def _refuse(self, cause: str, text: str) -> None:
        self._metrics.record(ReloadResult.REFUSED)
        lines = [line for line in text.splitlines() if line.strip()]
        self.errors = (*lines, f"{cause}{self._rules.refused}")
        for line in self.errors:
            _log.error(line)
