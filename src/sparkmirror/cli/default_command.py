# SPDX-License-Identifier: Apache-2.0
"""A group of commands whose first one need not be named: `groups FILE` is `groups show FILE`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typer.core import TyperGroup

if TYPE_CHECKING:
    from typer._click.core import Context

_DEFAULT = "show"


class DefaultCommand(TyperGroup):
    """Puts the default command before words that begin with no command."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """As the base class does, with the command named."""
        if args and args[0] not in self.commands and args[0] != "--help":
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)
