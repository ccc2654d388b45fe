# SPDX-License-Identifier: Apache-2.0
"""Output for the Connect commands: a table, tab-separated lines, or JSON.

Names, states and traces come from a server: control characters are escaped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import typer
from rich.console import Console
from rich.text import Text

from sparkmirror.cli import console

_COLOURS = {
    "RUNNING": "green",
    "created": "green",
    "updated": "green",
    "FAILED": "bold red",
    "failed": "bold red",
    "PAUSED": "yellow",
    "STOPPED": "yellow",
    "UNASSIGNED": "yellow",
    "RESTARTING": "yellow",
    "unchanged": "dim",
}


def escape_control_characters(text: str) -> str:
    """Escape everything that is not printable, except newlines."""
    return "".join(
        one if one.isprintable() or one == "\n" else one.encode("unicode_escape").decode()
        for one in text.replace("\r\n", "\n").replace("\t", "    ")
    )


def single_line(text: str) -> str:
    """Join the text to one line, for a cell or a tab-separated line."""
    return escape_control_characters(" ".join(text.split()))


def print_rows(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    nothing: str,
    optional: Sequence[str] = (),
) -> None:
    """Print a table on a terminal (`nothing` without rows), tab-separated lines elsewhere."""
    cells = [[_cell(single_line(text)) for text in row] for row in rows]
    console.print_rows(Console(), headings, cells, nothing, optional)


def _cell(text: str) -> Text:
    return Text(text, style=_COLOURS.get(text, ""))


def print_json(value: object) -> None:
    """Print JSON; a lone surrogate in a name is escaped."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    typer.echo(text.encode("utf-8", "backslashreplace").decode())


def summarize_trace(trace: str, max_length: int = 160) -> str:
    """Return the first line of a stack trace, and its last cause."""
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    if not lines:
        return ""
    causes = [line for line in lines if line.startswith("Caused by:")]
    parts = [_truncate(lines[0], max_length)]
    parts += [_truncate(line, max_length) for line in causes[-1:]]
    return "; ".join(parts)


def _truncate(line: str, max_length: int) -> str:
    return line if len(line) <= max_length else f"{line[: max_length - 3]}..."
