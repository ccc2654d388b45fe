# SPDX-License-Identifier: Apache-2.0
"""Build record batches for records of this process: ledger entries and dead letters.

    record   length VARINT | attributes INT8 | timestamp delta VARINT | offset delta VARINT
             key length VARINT (-1: null) | key | value length VARINT (-1: null) | value
             headers VARINT, each: key length VARINT | key | value length VARINT (-1) | value

Header keys are bytes, because the keys of a copied record may not be UTF-8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sparkmirror.wire.record_batch import encode_batch, encode_varint

Header = tuple[bytes, bytes | None]


class NewRecord(NamedTuple):
    """A record to write."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()


def build_batch(records: Sequence[NewRecord], timestamp_ms: int) -> bytearray:
    """Build an uncompressed record batch for `stamp`; all records have the same timestamp."""
    body = bytearray()
    for index, record in enumerate(records):
        frame = bytearray(b"\x00\x00")  # attributes, timestamp delta
        frame += encode_varint(index)
        _append_bytes(frame, record.key)
        _append_bytes(frame, record.value)
        frame += encode_varint(len(record.headers))
        for key, value in record.headers:
            _append_bytes(frame, key)
            _append_bytes(frame, value)
        body += encode_varint(len(frame))
        body += frame
    return encode_batch(
        bytes(body),
        attributes=0,
        count=len(records),
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
    )


def _append_bytes(frame: bytearray, content: bytes | None) -> None:
    frame += encode_varint(-1 if content is None else len(content))
    frame += content or b""
