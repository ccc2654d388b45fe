# SPDX-License-Identifier: Apache-2.0
"""The line in `sasl.jaas.config`, read as Java reads it.

    <login module> <flag> (<option>=<value>)* ;

Kafka uses Java's StreamTokenizer, and its habits are part of the format: words end at white space,
quotes, `;`, `=` and `/`; a `/` begins a comment even without a second one, so paths and base64
need quotes; a quoted text ends at its quote or at the end of its line, and knows the escapes of C.
No sentence here repeats what it found: the line holds passwords, and a misplaced quote puts them
anywhere.

Java classes that files name in security keys: which of them we are, by name.

Each stands for something that is done here without Java. Any other is code of somebody's that
cannot be run, and without which the login would not be what was meant.

A JAAS login file, as `-Djava.security.auth.login.config` names it.

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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sparkmirror.security.settings import SaslMechanism

FLAGS = ("required", "requisite", "sufficient", "optional")

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
_KERBEROS_IBM = "com.ibm.security.auth.module.Krb5LoginModule"
_MSK_IAM = "software.amazon.msk.auth.iam.IAMLoginModule"

_MODULES = {
    SaslMechanism.PLAIN: (_PLAIN,),
    SaslMechanism.SCRAM_SHA_256: (_SCRAM,),
    SaslMechanism.SCRAM_SHA_512: (_SCRAM,),
    SaslMechanism.OAUTHBEARER: (_OAUTH,),  # Strimzi's handler goes with the same module
    SaslMechanism.GSSAPI: (_KERBEROS, _KERBEROS_IBM),
    SaslMechanism.AWS_MSK_IAM: (_MSK_IAM,),
}

_CLASS_NAME = re.compile(r"[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)*", re.ASCII)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_LINE_ENDS = ("\n", "\r")
_OCTAL = re.compile(r"[0-3]?[0-7]{1,2}")

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

_KAFKA = "org.apache.kafka.common.security"
_SHADED = "kafkashaded."  # as some Spark platforms call Kafka's own
_STRIMZI_HANDLER = "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"
IAM_BEARER_HANDLER = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
_MSK_HANDLER = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
_OAUTH_PACKAGE = f"{_KAFKA}.oauthbearer"
_RETRIEVERS = ("ClientCredentialsJwtRetriever", "FileJwtRetriever", "JwtBearerJwtRetriever")
# Key -> the classes whose work is done here.
SUPPORTED_JAVA_CLASSES: Mapping[str, tuple[str, ...]] = {
    "sasl.login.callback.handler.class": (
        f"{_OAUTH_PACKAGE}.OAuthBearerLoginCallbackHandler",
        f"{_OAUTH_PACKAGE}.secured.OAuthBearerLoginCallbackHandler",
        f"{_OAUTH_PACKAGE}.internals.secured.OAuthBearerLoginCallbackHandler",
        _STRIMZI_HANDLER,
        IAM_BEARER_HANDLER,
        f"{_KAFKA}.authenticator.AbstractLogin$DefaultLoginCallbackHandler",
    ),
    "sasl.client.callback.handler.class": (
        _MSK_HANDLER,
        f"{_KAFKA}.authenticator.SaslClientCallbackHandler",
        f"{_OAUTH_PACKAGE}.internals.OAuthBearerSaslClientCallbackHandler",
    ),
    "sasl.login.class": (
        f"{_KAFKA}.authenticator.DefaultLogin",
        f"{_KAFKA}.kerberos.KerberosLogin",
        f"{_OAUTH_PACKAGE}.internals.OAuthBearerRefreshingLogin",
    ),
    "sasl.oauthbearer.jwt.retriever.class": (
        f"{_OAUTH_PACKAGE}.DefaultJwtRetriever",
        *(f"{_OAUTH_PACKAGE}.{name}" for name in _RETRIEVERS),
    ),
    "ssl.engine.factory.class": (f"{_KAFKA}.ssl.DefaultSslEngineFactory",),
}


@dataclass(frozen=True, slots=True)
class JaasEntry:
    """A login module and its options, whose values are nobody's business."""

    module: str
    flag: str  # in lower case
    options: dict[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class _JaasToken:
    """A word or a quoted text; `text` is None for a mark that stands alone."""

    mark: str
    text: str | None = None


def expected_modules(mechanism: SaslMechanism) -> tuple[str, ...]:
    """The login modules that serve a mechanism; the first one is the usual one."""
    return _MODULES[mechanism]


def parse_jaas(text: str) -> JaasEntry:
    """The one entry of a line; ValueError says what is wrong without repeating any of it."""
    tokens = _tokens(text)
    module = next(tokens, None)
    if module is None:
        raise ValueError("it is empty; it begins with the class of a login module")
    if module.text is None or not _CLASS_NAME.fullmatch(module.text):
        raise ValueError("it does not begin with the class name of a login module")
    line = JaasEntry(module.text, _flag(next(tokens, None)), _options(tokens))
    if next(tokens, None) is not None:
        raise ValueError("there is something after the semicolon; it takes one login module")
    return line


def _flag(token: _JaasToken | None) -> str:
    flag = token.text.lower() if token is not None and token.text is not None else None
    if flag not in FLAGS:
        raise ValueError(f"the login module is not followed by one of {', '.join(FLAGS)}")
    return flag


def _options(tokens: Iterator[_JaasToken]) -> dict[str, str]:
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


def _tokens(text: str) -> Iterator[_JaasToken]:
    at = 0
    while at < len(text):
        char = text[at]
        if char <= " ":
            at += 1
        elif char == "/":
            at = _after_comment(text, at)
        elif char in "\"'":
            content, at = _quoted(text, at)
            yield _JaasToken(char, content)
        elif _is_word(char):
            start = at
            while at < len(text) and _is_word(text[at]):
                at += 1
            yield _JaasToken("word", text[start:at])
        else:
            at += 1
            yield _JaasToken(char)


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


def is_supported_class(key: str, name: str) -> bool:
    """Whether what the class does is done here."""
    return name.removeprefix(_SHADED) in SUPPORTED_JAVA_CLASSES[key]


def jwt_retriever(name: str) -> str:
    """Which of Kafka's classes that get tokens it is; empty: the one that looks for itself."""
    found = name.rpartition(".")[2]
    return found if found in _RETRIEVERS else ""


def module_fits(mechanism: SaslMechanism, module: str) -> bool:
    """Whether the login module is one of the mechanism's."""
    return module.removeprefix(_SHADED) in expected_modules(mechanism)


def mechanisms_of(module: str) -> list[str]:
    """The mechanisms that a login module is for."""
    return [one.value for one in SaslMechanism if module_fits(one, module)]


def parse_jaas_file(text: str) -> dict[str, list[JaasEntry]]:
    """The entries of each section; ValueError says what is wrong with the file."""
    sections: dict[str, list[JaasEntry]] = {}
    pieces = _pieces(text)
    for name in pieces:
        if name in _MARKS or next(pieces, None) != "{":
            raise ValueError("its sections are not of the form name { entries };")
        sections[name.strip("\"'")] = list(_entries(pieces))
        if next(pieces, None) != ";":
            raise ValueError("a section of it does not end with };")
    return sections


def _entries(pieces: Iterator[str]) -> Iterator[JaasEntry]:
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


def jaas_file_in_opts(options: str) -> str | None:
    """The file that options of a Java program name, as in KAFKA_OPTS; None if they name none."""
    named = _named(options, _LOGIN_FILE)
    return None if named is None else named.lstrip("=").removeprefix("file:")


def krb5_conf_in_opts(options: str) -> str | None:
    """The krb5.conf that options of a Java program name; None if they name none."""
    return _named(options, _KERBEROS_FILE)


def token_files_in_opts(options: str) -> list[str]:
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
