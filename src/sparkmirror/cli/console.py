# SPDX-License-Identifier: Apache-2.0
"""Errors as one line on stderr, and a command group with a default command.

`groups FILE` means `groups show FILE`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from typer.core import TyperGroup

if TYPE_CHECKING:
    from typer._click.core import Context

_DEFAULT = "show"


def print_error(sentence: str) -> None:
    Console(stderr=True).print(f"error: {sentence}", markup=False, soft_wrap=True)


class DefaultCommandGroup(TyperGroup):
    """Inserts the default command if the first argument is not a command."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)
