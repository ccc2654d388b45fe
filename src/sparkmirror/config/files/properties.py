# SPDX-License-Identifier: Apache-2.0
"""Java `.properties` files with line numbers.

`javaproperties` parses the syntax. This module adds what error messages need: the line of each
entry, repeated keys, and a sentence for each reason why a file cannot be read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from javaproperties import InvalidUEscapeError, KeyValue, parse

from sparkmirror.config.files.other_formats import describe_other_format
from sparkmirror.config.files.tracked_files import read_bounded
from sparkmirror.errors import ConfigError
from sparkmirror.quantities import format_bytes

# A key at the beginning of a line; `host:9092,` in a list of addresses is not one.
_OWN_LINE = re.compile(r"\s*([A-Za-z][\w.>-]*)\s*(?:=|:(?!\d+\s*(?:,|\\|$)))")
_SECRET_SUFFIXES = (".password", ".secret", ".token", ".key", ".jaas.config")

MAX_BYTES = 16 << 20  # of a file; a thousand flows need less than 1 MiB


@dataclass(frozen=True, slots=True)
class Property:
    """One `key=text` of a file and the line on which it begins."""

    key: str
    text: str = field(repr=False)
    line: int
    swallowed_secret_line: int = 0  # a secret's line that a stray \\ has made part of this text
    from_request: bool = False  # from a connector's configuration over REST, not from a file


@dataclass(frozen=True, slots=True)
class PropertiesFile:
    """All entries of a file; the last entry of a repeated key wins, as in Java."""

    name: str
    entries: Mapping[str, Property]
    repeated: tuple[Property, ...] = ()  # the earlier entries of repeated keys


def read_properties(path: Path) -> PropertiesFile:
    """Read and parse `path`. Raises ConfigError."""
    try:
        data = read_bounded(path, MAX_BYTES)
    except FileNotFoundError as error:
        raise ConfigError(
            f"There is no file {path}; check the path (relative ones start at {Path.cwd()}).",
            where=str(path),
        ) from error
    except IsADirectoryError as error:
        raise ConfigError(
            f"{path} is a directory; name the properties file inside it.", where=str(path)
        ) from error
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read ({error.strerror or error}); check its permissions.",
            where=str(path),
        ) from error
    except ValueError as error:
        raise ConfigError(f"{str(path)!r} is not a path: {error}.", where=str(path)) from error
    if data is None:
        raise ConfigError(
            f"{path} is larger than {format_bytes(MAX_BYTES)}; is it the properties file?",
            where=str(path),
        )
    text = _decode(data, str(path))
    if other := describe_other_format(text):
        raise ConfigError(
            f"{path} is not a properties file (lines such as clusters = a, b). It is {other}.",
            where=str(path),
        )
    return parse_properties(text, str(path))


def parse_properties(text: str, name: str) -> PropertiesFile:
    """Parse the text of a properties file; `name` is the file's name in messages."""
    entries: dict[str, Property] = {}
    repeated: list[Property] = []
    line = 1
    elements = parse(text)
    while True:
        try:
            element = next(elements, None)
        except InvalidUEscapeError as error:
            raise ConfigError(  # without the following text, which may be a password
                f"{name} line {line}: a \\u is not followed by four hex digits; "
                "write \\\\ for a backslash.",
                where=f"line {line}",
            ) from error
        if element is None:
            break
        if isinstance(element, KeyValue):
            _reject_lone_surrogates(element, name, line)
            entry = Property(element.key, element.value, line, _swallowed(element, line))
            if entry.key in entries:
                repeated.append(entries[entry.key])
            entries[entry.key] = entry
        line += _natural_lines(element.source)
    return PropertiesFile(name, MappingProxyType(entries), tuple(repeated))


def _reject_lone_surrogates(element: KeyValue, name: str, line: int) -> None:
    """Reject half of a surrogate pair, which cannot be encoded again."""
    try:
        f"{element.key}{element.value}".encode()
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"{name} line {line}: a \\uXXXX escape is half of a surrogate pair; write both "
            "halves, or the character itself.",
            where=f"line {line}",
        ) from error


def reject_swallowed_secrets(file: PropertiesFile) -> None:
    """Raise ConfigError if a stray backslash makes a secret part of a value that is shown.

    Only for files of mirrors and workers; elsewhere such a text may be intended.
    """
    for entry in (*file.entries.values(), *file.repeated):
        if entry.swallowed_secret_line:
            raise ConfigError(
                f"{file.name} line {entry.swallowed_secret_line - 1}: it ends in a backslash, so "
                f"the next line is part of {entry.key}, and it seems to contain a secret; remove "
                "the backslash.",
                key=entry.key,
                where=f"line {entry.swallowed_secret_line - 1}",
            )


def _swallowed(element: KeyValue, line: int) -> int:
    """Return the first continuation line that looks like a secret's key; 0 if there is none."""
    if has_secret_suffix(element.key):
        return 0
    for number, text in enumerate(_unix(element.source).split("\n")[1:], start=line + 1):
        found = _OWN_LINE.match(text)
        if found and has_secret_suffix(found[1]):
            return number
    return 0


def has_secret_suffix(key: str) -> bool:
    """Whether the key's name suggests a secret; works for unknown keys, too."""
    return key.lower().endswith(_SECRET_SUFFIXES)


def _natural_lines(source: str) -> int:
    """Return the number of lines of an element, with continuation lines."""
    return _unix(source).count("\n") or 1


def _unix(source: str) -> str:
    return source.replace("\r\n", "\n").replace("\r", "\n")


def _decode(data: bytes, name: str) -> str:
    """Decode UTF-8, else Latin-1 as Java. Raises ConfigError for binary data and UTF-16."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\x00" in data:
        at = data.find(b"\x00")
        line = 1 if at < 0 else data.count(b"\n", 0, at) + 1
        raise ConfigError(
            f"{name} line {line}: this is not a text file in UTF-8 or Latin-1; "
            "save it in one of the two.",
            where=f"line {line}",
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")
