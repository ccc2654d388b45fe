# SPDX-License-Identifier: Apache-2.0
"""The sources of TLS and login options: client keys, the JAAS line, login files, stores.

OAuth logins of Kafka and Strimzi read some options from the JAAS line and others from keys, so both
have one interface. KAFKA_OPTS names a JAAS login file: its section KafkaClient is for clients
without `sasl.jaas.config`, its section KafkaConnect for users of the REST API.

Truststores and keystores are files of three types, or inline PEM; the combinations are those that
Java's clients accept. The content of token files is sent to an endpoint or a broker unchanged, so
connectors that come over REST may name only the files that KAFKA_OPTS lists.
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
from sparkmirror.quantities import format_bytes
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
    """The option `name` is invalid. The sentence begins with its name as the user wrote it."""

    def __init__(self, name: str, sentence: str) -> None:
        super().__init__(sentence)
        self.name = name


class OptionSource(Protocol):
    """A source of options; the value of an absent option is None."""

    def text(self, name: str) -> str | None: ...

    def secret(self, name: str) -> Secret | None: ...

    def display_name(self, name: str) -> str:
        """Return the option's name for messages."""
        ...

    def display_value(self, name: str) -> str:
        """Return the option's value for messages, [hidden] if it must not be shown."""
        ...

    def is_from_request(self, name: str) -> bool:
        """Whether it came over REST, so that it must not name any file of this machine."""
        ...

    def error(self, name: str, rest: str) -> SecurityOptionError:
        """Create an error; `rest` follows the option's name."""
        ...


class ClientKeyOptions:
    """A client's keys; defaults count as absent."""

    def __init__(self, reader: ConfigReader) -> None:
        self._reader = reader

    def text(self, name: str) -> str | None:
        known = self._reader.has_key(name) and self._reader.is_configured(name)
        return self._reader.string(name) if known else None

    def secret(self, name: str) -> Secret | None:
        return self._reader.secret(name) if self._reader.has_key(name) else None

    def display_name(self, name: str) -> str:
        """Return the key as written; if it is not set, with the prefix of the protocol's key."""
        if self._reader.is_configured(name):
            return self._reader.origin(name).key
        beside = PROTOCOL if self._reader.is_configured(PROTOCOL) else "bootstrap.servers"
        return self._reader.origin(beside).key.removesuffix(beside) + name

    def display_value(self, name: str) -> str:
        return HIDDEN if self.is_hidden(name) else self._reader.string(name)

    def is_hidden(self, name: str) -> bool:
        return self._reader.is_hidden(name)

    def is_from_request(self, name: str) -> bool:
        return self._reader.value(name).from_request

    def error(self, name: str, rest: str) -> SecurityOptionError:
        return SecurityOptionError(name, f"{self.display_name(name)} {rest}")


class JaasOptions:
    """The options of a JAAS line."""

    def __init__(self, reader: ConfigReader, options: Mapping[str, str]) -> None:
        self._line = ClientKeyOptions(reader).display_name(JAAS)
        self._is_hidden = reader.came_from_provider(JAAS)
        self._is_from_request = reader.value(JAAS).from_request
        self._options = options

    def text(self, name: str) -> str | None:
        """Return the option; if a key has the same name, its validators apply."""
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
        return Secret(self._options[name]) if name in self._options else None

    def unused(self, known: frozenset[str]) -> str:
        """List the options that are not in `known`, for messages."""
        others = sorted(self._options.keys() - known)
        return HIDDEN if others and self._is_hidden else ", ".join(others)

    def with_prefixes(self, prefixes: tuple[str, ...]) -> dict[str, str]:
        """Return the options that start with one of the prefixes, without it."""
        return {
            name.removeprefix(prefix): text
            for name, text in self._options.items()
            for prefix in prefixes
            if name.startswith(prefix)
        }

    def display_name(self, name: str) -> str:
        return f"{self._line}: its option {name}"

    def is_from_request(self, _name: str) -> bool:
        return self._is_from_request

    def display_value(self, name: str) -> str:
        return HIDDEN if self._is_hidden else self._options[name]

    def error(self, name: str, rest: str) -> SecurityOptionError:
        return SecurityOptionError(JAAS, f"{self.display_name(name)} {rest}")


def read_jaas_sections(login_file: str, whose: str) -> dict[str, list[JaasEntry]]:
    """Return the entries of each section. Raises ConfigError, without the file's content."""
    try:
        content = read_bounded(Path(login_file), _MAX_FILE_BYTES)
        if content is None:
            limit = format_bytes(_MAX_FILE_BYTES)
            raise ConfigError(f"{login_file} is not a JAAS file: it is larger than {limit}.")
        return parse_jaas_file(content.decode())
    except OSError as error:
        raise ConfigError(
            f"{login_file}, the JAAS file of {whose}, cannot be read: {error.strerror or error}."
        ) from error
    except ValueError as error:
        reason = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else error
        raise ConfigError(f"{login_file} is not a JAAS file: {reason}.") from error


