# SPDX-License-Identifier: Apache-2.0
"""Where the log goes on behind a record batch that is damaged.

Its own header cannot be believed. The record batch behind it can, if its checksum is right; if
nothing is there, only what the broker says about the end of the log limits the damage.
"""

from __future__ import annotations

import struct

from sparkmirror.errors import CorruptRecordBatchError
from sparkmirror.wire.record_batch import HEADER_SIZE, LENGTH_OVERHEAD, RecordBatch

_PREFIX = struct.Struct(">qi")
_LAST_DELTA_AT = 23


def offset_after_corrupt_batch(records: memoryview, position: int, end_offset: int) -> int | None:
    """The offset to go on at, if `records` begin with the damaged batch at `position`.

    None if that cannot be told: what follows is cut off or damaged as well.
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
            neighbour = RecordBatch(whole)
            neighbour.verify()
        except (CorruptRecordBatchError, struct.error):
            neighbour = None
        if neighbour is not None and position < neighbour.base_offset <= end_offset:
            return int(neighbour.base_offset)
    claimed = base + delta + 1
    return claimed if position < claimed <= end_offset else None
