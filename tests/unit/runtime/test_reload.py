# SPDX-License-Identifier: Apache-2.0
"""Reading a file again: when, what is said, and that nothing in it ends what runs."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from sparkmirror.config.config_changes import compare_runs, describe_changes
from sparkmirror.config.files.tracked_files import record_file_reads
from sparkmirror.metrics.process_view import ReloadMetrics, ReloadResult
from sparkmirror.runtime.mirror import MirrorFile
from sparkmirror.runtime.reload import Reloaded, Reloader, ReloadRules
from support.data.certificates import Authority

GOOD = """clusters = a, b
a.bootstrap.servers = a:1
b.bootstrap.servers = b:1
a->b.enabled = true
"""


class Running:
    """Applies configurations as the mirror does, without any flow."""

    def __init__(self, file: Path) -> None:
        self._file = MirrorFile(file)
        self.reading = self._file.read()
        self.failure: Exception | None = None

    def reload(self) -> Reloaded:
        if self.failure is not None:
            raise self.failure
        before, self.reading = self.reading, self._file.read()
        changes = compare_runs(before, self.reading)
        sentence = describe_changes(self._file.name, changes, ())
        return Reloaded(sentence, not changes.is_empty)


class Bench:
    """A file, its reloader and what runs."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.file.write_text(GOOD)
        self.metrics = ReloadMetrics()
        with record_file_reads() as files:
            self.running = Running(file)
        rules = ReloadRules(
            rereads_own_file=True,
            refused="mm2.properties was rejected; the previous configuration stays in use.",
        )
        self.reloader = Reloader(file, files, self.running, self.metrics, rules)
        self._moment = 0

    def write(self, text: str, file: Path | None = None) -> None:
        """Change the file, or one that it leads to, and look until it must have been seen."""
        self._moment += 1
        written = file or self.file
        written.write_text(text)
        os.utime(written, ns=(self._moment, self._moment))
        self.look_often()

    def look_often(self, times: int = 3) -> None:
        """Look so many times."""
        for _ in range(times):
            self.look()

    def look(self, *, is_asked: bool = False) -> None:
        """Look once."""
        self.reloader.poll(is_requested=is_asked)

    @property
    def counts(self) -> dict[str, int]:
        """What became of the file so far."""
        return {one.value: n for one, n in self.metrics.counts.items()}


@pytest.fixture
def bench(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Bench:
    """A file that is in use."""
    caplog.set_level(logging.INFO, "sparkmirror")
    return Bench(tmp_path / "mm2.properties")


def test_a_changed_file_is_taken_up_once(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """One line says what it changed."""
    bench.write(GOOD + "a->b.topics = orders\n")
    assert bench.counts == {"applied": 1}
    assert "mm2.properties was reloaded: restarted a->b (topics)" in caplog.text


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
    assert said[-1] == "mm2.properties was rejected; the previous configuration stays in use."
    assert bench.reloader.errors == tuple(said)
    bench.write(GOOD)
    assert bench.reloader.errors == ()
    assert bench.counts == {"refused": 1, "unchanged": 1}


def test_being_asked_reads_a_file_that_is_the_same(bench: Bench) -> None:
    """What it refers to may have changed."""
    bench.look(is_asked=True)
    assert bench.counts == {"unchanged": 1}


def test_being_asked_while_the_file_is_gone_is_refused(bench: Bench) -> None:
    """With a sentence, and it is taken up when it is back."""
    bench.file.unlink()
    bench.look(is_asked=True)
    assert "There is no file" in bench.reloader.errors[0]
    bench.write(GOOD + "a->b.topics = orders\n")
    assert bench.counts == {"refused": 1, "applied": 1}


def test_an_unexpected_error_becomes_a_rejection(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """Flows that run do not end because somebody edited a file."""
    bench.running.failure = ZeroDivisionError("of a class of the user's")
    bench.write(GOOD + "a->b.topics = orders\n")
    assert bench.counts == {"refused": 1}
    assert bench.reloader.errors[0] == "ZeroDivisionError: of a class of the user's"
    assert "Traceback" in caplog.text


def test_warnings_are_reported_once_as_long_as_they_hold(
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


def test_a_file_that_it_leads_to_is_taken_up_without_a_signal(
    bench: Bench, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Kubernetes swaps a link: only the flow that uses what is behind it begins again."""
    old, new = Authority("old"), Authority("new")
    for number, authority in enumerate((old, new)):
        (tmp_path / f"..{number}").mkdir()
        (tmp_path / f"..{number}" / "trust.pem").write_text(authority.pem)
    (tmp_path / "..data").symlink_to("..0")
    (tmp_path / "trust.pem").symlink_to("..data/trust.pem")
    others = "c.bootstrap.servers = c:1\nd.bootstrap.servers = d:1\nc->d.enabled = true\n"
    trusting = f"""emit.heartbeats.enabled = false
a.security.protocol = SSL
a.ssl.truststore.type = PEM
a.ssl.truststore.location = {tmp_path / "trust.pem"}
"""
    bench.write(GOOD.replace("a, b", "a, b, c, d") + others + trusting)
    caplog.clear()
    (tmp_path / "..new").symlink_to("..1")
    (tmp_path / "..new").rename(tmp_path / "..data")
    bench.look_often()
    assert bench.counts == {"applied": 2}
    assert f"{tmp_path / 'trust.pem'} changed" in caplog.text
    assert "restarted a->b (a.ssl.truststore.location); 1 flow untouched" in caplog.text


def test_a_file_that_it_leads_to_and_that_is_wrong_or_gone_changes_nothing(
    bench: Bench, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Said once, and looked at again when it changes again."""
    store, name = tmp_path / "trust.pem", tmp_path / "name"
    good = Authority().pem
    store.write_text(good)
    name.write_text("me")
    lines = f"""a.security.protocol = SSL
a.ssl.truststore.type = PEM
a.ssl.truststore.location = {store}
a.client.id = ${{directory:{tmp_path}:name}}
"""
    bench.write(GOOD + lines)
    before = bench.running.reading
    caplog.clear()
    name.write_text("another")
    bench.write(good[:100], store)
    bench.look_often(30)
    assert bench.running.reading is before
    assert bench.counts == {"applied": 1, "refused": 1}
    assert "a.ssl.truststore.location" in bench.reloader.errors[0]
    assert len([r for r in caplog.records if r.levelno == logging.ERROR]) == 2
    name.write_text("me")
    bench.write(good, store)
    assert bench.reloader.errors == ()
    assert bench.counts == {"applied": 1, "refused": 1, "unchanged": 1}
    store.unlink()
    bench.look_often(60)
    assert bench.counts["refused"] == 2
    assert bench.metrics.last is ReloadResult.REFUSED
    bench.write(good, store)
    assert bench.reloader.errors == ()
    assert bench.metrics.last is ReloadResult.UNCHANGED


def test_a_file_that_stays_away_is_refused_once(bench: Bench) -> None:
    """The configuration in use continues, and all is well when it is back."""
    bench.file.unlink()
    bench.look_often(60)
    assert bench.counts == {"refused": 1}
    assert "There is no file" in bench.reloader.errors[0]
    bench.write(GOOD)
    assert bench.reloader.errors == ()
