# SPDX-License-Identifier: Apache-2.0
"""Where TLS and login options are read from: client keys, the JAAS line, login files, stores.

Kafka's login for tokens, and Strimzi's, read options of the JAAS line that are keys elsewhere, so
readers go through one interface for both. KAFKA_OPTS names a JAAS login file: its section
KafkaClient is for clients without `sasl.jaas.config`, its section KafkaConnect for users of the
REST API.

Truststores and keystores are files of three types, or PEM inline; the combinations are those that
Java's clients accept. The content of token files goes to an endpoint or a broker unchanged, so a
connector that came over REST may name only the files that KAFKA_OPTS lists.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from sparkmirror.config.files.config_reader import ConfigReader
from sparkmirror.config.files.tracked_files import read_bounded
from sparkmirror.config.keys.config_def import ConfigKey
from sparkmirror.config.keys.security_keys import ALL_SECURITY_KEYS
from sparkmirror.config.keys.value_types import InvalidValueError
from sparkmirror.errors import ConfigError
from sparkmirror.model import HIDDEN, Secret
from sparkmirror.security.jaas import JaasEntry, parse_jaas_file, token_files_in_opts
from sparkmirror.security.keystores import MAX_BYTES, KeyPair, read_keystore, read_truststore

JAAS = "sasl.jaas.config"
PROTOCOL = "security.protocol"
_KEYS: Mapping[str, ConfigKey] = {key.name: key for key in ALL_SECURITY_KEYS}

_PEM = "PEM"
_DEFAULT = "JKS"

CLIENT_SECTION = "KafkaClient"
_MAX_FILE_BYTES = 1 << 20


class SecurityOptionError(ValueError):
    """Settings that do not fit together, or lead nowhere; `name` is to blame.

    The sentence begins with the name, as the user wrote it.
    """

    def __init__(self, name: str, sentence: str) -> None:
        super().__init__(sentence)
        self.name = name


class OptionSource(Protocol):
    """One place to look; an absent setting is None."""

    def text(self, name: str) -> str | None:
        """A setting that may be shown."""
        ...

    def secret(self, name: str) -> Secret | None:
        """A setting that may not."""
        ...

    def display_name(self, name: str) -> str:
        """How a sentence calls it."""
        ...

    def display_value(self, name: str) -> str:
        """Its value in a sentence."""
        ...

    def is_from_request(self, name: str) -> bool:
        """Whether it came over REST: whoever sent it does not own this machine's files."""
        ...

    def error(self, name: str, rest: str) -> SecurityOptionError:
        """What to raise: the name and the rest of the sentence."""
        ...


class ClientKeyOptions:
    """A client's own keys."""

    def __init__(self, reader: ConfigReader) -> None:
        self._reader = reader

    def text(self, name: str) -> str | None:
        """The text that somebody gave, or none."""
        known = self._reader.has_key(name) and self._reader.is_configured(name)
        return self._reader.string(name) if known else None

    def secret(self, name: str) -> Secret | None:
        """The secret that somebody gave, or none."""
        return self._reader.secret(name) if self._reader.has_key(name) else None

    def display_name(self, name: str) -> str:
        """As it is written, or would be, beside the protocol or else the addresses."""
        if self._reader.is_configured(name):
            return self._reader.origin(name).key
        beside = PROTOCOL if self._reader.is_configured(PROTOCOL) else "bootstrap.servers"
        return self._reader.origin(beside).key.removesuffix(beside) + name

    def display_value(self, name: str) -> str:
        """Not what came from elsewhere."""
        return HIDDEN if self.is_hidden(name) else self._reader.string(name)

    def is_hidden(self, name: str) -> bool:
        """Whether a sentence may not say its value, nor a part of it."""
        return self._reader.is_hidden(name)

    def is_from_request(self, name: str) -> bool:
        """Whether the key came over REST."""
        return self._reader.value(name).from_request

    def error(self, name: str, rest: str) -> SecurityOptionError:
        """The key is to blame."""
        return SecurityOptionError(name, f"{self.display_name(name)} {rest}")


