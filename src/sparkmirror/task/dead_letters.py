# SPDX-License-Identifier: Apache-2.0
"""The dead-letter topic: the format of refused records, and the writer.

A dead letter has the record's key, value and headers; more headers contain its origin and the
reason. Its timestamp is the time of writing, because the record's own may be the reason. A value or
key that does not fit is replaced by its size and SHA-256. One record batch is written at a time; a
refused letter is written again in a smaller form until the topic accepts it, and then the callback
runs. Owned by the task's thread.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

from sparkmirror.formats.connect_json import encode
from sparkmirror.model import TopicPartition
from sparkmirror.task.on_demand_topic import OnDemandTopic
from sparkmirror.wire import error_codes
from sparkmirror.wire.batch_builder import Header, NewRecord, build_batch
from sparkmirror.wire.outgoing import OutgoingBatch
from sparkmirror.wire.produce_partition import RefusedBatch

PREFIX = "sparkmirror."


class DeadLetterForm(IntEnum):
    """How much of the record a dead letter contains; a refused one is retried in the next form."""

    FULL = 0
    WITHOUT_VALUE = 1
    HEADERS_ONLY = 2  # without key, value and headers of the record: always fits


class RefusedRecord(NamedTuple):
    """A record of the source that the target refused."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
    reason: str = ""  # the broker's message for this record


@dataclass(frozen=True, slots=True)
class RefusalContext:
    """The common properties of the refused records of one record batch."""

    flow: str
    source: TopicPartition
    target: TopicPartition
    code: int
    reason: str  # the broker's message, if any


def dead_letter(
    record: RefusedRecord, refusal: RefusalContext, form: DeadLetterForm = DeadLetterForm.FULL
) -> NewRecord:
    """Build the record for the dead-letter topic."""
    details: dict[str, object] = {
        "flow": refusal.flow,
        "topic": refusal.source.topic,
        "partition": refusal.source.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "target.topic": refusal.target.topic,
        "error.code": refusal.code,
        "error": error_codes.name(refusal.code),
        "reason": record.reason or refusal.reason or error_codes.advice(refusal.code),
    }
    key, value, headers = record.key, record.value, list(record.headers)
    if form >= DeadLetterForm.WITHOUT_VALUE and value is not None:
        details |= {"value.bytes": len(value), "value.sha256": _digest(value)}
        value = _placeholder(value)
    if form >= DeadLetterForm.HEADERS_ONLY:
        details["headers.dropped"] = len(headers)
        headers = []
        if key is not None:
            details |= {"key.bytes": len(key), "key.sha256": _digest(key)}
            key = _placeholder(key)
    headers += [((PREFIX + name).encode(), str(one).encode()) for name, one in details.items()]
    return NewRecord(key, value, headers)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _placeholder(content: bytes) -> bytes:
    return encode({"bytes": len(content), "sha256": _digest(content)})


@dataclass(frozen=True, slots=True)
class _Letter:
    records: tuple[RefusedRecord, ...]
    refusal: RefusalContext
    then: Callable[[], None] | None
    form: DeadLetterForm = DeadLetterForm.FULL


class DeadLetterWriter:
    """Writes to the dead-letter topic of one flow."""

    def __init__(self, topic: OnDemandTopic) -> None:
        self.topic = topic
        topic.replace_refused = self.on_refused
        self._letters: deque[_Letter] = deque()
        self._ticket = 0  # of the first letter; 0: not written yet

    @property
    def is_idle(self) -> bool:
        """Whether every letter is on the target."""
        return not self._letters

    def send(
        self, records: Sequence[RefusedRecord], refusal: RefusalContext, then: Callable[[], None]
    ) -> None:
        """Queue records; calls `then` when they are on the target."""
        self._letters.append(_Letter(tuple(records), refusal, then))
        self.check_acks()

    def check_acks(self) -> None:
        """Complete acknowledged letters and write the next one."""
        while self._letters:
            if not self._ticket:
                self._write(self._letters[0])
            if not self.topic.is_acked(self._ticket):
                return
            self._ticket = 0
            done = self._letters.popleft()
            if done.then is not None:
                done.then()

    def _write(self, letter: _Letter) -> None:
        records = [dead_letter(one, letter.refusal, letter.form) for one in letter.records]
        self._ticket = self.topic.write(build_batch(records, int(time.time() * 1000)), len(records))

    def on_refused(self, refused: RefusedBatch) -> list[OutgoingBatch] | None:  # noqa: ARG002 - the first letter
        """Drop a refused letter to write it in a smaller form; None: it has the smallest form."""
        return [] if self.shrink_refused() else None

    def shrink_refused(self) -> bool:
        """Replace the first letter by smaller ones. Returns false if it has the smallest form."""
        letter = self._letters[0]
        if len(letter.records) > 1:
            *others, last = letter.records
            smaller = [replace(letter, records=(one,), then=None) for one in others]
            smaller.append(replace(letter, records=(last,)))
        elif letter.form < DeadLetterForm.HEADERS_ONLY:
            smaller = [replace(letter, form=DeadLetterForm(letter.form + 1))]
        else:
            return False
        self._letters.popleft()
        self._letters.extendleft(reversed(smaller))
        self.topic.retract(len(letter.records))
        self._ticket = 0
        return True
