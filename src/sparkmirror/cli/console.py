# SPDX-License-Identifier: Apache-2.0
"""Errors as one sentence, for commands that ask clusters something.

A group of commands whose first one need not be named: `groups FILE` is `groups show FILE`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from typer.core import TyperGroup

if TYPE_CHECKING:
    from typer._click.core import Context

_DEFAULT = "show"


def print_error(sentence: str) -> None:
    """What is wrong, where it does not disturb whoever reads the answer."""
    Console(stderr=True).print(f"error: {sentence}", markup=False, soft_wrap=True)


class DefaultCommandGroup(TyperGroup):
    """Puts the default command before words that begin with no command."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """As the base class does, with the command named."""
        if args and args[0] not in self.commands and args[0] != "--help":
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)
