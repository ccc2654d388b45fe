# SPDX-License-Identifier: Apache-2.0
"""The jar cache: complete or absent, downloaded once, with retries, never twice at a time.

A shell script acts as Java: it answers `-version`, counts Ivy's starts and creates some jars.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sparkmirror.devcluster import jars
from sparkmirror.devcluster.jars import JarSet, kafka_classpath
from sparkmirror.errors import SetupError

_IVY = """#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "17.0.1"' >&2; exit 0; fi
echo start >> "{calls}"
count=$(wc -l < "{calls}")
for argument; do pattern=$argument; done
jars=${{pattern%/*}}
mkdir -p "$jars"
sleep {seconds}
echo half > "$jars/kafka_2.13-4.3.1.jar"
if [ "$count" -le {failures} ]; then
  echo ':: UNRESOLVED DEPENDENCIES'; echo 'java.net.UnknownHostException: registry'; exit 1
fi
for name in kafka-tools connect-runtime connect-mirror; do
  echo "$name" > "$jars/$name-4.3.1.jar"
done
"""


class PlayedIvy:
    """The script in a JAVA_HOME, and the number of downloads."""

    def __init__(self, directory: Path) -> None:
        self.home = directory / "java"
        self._calls = directory / "calls"
        self.play()

    def play(self, *, failures: int = 0, seconds: float = 0) -> None:
        """Fail this many times first; take this long each time."""
        binary = self.home / "bin" / "java"
        binary.parent.mkdir(parents=True, exist_ok=True)
        text = _IVY.format(calls=self._calls, failures=failures, seconds=seconds)
        binary.write_text(text)
        binary.chmod(0o755)

    @property
    def starts(self) -> int:
        """How often Ivy was started."""
        return len(self._calls.read_text().splitlines()) if self._calls.exists() else 0


@pytest.fixture
def ivy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlayedIvy:
    """An empty cache and a scripted Java."""
    ivy = PlayedIvy(tmp_path)
    monkeypatch.setattr(jars, "_PAUSE_SECONDS", 0)
    monkeypatch.setenv("JAVA_HOME", str(ivy.home))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SPARKMIRROR_CACHE", str(tmp_path / "cache"))
    return ivy


def test_second_time_nothing_is_started(ivy: PlayedIvy) -> None:
    """What is in the cache is used as it is."""
    first = kafka_classpath("4.3.1")
    assert first == kafka_classpath("4.3.1")
    assert ivy.starts == 1
    assert "kafka-tools-4.3.1.jar" in [jar.name for jar in first]


def test_cached_jars_need_no_java(
    ivy: PlayedIvy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Java is not needed."""
    kafka_classpath("4.3.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    assert kafka_classpath("4.3.1")
    assert ivy.starts == 1


def test_sets_are_kept_apart(ivy: PlayedIvy) -> None:
    """Brokers do not run with Connect's jars on their class path."""
    broker = kafka_classpath("4.3.1", JarSet.BROKER)
    connect = kafka_classpath("4.3.1", JarSet.CONNECT)
    assert ivy.starts == 2
    assert broker[0].parent != connect[0].parent


def test_a_failed_try_is_repeated(ivy: PlayedIvy) -> None:
    """A slow registry often responds the second or third time."""
    ivy.play(failures=2)
    assert kafka_classpath("4.3.1")
    assert ivy.starts == 3


def test_three_failures_are_one_error_message(ivy: PlayedIvy, tmp_path: Path) -> None:
    """Ivy's reason is quoted, the partial download is removed, and the next call tries again."""
    ivy.play(failures=3)
    with pytest.raises(
        SetupError, match=r"after 3 attempts \(java\.net\.UnknownHostException"
    ) as raised:
        kafka_classpath("4.3.1")
    assert "\n" not in str(raised.value)
    assert ivy.starts == 3
    assert list((tmp_path / "cache" / "kafka").glob("[!.]*")) == []
    assert kafka_classpath("4.3.1")


@pytest.mark.parametrize("damage", ["removed", "shortened"])
def test_corrupt_set_is_fetched_again(ivy: PlayedIvy, damage: str) -> None:
    """A missing or truncated jar is detected."""
    jar = kafka_classpath("4.3.1")[0]
    if damage == "removed":
        jar.unlink()
    else:
        jar.write_bytes(b"")
    assert all(found.stat().st_size for found in kafka_classpath("4.3.1"))
    assert ivy.starts == 2


def test_two_processes_fetch_once(ivy: PlayedIvy) -> None:
    """The second process waits for the first and finds the jars."""
    ivy.play(seconds=0.5)
    code = "from sparkmirror.devcluster.jars import kafka_classpath as k; print(len(k('4.3.1')))"
    both = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert [process.communicate()[0] for process in both] == ["4\n", "4\n"]
    assert ivy.starts == 1


def test_unwritable_cache_is_named(
    ivy: PlayedIvy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Before the download."""
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SPARKMIRROR_CACHE", str(tmp_path / "file"))
    with pytest.raises(SetupError, match=rf"Cannot write to {tmp_path}/file/kafka"):
        kafka_classpath("4.3.1")
    assert ivy.starts == 0


@pytest.mark.parametrize("version", ["latest", "4.3", "4.3.1/../x"])
def test_a_version_must_look_like_one(ivy: PlayedIvy, version: str) -> None:
    """It becomes part of a path and of an XML file."""
    with pytest.raises(SetupError, match=r"is not a Kafka version"):
        kafka_classpath(version)
    assert ivy.starts == 0
