# SPDX-License-Identifier: Apache-2.0
"""What is known about one configuration key; the tables beside this module are made of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sparkmirror.config.value_types import Check, Type, parse_value


class Importance(Enum):
    """How soon a reader of the reference page should meet the key."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key, declared once: parsing, `check` and the reference page all read this."""

    name: str
    type: Type
    default: str | None  # as one would write it; None: not set
    doc: str
    importance: Importance = Importance.MEDIUM
    checks: tuple[Check, ...] = ()
    required: bool = False
    mm2_default: str | None = None  # only where MM2's differs from ours
    reason: str = ""  # why it differs
    no_effect: str = ""  # why setting it changes nothing here; empty: it is used
    secret: bool = False

    @property
    def is_secret(self) -> bool:
        """Whether the value must never be shown."""
        return self.secret or self.type is Type.PASSWORD

    def parse(self, text: str) -> object:
        """The typed and checked value; Rejected holds the end of a sentence about the key."""
        value = parse_value(self.type, text)
        for check in self.checks:
            check(value)
        return value

    def default_value(self) -> object:
        """The parsed default, None if there is none."""
        return None if self.default is None else self.parse(self.default)
