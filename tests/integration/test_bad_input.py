# SPDX-License-Identifier: Apache-2.0
"""What bad input gets from the real command: an exit code and a sentence, never a stack trace."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from support.mirror_process import command

END_SECONDS = 30.0
FATAL, START_FAILED = 2, 3  # as MM2's

GOOD = """\
clusters = a, b
a.bootstrap.servers = 127.0.0.1:1
b.bootstrap.servers = 127.0.0.1:1
a->b.enabled = true
"""


def run(file: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command on a file that it should refuse."""
    return subprocess.run(
        [command(), "run", str(file)],
        capture_output=True,
        text=True,
        timeout=END_SECONDS,
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
def test_a_bad_file_is_refused_with_a_sentence(tmp_path: Path, text: str, words: list[str]) -> None:
    """It names the key and what is wrong with it."""
    file = tmp_path / "mm2.properties"
    file.write_text(text, encoding="utf-8")
    ended = run(file)
    assert ended.returncode == FATAL
    assert all(word in ended.stderr for word in words)
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """The path that was typed is in the sentence."""
    ended = run(tmp_path / "missing.properties")
    assert ended.returncode == FATAL
    assert "missing.properties" in ended.stderr
    assert "Traceback" not in ended.stderr


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