class JaasOptions:
    """The options of a JAAS line."""

    def __init__(self, reader: ConfigReader, options: Mapping[str, str]) -> None:
        self._line = ClientKeyOptions(reader).display_name(JAAS)
        self._is_hidden = reader.came_from_provider(JAAS)
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
            except InvalidValueError as error:
                raise self.error(name, error.rule if self._is_hidden else str(error)) from None
        return text

    def secret(self, name: str) -> Secret | None:
        """The option, hidden from here on."""
        return Secret(self._options[name]) if name in self._options else None

    def unused(self, known: frozenset[str]) -> str:
        """The options that are none of these, as a sentence may name them; empty: there is none."""
        others = sorted(self._options.keys() - known)
        return HIDDEN if others and self._is_hidden else ", ".join(others)

    def with_prefixes(self, prefixes: tuple[str, ...]) -> dict[str, str]:
        """The options behind any of the prefixes, without it."""
        return {
            name.removeprefix(prefix): text
            for name, text in self._options.items()
            for prefix in prefixes
            if name.startswith(prefix)
        }

    def display_name(self, name: str) -> str:
        """The line and the option."""
        return f"{self._line}: its option {name}"

    def is_from_request(self, _name: str) -> bool:
        """Whether the line came over REST."""
        return self._is_foreign

    def display_value(self, name: str) -> str:
        """Paths and names of a line that stands in the file may be said."""
        return HIDDEN if self._is_hidden else self._options[name]

    def error(self, name: str, rest: str) -> SecurityOptionError:
        """The whole line is to blame."""
        return SecurityOptionError(JAAS, f"{self.display_name(name)} {rest}")


def read_jaas_sections(login_file: str, whose: str) -> dict[str, list[JaasEntry]]:
    """The entries of each section; ConfigError says what is wrong, and nothing that it found."""
    try:
        content = read_bounded(Path(login_file), _MAX_FILE_BYTES)
        if content is None:
            raise ConfigError(f"{login_file} is no JAAS file: it has more than a MiB.")
        return parse_jaas_file(content.decode())
    except OSError as error:
        raise ConfigError(
            f"{login_file}, the JAAS file of {whose}, cannot be read: {error.strerror or error}."
        ) from error
    except ValueError as error:
        reason = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else error
        raise ConfigError(f"{login_file} is no JAAS file: {reason}.") from error


def read_truststore_option(texts: OptionSource, prefix: str) -> str | None:
    """The PEM of all trusted certificates; None: whom the system trusts."""
    location, inline = f"{prefix}truststore.location", f"{prefix}truststore.certificates"
    kind, password = f"{prefix}truststore.type", f"{prefix}truststore.password"
    path, certificates = texts.text(location), texts.secret(inline)
    declared = _declared(texts, kind)
    if certificates is not None:
        if path:
            raise texts.error(inline, f"stands beside {texts.display_name(location)}: remove one")
        _no_password(texts, password)
        _must_be_pem(texts, kind, inline, declared)
        try:
            return read_truststore(certificates.reveal().encode(), _PEM, None)
        except ValueError as error:
            raise texts.error(inline, _because(error)) from error
    if not path:
        _nothing_to_open(texts, password, location)
        return None
    if declared == _PEM:
        _no_password(texts, password)
    data = read_named_file(texts, location, path)
    try:
        return _trusted(data, declared or _DEFAULT, texts.secret(password))
    except ValueError as error:
        raise texts.error(
            location, f"({texts.display_value(location)}) {_because(error)}"
        ) from error


