# SPDX-License-Identifier: Apache-2.0
"""A record that the target refuses, as it is kept in the dead-letter topic.

Key, value and headers stay as they were; further headers say where the record came from and why
it is here. The timestamp is that of the writing, because the record's own may be what was refused.
What cannot fit is represented by its size and SHA-256, so that it can be found on the source.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from sparkmirror.formats.connect_json import encode
from sparkmirror.model import TopicPartition
from sparkmirror.wire import error_codes
from sparkmirror.wire.new_batch import Header, NewRecord

PREFIX = "sparkmirror."


class Form(IntEnum):
    """How much of the record a letter holds; a refused letter is written in the next form."""

    WHOLE = 0
    WITHOUT_VALUE = 1
    BARE = 2  # neither key nor headers of the record: always fits


class RefusedRecord(NamedTuple):
    """A record of the source."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
    reason: str = ""  # what the broker said about this very record


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why, and on which way: the same for all records of a refused record batch."""

    flow: str
    source: TopicPartition
    target: TopicPartition
    code: int
    reason: str  # in the broker's words, where it found some


def dead_letter(record: RefusedRecord, refusal: Refusal, form: Form = Form.WHOLE) -> NewRecord:
    """The record for the dead-letter topic."""
    told: dict[str, object] = {
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
    if form >= Form.WITHOUT_VALUE and value is not None:
        told |= {"value.bytes": len(value), "value.sha256": _digest(value)}
        value = _stand_in(value)
    if form >= Form.BARE:
        told["headers.dropped"] = len(headers)
        headers = []
        if key is not None:
            told |= {"key.bytes": len(key), "key.sha256": _digest(key)}
            key = _stand_in(key)
    headers += [((PREFIX + name).encode(), str(one).encode()) for name, one in told.items()]
    return NewRecord(key, value, headers)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _stand_in(content: bytes) -> bytes:
    return encode({"bytes": len(content), "sha256": _digest(content)})
