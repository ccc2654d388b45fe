# SPDX-License-Identifier: Apache-2.0
"""Levels of loggers are shown and set under the names that Connect's clients know."""

from __future__ import annotations

import logging
import time

import pytest

from sparkmirror.connect.api import ApiError, LogLevel
from sparkmirror.connect.log_levels import LogLevels


@pytest.fixture
def manager() -> logging.Manager:
    """Loggers that no other test has."""
    made = logging.Manager(logging.RootLogger(logging.WARNING))
    made.root.manager = made  # type: ignore[attr-defined]
    return made


def test_a_level_counts_for_all_below(manager: logging.Manager) -> None:
    """Those that exist are named; one that only begins with the same letters is another."""
    for name in ("a.b", "a.b.c", "a.bc"):
        manager.getLogger(name)
    levels = LogLevels(manager)
    before = time.time_ns() // 1_000_000
    assert levels.set("a.b", "debug") == ["a.b", "a.b.c"]
    assert manager.getLogger("a.b.c").level == logging.DEBUG
    assert manager.getLogger("a.bc").level == logging.NOTSET
    found = levels.all()
    assert sorted(found) == ["a.b", "a.b.c", "root"]
    assert found["root"] == LogLevel("WARN")
    assert found["a.b"].level == "DEBUG"
    assert (found["a.b"].last_modified or 0) >= before


def test_the_root_takes_all_along(manager: logging.Manager) -> None:
    """In any case of letters."""
    manager.getLogger("a")
    assert LogLevels(manager).set("ROOT", "ERROR") == ["a", "root"]
    assert manager.root.level == logging.ERROR


def test_a_logger_may_be_set_before_it_is_used(manager: logging.Manager) -> None:
    """It is made for it."""
    levels = LogLevels(manager)
    assert levels.set("new", "TRACE") == ["new"]
    assert levels.get("new").level == "TRACE"


@pytest.mark.parametrize("level", ["OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"])
def test_every_level_returns_as_it_was_set(level: str, manager: logging.Manager) -> None:
    """Python has no word for some of them."""
    levels = LogLevels(manager)
    levels.set("a", level)
    assert levels.get("a").level == level


def test_what_there_is_not_is_not_found(manager: logging.Manager) -> None:
    """Loggers and levels."""
    levels = LogLevels(manager)
    for call in (lambda: levels.get("nobody"), lambda: levels.set("a", "LOUD")):
        with pytest.raises(ApiError) as refused:
            call()
        assert refused.value.status == 404
    assert list(levels.all()) == ["root"]
