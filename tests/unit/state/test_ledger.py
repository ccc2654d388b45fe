# SPDX-License-Identifier: Apache-2.0
"""Ledger entries as records, and back."""

from __future__ import annotations

import json

import pytest

from sparkmirror.errors import WireError
from sparkmirror.state.incidents import Incident, IncidentKind
from sparkmirror.state.ledger import entry_for_incident, parse_entry

INCIDENT = Incident(
    IncidentKind.GAP, "größe", 3, 10, 19, 10, 'said "no"', 1_700_000_000_123, "continue"
)


def test_an_entry_comes_back_as_it_was_written() -> None:
    """Names beyond ASCII and quotation marks included."""
    entry = entry_for_incident("a->b", INCIDENT)
    assert parse_entry(entry.key(), entry.value()) == entry


def test_an_entry_is_plain_json() -> None:
    """People read it with any consumer; the key is what makes it the same entry again."""
    entry = entry_for_incident("a->b", INCIDENT)
    assert json.loads(entry.key()) == {
        "flow": "a->b", "topic": "größe", "partition": 3, "firstOffset": 10, "kind": "gap",
    }  # fmt: skip
    assert json.loads(entry.value()) == {
        "lastOffset": 19,
        "records": 10,
        "cause": 'said "no"',
        "policy": "continue",
        "time": "2023-11-14T22:13:20.123Z",
    }


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"no json", b"{}"),
        (b"[]", b"{}"),
        (b"{}", b"{}"),
        (b'{"flow":"a->b","topic":"t","partition":true,"firstOffset":1,"kind":"gap"}', b"{}"),
    ],
)
def test_what_is_no_entry_is_refused(key: bytes, value: bytes) -> None:
    """A foreign or malformed record."""
    with pytest.raises(WireError):
        parse_entry(key, value)


def test_kinds_of_a_newer_version_are_read() -> None:
    """The command prints unknown kinds by name."""
    entry = entry_for_incident("a->b", INCIDENT)
    newer = entry.key().replace(b'"gap"', b'"eclipse"')
    assert parse_entry(newer, entry.value()).kind == "eclipse"
