# SPDX-License-Identifier: Apache-2.0
"""What is reported about a file: its effective values, and sentences that name key and line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from sparkmirror.config.files.config_providers import ResolvedText
from sparkmirror.config.files.layering import LayeredValue, Origin
from sparkmirror.errors import ConfigError
from sparkmirror.model import HIDDEN, Secret

_SHORTEST_SECRET = 6  # shorter words of the file's own would be taken for it


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

    @property
    def line(self) -> int:
        """The number of the line; 0: no line is to blame."""
        return int(self.where.removeprefix("line ") or 0)

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return f"{place}{self.message}"


def notice_at_line(level: NoticeLevel, key: str, line: int, message: str) -> Notice:
    """A remark about a line; line 0 means that no line is to blame."""
    return Notice(level, key, f"line {line}" if line else "", message)


def error_notices(errors: Iterable[ConfigError]) -> list[Notice]:
    """Remarks with the sentences of errors, which begin with the name of the file."""
    return [
        Notice(NoticeLevel.ERROR, one.key or "", one.where or "", str(one).partition(": ")[2])
        for one in errors
    ]


def sorted_notices(notices: Iterable[Notice]) -> list[Notice]:
    """Each once: errors first, then in the order of the file."""
    order = list(NoticeLevel)
    return sorted(dict.fromkeys(notices), key=lambda one: (order.index(one.level), one.line))


def raise_errors(notices: Iterable[Notice], file: str) -> None:
    """Raise one ConfigError with the sentences of all errors among `notices`, if there are any."""
    errors = [n for n in dict.fromkeys(notices) if n.level is NoticeLevel.ERROR]
    if errors:
        text = "\n".join(f"{file} {error}" for error in errors)
        raise ConfigError(text, key=errors[0].key, where=errors[0].where or None)


@dataclass(frozen=True, slots=True)
class EffectiveValue:
    """One value that a flow runs with, as `check` shows it."""

    section: str
    key: str
    text: str | Secret
    origin: Origin
    overrode: tuple[Origin, ...] = ()
    no_effect_reason: str = ""  # why it has no effect


@dataclass(slots=True)
class ConfigReport:
    """What one pass over a flow's configuration gathered.

    No sentence shows what came through a config provider, whoever wrote the sentence.
    """

    effective: list[EffectiveValue] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    _provided: set[str] = field(default_factory=set, repr=False)

    def redact(self, resolved: ResolvedText) -> None:
        """From here on sentences have `[hidden]` in the place of this value and its items."""
        if resolved.from_provider:
            for text in (resolved.text, *resolved.provided_parts):
                texts = {text.strip(), *(item.strip() for item in text.split(","))}
                self._provided |= {one for one in texts if len(one) >= _SHORTEST_SECRET}

    def error(self, value: LayeredValue, key: str, sentence: str) -> None:
        """Note that the line behind `value` is wrong; `sentence` begins with the key's name."""
        written = value.origin.key or key
        said = self._concealing(sentence)
        self.notices.append(notice_at_line(NoticeLevel.ERROR, written, value.origin.line, said))

    def warn(self, origin: Origin, sentence: str, level: NoticeLevel = NoticeLevel.WARNING) -> None:
        """Remark on a line that may stay as it is."""
        said = self._concealing(sentence)
        self.notices.append(notice_at_line(level, origin.key, origin.line, said))

    def _concealing(self, sentence: str) -> str:
        lowered = sentence.lower()
        held = [text for text in self._provided if text.lower() in lowered]
        for text in sorted(held, key=len, reverse=True):
            whole = rf"(?<![\w.-]){re.escape(text)}(?![\w-]|\.\w)"
            sentence = re.sub(whole, HIDDEN, sentence, flags=re.IGNORECASE)
        return sentence
