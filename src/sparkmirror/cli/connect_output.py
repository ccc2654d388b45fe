# SPDX-License-Identifier: Apache-2.0
"""Answers of a Connect worker for people and programs: a table, lines with tabs, or JSON.

Names, states and traces come from a server: whatever could steer a terminal is shown as an escape.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

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
    """The text with its lines, and with escapes for what is no letter, digit or sign."""
    return "".join(
        one if one.isprintable() or one == "\n" else one.encode("unicode_escape").decode()
        for one in text.replace("\r\n", "\n").replace("\t", "    ")
    )


def single_line(text: str) -> str:
    """The text in one line, for a cell or a line that others cut at tabs."""
    return escape_control_characters(" ".join(text.split()))


def print_rows(headings: Sequence[str], rows: Iterable[Sequence[str]], nothing: str) -> None:
    """A table on a terminal, lines with tabs elsewhere; `nothing` is said for no rows at all."""
    console = Console()
    cells = [[single_line(cell) for cell in row] for row in rows]
    if not console.is_terminal:
        for row in cells:
            typer.echo("\t".join(row))
        return
    if not cells:
        console.print(nothing, markup=False, highlight=False)
        return
    table = Table(*headings, box=None, pad_edge=False)
    for row in cells:
        table.add_row(*(Text(cell, style=_COLOURS.get(cell, "")) for cell in row))
    console.print(table)


def print_json(value: object) -> None:
    """For programs; half a surrogate pair in a name stays JSON."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    typer.echo(text.encode("utf-8", "backslashreplace").decode())


def summarize_trace(trace: str, most: int = 160) -> str:
    """What a trace says: its first line, and the last cause if there is one."""
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    if not lines:
        return ""
    causes = [line for line in lines if line.startswith("Caused by:")]
    said = [_cut(lines[0], most), *(_cut(line, most) for line in causes[-1:])]
    return "; ".join(said)


def _cut(line: str, most: int) -> str:
    return line if len(line) <= most else f"{line[: most - 3]}..."
