# SPDX-License-Identifier: Apache-2.0
"""Text and JSON lines, the log file and its rotation, and the flow and connector of a line."""

from __future__ import annotations

import io
import json
import logging
import threading
import warnings
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.config.settings import LogFormat, LogSettings
from sparkmirror.errors import SetupError
from sparkmirror.model import Secret
from sparkmirror.runtime.log_output import LogOutput
from sparkmirror.system.log_scope import LogScope, ScopedThread, log_scope, scope_of
from support.log_capture import restored_logging

JSON = LogSettings(format=LogFormat.JSON)
SOURCE = LogScope("a->b", "a->b.MirrorSourceConnector")
log = logging.getLogger("sparkmirror.test_log_output")


class Output:
    """A `LogOutput` on a stream in memory."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.output = LogOutput(logging.StreamHandler(self.stream), is_terminal=False)

    @property
    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]

    @property
    def messages(self) -> list[str]:
        """The text lines without time and level."""
        return [line.split(" ", 2)[2] for line in self.lines]


@pytest.fixture
def written() -> Iterator[Output]:
    with restored_logging():
        log.setLevel(logging.INFO)
        made = Output()
        yield made
        made.output.apply(LogSettings())
        log.setLevel(logging.NOTSET)


def to_file(path: Path, *, form: LogFormat = LogFormat.TEXT, size: int = 10 << 20) -> LogSettings:
    return LogSettings(format=form, file=str(path), max_bytes=size, backups=2)


def test_a_json_line_has_every_field(written: Output) -> None:
    written.output.apply(JSON)
    with log_scope(SOURCE):
        log.warning("%s: %d of %d", "a->b", 1, 2)
    [line] = written.objects
    assert list(line) == ["time", "level", "logger", "flow", "connector", "message"]
    time = datetime.fromisoformat(line.pop("time"))
    assert time.utcoffset() is not None
    assert line == {
        "level": "WARNING",
        "logger": log.name,
        "flow": "a->b",
        "connector": "a->b.MirrorSourceConnector",
        "message": "a->b: 1 of 2",
    }


def test_a_json_line_leaves_out_what_has_no_value(written: Output) -> None:
    written.output.apply(JSON)
    log.info("The REST API is served")
    assert {"flow", "connector", "exception"}.isdisjoint(written.objects[0])


def test_an_exception_is_a_field_of_a_json_line_and_follows_a_text_line(written: Output) -> None:
    for settings in (LogSettings(), JSON):
        written.output.apply(settings)
        log.error("failed", exc_info=ValueError("two\nlines"))
    first, *trace, last = written.lines
    assert first.endswith("ERROR failed")
    assert trace == ["ValueError: two", "lines"]
    assert json.loads(last)["exception"] == "ValueError: two\nlines"


@pytest.mark.parametrize("settings", [LogSettings(), JSON])
def test_a_message_is_one_line_whatever_it_quotes(written: Output, settings: LogSettings) -> None:
    """A name from outside cannot forge a line, nor control a terminal."""
    written.output.apply(settings)
    log.info("GET /connectors/x\n2026 ERROR forged\x1b[2J\u2028 timed out")
    [line] = written.stream.getvalue().splitlines()
    assert "\x1b" not in line
    if settings is JSON:
        assert written.objects[0]["message"].startswith("GET /connectors/x\n2026")
    else:
        assert line.endswith(r"GET /connectors/x\n2026 ERROR forged\x1b[2J\u2028 timed out")


def test_a_text_line_begins_with_the_connector_if_it_does_not_name_it(written: Output) -> None:
    with log_scope(SOURCE):
        log.info("Created topic 'x'")
        log.info("a->b: 3 topics")
        log.info("Connector a->b.MirrorSourceConnector: restarting")
    log.info("Stopping")
    assert written.messages == [
        "a->b.MirrorSourceConnector: Created topic 'x'",
        "a->b: 3 topics",
        "Connector a->b.MirrorSourceConnector: restarting",
        "Stopping",
    ]


def test_a_thread_has_the_scope_of_the_thread_that_starts_it(written: Output) -> None:
    written.output.apply(JSON)
    with log_scope(SOURCE):
        thread = ScopedThread(target=lambda: log.info("inner"))
        thread.start()
    thread.join()
    log.info("outer")
    assert [line.get("connector") for line in written.objects] == [SOURCE.connector, None]


def test_a_label_gives_flow_and_connector(written: Output) -> None:
    """The label of a worker's connector has both; its own scope wins over the thread's."""
    written.output.apply(JSON)
    with log_scope(SOURCE):
        log.info("RUNNING", extra=scope_of("c->d|orders"))
    [line] = written.objects
    assert (line["flow"], line["connector"]) == ("c->d", "orders")
    assert scope_of("a->b") == {"flow": "a->b", "connector": ""}


@pytest.mark.parametrize("settings", [LogSettings(), JSON])
def test_a_secret_is_hidden_in_every_format(written: Output, settings: LogSettings) -> None:
    secret = Secret("tiger")
    written.output.apply(settings)
    error = ValueError(f"bad {secret!r} {secret}")
    log.error(f"password {secret} %r", secret, exc_info=error)
    assert "tiger" not in written.stream.getvalue()
    assert "[hidden]" in written.stream.getvalue()


def test_a_suppressed_record_is_not_formatted(written: Output) -> None:
    written.output.apply(JSON)

    class Unformatted:
        def __str__(self) -> str:
            raise AssertionError("formatted")

    log.debug("%s", Unformatted())
    assert written.lines == []


def test_warnings_of_python_and_ended_threads_are_log_lines(written: Output) -> None:
    """Standard error has JSON objects only."""
    written.output.apply(JSON)
    logging.root.setLevel(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old\ncall", stacklevel=1)

    def fail() -> None:
        raise KeyError("gone")

    thread = threading.Thread(target=fail, name="worker")
    thread.start()
    thread.join()
    warned, ended = written.objects
    assert warned["logger"] == "py.warnings"
    assert ended["message"].startswith("Thread worker ended by an unexpected error; restart")
    assert ended["exception"].endswith("KeyError: 'gone'")


def test_the_log_file_gets_all_lines_beside_standard_error(written: Output, tmp_path: Path) -> None:
    path = tmp_path / "logs" / "mirror.log"
    written.output.apply(to_file(path))
    log.info("one")
    written.output.apply(to_file(path, form=LogFormat.JSON))
    log.info("two")
    written.output.apply(JSON)
    log.info("three")
    assert [line[-9:] for line in path.read_text().splitlines()[:1]] == [" INFO one"]
    assert [json.loads(line)["message"] for line in path.read_text().splitlines()[1:]] == ["two"]
    assert len(written.lines) == 3


def test_the_log_file_is_rotated_by_size(written: Output, tmp_path: Path) -> None:
    """The oldest of the rotated files is deleted; no line is cut."""
    path = tmp_path / "mirror.log"
    written.output.apply(to_file(path, size=1_000))
    for number in range(100):
        log.info(f"line {number} {'x' * 60}")
    files = [path, tmp_path / "mirror.log.1", tmp_path / "mirror.log.2"]
    assert sorted(tmp_path.iterdir()) == files
    kept = [line for file in reversed(files) for line in file.read_text().splitlines()]
    assert kept == written.lines[-len(kept) :]
    assert all(file.stat().st_size <= 1_000 for file in files)


def test_a_log_file_that_cannot_be_written_changes_nothing(written: Output, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    wrong = to_file(blocked / "mirror.log")
    for attempt in (written.output.check, written.output.apply):
        with pytest.raises(SetupError, match=r"Cannot write log.file .*mirror.log .*Make its dir"):
            attempt(wrong)
    log.info("still text")
    assert written.messages == ["still text"]


def test_a_full_disk_is_reported_once(written: Output) -> None:
    written.output.apply(to_file(Path("/dev/full")))
    logging.getLogger("sparkmirror.runtime").setLevel(logging.INFO)
    for number in range(3):
        log.info(f"line {number}")
    first, reported, *others = written.messages
    assert reported == (
        "Cannot write log.file /dev/full (No space left on device); lines are on standard error "
        "only. Free space on its disk, or correct its permissions."
    )
    assert [first, *others] == ["line 0", "line 1", "line 2"]


def test_a_failure_to_start_is_a_json_line_or_left_to_the_command(
    written: Output, tmp_path: Path
) -> None:
    path = tmp_path / "mirror.log"
    written.output.apply(to_file(path))
    assert not written.output.log_failure(["no flow"])
    assert path.read_text().endswith("ERROR no flow\n")
    assert written.lines == []
    written.output.apply(JSON)
    assert written.output.log_failure(["no flow"])
    assert written.objects[0]["message"] == "no flow"


def test_a_problem_that_its_connector_has_logged_is_not_logged_again(written: Output) -> None:
    """The view logs problems of statuses; some are only there."""
    log.warning("a->b: checkpoints: no broker", extra=scope_of("a->b"))
    for flow, problem in (("a->b", "checkpoints: no broker"), ("a->b", "lag"), ("c->d", "lag")):
        log.warning(f"{flow}: {problem}", extra={**scope_of(flow), "problem": problem})
    assert written.messages == ["a->b: checkpoints: no broker", "a->b: lag", "c->d: lag"]
