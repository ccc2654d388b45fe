# SPDX-License-Identifier: Apache-2.0
"""Which Java is used, and the error if there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.errors import SetupError
from sparkmirror.system.java import java_binary, java_version


def java_saying(directory: Path, answer: str, exit_code: int = 0) -> Path:
    """An executable `java` that prints `answer` on standard error, as Java does."""
    binary = directory / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\n/bin/cat >&2 <<'END'\n{answer}\nEND\nexit {exit_code}\n")
    binary.chmod(0o755)
    return binary


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('Picked up JAVA_TOOL_OPTIONS: -Da=b\nopenjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_402"', 8),
    ],
)
def test_version_is_read_from_what_java_prints(tmp_path: Path, answer: str, expected: int) -> None:
    """New and old numbering, with lines before it."""
    assert expected == java_version(java_saying(tmp_path, answer))


def test_a_release_file_spares_running_java(tmp_path: Path) -> None:
    """Every JDK comes with one."""
    binary = java_saying(tmp_path, "must not be run", exit_code=1)
    (tmp_path / "release").write_text('IMPLEMENTOR="Us"\nJAVA_VERSION="21.0.4"\n')
    assert java_version(binary) == 21


def test_a_release_file_without_a_version_does_not_count(tmp_path: Path) -> None:
    """Some images have a trimmed one."""
    binary = java_saying(tmp_path, 'openjdk version "17.0.1"')
    (tmp_path / "release").write_text('IMPLEMENTOR="Us"\n')
    assert java_version(binary) == 17


def test_java_home_wins_over_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """JAVA_HOME is explicit, the PATH is not."""
    chosen = java_saying(tmp_path / "home", 'openjdk version "17.0.1"')
    other = java_saying(tmp_path / "other", 'openjdk version "21.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(other.parent))
    assert chosen == java_binary()


def test_missing_java_is_one_error_message(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With the version to install."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupError, match=r"Cannot find Java.*Install Java 17 or newer"):
        java_binary()


def test_wrong_java_home_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A JAVA_HOME without java is an error, not a reason to look elsewhere."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SetupError, match=rf"JAVA_HOME is {tmp_path}, which has no bin/java"):
        java_binary()


def test_old_java_is_refused_with_its_version(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Kafka 4 brokers and Spark 4 need 17."""
    java_saying(tmp_path, 'openjdk version "11.0.22" 2024-01-16')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SetupError, match=r"is Java 11, which is too old"):
        java_binary()


def test_java_that_does_not_work_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A launcher that only prints an error has no version."""
    java_saying(tmp_path, "Unable to locate a Java Runtime.", exit_code=1)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SetupError, match=r"output: 'Unable to locate a Java Runtime\.'"):
        java_binary()
