# SPDX-License-Identifier: Apache-2.0
"""Looks after the files that a worker's file leads to: stores, passwords, users of the REST API.

`look` is called about twice a second by the main thread. What has changed is used by the next
connections, to Kafka as of the REST API, and connectors that differ begin anew. A file that is
wrong or gone leaves all as it was, with a line in the log and `complaints` until a good one comes.
The worker's own file counts from start to end, as in Connect: a change to it is only remarked.
"""

from __future__ import annotations

import logging
from pathlib import Path

from sparkmirror.config.file_watch import FilesWatch, listed
from sparkmirror.config.files_read import FilesRead, noting_files
from sparkmirror.config.worker_file import Renewal, WorkerFile
from sparkmirror.connect.worker import ConnectWorker
from sparkmirror.errors import ConfigError
from sparkmirror.metrics.reloads import Reload, ReloadTally
from sparkmirror.rest.server import RestServer

_log = logging.getLogger(__name__)


class WorkerReloader:
    """One worker, its REST server, and the files that were read for them."""

    def __init__(
        self,
        path: Path,
        file: WorkerFile,
        files: FilesRead,
        worker: ConnectWorker,
        server: RestServer,
    ) -> None:
        self._path = path
        self._file = file
        self._watch = FilesWatch(files)
        self._worker = worker
        self._server = server
        self.tally = ReloadTally()
        self.complaints: tuple[str, ...] = ()

    def look(self, *, is_asked: bool = False) -> None:
        """Take up what has changed; `is_asked`: read it in any case."""
        changed = self._watch.look()
        if self._path in changed:
            _log.warning(f"{self._path} has changed, which takes effect at the next start.")
        others = [one for one in changed if one != self._path]
        if not others and not is_asked:
            return
        cause = f"{listed(others)} changed" if others else "SIGHUP"
        try:
            with noting_files() as files:
                renewal = self._take_up()
        except ConfigError as error:
            self._refuse(str(error))
        except Exception as error:  # noqa: BLE001 - logged and shown, as a thread's root does
            # Whatever it is, a file that somebody replaced must not end a worker.
            _log.exception(f"{cause}: the new values could not be taken up")
            self._refuse(f"{type(error).__name__}: {error}")
        else:
            self.complaints = ()
            self.tally.count(Reload.APPLIED if _is_any(renewal) else Reload.UNCHANGED)
            level = logging.WARNING if renewal.waits else logging.INFO
            _log.log(level, f"{cause}: {_sentence(renewal)}")
        # The lines of the file stay, so whatever was watched still is.
        self._watch.follow(files, is_complete=False)

    def _take_up(self) -> Renewal:
        renewal = self._file.renew()
        if renewal.rest:
            self._server.renewal(self._file.settings.rest)()
        if renewal.connection or renewal.rest:
            self._worker.renew()
        return renewal

    def _refuse(self, text: str) -> None:
        self.tally.count(Reload.REFUSED)
        lines = [line for line in text.splitlines() if line.strip()]
        last = f"What {self._path.name} leads to was refused; the worker goes on as it was."
        for line in (*lines, last):
            _log.error(line)
        self.complaints = (*lines, last)


def _is_any(renewal: Renewal) -> bool:
    return renewal.connection or renewal.rest


def _sentence(renewal: Renewal) -> str:
    parts = []
    if renewal.connection:
        parts.append("new connections to the worker's cluster use it")
    if renewal.rest:
        parts.append("the REST API uses it")
    if renewal.waits:
        parts.append("values that a worker reads once take effect at the next start")
    return "; ".join(parts) or "nothing to do for the worker itself"
