# SPDX-License-Identifier: Apache-2.0
"""The line in `sasl.jaas.config`, read as Java reads it.

    <login module> <flag> (<option>=<value>)* ;

Kafka uses Java's StreamTokenizer, and its habits are part of the format: words end at white space,
quotes, `;`, `=` and `/`; a `/` begins a comment even without a second one, so paths and base64
need quotes; a quoted text ends at its quote or at the end of its line, and knows the escapes of C.
No sentence here repeats what it found: the line holds passwords, and a misplaced quote puts them
anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from sparkmirror.security.settings import Mechanism

FLAGS = ("required", "requisite", "sufficient", "optional")

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
_KERBEROS_IBM = "com.ibm.security.auth.module.Krb5LoginModule"
_MSK_IAM = "software.amazon.msk.auth.iam.IAMLoginModule"

_MODULES = {
    Mechanism.PLAIN: (_PLAIN,),
    Mechanism.SCRAM_SHA_256: (_SCRAM,),
    Mechanism.SCRAM_SHA_512: (_SCRAM,),
    Mechanism.OAUTHBEARER: (_OAUTH,),  # Strimzi's handler goes with the same module
    Mechanism.GSSAPI: (_KERBEROS, _KERBEROS_IBM),
    Mechanism.AWS_MSK_IAM: (_MSK_IAM,),
}

_CLASS_NAME = re.compile(r"[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)*", re.ASCII)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_LINE_ENDS = ("\n", "\r")
_OCTAL = re.compile(r"[0-3]?[0-7]{1,2}")


@dataclass(frozen=True, slots=True)
class JaasLine:
    """A login module and its options, whose values are nobody's business."""

    module: str
    flag: str  # in lower case
    options: dict[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Token:
    """A word or a quoted text; `text` is None for a mark that stands alone."""

    mark: str
    text: str | None = None


def expected_modules(mechanism: Mechanism) -> tuple[str, ...]:
    """The login modules that serve a mechanism; the first one is the usual one."""
    return _MODULES[mechanism]


def parse_jaas(text: str) -> JaasLine:
    """The one entry of a line; ValueError says what is wrong without repeating any of it."""
    tokens = _tokens(text)
    module = next(tokens, None)
    if module is None:
        raise ValueError("it is empty; it begins with the class of a login module")
    if module.text is None or not _CLASS_NAME.fullmatch(module.text):
        raise ValueError("it does not begin with the class name of a login module")
    line = JaasLine(module.text, _flag(next(tokens, None)), _options(tokens))
    if next(tokens, None) is not None:
        raise ValueError("there is something after the semicolon; it takes one login module")
    return line


def _flag(token: _Token | None) -> str:
    flag = token.text.lower() if token is not None and token.text is not None else None
    if flag not in FLAGS:
        raise ValueError(f"the login module is not followed by one of {', '.join(FLAGS)}")
    return flag


def _options(tokens: Iterator[_Token]) -> dict[str, str]:
    options: dict[str, str] = {}
    for number, name in enumerate(tokens, start=1):
        if name.mark == ";":
            return options
        equals = next(tokens, None)
        value = next(tokens, None)
        if (
            name.text is None
            or equals is None
            or equals.mark != "="
            or value is None
            or value.text is None
        ):
            raise ValueError(
                f'option {number} is not of the form name="value"; a value with spaces or any of '
                "/ = ; ' belongs in double quotes, and the line ends with a semicolon"
            )
        options[name.text] = value.text
    raise ValueError("it does not end with a semicolon")


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        char = text[at]
        if char <= " ":
            at += 1
        elif char == "/":
            at = _after_comment(text, at)
        elif char in "\"'":
            content, at = _quoted(text, at)
            yield _Token(char, content)
        elif _is_word(char):
            start = at
            while at < len(text) and _is_word(text[at]):
                at += 1
            yield _Token("word", text[start:at])
        else:
            at += 1
            yield _Token(char)


def _is_word(char: str) -> bool:
    """As Kafka sets the tokenizer up: not the control characters of Latin-1, nor the marks."""
    return char > " " and char not in "/\"';=" and not "\x81" <= char <= "\x9f"


def _after_comment(text: str, at: int) -> int:
    if text.startswith("/*", at):
        end = text.find("*/", at + 2)
        return len(text) if end < 0 else end + 2
    at += 2  # whatever the second character is, Java does not look whether it ends the line
    while at < len(text) and text[at] not in _LINE_ENDS:
        at += 1
    return at


def _quoted(text: str, at: int) -> tuple[str, int]:
    """The content of a quoted text, and where the next token begins."""
    quote = text[at]
    at += 1
    parts: list[str] = []
    while at < len(text) and text[at] != quote and text[at] not in _LINE_ENDS:
        if text[at] != "\\" or at + 1 == len(text):
            parts.append(text[at])
            at += 1
        elif octal := _OCTAL.match(text, at + 1):
            parts.append(chr(int(octal.group(), 8)))
            at = octal.end()
        else:
            parts.append(_ESCAPES.get(text[at + 1], text[at + 1]))
            at += 2
    return "".join(parts), at + 1 if text[at : at + 1] == quote else at
