# SPDX-License-Identifier: Apache-2.0
"""Texts become values as Kafka's config types do it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.config.value_types import (
    Rejected,
    Type,
    address,
    parse_list,
    parse_value,
    topic_characters,
)


@pytest.mark.parametrize(
    ("value_type", "text", "value"),
    [
        (Type.BOOLEAN, " TRUE ", True),
        (Type.BOOLEAN, "False", False),
        (Type.INT, " 42 ", 42),
        (Type.INT, "-1", -1),
        (Type.SHORT, "32767", 32767),
        (Type.LONG, "9223372036854775807", 2**63 - 1),
        (Type.STRING, "  x y ", "x y"),
        (Type.LIST, "", ()),
        (Type.LIST, "  ", ()),
        (Type.LIST, " a , b,c ", ("a", "b", "c")),
        (Type.LIST, "a,b,a", ("a", "b")),
        (Type.PASSWORD, " secret\n", "secret"),
    ],
)
def test_texts_are_trimmed_and_parsed(value_type: Type, text: str, value: object) -> None:
    """Blanks around a value never matter."""
    assert value == parse_value(value_type, text)


@pytest.mark.parametrize(
    ("value_type", "text"),
    [
        (Type.BOOLEAN, "yes"),
        (Type.BOOLEAN, ""),
        (Type.INT, "1.5"),
        (Type.INT, "1_000"),
        (Type.INT, "2147483648"),
        (Type.SHORT, "32768"),
        (Type.LONG, "9223372036854775808"),
        (Type.INT, ""),
        (Type.LIST, "a,,b"),
        (Type.LIST, "a,"),
        (Type.LIST, ","),
    ],
)
def test_wrong_texts_are_refused(value_type: Type, text: str) -> None:
    """Out of range, not a number, a comma too many."""
    with pytest.raises(Rejected):
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
    assert expected == address(text)


@pytest.mark.parametrize("text", ["kafka", "kafka:", ":9092", "kafka:0", "kafka:70000", "a b:1"])
def test_an_address_without_host_or_port_is_refused(text: str) -> None:
    """The rule is said without the value, which may be secret."""
    with pytest.raises(Rejected) as error:
        address(text)
    assert error.value.rule == "must list host:port pairs"


def test_aliases_must_fit_into_topic_names() -> None:
    """Blanks and slashes would make names that Kafka refuses."""
    topic_characters("us-east.1_a")
    for alias in ("us east", "a/b", "é", ""):
        with pytest.raises(Rejected):
            topic_characters(alias)
