# SPDX-License-Identifier: Apache-2.0
"""Levels and timestamps of the log, and the options that set the level."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from sparkmirror.cli.kafka_scripts import LOG_LEVEL_USAGE, KafkaScript
from sparkmirror.cli.logging_setup import VIEW_LOGGER, LogLevelName, set_up_logging
from sparkmirror.cli.main import app
from sparkmirror.cli.run_view import choose_view
from sparkmirror.config.settings import LogFormat, LogSettings
from sparkmirror.spark.flow_status import FlowStatus
from support.log_capture import restored_logging


@pytest.fixture(name="restored_logging")
def _restored_logging() -> Iterator[None]:
    with restored_logging():
        yield


@pytest.mark.usefixtures("restored_logging")
def test_a_log_line_begins_with_time_and_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    set_up_logging(Console(file=io.StringIO()))
    logging.getLogger("sparkmirror.run").info("a->b: RUNNING")
    time, level, message = stream.getvalue().rstrip().split(" ", 2)
    assert datetime.fromisoformat(time).utcoffset() is not None
    assert re.fullmatch(r"[-0-9]{10}T[:0-9]{8}\.\d{3}[+-]\d\d:\d\d", time)
    assert (level, message) == ("INFO", "a->b: RUNNING")


@pytest.mark.usefixtures("restored_logging")
def test_a_terminal_shows_time_and_time_zone() -> None:
    """The table has the states; their lines are for the log file."""
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=120)
    set_up_logging(console)
    logging.getLogger(VIEW_LOGGER).info("a->b: RUNNING")
    logging.getLogger("sparkmirror.spark").info("a->b: replanning")
    text = console.file.getvalue()  # type: ignore[attr-defined] # a StringIO
    assert re.match(r"[-0-9]{10}T[:0-9]{8}[+-]\d\d:\d\d INFO +a->b: replanning", text), text


@pytest.mark.usefixtures("restored_logging")
@pytest.mark.parametrize(
    ("level", "logged"),
    [
        (LogLevelName.DEBUG, {"debug", "info", "warning", "error", "library warning"}),
        (LogLevelName.INFO, {"info", "warning", "error", "library warning"}),
        (LogLevelName.WARN, {"warning", "error", "library warning"}),
        (LogLevelName.ERROR, {"error"}),
    ],
)
def test_a_level_hides_what_is_below_it(
    level: LogLevelName, logged: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of libraries at most warnings are logged."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    set_up_logging(Console(file=io.StringIO()), level)
    for name in ("debug", "info", "warning", "error"):
        getattr(logging.getLogger("sparkmirror.run"), name)(name)
    logging.getLogger("library").info("library info")
    logging.getLogger("library").warning("library warning")
    assert {line.split(" ", 2)[2] for line in stream.getvalue().splitlines()} == logged


@pytest.mark.parametrize("command", ["run", "worker"])
def test_commands_that_keep_running_take_a_log_level(command: str) -> None:
    done = CliRunner().invoke(app, [command, "f", "--log-level", "loud"])
    assert done.exit_code == 2
    assert "'warn', 'info', 'debug'" in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("typed", "level", "arguments"),
    [
        ("f --clusters b c", LogLevelName.INFO, ["f", "--clusters", "b", "c"]),
        ("f --log-level DEBUG --clusters b", LogLevelName.DEBUG, ["f", "--clusters", "b"]),
        ("--log-level warn f", LogLevelName.WARN, ["f"]),
        ("-daemon f --log-level error", LogLevelName.ERROR, ["f"]),
    ],
)
def test_kafkas_scripts_take_a_log_level_anywhere(
    typed: str, level: LogLevelName, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["script", *typed.split()])
    script = KafkaScript("script", LOG_LEVEL_USAGE, 255)
    assert (script.arguments(), script.log_level) == (arguments, level)


@pytest.mark.parametrize("typed", ["f --log-level", "f --log-level loud"])
def test_kafkas_scripts_refuse_another_level(
    typed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["script", *typed.split()])
    with pytest.raises(SystemExit) as ended:
        KafkaScript("script", LOG_LEVEL_USAGE, 255).arguments()
    assert ended.value.code == 255
    assert "[--log-level {error|warn|info|debug}]" in capsys.readouterr().err


@pytest.mark.usefixtures("restored_logging")
def test_a_log_file_has_the_states_that_a_terminal_shows_as_a_table(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=120)
    output = set_up_logging(console)
    output.apply(LogSettings(format=LogFormat.JSON, file=str(tmp_path / "mirror.log")))
    view = choose_view(console)
    view.update([FlowStatus("a->b").snapshot()])
    logging.getLogger("sparkmirror.spark").info("a->b: replanning")
    output.apply(LogSettings())
    lines = [json.loads(line) for line in (tmp_path / "mirror.log").read_text().splitlines()]
    assert [one["message"] for one in lines] == ["a->b: STARTING", "a->b: replanning"]
    shown = console.file.getvalue()  # type: ignore[attr-defined] # a StringIO
    assert "a->b: replanning" in shown
    assert "a->b: STARTING" not in shown
    assert "{" not in shown
