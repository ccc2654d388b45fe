# SPDX-License-Identifier: Apache-2.0
"""Command groups, and the names of values in `--help`.

`groups FILE` means `groups show FILE`. An unknown command never leads to a command that changes
something: `status` is not taken for `restart`.
"""

from __future__ import annotations

import difflib
import re
from typing import Any

import typer
from typer.core import TyperArgument, TyperGroup, TyperOption

_DEFAULT = "show"
_SINGLE_BREAK = re.compile(r"(?<!\n)\n[ \t]*(?!\s*\n)")  # inside a paragraph of a docstring
_BETWEEN_EXAMPLES = re.compile(r"  \|  |(?<=:)  ")  # each gets a line of its own
_READING = ("check", "consume", "describe", "get", "groups", "ledger", "offsets", "plan")
_READING_LOCAL = ("status", "topics")
_OTHER_NAMES = dict.fromkeys(("list", "ls", "ps", "state", "status", "top"), "get connectors")


class LabelledGroup(TyperGroup):
    """Names values in help after their parameter (`FILE`), not after their type (`<path>`)."""

    def get_params(self, ctx: typer.Context) -> Any:  # type: ignore[override] # click's own type
        return [_labelled(one) for one in super().get_params(ctx)]

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override] # as above
        command = super().get_command(ctx, cmd_name)
        if command is not None and not isinstance(command, TyperGroup):
            for one in command.get_params(ctx):
                _labelled(one)
            command.help = _SINGLE_BREAK.sub(" ", command.help or "")
            command.epilog = _BETWEEN_EXAMPLES.sub("\n  ", command.epilog or "")
        return command


def _labelled(parameter: Any) -> Any:
    """Set the label of an option or argument, unless its declaration has one."""
    parameter.__dict__["_get_number_range_help_str"] = lambda: _range(parameter)
    if isinstance(parameter, TyperOption) and parameter.metavar is None:
        parameter.metavar = "" if parameter.is_flag else _label(parameter)
    elif isinstance(parameter, TyperArgument):
        parameter.metavar = parameter.metavar or _label(parameter)
        parameter.__dict__["display_type_rich"] = lambda ctx: None  # noqa: ARG005 - its signature
        parameter.__dict__["_usage_display_name"] = lambda: _usage(parameter)
    return parameter


def _label(parameter: Any) -> str:
    kind = parameter.type_descriptor
    if kind.is_ranged:
        return "NUMBER"
    return "FILE" if kind.is_path else parameter.name.upper()


def _range(parameter: Any) -> str | None:
    least, most = (getattr(parameter, name, None) for name in ("min", "max"))
    if least is None:
        return None
    return f"at least {least:g}" if most is None else f"{least:g} to {most:g}"


def _usage(argument: Any) -> str:
    name = str(argument.metavar)
    more = "" if argument.nargs == 1 or name.endswith("...") else "..."
    return f"{name}{more}" if argument.required or name.startswith("[") else f"[{name}{more}]"


class CommandGroup(LabelledGroup):
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


class DefaultCommandGroup(LabelledGroup):
    """Inserts the default command if the first argument is not a command."""

    def parse_args(  # type: ignore[override] # click's own type
        self, ctx: typer.Context, args: list[str]
    ) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)
