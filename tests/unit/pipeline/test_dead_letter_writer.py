# SPDX-License-Identifier: Apache-2.0
"""Letters that do not fit are written again with less in them; each sender hears of its own."""

from __future__ import annotations

from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.dead_letter_writer import DeadLetterWriter
from sparkmirror.pipeline.dead_letters import Refusal, RefusedRecord
from sparkmirror.wire.record_batch import stamp
from support.record_batches import Record, decode

REFUSAL = Refusal("a->b", TopicPartition("t", 0), TopicPartition("a.t", 0), 10, "")


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

    def withdrawn(self, count: int) -> None:
        """As the real one."""
        self.written -= count

    def has(self, ticket: int) -> bool:
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
    writer.send(records(b"a", b"b"), REFUSAL, lambda: done.append("first"))
    writer.send(records(b"c"), REFUSAL, lambda: done.append("second"))
    assert [[one.value for one in batch] for batch in topic.batches] == [[b"a", b"b"]]
    topic.accept()
    writer.look()
    assert done == ["first"]
    assert [one.value for one in topic.batches[-1]] == [b"c"]
    topic.accept()
    writer.look()
    assert (done, writer.is_idle) == (["first", "second"], True)


def test_what_does_not_fit_together_is_tried_alone_and_then_without_its_value() -> None:
    """The sender is told when the last of its records has arrived."""
    topic, done = Topic(), list[bool]()
    writer = DeadLetterWriter(topic)  # type: ignore[arg-type]
    writer.send(records(b"a", b"b" * 999), REFUSAL, lambda: done.append(True))
    assert writer.refused()
    writer.look()
    topic.accept()
    writer.look()
    assert [one.value for one in topic.batches[-1]] == [b"b" * 999]
    assert writer.refused()
    writer.look()
    assert b'"bytes":999' in (topic.batches[-1][0].value or b"")
    assert topic.batches[-1][0].key == b"k1"
    assert not done
    topic.accept()
    writer.look()
    assert (done, writer.is_idle) == ([True], True)


def test_the_barest_letter_is_not_given_up() -> None:
    """There is no other form: it is written again until the topic takes it."""
    writer = DeadLetterWriter(Topic())  # type: ignore[arg-type]
    writer.send(records(b"a"), REFUSAL, lambda: None)
    for expected in (True, True, False):
        assert writer.refused() is expected
        writer.look()
    assert not writer.is_idle