def read_keystore_option(texts: OptionSource, prefix: str) -> KeyPair | None:
    """The certificate to show and its key; None: this client shows none."""
    location, key = f"{prefix}keystore.location", f"{prefix}keystore.key"
    password, kind = f"{prefix}keystore.password", f"{prefix}keystore.type"
    path, declared = texts.text(location), _declared(texts, kind)
    inline = _inline_identity(texts, key, f"{prefix}keystore.certificate.chain")
    key_password = texts.secret(f"{prefix}key.password")
    if inline is not None:
        if path:
            raise texts.error(key, f"stands beside {texts.display_name(location)}: remove one")
        _no_password(texts, password)
        _must_be_pem(texts, kind, key, declared)
        try:
            return _identity(inline.encode(), _PEM, None, key_password)
        except ValueError as error:
            raise texts.error(key, _because(error)) from error
    if not path:
        _nothing_to_open(texts, password, location)
        return None
    if declared == _PEM:
        _no_password(texts, password)
    elif texts.secret(password) is None:
        beside = texts.display_name(location).removesuffix(location) + password
        raise texts.error(location, f"needs a password: write {beside}")
    data = read_named_file(texts, location, path)
    try:
        return _identity(data, declared or _DEFAULT, texts.secret(password), key_password)
    except ValueError as error:
        raise texts.error(
            location, f"({texts.display_value(location)}) {_because(error)}"
        ) from error


def _inline_identity(texts: OptionSource, key: str, chain: str) -> str | None:
    """Certificates and key as one text, if they stand in the file themselves."""
    private, certificates = texts.secret(key), texts.secret(chain)
    if private is None and certificates is None:
        return None
    if private is None:
        raise texts.error(chain, f"needs {key} beside it")
    if certificates is None:
        raise texts.error(key, f"needs {chain} beside it")
    return f"{certificates.reveal()}\n{private.reveal()}"


# A flow has four clients and a file many flows, most with the same stores; opening one takes long
# on purpose.
_trusted = lru_cache(maxsize=64)(read_truststore)
_identity = lru_cache(maxsize=64)(read_keystore)


def _declared(texts: OptionSource, kind: str) -> str:
    """What kind of store it is said to be; empty: nobody said."""
    return (texts.text(kind) or "").strip().upper()


def _must_be_pem(texts: OptionSource, kind: str, inline: str, declared: str) -> None:
    if declared not in ("", _PEM):
        raise texts.error(kind, f"must be PEM, because {texts.display_name(inline)} is set")


def _no_password(texts: OptionSource, password: str) -> None:
    if texts.secret(password) is not None:
        raise texts.error(password, "does not go with PEM, of which only a key has a password")


def read_named_file(texts: OptionSource, location: str, path: str, most: int = MAX_BYTES) -> bytes:
    """What is in the file that a key names; Misfit if it cannot be read."""
    try:
        data = read_bounded(Path(path), most, only_files=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise texts.error(
            location,
            f"names {texts.display_value(location)}, which cannot be read ({reason}): it must be "
            "on the machine where the program runs, and readable for it",
        ) from error
    if data is None:
        raise texts.error(
            location, f"names {texts.display_value(location)}, which has more than {most >> 20} MiB"
        )
    return data


def _nothing_to_open(texts: OptionSource, password: str, location: str) -> None:
    if texts.secret(password) is not None:
        raise texts.error(
            password, f"has no file to open: {texts.display_name(location)} is not set"
        )


def _because(error: ValueError) -> str:
    return f"cannot be used: {error}"


def read_token_file(place: OptionSource, name: str, path: str) -> bytes:
    """What is in it; Misfit if it cannot or may not be read."""
    if place.is_from_request(name) and not _is_listed(path):
        raise place.error(
            name,
            f"names {place.display_value(name)}; over REST only files may be named that "
            "-Dorg.apache.kafka.sasl.oauthbearer.allowed.files in this process's KAFKA_OPTS lists",
        )
    return read_named_file(place, name, path, _MAX_FILE_BYTES)


def _is_listed(path: str) -> bool:
    allowed = token_files_in_opts(os.environ.get("KAFKA_OPTS", ""))
    try:
        real = Path(path).resolve()
        return any(Path(one).resolve() == real for one in allowed)
    except (OSError, ValueError):  # no path at all
        return False
