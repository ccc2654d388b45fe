# SPDX-License-Identifier: Apache-2.0
"""Levels of Python's loggers under the names that Connect's clients know.

A level applies to a logger and its children; existing children are set one by one, as in Connect.
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
    """The loggers of this process. Thread-safe."""

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
        """The effective level of a logger; ApiError 404 if it does not exist."""
        with self._lock:
            logger = self._manager.root if _is_root(name) else self._loggers().get(name)
            if logger is None:
                raise ApiError(HTTPStatus.NOT_FOUND, f"Logger {name} not found.")
            return self._level(ROOT if _is_root(name) else name, logger)

    def set(self, name: str, level: str) -> list[str]:
        """Set a level; returns the loggers that had another one."""
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
    """Python's number of a level; ApiError 404 for an unknown level."""
    number = _LEVELS.get(level.upper())
    if number is None:
        raise ApiError(HTTPStatus.NOT_FOUND, f"invalid log level '{level}'.")
    return number


def _is_root(name: str) -> bool:
    return name.lower() == ROOT


def _name(number: int) -> str:
    """The name of the highest level that is not above a number."""
    return next(name for name, level in _LEVELS.items() if level <= max(number, 1))
