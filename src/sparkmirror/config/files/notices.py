# SPDX-License-Identifier: Apache-2.0
"""What a reader of a file should be told about it: one sentence each, naming key and line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from sparkmirror.errors import ConfigError


class NoticeLevel(Enum):
    """An error keeps the file from being run, the others do not."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Notice:
    """One remark about a file."""

    level: NoticeLevel
    key: str
    where: str  # "line 41"; empty if no line is to blame
    message: str

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return f"{place}{self.message}"


def notice_at_line(level: NoticeLevel, key: str, line: int, message: str) -> Notice:
    """A remark about a line; line 0 means that no line is to blame."""
    return Notice(level, key, f"line {line}" if line else "", message)


def raise_errors(notices: Iterable[Notice], file: str) -> None:
    """Raise one ConfigError with the sentences of all errors among `notices`, if there are any."""
    errors = [n for n in dict.fromkeys(notices) if n.level is NoticeLevel.ERROR]
    if errors:
        text = "\n".join(f"{file} {error}" for error in errors)
        raise ConfigError(text, key=errors[0].key, where=errors[0].where or None)