def read_truststore_option(texts: OptionSource, prefix: str) -> str | None:
    """Return the PEM of all trusted certificates; None for those that the system trusts."""
    location, inline = f"{prefix}truststore.location", f"{prefix}truststore.certificates"
    kind, password = f"{prefix}truststore.type", f"{prefix}truststore.password"
    path, certificates = texts.text(location), texts.secret(inline)
    declared = _declared(texts, kind)
    if certificates is not None:
        if path:
            raise texts.error(inline, f"conflicts with {texts.display_name(location)}: remove one")
        _no_password(texts, password)
        _must_be_pem(texts, kind, inline, declared)
        try:
            return read_truststore(certificates.reveal().encode(), _PEM, None)
        except ValueError as error:
            raise texts.error(inline, _unusable(error)) from error
    if not path:
        _reject_unused_password(texts, password, location)
        return None
    if declared == _PEM:
        _no_password(texts, password)
    data = read_named_file(texts, location, path)
    try:
        return _trusted(data, declared or _DEFAULT, texts.secret(password))
    except ValueError as error:
        raise texts.error(
            location, f"({texts.display_value(location)}) {_unusable(error)}"
        ) from error


def read_keystore_option(texts: OptionSource, prefix: str) -> KeyPair | None:
    """Return the client's certificate and its key; None if there is none."""
    location, key = f"{prefix}keystore.location", f"{prefix}keystore.key"
    password, kind = f"{prefix}keystore.password", f"{prefix}keystore.type"
    path, declared = texts.text(location), _declared(texts, kind)
    inline = _inline_identity(texts, key, f"{prefix}keystore.certificate.chain")
    key_password = texts.secret(f"{prefix}key.password")
    if inline is not None:
        if path:
            raise texts.error(key, f"conflicts with {texts.display_name(location)}: remove one")
        _no_password(texts, password)
        _must_be_pem(texts, kind, key, declared)
        try:
            return _identity(inline.encode(), _PEM, None, key_password)
        except ValueError as error:
            raise texts.error(key, _unusable(error)) from error
    if not path:
        _reject_unused_password(texts, password, location)
        return None
    if declared == _PEM:
        _no_password(texts, password)
    elif texts.secret(password) is None:
        written = texts.display_name(location).removesuffix(location) + password
        raise texts.error(location, f"needs a password: set {written}")
    data = read_named_file(texts, location, path)
    try:
        return _identity(data, declared or _DEFAULT, texts.secret(password), key_password)
    except ValueError as error:
        raise texts.error(
            location, f"({texts.display_value(location)}) {_unusable(error)}"
        ) from error


def _inline_identity(texts: OptionSource, key: str, chain: str) -> str | None:
    """Return inline certificates and key as one text; None if there are none."""
    private, certificates = texts.secret(key), texts.secret(chain)
    if private is None and certificates is None:
        return None
    if private is None:
        raise texts.error(chain, f"needs {key}")
    if certificates is None:
        raise texts.error(key, f"needs {chain}")
    return f"{certificates.reveal()}\n{private.reveal()}"


# The clients of many flows share few stores, and opening a store is slow by design.
_trusted = lru_cache(maxsize=64)(read_truststore)
_identity = lru_cache(maxsize=64)(read_keystore)


def _declared(texts: OptionSource, kind: str) -> str:
    """Return the configured store type; empty if not set."""
    return (texts.text(kind) or "").strip().upper()


def _must_be_pem(texts: OptionSource, kind: str, inline: str, declared: str) -> None:
    if declared not in ("", _PEM):
        raise texts.error(kind, f"must be PEM, because {texts.display_name(inline)} is set")


def _no_password(texts: OptionSource, password: str) -> None:
    if texts.secret(password) is not None:
        raise texts.error(password, "cannot be set for PEM, where only a key has a password")


def read_named_file(texts: OptionSource, location: str, path: str, most: int = MAX_BYTES) -> bytes:
    """Read the file that a key names. Raises SecurityOptionError."""
    try:
        data = read_bounded(Path(path), most, only_files=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise texts.error(
            location,
            f"names {texts.display_value(location)}, which cannot be read ({reason}): it must "
            "exist on this machine and be readable",
        ) from error
    if data is None:
        shown = texts.display_value(location)
        raise texts.error(location, f"names {shown}, which is larger than {format_bytes(most)}")
    return data


def _reject_unused_password(texts: OptionSource, password: str, location: str) -> None:
    if texts.secret(password) is not None:
        raise texts.error(
            password, f"has no file to open: {texts.display_name(location)} is not set"
        )


def _unusable(error: ValueError) -> str:
    return f"cannot be used: {error}"


def read_token_file(place: OptionSource, name: str, path: str) -> bytes:
    """Read a token file. Raises SecurityOptionError if it cannot or must not be read."""
    if place.is_from_request(name) and not _is_listed(path):
        raise place.error(
            name,
            f"names {place.display_value(name)}; over REST only files are allowed that "
            "-Dorg.apache.kafka.sasl.oauthbearer.allowed.files in this process's KAFKA_OPTS lists",
        )
    return read_named_file(place, name, path, _MAX_FILE_BYTES)


def _is_listed(path: str) -> bool:
    allowed = token_files_in_opts(os.environ.get("KAFKA_OPTS", ""))
    try:
        real = Path(path).resolve()
        return any(Path(one).resolve() == real for one in allowed)
    except (OSError, ValueError):  # an invalid path
        return False
