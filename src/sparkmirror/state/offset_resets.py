# SPDX-License-Identifier: Apache-2.0
"""Requested offset resets: records of Connect's offsets topic, beside the stored positions.

    key    ["<connector>.reset",{"cluster":"<source alias>","partition":<n>,"topic":"<topic>"}]
    value  {"offset":<the offset before the one to copy next>,"time":<ms since 1970>,
            "recopy":<bool>,"deleteRecords":<bool>,"error":"<why it was refused>"}

No task writes these keys, so a running task cannot overwrite a request. The source connector
carries a request out when it starts, after all earlier tasks have ended, and then deletes the
record. A request survives every crash until then. Connectors of Java ignore the key.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeGuard

from sparkmirror.errors import WireError
from sparkmirror.formats.connect_json import Json, decode, encode
from sparkmirror.formats.source_offsets import SourceOffsetKey
from sparkmirror.model import TopicPartition
from sparkmirror.state.position_records import KeyedRecord


def reset_owner(connector: str) -> str:
    """Return the name in the keys of requests for a connector."""
    return f"{connector}.reset"


_MAX_OFFSET = 2**63 - 2
_MAX_TIME_MS = 253_402_300_799_000  # the end of the year 9999


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """A request for one source partition."""

    next_offset: int  # to copy
    time_ms: int
    recopy: bool = False  # into an empty remote partition
    delete_records: bool = False  # empty the remote partition first
    error: str = ""  # refused: it is not tried again

    def value(self) -> bytes:
        fields: dict[str, Json] = {"offset": self.next_offset - 1, "time": self.time_ms}
        fields |= {"recopy": self.recopy, "deleteRecords": self.delete_records}
        if self.error:
            fields["error"] = self.error
        return encode(fields)

    @classmethod
    def from_value(cls, value: bytes) -> OffsetReset:
        fields = decode(value, "An offset reset")
        offset = fields.get("offset") if isinstance(fields, dict) else None
        if not isinstance(fields, dict) or not _is_int(offset, _MAX_OFFSET):
            raise WireError(f"An offset reset has no integer 'offset': {value!r}.")
        time_ms, error = fields.get("time"), fields.get("error")
        return cls(
            offset + 1,
            time_ms if _is_int(time_ms, _MAX_TIME_MS) else 0,
            fields.get("recopy") is True,
            fields.get("deleteRecords") is True,
            error if isinstance(error, str) else "",
        )


def parse_resets(
    records: Iterable[KeyedRecord], connector: str, cluster: str
) -> dict[TopicPartition, OffsetReset]:
    """Return the latest request of every source partition of one connector."""
    owner = reset_owner(connector)
    found: dict[TopicPartition, OffsetReset] = {}
    for record in records:
        named = SourceOffsetKey.from_key(record.key) if record.key is not None else None
        if named is None or named.connector != owner or named.cluster != cluster:
            continue
        if record.value is None:
            found.pop(named.topic_partition, None)
        else:
            found[named.topic_partition] = OffsetReset.from_value(record.value)
    return found


def _is_int(value: Json, most: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and -1 <= value <= most
