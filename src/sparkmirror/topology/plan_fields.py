# SPDX-License-Identifier: Apache-2.0
"""The fields of a JSON object, taken one by one: each must be there, and none may be left over."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sparkmirror.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST = 2**63 - 1


class JsonFields:
    """One object and where it stands, for error sentences."""

    def __init__(self, found: object, place: str) -> None:
        if not isinstance(found, dict):
            msg = f"{place} is not a JSON object"
            raise PlanError(msg)
        self._left: dict[str, object] = dict(found)
        self._place = place

    def error(self, name: str, complaint: str) -> PlanError:
        """About one field."""
        return PlanError(f"{self._place}: {name} {complaint}")

    def require_empty(self) -> None:
        """Everything must have been taken."""
        for name in self._left:
            raise self.error(repr(name), "is not a field that is known here")

    def text(self, name: str, *, may_be_empty: bool = False) -> str:
        """A string."""
        found = self._take(name)
        if not isinstance(found, str):
            raise self.error(name, "is not a string")
        if not found and not may_be_empty:
            raise self.error(name, "is empty")
        try:
            found.encode()
        except UnicodeEncodeError as error:  # JSON can spell half of a character
            raise self.error(name, "is not text") from error
        return found

    def text_or_none(self, name: str) -> str | None:
        """A string or null."""
        return None if self._is_null(name) else self.text(name)

    def one_of(self, name: str, choices: Sequence[str]) -> str:
        """One of some words."""
        found = self.text(name)
        if found not in choices:
            raise self.error(name, f"is {found!r}, not one of {', '.join(choices)}")
        return found

    def number(self, name: str, *, least: int = 0) -> int:
        """A whole number that Kafka could have written."""
        found = self._take(name)
        if not isinstance(found, int) or isinstance(found, bool):
            raise self.error(name, "is not a whole number")
        if not least <= found <= _MOST:
            raise self.error(name, "is out of range")
        return found

    def number_or_none(self, name: str) -> int | None:
        """The same, or null."""
        return None if self._is_null(name) else self.number(name)

    def float_number(self, name: str) -> float:
        """A number that is not negative."""
        found = self._take(name)
        if not isinstance(found, (int, float)) or isinstance(found, bool):
            raise self.error(name, "is not a number")
        if not 0 <= found <= _MOST or not math.isfinite(found):
            raise self.error(name, "is out of range")
        return float(found)

    def real_or_none(self, name: str) -> float | None:
        """The same, or null."""
        return None if self._is_null(name) else self.float_number(name)

    def boolean(self, name: str) -> bool:
        """True or false."""
        found = self._take(name)
        if not isinstance(found, bool):
            raise self.error(name, "is neither true nor false")
        return found

    def mapping(self, name: str) -> dict[str, str]:
        """Strings by name."""
        inner = self.nested(name)
        return {key: inner.text(key, may_be_empty=True) for key in inner.names()}

    def mapping_or_none(self, name: str) -> dict[str, str | None]:
        """Strings or null by name."""
        inner = self.nested(name)
        return {
            key: None if inner._is_null(key) else inner.text(key, may_be_empty=True)  # noqa: SLF001 - of its own kind
            for key in inner.names()
        }

    def nested(self, name: str) -> JsonFields:
        """An object inside of this one."""
        return JsonFields(self._take(name), f"{self._place}, {name}")

    def within_or_none(self, name: str) -> JsonFields | None:
        """The same, or null."""
        return None if self._is_null(name) else self.nested(name)

    def objects(self, name: str) -> list[JsonFields]:
        """A list of objects."""
        return [
            JsonFields(one, f"{self._place}, {name} {number}")
            for number, one in enumerate(self._list(name), start=1)
        ]

    def texts(self, name: str) -> list[str]:
        """A list of strings."""
        found = self._list(name)
        inner = JsonFields({str(number): one for number, one in enumerate(found)}, self._place)
        return [inner.text(str(number)) for number in range(len(found))]

    def names(self) -> list[str]:
        """The fields that were not taken yet."""
        return list(self._left)

    def _list(self, name: str) -> list[object]:
        found = self._take(name)
        if not isinstance(found, list):
            raise self.error(name, "is not a list")
        return found

    def _is_null(self, name: str) -> bool:
        if name in self._left and self._left[name] is None:
            del self._left[name]
            return True
        return False

    def _take(self, name: str) -> object:
        if name not in self._left:
            raise self.error(name, "is missing")
        return self._left.pop(name)
