# SPDX-License-Identifier: Apache-2.0
"""Logging of the commands that keep running: level, standard error, and failures to start."""

from __future__ import annotations

import logging
import sys
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from sparkmirror.errors import SparkmirrorError
from sparkmirror.runtime.log_output import LogOutput, TextFormatter

VIEW_LOGGER = "sparkmirror.run"  # states and progress, which a terminal shows as a table


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


def set_up_logging(console: Console, level: LogLevelName = LogLevelName.INFO) -> LogOutput:
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
        handler.setFormatter(TextFormatter("%(message)s"))
        handler.addFilter(lambda record: record.name != VIEW_LOGGER)
    else:
        handler = logging.StreamHandler(sys.stderr)
    logging.root.setLevel(max(logging.WARNING, level.number))
    logging.getLogger("sparkmirror").setLevel(level.number)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    return LogOutput(handler, is_terminal=console.is_terminal)


def print_failure(console: Console, output: LogOutput, error: SparkmirrorError) -> None:
    """Print why the process cannot start; `log.file` gets it as well."""
    if not output.log_failure(str(error).splitlines()):
        console.print(f"sparkmirror: {error}", style="red", highlight=False, soft_wrap=True)
