# SPDX-License-Identifier: Apache-2.0
"""The command line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from sparkmirror.cli.command_groups import CommandGroup
from sparkmirror.cli.main import _expand_clusters_option, app


@pytest.mark.parametrize(
    ("typed", "understood"),
    [
        ("run f", "run f"),
        ("run f --clusters b", "run f --clusters b"),
        ("run f --clusters b c", "run f --clusters b --clusters c"),
        ("run f --clusters b c --once", "run f --clusters b --clusters c --once"),
        ("run --once f --clusters b c", "run --once f --clusters b --clusters c"),
        ("run --clusters b f", "run --clusters b f"),
    ],
)
def test_clusters_may_be_listed_as_mm2_lists_them(typed: str, understood: str) -> None:
    """`--clusters b c` after the file; before it only the next word is a cluster."""
    assert _expand_clusters_option(typed.split()) == understood.split()


def test_connects_own_scripts_are_installed_under_their_names() -> None:
    """With and without .sh; each refers to a function."""
    names = {one.name: one for one in entry_points(group="console_scripts")}
    for name in ("sparkmirror", "connect-mirror-maker", "connect-distributed"):
        for variant in {name, f"{name}.sh"} - {"sparkmirror.sh"}:
            assert callable(names[variant].load()), variant


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("status", "No such command 'status'. Did you mean 'get connectors'?"),
        ("top", "No such command 'top'. Did you mean 'get connectors'?"),
        ("decribe", "No such command 'decribe'. Did you mean 'describe'?"),
        ("plann", "No such command 'plann'. Did you mean 'plan'?"),
        ("stp", "No such command 'stp'. Commands: run, worker, demo, plan,"),
        ("reset", "No such command 'reset'. Commands: run,"),
        ("local dwn", "No such command 'dwn'. Commands: fetch, up, down, status,"),
        ("local list", "No such command 'list'. Commands: fetch, up, down, status,"),
        ("local statu", "No such command 'statu'. Did you mean 'status'?"),
    ],
)
def test_an_unknown_command_suggests_only_reading_commands(typed: str, sentence: str) -> None:
    done = CliRunner().invoke(app, typed.split())
    assert done.exit_code == 2
    assert sentence in " ".join(done.output.replace("\u2502", " ").split())


def test_no_typo_of_a_command_that_changes_something_suggests_it() -> None:
    """Without its second letter it is closest to itself."""
    root = get_command(app)
    assert isinstance(root, CommandGroup)
    changing = {"apply", "delete", "deploy", "redeploy", "restart", "run", "stop", "undeploy"}
    assert changing <= root.commands.keys()
    for name in sorted(changing):
        done = CliRunner().invoke(app, [name[0] + name[2:]])
        assert "No such command" in done.output
        assert f"mean '{name}'" not in done.output


def commands(group: CommandGroup, *path: str) -> Iterator[tuple[str, ...]]:
    """The words of every command."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from ((*path, name, one) for one in command.commands)
        else:
            yield (*path, name)


def test_help_names_values_and_gives_examples() -> None:
    """No Python types; each example on a line of its own, and it parses."""
    root = get_command(app)
    assert isinstance(root, CommandGroup)
    for words in ((), *commands(root)):
        text = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "80"}).output
        assert not [part for part in ("<", "{", "|]", "  |  ") if part in text.replace("->", "")], (
            words
        )
        assert max(map(len, text.splitlines())) <= 80
        assert not words or "Example" in text
        assert not words or f"sparkmirror {words[0]}" in " ".join(
            text.partition("Example")[2].split()
        )


def test_a_shell_completes_commands_options_and_values() -> None:
    """The words that bash shows; a missing file name is left to bash."""
    script = Path(sys.executable).with_name("sparkmirror")

    def complete(*words: str) -> list[str]:
        environment = {
            **os.environ,
            "_SPARKMIRROR_COMPLETE": "complete_bash",
            "COMP_WORDS": "\n".join(("sparkmirror", *words)),
            "COMP_CWORD": str(len(words)),
        }
        done = subprocess.run([script], env=environment, capture_output=True, check=True, text=True)
        return done.stdout.split()

    assert complete("pl") == ["plan"]
    assert complete("groups", "mm2.properties", "--fl") == ["--flow"]
    assert complete("get", "conn") == ["connectors"]
    assert complete("run", "mm2") == []
