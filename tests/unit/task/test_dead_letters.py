# SPDX-License-Identifier: Apache-2.0
"""A refused record keeps what it was and says where it came from and why it is here."""

from __future__ import annotations

import hashlib
import json

from sparkmirror.model import TopicPartition
from sparkmirror.task.dead_letters import (
    DeadLetterForm,
    DeadLetterWriter,
    RefusalContext,
    RefusedRecord,
    dead_letter,
)
from sparkmirror.wire.record_batch import stamp
from support.data.record_batches import Record, decode

REFUSAL = RefusalContext(
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


def test_a_letter_shows_where_it_came_from_and_why() -> None:
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
    silent = RefusalContext("a->b", REFUSAL.source, REFUSAL.target, 32, "")
    assert "message.timestamp" in told(dead_letter(RECORD, silent).headers)["reason"]


def test_a_value_that_cannot_fit_is_its_size_and_hash() -> None:
    """In the value and in the headers; the key stays."""
    letter = dead_letter(RECORD, REFUSAL, DeadLetterForm.WITHOUT_VALUE)
    expected = {"bytes": 50, "sha256": hashlib.sha256(b"value" * 10).hexdigest()}
    assert letter.key == b"key"
    assert json.loads(letter.value or b"") == expected
    names = told(letter.headers)
    assert (names["value.bytes"], names["value.sha256"]) == ("50", expected["sha256"])
    assert list(letter.headers[:2]) == list(RECORD.headers)


def test_the_last_form_always_fits() -> None:
    """A huge key and huge headers are represented as well."""
    huge = RefusedRecord(1, 2, b"k" * 5000, None, [(b"h", b"x" * 100_000)])
    letter = dead_letter(huge, REFUSAL, DeadLetterForm.HEADERS_ONLY)
    assert json.loads(letter.key or b"")["bytes"] == 5000
    assert letter.value is None
    assert told(letter.headers)["headers.dropped"] == "1"
    assert sum(len(key) + len(value or b"") for key, value in letter.headers) < 1000


# --- Letters that do not fit are written again with less in them; each sender hears of its own.


TOO_LARGE = RefusalContext("a->b", TopicPartition("t", 0), TopicPartition("a.t", 0), 10, "")


class Topic:
    """A side topic whose answers the test gives."""

    def __init__(self) -> None:
        self.batches: list[list[Record]] = []
        self.written = self.acked = 0

    def write(self, batch: bytearray, count: int) -> int:
        """Keep what was written."""
        stamp(memoryview(batch), -1, -1, -1)
        self.batches.append(decode(batch))
        self.written += count
        return self.written

    def retract(self, count: int) -> None:
        """As the real one."""
        self.written -= count

    def is_acked(self, ticket: int) -> bool:
        """As far as the test says."""
        return self.acked >= ticket

    def accept(self) -> None:
        """Everything that was written has arrived."""
        self.acked = self.written


def records(*values: bytes) -> list[RefusedRecord]:
    """Refused records with these values."""
    return [RefusedRecord(n, 5, b"k%d" % n, value, ()) for n, value in enumerate(values)]


def test_letters_go_out_one_after_the_other() -> None:
    """The second is not written before the first has arrived."""
    topic, done = Topic(), list[str]()
    writer = DeadLetterWriter(topic)  # type: ignore[arg-type]
    writer.send(records(b"a", b"b"), TOO_LARGE, lambda: done.append("first"))
    writer.send(records(b"c"), TOO_LARGE, lambda: done.append("second"))
    assert [[one.value for one in batch] for batch in topic.batches] == [[b"a", b"b"]]
    topic.accept()
    writer.check_acks()
    assert done == ["first"]
    assert [one.value for one in topic.batches[-1]] == [b"c"]
    topic.accept()
    writer.check_acks()
    assert (done, writer.is_idle) == (["first", "second"], True)


def test_what_does_not_fit_together_is_tried_alone_and_then_without_its_value() -> None:
    """The sender is told when the last of its records has arrived."""
    topic, done = Topic(), list[bool]()
    writer = DeadLetterWriter(topic)  # type: ignore[arg-type]
    writer.send(records(b"a", b"b" * 999), TOO_LARGE, lambda: done.append(True))
    assert writer.shrink_refused()
    writer.check_acks()
    topic.accept()
    writer.check_acks()
    assert [one.value for one in topic.batches[-1]] == [b"b" * 999]
    assert writer.shrink_refused()
    writer.check_acks()
    assert b'"bytes":999' in (topic.batches[-1][0].value or b"")
    assert topic.batches[-1][0].key == b"k1"
    assert not done
    topic.accept()
    writer.check_acks()
    assert (done, writer.is_idle) == ([True], True)


def test_the_barest_letter_is_not_given_up() -> None:
    """There is no other form: it is written again until the topic takes it."""
    writer = DeadLetterWriter(Topic())  # type: ignore[arg-type]
    writer.send(records(b"a"), TOO_LARGE, lambda: None)
    for expected in (True, True, False):
        assert writer.shrink_refused() is expected
        writer.check_acks()
    assert not writer.is_idle
