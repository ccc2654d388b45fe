# SPDX-License-Identifier: Apache-2.0
"""Where a setting of TLS or of a login is looked up: among a client's keys, or on its JAAS line.

Kafka's login for tokens, and Strimzi's, read the same things from options of the JAAS line that
stand as keys elsewhere, so whoever reads them asks a `Texts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from sparkmirror.config.key import Key
from sparkmirror.config.keys_security import REACH_KEYS
from sparkmirror.config.reading import Reader
from sparkmirror.config.value_types import Rejected
from sparkmirror.model import Secret

JAAS = "sasl.jaas.config"
PROTOCOL = "security.protocol"
_KEYS: Mapping[str, Key] = {key.name: key for key in REACH_KEYS}


class Misfit(ValueError):  # noqa: N818 - "Error" is kept for what leaves this package
    """Settings that do not fit together, or lead nowhere; `name` is to blame.

    The sentence begins with the name, as the user wrote it.
    """

    def __init__(self, name: str, sentence: str) -> None:
        super().__init__(sentence)
        self.name = name


class Texts(Protocol):
    """One place to look; an absent setting is None."""

    def text(self, name: str) -> str | None:
        """A setting that may be shown."""
        ...

    def secret(self, name: str) -> Secret | None:
        """A setting that may not."""
        ...

    def called(self, name: str) -> str:
        """How a sentence calls it."""
        ...

    def shown(self, name: str) -> str:
        """Its value in a sentence."""
        ...

    def is_foreign(self, name: str) -> bool:
        """Whether it came over REST: whoever sent it does not own this machine's files."""
        ...

    def misfit(self, name: str, rest: str) -> Misfit:
        """What to raise: the name and the rest of the sentence."""
        ...


class KeyTexts:
    """A client's own keys."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def text(self, name: str) -> str | None:
        """The text that somebody gave, or none."""
        known = self._reader.knows(name) and self._reader.is_given(name)
        return self._reader.string(name) if known else None

    def secret(self, name: str) -> Secret | None:
        """The secret that somebody gave, or none."""
        return self._reader.secret(name) if self._reader.knows(name) else None

    def called(self, name: str) -> str:
        """As it is written, or would be, beside the protocol or else the addresses."""
        if self._reader.is_given(name):
            return self._reader.origin(name).key
        beside = PROTOCOL if self._reader.is_given(PROTOCOL) else "bootstrap.servers"
        return self._reader.origin(beside).key.removesuffix(beside) + name

    def shown(self, name: str) -> str:
        """Not what came from elsewhere."""
        return "[hidden]" if self.is_hidden(name) else self._reader.string(name)

    def is_hidden(self, name: str) -> bool:
        """Whether a sentence may not say its value, nor a part of it."""
        return self._reader.is_hidden(name)

    def is_foreign(self, name: str) -> bool:
        """Whether the key came over REST."""
        return self._reader.value(name).from_request

    def misfit(self, name: str, rest: str) -> Misfit:
        """The key is to blame."""
        return Misfit(name, f"{self.called(name)} {rest}")


class JaasTexts:
    """The options of a JAAS line."""

    def __init__(self, reader: Reader, options: Mapping[str, str]) -> None:
        self._line = KeyTexts(reader).called(JAAS)
        self._is_hidden = reader.is_provided(JAAS)
        self._is_foreign = reader.value(JAAS).from_request
        self._options = options

    def text(self, name: str) -> str | None:
        """The option, checked as the key of its name would be."""
        if name not in self._options:
            return None
        text = self._options[name]
        if name in _KEYS:
            try:
                _KEYS[name].parse(text)
            except Rejected as error:
                raise self.misfit(name, error.rule if self._is_hidden else str(error)) from None
        return text

    def secret(self, name: str) -> Secret | None:
        """The option, hidden from here on."""
        return Secret(self._options[name]) if name in self._options else None

    def idle(self, known: frozenset[str]) -> str:
        """The options that are none of these, as a sentence may name them; empty: there is none."""
        others = sorted(self._options.keys() - known)
        return "[hidden]" if others and self._is_hidden else ", ".join(others)

    def below(self, prefixes: tuple[str, ...]) -> dict[str, str]:
        """The options behind any of the prefixes, without it."""
        return {
            name.removeprefix(prefix): text
            for name, text in self._options.items()
            for prefix in prefixes
            if name.startswith(prefix)
        }

    def called(self, name: str) -> str:
        """The line and the option."""
        return f"{self._line}: its option {name}"

    def is_foreign(self, _name: str) -> bool:
        """Whether the line came over REST."""
        return self._is_foreign

    def shown(self, name: str) -> str:
        """Paths and names of a line that stands in the file may be said."""
        return "[hidden]" if self._is_hidden else self._options[name]

    def misfit(self, name: str, rest: str) -> Misfit:
        """The whole line is to blame."""
        return Misfit(JAAS, f"{self.called(name)} {rest}")
