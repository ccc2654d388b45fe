# SPDX-License-Identifier: Apache-2.0
"""Parses `sasl.jaas.config` and JAAS login files, and lists the supported Java classes.

The value of `sasl.jaas.config`:

    <login module> <flag> (<option>=<value>)* ;

Kafka parses it with Java's StreamTokenizer. Words end at white space, quotes, `;`, `=` and `/`. A
single `/` starts a comment, so paths and base64 need quotes. A quoted string ends at its quote or
at the end of the line, and has C's escapes.

A login file (`-Djava.security.auth.login.config`) has sections of such entries:

    <name> {
        <login module> <flag> (<option>=<value>)* ;
        ...
    };

Errors never quote the text: it contains passwords, and a misplaced quote moves them anywhere.

`SUPPORTED_JAVA_CLASSES` lists the classes that this package replaces. Other classes are user code
that cannot run here, so their keys are rejected.
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
    SaslMechanism.OAUTHBEARER: (_OAUTH,),  # also with Strimzi's callback handler
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
_UNCLOSED_SECTION = "a section does not end with };"
_LOGIN_FILE = "-Djava.security.auth.login.config="
_KERBEROS_FILE = "-Djava.security.krb5.conf="
_TOKEN_FILES = tuple(
    f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.{kind}=" for kind in ("files", "urls")
)

_KAFKA = "org.apache.kafka.common.security"
_SHADED = "kafkashaded."  # prefix of Kafka's classes on some Spark platforms
_STRIMZI_HANDLER = "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"
IAM_BEARER_HANDLER = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
_MSK_HANDLER = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
_OAUTH_PACKAGE = f"{_KAFKA}.oauthbearer"
_RETRIEVERS = ("ClientCredentialsJwtRetriever", "FileJwtRetriever", "JwtBearerJwtRetriever")
# Key -> the classes that this package replaces.
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
    """A login module and its options; `repr` hides them."""

    module: str
    flag: str  # in lower case
    options: dict[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class _JaasToken:
    """A word or a quoted string; `text` is None for a punctuation mark."""

    mark: str
    text: str | None = None


def expected_modules(mechanism: SaslMechanism) -> tuple[str, ...]:
    """Return the login modules of a mechanism, the most common one first."""
    return _MODULES[mechanism]


def parse_jaas(text: str) -> JaasEntry:
    """Parse a line with one entry. Raises ValueError, which does not quote the line."""
    tokens = _tokens(text)
    module = next(tokens, None)
    if module is None:
        raise ValueError("it is empty; it must start with the class name of a login module")
    if module.text is None or not _CLASS_NAME.fullmatch(module.text):
        raise ValueError("it does not start with the class name of a login module")
    line = JaasEntry(module.text, _flag(next(tokens, None)), _options(tokens))
    if next(tokens, None) is not None:
        raise ValueError("there is text after the semicolon; only one login module is supported")
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
                f'option {number} is not of the form name="value"; put a value with spaces or any '
                "of / = ; ' into double quotes, and end the line with a semicolon"
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
    """Whether Kafka's tokenizer counts it as a word character."""
    return char > " " and char not in "/\"';=" and not "\x81" <= char <= "\x9f"


def _after_comment(text: str, at: int) -> int:
    if text.startswith("/*", at):
        end = text.find("*/", at + 2)
        return len(text) if end < 0 else end + 2
    at += 2  # Java skips the second character even if it is a line end
    while at < len(text) and text[at] not in _LINE_ENDS:
        at += 1
    return at


def _quoted(text: str, at: int) -> tuple[str, int]:
    """Return the content of a quoted string, and where the next token starts."""
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
    return name.removeprefix(_SHADED) in SUPPORTED_JAVA_CLASSES[key]


def jwt_retriever(name: str) -> str:
    """Return the simple name of a JWT retriever class; empty for the default one."""
    found = name.rpartition(".")[2]
    return found if found in _RETRIEVERS else ""


def module_fits(mechanism: SaslMechanism, module: str) -> bool:
    return module.removeprefix(_SHADED) in expected_modules(mechanism)


def mechanisms_of(module: str) -> list[str]:
    return [one.value for one in SaslMechanism if module_fits(one, module)]


def parse_jaas_file(text: str) -> dict[str, list[JaasEntry]]:
    """Return the entries by section. Raises ValueError, which does not quote the file."""
    sections: dict[str, list[JaasEntry]] = {}
    pieces = _pieces(text)
    for name in pieces:
        if name in _MARKS or next(pieces, None) != "{":
            raise ValueError("its sections must have the form name { entries };")
        sections[name.strip("\"'")] = list(_entries(pieces))
        if next(pieces, None) != ";":
            raise ValueError(_UNCLOSED_SECTION)
    return sections


def _entries(pieces: Iterator[str]) -> Iterator[JaasEntry]:
    """Parse the rest of a section, including its closing brace."""
    entry: list[str] = []
    for piece in pieces:
        if piece == "}" and entry:
            raise ValueError("an entry does not end with a semicolon")
        if piece == "}":
            return
        entry.append(piece)
        if piece == ";":
            yield parse_jaas(" ".join(entry))
            entry.clear()
    raise ValueError(_UNCLOSED_SECTION)


def _pieces(text: str) -> Iterator[str]:
    """Yield words, quoted strings and marks, without comments and white space."""
    for found in _PIECE.finditer(text):
        if found.lastgroup not in ("comment", "space"):
            yield found.group()


def jaas_file_in_opts(options: str) -> str | None:
    """Return the login file that JVM options such as KAFKA_OPTS name, else None."""
    named = _option_value(options, _LOGIN_FILE)
    return None if named is None else named.lstrip("=").removeprefix("file:")


def krb5_conf_in_opts(options: str) -> str | None:
    """Return the krb5.conf that JVM options name, else None."""
    return _option_value(options, _KERBEROS_FILE)


def token_files_in_opts(options: str) -> list[str]:
    """Return the token files that JVM options allow."""
    lists = [_option_value(options, option) or "" for option in _TOKEN_FILES]
    named = [one.strip() for listed in lists for one in listed.split(",")]
    return [one.removeprefix("file:").replace("///", "/") for one in named if one]


def _option_value(options: str, option: str) -> str | None:
    try:
        arguments = shlex.split(options)
    except ValueError:
        arguments = options.split()
    return next(
        (one.removeprefix(option) for one in reversed(arguments) if one.startswith(option)), None
    )
