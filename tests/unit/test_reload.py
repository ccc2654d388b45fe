# SPDX-License-Identifier: Apache-2.0
"""Reading a file again: when, what is said, and that nothing in it ends what runs."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import cast

import pytest

from sparkmirror.app import Application
from sparkmirror.config.changes import Changes, RunReading, compare, read_run
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.metrics.reloads import ReloadTally
from sparkmirror.reload import Reloader

GOOD = """clusters = a, b
a.bootstrap.servers = a:1
b.bootstrap.servers = b:1
a->b.enabled = true
"""


class Running:
    """Takes configurations up as the application does, without any flow."""

    def __init__(self, config: MirrorConfig) -> None:
        self.reading = read_run(config)
        self.reloads = ReloadTally()
        self.failure: Exception | None = None

    def reload(self, config: MirrorConfig) -> tuple[Changes, tuple[str, ...]]:
        """Compare and keep."""
        if self.failure is not None:
            raise self.failure
        before: RunReading = self.reading
        self.reading = read_run(config)
        return compare(before, self.reading), ()


class Bench:
    """A file, its reloader and what runs."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.file.write_text(GOOD)
        self.reloader = Reloader(file)
        self.running = Running(self.reloader.load())
        self._moment = 0

    def write(self, text: str) -> None:
        """Change the file and look until it must have been seen."""
        self._moment += 1
        self.file.write_text(text)
        os.utime(self.file, ns=(self._moment, self._moment))
        for _ in range(3):
            self.look()

    def look(self, *, is_asked: bool = False) -> None:
        """Look once."""
        self.reloader.look(cast("Application", self.running), is_asked=is_asked)

    @property
    def counts(self) -> dict[str, int]:
        """What became of the file so far."""
        return {one.value: n for one, n in self.running.reloads.counts.items()}


@pytest.fixture
def bench(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Bench:
    """A file that is in use."""
    caplog.set_level(logging.INFO, "sparkmirror")
    return Bench(tmp_path / "mm2.properties")


def test_a_changed_file_is_taken_up_once(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """One line says what it changed."""
    bench.write(GOOD + "a->b.topics = orders\n")
    assert bench.counts == {"applied": 1}
    assert "mm2.properties was read again: restarted a->b (topics)" in caplog.text


def test_a_refused_file_is_complained_about_until_a_good_one_comes(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """Every error has its line; what runs is asked nothing."""
    before = bench.running.reading
    bench.write(GOOD + "a->b.tasks.max = many\nb->a.enabled = perhaps\n")
    assert bench.running.reading is before
    assert bench.counts == {"refused": 1}
    said = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert ["line 5" in said[0], "line 6" in said[1]] == [True, True]
    assert said[-1] == "mm2.properties was refused; the old configuration goes on."
    assert bench.reloader.complaints == tuple(said)
    bench.write(GOOD)
    assert bench.reloader.complaints == ()
    assert bench.counts == {"refused": 1, "unchanged": 1}


def test_being_asked_reads_a_file_that_is_the_same(bench: Bench) -> None:
    """What it refers to may have changed."""
    bench.look(is_asked=True)
    assert bench.counts == {"unchanged": 1}


def test_being_asked_while_the_file_is_gone_is_refused(bench: Bench) -> None:
    """With a sentence, and it is taken up when it is back."""
    bench.file.unlink()
    bench.look(is_asked=True)
    assert "There is no file" in bench.reloader.complaints[0]
    bench.write(GOOD + "a->b.topics = orders\n")
    assert bench.counts == {"refused": 1, "applied": 1}


def test_an_error_that_nobody_foresaw_is_a_refusal(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """Flows that run do not end because somebody edited a file."""
    bench.running.failure = ZeroDivisionError("of a class of the user's")
    bench.write(GOOD + "a->b.topics = orders\n")
    assert bench.counts == {"refused": 1}
    assert bench.reloader.complaints[0] == "ZeroDivisionError: of a class of the user's"
    assert "Traceback" in caplog.text


def test_warnings_are_said_once_as_long_as_they_hold(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """Also when their line moves."""
    warning = "a->b.topcis is unknown"
    bench.write(GOOD + "a->b.topcis = orders\n")
    bench.write(GOOD + "# a line more\na->b.topcis = orders\n")
    assert caplog.text.count(warning) == 1
    bench.write(GOOD)
    bench.write(GOOD + "a->b.topcis = orders\n")
    assert caplog.text.count(warning) == 2
