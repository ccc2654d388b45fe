# SPDX-License-Identifier: Apache-2.0
"""A JAAS login file, as `-Djava.security.auth.login.config` names it.

    <name> {
        <login module> <flag> (<option>=<value>)* ;
        ...
    };

Only where sections and entries begin and end is looked for here; what is inside an entry is read as
the line of `sasl.jaas.config` is. No sentence repeats what it found: options may hold passwords.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from sparkmirror.security.jaas import JaasLine, parse_jaas

_PIECE = re.compile(
    r"""
    (?P<comment> /\*.*?(?:\*/|\Z) | /[^\r\n]* )
  | (?P<quoted> "(?:\\.|[^"\\\r\n])*"? | '(?:\\.|[^'\\\r\n])*'? )
  | (?P<space> \s+ )
  | (?P<mark> [{};=] )
  | (?P<word> [^\s{};="'/]+ )
    """,
    re.VERBOSE | re.DOTALL,
)
_MARKS = ("{", "}", ";", "=")
_LOGIN_FILE = "-Djava.security.auth.login.config="
_KERBEROS_FILE = "-Djava.security.krb5.conf="
_TOKEN_FILES = tuple(
    f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.{kind}=" for kind in ("files", "urls")
)


def parse_login_file(text: str) -> dict[str, list[JaasLine]]:
    """The entries of each section; ValueError says what is wrong with the file."""
    sections: dict[str, list[JaasLine]] = {}
    pieces = _pieces(text)
    for name in pieces:
        if name in _MARKS or next(pieces, None) != "{":
            raise ValueError("its sections are not of the form name { entries };")
        sections[name.strip("\"'")] = list(_entries(pieces))
        if next(pieces, None) != ";":
            raise ValueError("a section of it does not end with };")
    return sections


def _entries(pieces: Iterator[str]) -> Iterator[JaasLine]:
    """What is left of a section, its closing brace included."""
    entry: list[str] = []
    for piece in pieces:
        if piece == "}" and entry:
            raise ValueError("an entry of it does not end with a semicolon")
        if piece == "}":
            return
        entry.append(piece)
        if piece == ";":
            yield parse_jaas(" ".join(entry))
            entry.clear()
    raise ValueError("a section of it does not end with };")


def _pieces(text: str) -> Iterator[str]:
    """Words, quoted texts and marks; what lies between them says nothing."""
    for found in _PIECE.finditer(text):
        if found.lastgroup not in ("comment", "space"):
            yield found.group()


def login_file_of(options: str) -> str | None:
    """The file that options of a Java program name, as in KAFKA_OPTS; None if they name none."""
    named = _named(options, _LOGIN_FILE)
    return None if named is None else named.lstrip("=").removeprefix("file:")


def kerberos_file_of(options: str) -> str | None:
    """The krb5.conf that options of a Java program name; None if they name none."""
    return _named(options, _KERBEROS_FILE)


def token_files_of(options: str) -> list[str]:
    """The files for logins with tokens that options of a Java program allow."""
    lists = [_named(options, option) or "" for option in _TOKEN_FILES]
    named = [one.strip() for listed in lists for one in listed.split(",")]
    return [one.removeprefix("file:").replace("///", "/") for one in named if one]


def _named(options: str, option: str) -> str | None:
    try:
        words = shlex.split(options)
    except ValueError:
        words = options.split()
    return next(
        (one.removeprefix(option) for one in reversed(words) if one.startswith(option)), None
    )
