# SPDX-License-Identifier: Apache-2.0
"""Error lines, tables, and a command group with a default command.

`groups FILE` means `groups show FILE`.
"""

from __future__ import annotations

from collections.abc import Sequence

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

_DEFAULT = "show"


def print_error(sentence: str) -> None:
    Console(stderr=True).print(f"error: {sentence}", markup=False, soft_wrap=True)


def print_rows(
    console: Console, headings: Sequence[str], rows: Sequence[Sequence[Text]], nothing: str
) -> None:
    """Print a table on a terminal (`nothing` without rows), tab-separated lines elsewhere."""
    if not console.is_terminal:
        for row in rows:
            typer.echo("\t".join(cell.plain for cell in row))
    elif rows:
        table = Table(*headings, box=None, pad_edge=False)
        for row in rows:
            table.add_row(*row)
        console.print(table)
    else:
        console.print(nothing, markup=False, highlight=False)


class DefaultCommandGroup(TyperGroup):
    """Inserts the default command if the first argument is not a command."""

    def parse_args(  # type: ignore[override] # click's own type
        self, ctx: typer.Context, args: list[str]
    ) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)
