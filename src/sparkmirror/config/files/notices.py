# SPDX-License-Identifier: Apache-2.0
"""The report about a file: its effective values, and notices that name key and line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from sparkmirror.config.files.config_providers import ResolvedText
from sparkmirror.config.files.layering import LayeredValue, Origin
from sparkmirror.errors import ConfigError
from sparkmirror.model import HIDDEN, Secret

_SHORTEST_SECRET = 6  # shorter values would also match ordinary words of messages


class NoticeLevel(Enum):
    """Only an error prevents a run."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Notice:
    """A message about a key."""

    level: NoticeLevel
    key: str
    where: str  # "line 41"; empty if it concerns no line
    message: str

    @property
    def line(self) -> int:
        """The number of the line; 0 if it concerns no line."""
        return int(self.where.removeprefix("line ") or 0)

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return f"{place}{self.message}"


def notice_at_line(level: NoticeLevel, key: str, line: int, message: str) -> Notice:
    """Create a notice about a line; line 0 means none."""
    return Notice(level, key, f"line {line}" if line else "", message)


def error_notices(errors: Iterable[ConfigError]) -> list[Notice]:
    """Convert errors to notices; the prefix `<file>: ` of messages is dropped."""
    return [
        Notice(NoticeLevel.ERROR, one.key or "", one.where or "", str(one).partition(": ")[2])
        for one in errors
    ]


def sorted_notices(notices: Iterable[Notice]) -> list[Notice]:
    """Sort by level, then line; drop duplicates."""
    order = list(NoticeLevel)
    return sorted(dict.fromkeys(notices), key=lambda one: (order.index(one.level), one.line))


def raise_errors(notices: Iterable[Notice], file: str) -> None:
    """Raise one ConfigError with all errors among `notices`, if there are any."""
    errors = [n for n in dict.fromkeys(notices) if n.level is NoticeLevel.ERROR]
    if errors:
        text = "\n".join(f"{file}{' ' if one.where else ': '}{one}" for one in errors)
        raise ConfigError(text, key=errors[0].key, where=errors[0].where or None)


@dataclass(frozen=True, slots=True)
class EffectiveValue:
    """An effective value, as `check` prints it."""

    section: str
    key: str
    text: str | Secret
    origin: Origin
    overrode: tuple[Origin, ...] = ()
    no_effect_reason: str = ""
    is_default: bool = False  # also if a line sets the default

    @property
    def is_configured(self) -> bool:
        """Whether a line or a profile set the value."""
        return bool(self.origin.line or self.origin.profile)

    @property
    def is_set(self) -> bool:
        """Whether there is a value: a key without a default may have none."""
        return self.is_configured or self.text != ""


@dataclass(slots=True)
class ConfigReport:
    """The effective values and notices of one configuration.

    `error` and `warn` redact values from config providers.
    """

    effective: list[EffectiveValue] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    _provided: set[str] = field(default_factory=set, repr=False)

    def redact(self, resolved: ResolvedText) -> None:
        """Replace this value and its items by `[hidden]` in later notices."""
        if resolved.from_provider:
            for text in (resolved.text, *resolved.provided_parts):
                texts = {text.strip(), *(item.strip() for item in text.split(","))}
                self._provided |= {one for one in texts if len(one) >= _SHORTEST_SECRET}

    def error(self, value: LayeredValue, key: str, sentence: str) -> None:
        """Add an error about the line of `value`; `sentence` begins with the key's name."""
        written = value.origin.key or key
        text = self.redacted(sentence)
        self.notices.append(notice_at_line(NoticeLevel.ERROR, written, value.origin.line, text))

    def warn(self, origin: Origin, sentence: str, level: NoticeLevel = NoticeLevel.WARNING) -> None:
        """Add a notice that does not prevent a run."""
        text = self.redacted(sentence)
        self.notices.append(notice_at_line(level, origin.key, origin.line, text))

    @property
    def has_errors(self) -> bool:
        return any(one.level is NoticeLevel.ERROR for one in self.notices)

    def redacted(self, sentence: str) -> str:
        """Hide the values that come from config providers."""
        lowered = sentence.lower()
        held = [text for text in self._provided if text.lower() in lowered]
        for text in sorted(held, key=len, reverse=True):
            whole = rf"(?<![\w.-]){re.escape(text)}(?![\w-]|\.\w)"
            sentence = re.sub(whole, HIDDEN, sentence, flags=re.IGNORECASE)
        return sentence
