# SPDX-License-Identifier: Apache-2.0
"""Find the offset after a corrupt record batch.

The header of a corrupt batch is not reliable. The base offset of the next batch is, if its CRC
matches. Without a next batch, the header counts as long as it stays below the log end offset.
"""

from __future__ import annotations

import struct

from sparkmirror.errors import CorruptRecordBatchError
from sparkmirror.wire.record_batch import HEADER_SIZE, LENGTH_OVERHEAD, RecordBatch

_PREFIX = struct.Struct(">qi")
_LAST_DELTA_AT = 23


def offset_after_corrupt_batch(records: memoryview, position: int, end_offset: int) -> int | None:
    """Return the offset to continue at; `records` start with the corrupt batch at `position`.

    None if it is unknown, because the next batch is truncated or corrupt as well.
    """
    if len(records) < HEADER_SIZE:
        return None
    base, length = _PREFIX.unpack_from(records)
    (delta,) = struct.unpack_from(">i", records, _LAST_DELTA_AT)
    following = LENGTH_OVERHEAD + length
    if following < HEADER_SIZE or following > len(records):
        return None
    if len(records) >= following + HEADER_SIZE:
        _base, size = _PREFIX.unpack_from(records, following)
        whole = records[following : following + LENGTH_OVERHEAD + max(size, 0)]
        try:
            next_batch = RecordBatch(whole)
            next_batch.verify()
        except (CorruptRecordBatchError, struct.error):
            next_batch = None
        if next_batch is not None and position < next_batch.base_offset <= end_offset:
            return int(next_batch.base_offset)
    claimed = base + delta + 1
    return claimed if position < claimed <= end_offset else None
