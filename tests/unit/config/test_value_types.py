# SPDX-License-Identifier: Apache-2.0
"""Texts become values as Kafka's config types do it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.config.keys.value_types import (
    ConfigType,
    InvalidValueError,
    Validator,
    at_least,
    between,
    bootstrap_address,
    connector_name,
    list_of,
    not_empty,
    one_of,
    parse_list,
    parse_value,
    valid_topic_characters,
)


@pytest.mark.parametrize(
    ("value_type", "text", "value"),
    [
        (ConfigType.BOOLEAN, " TRUE ", True),
        (ConfigType.BOOLEAN, "False", False),
        (ConfigType.INT, " 42 ", 42),
        (ConfigType.INT, "-1", -1),
        (ConfigType.SHORT, "32767", 32767),
        (ConfigType.LONG, "9223372036854775807", 2**63 - 1),
        (ConfigType.STRING, "  x y ", "x y"),
        (ConfigType.LIST, "", ()),
        (ConfigType.LIST, "  ", ()),
        (ConfigType.LIST, " a , b,c ", ("a", "b", "c")),
        (ConfigType.LIST, "a,b,a", ("a", "b")),
        (ConfigType.PASSWORD, " secret\n", "secret"),
    ],
)
def test_texts_are_trimmed_and_parsed(value_type: ConfigType, text: str, value: object) -> None:
    """Blanks around a value never matter."""
    assert value == parse_value(value_type, text)


@pytest.mark.parametrize(
    ("value_type", "text"),
    [
        (ConfigType.BOOLEAN, "yes"),
        (ConfigType.BOOLEAN, ""),
        (ConfigType.INT, "1.5"),
        (ConfigType.INT, "1_000"),
        (ConfigType.INT, "2147483648"),
        (ConfigType.SHORT, "32768"),
        (ConfigType.LONG, "9223372036854775808"),
        (ConfigType.INT, ""),
        (ConfigType.LIST, "a,,b"),
        (ConfigType.LIST, "a,"),
        (ConfigType.LIST, ","),
    ],
)
def test_wrong_texts_are_refused(value_type: ConfigType, text: str) -> None:
    """Out of range, not a number, a comma too many."""
    with pytest.raises(InvalidValueError):
        parse_value(value_type, text)


@given(st.lists(st.text("abc", min_size=1), min_size=1))
def test_lists_keep_order_and_tell_repetitions(items: list[str]) -> None:
    """Spaces after commas do not matter."""
    unique, twice = parse_list(" , ".join(items))
    assert list(dict.fromkeys(items)) == list(unique)
    assert {item for item in items if items.count(item) > 1} == set(twice)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kafka-1:9092", "kafka-1:9092"),
        ("10.0.0.1:9092", "10.0.0.1:9092"),
        ("[::1]:9092", "[::1]:9092"),
        ("PLAINTEXT://kafka_1:9092", "kafka_1:9092"),
    ],
)
def test_addresses_are_host_and_port(text: str, expected: str) -> None:
    """A leading protocol is accepted, as Java accepts it."""
    assert expected == bootstrap_address(text)


@pytest.mark.parametrize("text", ["kafka", "kafka:", ":9092", "kafka:0", "kafka:70000", "a b:1"])
def test_an_address_without_host_or_port_is_refused(text: str) -> None:
    """The rule is said without the value, which may be secret."""
    with pytest.raises(InvalidValueError) as error:
        bootstrap_address(text)
    assert error.value.rule == "must list host:port pairs"


def test_aliases_must_fit_into_topic_names() -> None:
    """Blanks and slashes would make names that Kafka refuses."""
    valid_topic_characters("us-east.1_a")
    for alias in ("us east", "a/b", "é", ""):
        with pytest.raises(InvalidValueError):
            valid_topic_characters(alias)


@pytest.mark.parametrize(
    ("text", "value"), [("0.8", 0.8), (" -1 ", -1.0), (".5", 0.5), ("2.", 2.0), ("1e-3", 0.001)]
)
def test_fractions_are_read(text: str, value: float) -> None:
    """As Java reads a double, short of its odder spellings."""
    assert value == parse_value(ConfigType.DOUBLE, text)


@pytest.mark.parametrize("text", ["", "x", "1,5", "nan", "0x1p3", "."])
def test_fractions_that_are_none_are_refused(text: str) -> None:
    """A comma is no point."""
    with pytest.raises(InvalidValueError, match="must be a number") as caught:
        parse_value(ConfigType.DOUBLE, text)
    assert caught.value.java == "Not a number of type DOUBLE"


@pytest.mark.parametrize(
    ("check", "value", "java"),
    [
        (at_least(1), 0, "Value must be at least 1"),
        (at_least(1, "a hint"), None, "Value must be non-null"),
        (between(1, 5), 6, "Value must be no more than 5"),
        (between(1, 5), 0, "Value must be at least 1"),
        (between(1, 5), None, "Value must be non-null"),
        (one_of("a", "b"), "A", "String must be one of: a, b"),
        (one_of("a", "b", ignore_case=True), "c", "String must be one of (case insensitive): A, B"),
        (connector_name, "", "String may not be empty"),
        (
            connector_name,
            "a\x00b\x7f",
            "String may not contain control sequences but had the following ASCII chars: 0, 127",
        ),
        (not_empty, "", "String must be non-empty"),
        (list_of("a", "b"), ("c",), "String must be one of: a, b"),
        (valid_topic_characters, "a b", None),
    ],
)
def test_a_refused_value_is_also_said_in_kafkas_words(
    check: Validator, value: object, java: str | None
) -> None:
    """Or in ours, where Kafka has no such rule."""
    with pytest.raises(InvalidValueError) as caught:
        check(value)
    assert caught.value.java == (caught.value.rule if java is None else java)


@pytest.mark.parametrize("text", ["POLL", "poll", "Poll"])
def test_case_may_be_ignored(text: str) -> None:
    """Whatever the case of what is allowed."""
    one_of("poll", ignore_case=True)(text)
    one_of("POLL", ignore_case=True)(text)


@pytest.mark.parametrize("name", ["x", "a b", "a/b", "späti", "..", "x" * 300])
def test_a_connector_may_be_called_almost_anything(name: str) -> None:
    """Connect refuses nothing but control characters."""
    connector_name(name)
