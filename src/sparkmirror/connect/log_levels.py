# SPDX-License-Identifier: Apache-2.0
"""Levels of Python's loggers under the names that Connect's clients know.

A level counts for a logger and all below it; those that exist are set one by one, as Connect does.
"""

from __future__ import annotations

import logging
import threading
import time
from http import HTTPStatus

from sparkmirror.connect.api import ApiError, LogLevel

ROOT = "root"
_OFF = logging.CRITICAL + 10
_LEVELS = {
    "OFF": _OFF,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG - 5,
    "ALL": 1,
}


class LogLevels:
    """The loggers of a process; any thread may ask."""

    def __init__(self, manager: logging.Manager | None = None) -> None:
        self._manager = manager or logging.Logger.manager
        self._modified: dict[str, int] = {}
        self._lock = threading.Lock()

    def all(self) -> dict[str, LogLevel]:
        """Every logger whose level is set, and the root."""
        with self._lock:
            found = {
                name: self._level(name, logger)
                for name, logger in self._loggers().items()
                if logger.level != logging.NOTSET
            }
            return {**found, ROOT: self._level(ROOT, self._manager.root)}

    def get(self, name: str) -> LogLevel:
        """A logger's level, its own or the one above it; ApiError 404 if there is none."""
        with self._lock:
            logger = self._manager.root if _is_root(name) else self._loggers().get(name)
            if logger is None:
                raise ApiError(HTTPStatus.NOT_FOUND, f"Logger {name} not found.")
            return self._level(ROOT if _is_root(name) else name, logger)

    def set(self, name: str, level: str) -> list[str]:
        """Set a level; the loggers that had another one."""
        number = check_level(level)
        with self._lock:
            if _is_root(name):
                changed = {**self._loggers(), ROOT: self._manager.root}
            else:
                self._manager.getLogger(name)
                changed = {
                    known: logger
                    for known, logger in self._loggers().items()
                    if known == name or known.startswith(f"{name}.")
                }
            now = time.time_ns() // 1_000_000
            differing = {k: one for k, one in changed.items() if one.getEffectiveLevel() != number}
            for known, logger in differing.items():
                logger.setLevel(number)
                self._modified[known] = now
            return sorted(differing)

    def _loggers(self) -> dict[str, logging.Logger]:
        known = self._manager.loggerDict.copy()
        return {name: one for name, one in known.items() if isinstance(one, logging.Logger)}

    def _level(self, name: str, logger: logging.Logger) -> LogLevel:
        return LogLevel(_name(logger.getEffectiveLevel()), self._modified.get(name))


def check_level(level: str) -> int:
    """Python's number of a level; ApiError 404 if there is no such level."""
    number = _LEVELS.get(level.upper())
    if number is None:
        raise ApiError(HTTPStatus.NOT_FOUND, f"invalid log level '{level}'.")
    return number


def _is_root(name: str) -> bool:
    return name.lower() == ROOT


def _name(number: int) -> str:
    """The quietest level that still lets this one through."""
    return next(name for name, level in _LEVELS.items() if level <= max(number, 1))
