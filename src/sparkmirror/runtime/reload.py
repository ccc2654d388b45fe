# SPDX-License-Identifier: Apache-2.0
"""Reads the file of a run again when it or a file that it leads to changed, says what came of it.

`poll` is called about twice a second by the main thread. A file that is wrong, or leads to one that
is, is refused as a whole: the configuration in use goes on, the log has one line for each thing
that is wrong, and `errors` keep it in view until a good one comes.

Looks after the files that a worker's file leads to: stores, passwords, users of the REST API.

`poll` is called about twice a second by the main thread. What has changed is used by the next
connections, to Kafka as of the REST API, and connectors that differ begin anew. A file that is
wrong or gone leaves all as it was, with a line in the log and `errors` until a good one comes.
The worker's own file counts from start to end, as in Connect: a change to it is only remarked.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from sparkmirror.config.config_changes import describe_changes
from sparkmirror.config.files.notices import Notice, NoticeLevel
from sparkmirror.config.files.tracked_files import (
    FileWatcher,
    RecordedFiles,
    format_paths,
    record_file_reads,
)
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.worker_config import CredentialsReload, WorkerConfig
from sparkmirror.errors import ConfigError, SparkmirrorError
from sparkmirror.metrics.prometheus import ReloadMetrics, ReloadResult
from sparkmirror.rest.server import RestServer
from sparkmirror.runtime.mirror import Mirror
from sparkmirror.runtime.worker import ConnectWorker

_log = logging.getLogger(__name__)


class MirrorReloader:
    """The file of one run, and all that it leads to."""

    def __init__(self, file: Path, targets: Collection[str] = ()) -> None:
        self._file = file
        self._targets = targets
        self._watch = FileWatcher({})
        self._warned: set[tuple[str, str]] = set()
        self.errors: tuple[str, ...] = ()

    @contextmanager
    def recording_files(self) -> Iterator[None]:
        """Within it the file is read and taken up; what is read meanwhile is watched afterwards."""
        is_complete = False
        with record_file_reads() as files:
            try:
                yield
                is_complete = True
            finally:
                self._watch.watch(files, is_complete=is_complete)

    def load(self) -> MirrorConfig:
        """Read the file; its warnings go to the log, those that it had before excepted."""
        config = MirrorConfig.load(self._file)
        warnings = [n for n in config.all_notices(self._targets) if n.level is NoticeLevel.WARNING]
        for one in warnings:
            if _notice_key(one) not in self._warned:
                _log.warning(str(one))
        self._warned = {_notice_key(one) for one in warnings}
        return config

    def poll(self, application: Mirror, *, is_asked: bool = False) -> None:
        """Take up what has changed; `is_asked`: read it in any case."""
        changed = self._watch.poll()
        others = [one for one in changed if one != self._file]
        if others:
            _log.info(f"{format_paths(others)} changed, which {self._file.name} leads to")
        if changed or is_asked:
            self._apply(application)

    def _apply(self, application: Mirror) -> None:
        try:
            with self.recording_files():
                changes, later = application.reload(self.load())
        except SparkmirrorError as error:
            self._reject(str(error), application)
            return
        except Exception as error:  # noqa: BLE001 - logged and shown, as a thread's root does
            # Whatever it is, a file that somebody edits must not end flows that run.
            _log.exception(f"{self._file.name} could not be taken up")
            self._reject(f"{type(error).__name__}: {error}", application)
            return
        self.errors = ()
        is_same = changes.is_empty
        application.reloads.record(ReloadResult.UNCHANGED if is_same else ReloadResult.APPLIED)
        level = logging.WARNING if later else logging.INFO
        _log.log(level, describe_changes(self._file.name, changes, later))

    def _reject(self, text: str, application: Mirror) -> None:
        application.reloads.record(ReloadResult.REFUSED)
        lines = [line for line in text.splitlines() if line.strip()]
        for line in lines:
            _log.error(line)
        last = f"{self._file.name} was refused; the old configuration goes on."
        _log.error(last)
        self.errors = (*lines, last)


def _notice_key(one: Notice) -> tuple[str, str]:
    """A remark without its line, which moves when others are added."""
    return one.key, one.message


class WorkerReloader:
    """One worker, its REST server, and the files that were read for them."""

    def __init__(
        self,
        path: Path,
        file: WorkerConfig,
        files: RecordedFiles,
        worker: ConnectWorker,
        server: RestServer,
    ) -> None:
        self._path = path
        self._file = file
        self._watch = FileWatcher(files)
        self._worker = worker
        self._server = server
        self.tally = ReloadMetrics()
        self.errors: tuple[str, ...] = ()

    def poll(self, *, is_asked: bool = False) -> None:
        """Take up what has changed; `is_asked`: read it in any case."""
        changed = self._watch.poll()
        if self._path in changed:
            _log.warning(f"{self._path} has changed, which takes effect at the next start.")
        others = [one for one in changed if one != self._path]
        if not others and not is_asked:
            return
        cause = f"{format_paths(others)} changed" if others else "SIGHUP"
        try:
            with record_file_reads() as files:
                renewal = self._apply()
        except ConfigError as error:
            self._reject(str(error))
        except Exception as error:  # noqa: BLE001 - logged and shown, as a thread's root does
            # Whatever it is, a file that somebody replaced must not end a worker.
            _log.exception(f"{cause}: the new values could not be taken up")
            self._reject(f"{type(error).__name__}: {error}")
        else:
            self.errors = ()
            self.tally.record(
                ReloadResult.APPLIED if _has_effect(renewal) else ReloadResult.UNCHANGED
            )
            level = logging.WARNING if renewal.needs_restart else logging.INFO
            _log.log(level, f"{cause}: {_describe(renewal)}")
        # The lines of the file stay, so whatever was watched still is.
        self._watch.watch(files, is_complete=False)

    def _apply(self) -> CredentialsReload:
        renewal = self._file.reload_credentials()
        if renewal.rest:
            self._server.prepare_credentials_update(self._file.settings.rest)()
        if renewal.connection or renewal.rest:
            self._worker.update_credentials()
        return renewal

    def _reject(self, text: str) -> None:
        self.tally.record(ReloadResult.REFUSED)
        lines = [line for line in text.splitlines() if line.strip()]
        last = f"What {self._path.name} leads to was refused; the worker goes on as it was."
        for line in (*lines, last):
            _log.error(line)
        self.errors = (*lines, last)


def _has_effect(renewal: CredentialsReload) -> bool:
    return renewal.connection or renewal.rest


def _describe(renewal: CredentialsReload) -> str:
    parts = []
    if renewal.connection:
        parts.append("new connections to the worker's cluster use it")
    if renewal.rest:
        parts.append("the REST API uses it")
    if renewal.needs_restart:
        parts.append("values that a worker reads once take effect at the next start")
    return "; ".join(parts) or "nothing to do for the worker itself"
