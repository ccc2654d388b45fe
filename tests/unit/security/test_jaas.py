# SPDX-License-Identifier: Apache-2.0
"""A JAAS line means here what it means to Kafka's Java clients."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.security.jaas import JaasEntry, expected_modules, parse_jaas
from sparkmirror.security.settings import SaslMechanism

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SECRET = "hunter2-hunter2"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ('username="a" password="b"', {"username": "a", "password": "b"}),
        ("username='a' password=b", {"username": "a", "password": "b"}),
        ("username = a\n  password\t=\r\n'b c'", {"username": "a", "password": "b c"}),
        ('password="it\'s; a=b /c"', {"password": "it's; a=b /c"}),
        (r'password="\"\\\t\101\1018\47x"', {"password": "\"\\\tAA8'x"}),
        (r'password="\477\8"', {"password": "'78"}),
        ("password=äöü€", {"password": "äöü€"}),
        ('a="1" a="2"', {"a": "2"}),
        ("a=1 // a comment\n b=2 /* another\n one */ c=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1 / one slash is enough\n b=2", {"a": "1", "b": "2"}),
        ("a=1 /\n swallows a line\n b=2", {"a": "1", "b": "2"}),
        ('a="ends with its line\n b=2', {"a": "ends with its line", "b": "2"}),
        ('"a b"=1', {"a b": "1"}),
        ('a=""', {"a": ""}),
        ("", {}),
    ],
)
def test_options_are_read_as_java_reads_them(options: str, expected: dict[str, str]) -> None:
    """Each of these was put before Java's StreamTokenizer with Kafka's settings."""
    assert parse_jaas(f"{PLAIN} required {options};") == JaasEntry(PLAIN, "required", expected)


def test_the_flag_may_be_in_any_case() -> None:
    """Java folds it; what comes out is in lower case."""
    assert parse_jaas(f"{PLAIN} SuFFicient;").flag == "sufficient"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("", "empty"),
        (" // nothing\n", "empty"),
        (f"{SECRET}; required;", "class name"),
        (f"{PLAIN}", "required, requisite"),
        (f'{PLAIN} "{SECRET}" a=b;', "required, requisite"),
        (f"{PLAIN} required password={SECRET}", "semicolon"),
        (f"{PLAIN} required password={SECRET}==;", "option 2 is not"),
        (f"{PLAIN} required password={SECRET} {SECRET};", "option 2 is not"),
        (f"{PLAIN} required password=/{SECRET};", "option 1 is not"),
        (f"{PLAIN} required password;", "option 1 is not"),
        (f"{PLAIN} required password==;", "option 1 is not"),
        (f"{PLAIN} required; {SECRET}", "after the semicolon"),
    ],
)
def test_what_is_wrong_is_reported_without_repeating_it(line: str, sentence: str) -> None:
    """A password may be anywhere in a line that is broken."""
    with pytest.raises(ValueError, match=sentence) as caught:
        parse_jaas(line)
    assert SECRET not in str(caught.value)


def test_values_are_not_in_the_repr() -> None:
    """A JaasEntry can be logged."""
    assert SECRET not in repr(parse_jaas(f'{PLAIN} required password="{SECRET}";'))


def test_every_mechanism_has_its_module() -> None:
    """The usual one comes first."""
    assert expected_modules(SaslMechanism.PLAIN) == (PLAIN,)
    assert all(expected_modules(mechanism) for mechanism in SaslMechanism)


@settings(max_examples=60)
@given(st.text(st.sampled_from("ab.\\\"'/=*; \n\r0\x85\udc80"), max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing but ValueError, and no value in it."""
    for line in (text, f"{PLAIN} required {text}"):
        try:
            parsed = parse_jaas(line)
        except ValueError as error:
            assert str(error)  # noqa: PT017 - either outcome is right
        else:
            assert parsed.module


@settings(max_examples=60)
@given(st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=12), max_size=4))
def test_whatever_is_quoted_comes_back(options: dict[str, str]) -> None:
    """Quotes and escapes carry every text."""

    def quoted(text: str) -> str:
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r") + '"'

    pairs = " ".join(f"{quoted(name)}={quoted(value)}" for name, value in options.items())
    assert parse_jaas(f"{PLAIN} required {pairs};").options == options
