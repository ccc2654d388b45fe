# SPDX-License-Identifier: Apache-2.0
"""Where log lines go, and their form: standard error, and `log.file` with rotation.

Text:   2026-11-19T10:00:00.000+01:00 WARNING A->B: ...
JSON:   {"time":"2026-11-19T10:00:00.000+01:00","level":"WARNING","logger":"sparkmirror.run",
         "flow":"A->B","connector":"A->B.MirrorSourceConnector","message":"A->B: ..."}

An event is one line; control characters are escaped, so a name from outside cannot forge a line.
The trace of an unexpected error follows a text line, and is the field `exception` in JSON.
"""

from __future__ import annotations

import contextlib
import json
import logging
import logging.handlers
import sys
import threading
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from sparkmirror.config.settings import LogFormat, LogSettings
from sparkmirror.errors import SetupError
from sparkmirror.system.log_scope import LogScopeFilter, RepeatedProblemFilter

TEXT = "%(asctime)s %(levelname)s %(message)s"
_CONTROLS = (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)
_ESCAPES = {code: repr(chr(code))[1:-1] for code in _CONTROLS}
_log = logging.getLogger(__name__)
_log_failure = logging.getLogger("sparkmirror.process")


class TextFormatter(logging.Formatter):
    """Text lines; one that names neither its flow nor its connector gets the name in front."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802 - logging's signature
        return _iso_time(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - as above
        flow, connector = _scope(record)
        message = record.message.translate(_ESCAPES)
        names = [name for name in (connector, flow) if name]
        if names and not any(name in message for name in names):
            message = f"{names[0]}: {message}"
        record.message = message
        return super().formatMessage(record)


class JsonFormatter(logging.Formatter):
    """One JSON object per line; fields without a value are left out."""

    def format(self, record: logging.LogRecord) -> str:
        flow, connector = _scope(record)
        fields = {
            "time": _iso_time(record),
            "level": record.levelname,
            "logger": record.name,
            "flow": flow,
            "connector": connector,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps({k: v for k, v in fields.items() if v or k == "message"})


def _scope(record: logging.LogRecord) -> tuple[str, str]:
    return getattr(record, "flow", ""), getattr(record, "connector", "")


def _iso_time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")


def formatter_of(settings: LogSettings) -> logging.Formatter:
    return JsonFormatter() if settings.format is LogFormat.JSON else TextFormatter(TEXT)


class LogFile(logging.handlers.RotatingFileHandler):
    """`log.file`; failed writes are reported once on standard error and disturb nothing else."""

    def __init__(self, settings: LogSettings) -> None:
        """SetupError: the file cannot be written."""
        path = Path(settings.file).absolute()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            super().__init__(
                path,
                maxBytes=settings.max_bytes,
                backupCount=settings.backups,
                encoding="utf-8",
                errors="backslashreplace",
            )
        except OSError as error:
            raise SetupError(
                f"Cannot write log.file {path} ({error.strerror or error}).",
                remedy="Make its directory writable, set another log.file, or remove the line to "
                "log to standard error only.",
            ) from error
        self.setFormatter(formatter_of(settings))
        self.addFilter(LogScopeFilter())
        self.addFilter(RepeatedProblemFilter())
        self._failure = ""  # of the last write
        self._reported = ""

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == _log.name:
            return  # about this file
        self._failure = ""
        super().emit(record)  # calls `handleError`
        if self._failure and not self._reported:
            _log.error(
                f"Cannot write log.file {self.baseFilename} ({self._failure}); lines are on "
                "standard error only. Free space on its disk, or correct its permissions."
            )
        elif self._reported and not self._failure:
            _log.info(f"log.file {self.baseFilename} is written again")
        self._reported = self._failure

    def close(self) -> None:
        with contextlib.suppress(OSError):  # `emit` has reported it
            super().close()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's signature
        error = sys.exc_info()[1]
        if isinstance(error, OSError):
            self._failure = error.strerror or str(error)
        else:
            super().handleError(record)


class LogOutput:
    """The handlers of the root logger. Main thread, except for `log` methods of the handlers."""

    def __init__(self, standard_error: logging.Handler, *, is_terminal: bool) -> None:
        """A terminal keeps its text lines, whatever `log.format` says."""
        self._standard_error = standard_error
        self._is_terminal = is_terminal
        self._file: LogFile | None = None
        self._settings = LogSettings()
        if not is_terminal:
            standard_error.setFormatter(formatter_of(self._settings))
        standard_error.addFilter(LogScopeFilter())
        standard_error.addFilter(RepeatedProblemFilter())
        logging.root.handlers[:] = [standard_error]
        logging.captureWarnings(capture=True)
        threading.excepthook = _log_thread_failure

    @property
    def is_json(self) -> bool:
        """Whether standard error has JSON lines."""
        return self._settings.format is LogFormat.JSON and not self._is_terminal

    def check(self, settings: LogSettings) -> None:
        """Raise SetupError if `apply` would fail."""
        if settings.file and settings != self._settings:
            LogFile(settings).close()

    def apply(self, settings: LogSettings) -> None:
        """Use these settings from the next line on; SetupError: nothing has changed."""
        if settings == self._settings:
            return
        new = LogFile(settings) if settings.file else None
        old, self._file, self._settings = self._file, new, settings
        if not self._is_terminal:
            self._standard_error.setFormatter(formatter_of(settings))
        logging.root.handlers[:] = [self._standard_error, *([new] if new else [])]
        if old is not None:
            old.close()

    def log_failure(self, lines: Iterable[str]) -> bool:
        """Log why the process cannot start; False: standard error did not get it, as it has text.

        On standard error that text is printed without time and level.
        """
        handlers = [self._standard_error] if self.is_json else []
        handlers += [self._file] if self._file is not None else []
        for line in lines:
            record = _log_failure.makeRecord(
                _log_failure.name, logging.ERROR, "", 0, line, (), None
            )
            for one in handlers:
                one.handle(record)
        return self.is_json


def _log_thread_failure(failed: threading.ExceptHookArgs) -> None:
    """Log an exception that ended a thread, instead of printing it."""
    if failed.exc_value is None or failed.exc_type is SystemExit:
        return
    name = failed.thread.name if failed.thread is not None else "unknown"
    trace = (failed.exc_type, failed.exc_value, failed.exc_traceback)
    _log_failure.error(
        f"Thread {name} ended by an unexpected error; restart the process if something stands "
        "still, and report the trace.",
        exc_info=trace,
    )
