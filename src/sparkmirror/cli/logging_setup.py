# SPDX-License-Identifier: Apache-2.0
"""Logging of the commands that keep running: level, and timestamps with the time zone."""

from __future__ import annotations

import logging
import sys
from datetime import datetime
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text


class LogLevelName(StrEnum):
    """Values of `--log-level`, as Connect spells them."""

    ERROR = "error"
    WARN = "warn"
    INFO = "info"
    DEBUG = "debug"

    @property
    def number(self) -> int:
        return int(logging.getLevelNamesMapping()[self.name])


LogLevelOption = Annotated[
    LogLevelName,
    typer.Option(
        "--log-level",
        metavar="LEVEL",
        case_sensitive=False,
        help="Log this level and above: error, warn, info or debug.",
    ),
]


def set_up_logging(console: Console, level: LogLevelName = LogLevelName.INFO) -> None:
    """Log to standard error; of libraries only warnings."""
    handler: logging.Handler
    if console.is_terminal:
        from rich.logging import RichHandler  # noqa: PLC0415 - terminals only

        handler = RichHandler(
            console=console,
            show_path=False,
            markup=False,
            log_time_format=lambda time: Text(time.astimezone().isoformat(timespec="seconds")),
        )
    else:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(IsoFormatter("%(asctime)s %(levelname)s %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(logging.WARNING, level.number))
    logging.getLogger("sparkmirror").setLevel(level.number)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)


class IsoFormatter(logging.Formatter):
    """Formats times as ISO 8601 in local time with its offset from UTC."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802 - logging's signature
        return (
            datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")
        )
