# SPDX-License-Identifier: Apache-2.0
"""A refused record keeps what it was and says where it came from and why it is here."""

from __future__ import annotations

import hashlib
import json

from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.dead_letters import Form, Refusal, RefusedRecord, dead_letter

REFUSAL = Refusal(
    "a->b", TopicPartition("orders", 4), TopicPartition("a.orders", 4), 10, "it is too big"
)
RECORD = RefusedRecord(
    77, 1_700_000_000_000, b"key", b"value" * 10, [(b"\xff", b"1"), (b"\xff", None)]
)


def told(headers: object) -> dict[str, str]:
    """Our own headers, by the name behind the prefix."""
    return {
        key.decode().removeprefix("sparkmirror."): value.decode()
        for key, value in headers  # type: ignore[attr-defined]
        if key.startswith(b"sparkmirror.")
    }


def test_a_letter_keeps_the_record_as_it_was() -> None:
    """Key, value, and the original headers first, not UTF-8 and repeated ones included."""
    letter = dead_letter(RECORD, REFUSAL)
    assert (letter.key, letter.value) == (RECORD.key, RECORD.value)
    assert list(letter.headers[:2]) == list(RECORD.headers)


def test_a_letter_says_where_it_came_from_and_why() -> None:
    """As texts, which every tool shows."""
    assert told(dead_letter(RECORD, REFUSAL).headers) == {
        "flow": "a->b",
        "topic": "orders",
        "partition": "4",
        "offset": "77",
        "timestamp": "1700000000000",
        "target.topic": "a.orders",
        "error.code": "10",
        "error": "MESSAGE_TOO_LARGE",
        "reason": "it is too big",
    }


def test_without_the_brokers_words_there_are_ours() -> None:
    """A reason is never empty."""
    silent = Refusal("a->b", REFUSAL.source, REFUSAL.target, 32, "")
    assert "message.timestamp" in told(dead_letter(RECORD, silent).headers)["reason"]


def test_a_value_that_cannot_fit_is_its_size_and_hash() -> None:
    """In the value and in the headers; the key stays."""
    letter = dead_letter(RECORD, REFUSAL, Form.WITHOUT_VALUE)
    expected = {"bytes": 50, "sha256": hashlib.sha256(b"value" * 10).hexdigest()}
    assert letter.key == b"key"
    assert json.loads(letter.value or b"") == expected
    names = told(letter.headers)
    assert (names["value.bytes"], names["value.sha256"]) == ("50", expected["sha256"])
    assert list(letter.headers[:2]) == list(RECORD.headers)


def test_the_last_form_always_fits() -> None:
    """A huge key and huge headers are represented as well."""
    huge = RefusedRecord(1, 2, b"k" * 5000, None, [(b"h", b"x" * 100_000)])
    letter = dead_letter(huge, REFUSAL, Form.BARE)
    assert json.loads(letter.key or b"")["bytes"] == 5000
    assert letter.value is None
    assert told(letter.headers)["headers.dropped"] == "1"
    assert sum(len(key) + len(value or b"") for key, value in letter.headers) < 1000
