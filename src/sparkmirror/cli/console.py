# SPDX-License-Identifier: Apache-2.0
"""Error lines, tables, and command groups.

`groups FILE` means `groups show FILE`. An unknown command never leads to a command that changes
something: `status` is not taken for `restart`.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

from sparkmirror.cli.tables import FittedTable

_DEFAULT = "show"
_READING = ("check", "consume", "describe", "get", "groups", "ledger", "offsets", "plan")
_READING_LOCAL = ("status", "topics")
_OTHER_NAMES = dict.fromkeys(("list", "ls", "ps", "state", "status", "top"), "get connectors")


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


class CommandGroup(TyperGroup):
    """Suggests only commands that read; lists all commands if none of them is meant."""

    def resolve_command(  # type: ignore[override] # click's own types
        self, ctx: typer.Context, args: list[str]
    ) -> Any:
        name = args[0]
        if self.get_command(ctx, name) is None and name[:1] != "-" and not ctx.resilient_parsing:
            ctx.fail(f"No such command '{name}'. {self._suggestion(name)}")
        return super().resolve_command(ctx, args)

    def _suggestion(self, name: str) -> str:
        reading = [one for one in self.commands if one in _READING + _READING_LOCAL]
        close = difflib.get_close_matches(name, reading, n=1)
        meant = close[0] if close else _OTHER_NAMES.get(name, "")
        if meant.partition(" ")[0] in self.commands:
            return f"Did you mean '{meant}'?"
        return f"Commands: {', '.join(self.commands)}."


class DefaultCommandGroup(TyperGroup):
    """Inserts the default command if the first argument is not a command."""

    def parse_args(  # type: ignore[override] # click's own type
        self, ctx: typer.Context, args: list[str]
    ) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)
