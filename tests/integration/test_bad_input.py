# SPDX-License-Identifier: Apache-2.0
"""What bad input gets from the command: an exit code and a sentence, never a stack trace.

Most of it in this process; two real commands show that nothing else comes with it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparkmirror.cli import run as run_command
from sparkmirror.cli.main import app
from support.log_capture import restored_logging
from support.mirrors.mirror_process import command
from support.waiting import PATIENCE_SECONDS

FATAL, START_FAILED = 2, 3  # as MM2's

GOOD = """\
clusters = a, b
a.bootstrap.servers = 127.0.0.1:1
b.bootstrap.servers = 127.0.0.1:1
a->b.enabled = true
"""


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], str]]:
    """What the command says about a file before anything is started."""

    def started(*_arguments: object, **_more: object) -> int:
        raise AssertionError("the file was not refused")

    monkeypatch.setattr(run_command, "run_until_stopped", started)

    def run_here(file: Path) -> str:
        ended = CliRunner().invoke(app, ["run", str(file)])
        assert isinstance(ended.exception, SystemExit), ended.exception
        assert (ended.exit_code, ended.stdout) == (FATAL, "")
        return ended.stderr

    with restored_logging():
        yield run_here


def run(file: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The real command on a file that it should refuse."""
    return subprocess.run(
        [command(), "run", str(file)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
        env=os.environ | environment,
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(GOOD + "topics = \\u12\n", ["line 5"], id="bad syntax"),
        pytest.param(GOOD + "a->c.enabled = true\n", ["a->c", "'c'"], id="unknown alias"),
        pytest.param(GOOD.replace("clusters = a, b\n", ""), ["clusters"], id="clusters missing"),
        pytest.param(GOOD + "a->a.enabled = true\n", ["a->a"], id="flow to itself"),
        pytest.param(GOOD + "tasks.max = many\n", ["tasks.max", "many"], id="wrong type"),
        pytest.param(GOOD + "a->b.topics = orders(\n", ["topics", "orders("], id="bad regex"),
        pytest.param(
            GOOD + "a.security.protocol = ${file:/nowhere/secrets:key}\n",
            ["a.security.protocol", "/nowhere/secrets"],
            id="unresolved reference",
        ),
        pytest.param(
            GOOD.replace("b.bootstrap.servers = 127.0.0.1:1\n", ""),
            ["b.bootstrap.servers"],
            id="no address",
        ),
    ],
)
def test_a_bad_file_is_rejected_with_an_error(
    refused: Callable[[Path], str], tmp_path: Path, text: str, words: list[str]
) -> None:
    """It names the key and what is wrong with it."""
    file = tmp_path / "mm2.properties"
    file.write_text(text, encoding="utf-8")
    said = refused(file)
    assert all(word in said for word in words)


def test_the_real_command_refuses_a_bad_file(tmp_path: Path) -> None:
    """The sentence is all that it prints."""
    file = tmp_path / "mm2.properties"
    file.write_text(GOOD + "tasks.max = many\n", encoding="utf-8")
    ended = run(file)
    assert ended.returncode == FATAL
    assert "tasks.max must be a whole number, not 'many'" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""


def test_a_missing_file_is_named(refused: Callable[[Path], str], tmp_path: Path) -> None:
    """The path that was typed is in the sentence."""
    assert "missing.properties" in refused(tmp_path / "missing.properties")


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """The directory and what to do about it, before anything is started."""
    file = tmp_path / "mm2.properties"
    file.write_text(GOOD, encoding="utf-8")
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    ended = run(file, SPARKMIRROR_CACHE=str(in_the_way / "cache"))
    assert ended.returncode == START_FAILED
    assert str(in_the_way) in ended.stderr
    assert "SPARKMIRROR_CACHE" in ended.stderr
    assert "Traceback" not in ended.stderr
