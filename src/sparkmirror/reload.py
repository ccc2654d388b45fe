# SPDX-License-Identifier: Apache-2.0
"""Reads the file of a run again when it or a file that it leads to changed, says what came of it.

`look` is called about twice a second by the main thread. A file that is wrong, or leads to one that
is, is refused as a whole: the configuration in use goes on, the log has one line for each thing
that is wrong, and `complaints` keep it in view until a good one comes.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from sparkmirror.app import Application
from sparkmirror.config.changes import sentence
from sparkmirror.config.file_watch import FilesWatch, listed
from sparkmirror.config.files_read import noting_files
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.notices import Level, Notice
from sparkmirror.errors import SparkmirrorError
from sparkmirror.metrics.reloads import Reload

_log = logging.getLogger(__name__)


class Reloader:
    """The file of one run, and all that it leads to."""

    def __init__(self, file: Path, targets: Collection[str] = ()) -> None:
        self._file = file
        self._targets = targets
        self._watch = FilesWatch({})
        self._warned: set[tuple[str, str]] = set()
        self.complaints: tuple[str, ...] = ()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Within it the file is read and taken up; what is read meanwhile is watched afterwards."""
        is_complete = False
        with noting_files() as files:
            try:
                yield
                is_complete = True
            finally:
                self._watch.follow(files, is_complete=is_complete)

    def load(self) -> MirrorConfig:
        """Read the file; its warnings go to the log, those that it had before excepted."""
        config = MirrorConfig.load(self._file)
        warnings = [n for n in config.problems(self._targets) if n.level is Level.WARNING]
        for one in warnings:
            if _identity(one) not in self._warned:
                _log.warning(str(one))
        self._warned = {_identity(one) for one in warnings}
        return config

    def look(self, application: Application, *, is_asked: bool = False) -> None:
        """Take up what has changed; `is_asked`: read it in any case."""
        changed = self._watch.look()
        others = [one for one in changed if one != self._file]
        if others:
            _log.info(f"{listed(others)} changed, which {self._file.name} leads to")
        if changed or is_asked:
            self._take_up(application)

    def _take_up(self, application: Application) -> None:
        try:
            with self.reading():
                changes, later = application.reload(self.load())
        except SparkmirrorError as error:
            self._refuse(str(error), application)
            return
        except Exception as error:  # noqa: BLE001 - logged and shown, as a thread's root does
            # Whatever it is, a file that somebody edits must not end flows that run.
            _log.exception(f"{self._file.name} could not be taken up")
            self._refuse(f"{type(error).__name__}: {error}", application)
            return
        self.complaints = ()
        is_same = changes.is_nothing
        application.reloads.count(Reload.UNCHANGED if is_same else Reload.APPLIED)
        level = logging.WARNING if later else logging.INFO
        _log.log(level, sentence(self._file.name, changes, later))

    def _refuse(self, text: str, application: Application) -> None:
        application.reloads.count(Reload.REFUSED)
        lines = [line for line in text.splitlines() if line.strip()]
        for line in lines:
            _log.error(line)
        last = f"{self._file.name} was refused; the old configuration goes on."
        _log.error(last)
        self.complaints = (*lines, last)


def _identity(one: Notice) -> tuple[str, str]:
    """A remark without its line, which moves when others are added."""
    return one.key, one.message
