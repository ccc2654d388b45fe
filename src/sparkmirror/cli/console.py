# SPDX-License-Identifier: Apache-2.0
"""Error lines, wrapped lines and tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, cast

import typer
from rich.console import Console
from rich.text import Text

from sparkmirror.cli.tables import FittedTable

_CONTINUATION = 2  # further indent of the second line of a wrapped text
_MIN_WIDTH = 20


def print_error(sentence: str) -> None:
    Console(stderr=True).print(f"error: {sentence}", markup=False, soft_wrap=True)


def print_rows(
    console: Console,
    headings: Sequence[str],
    rows: Sequence[Sequence[Text]],
    nothing: str,
    optional: Sequence[str] = (),
) -> None:
    """Print a table on a terminal (`nothing` without rows), tab-separated lines elsewhere.

    The table fits the terminal, if need be without `optional` columns; see `tables`.
    """
    if not console.is_terminal:
        for row in rows:
            typer.echo("\t".join(cell.plain for cell in row))
    elif rows:
        console.print(FittedTable(headings, rows, optional=optional))
    else:
        console.print(nothing, markup=False, highlight=False)


def camel_case_document(value: object) -> dict[str, Any]:
    """Return the fields of a dataclass under camelCase names, for JSON."""
    fields = asdict(cast("Any", value))
    return {re.sub("_(.)", lambda found: found[1].upper(), name): fields[name] for name in fields}


def print_wrapped(console: Console, line: str, *, indent: int = 0, style: str = "") -> None:
    """Print a line, wrapped below its own indent; nothing is shortened."""
    text = line.lstrip()
    indent += len(line) - len(text)
    whole = Text(text, style=style)
    pieces: Iterable[Text] = [whole]
    if indent + whole.cell_len > console.width:
        pieces = whole.wrap(console, max(console.width - indent - _CONTINUATION, _MIN_WIDTH))
    for at, piece in enumerate(pieces):
        indented = Text(" " * (indent + (_CONTINUATION if at else 0))) + piece
        indented.rstrip()
        console.print(indented, soft_wrap=True, highlight=False)
