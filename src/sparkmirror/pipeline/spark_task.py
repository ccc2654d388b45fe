# SPDX-License-Identifier: Apache-2.0
"""What Spark ships: a function that knows only where the driver is and which split it has.

Its input is one row with the split's number, its output the receipts. The split, the settings and
with them anything secret come over the control channel, never in the closure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from sparkmirror.pipeline.contract import Receipt
from sparkmirror.pipeline.control_channel import Invitation
from sparkmirror.pipeline.control_client import ControlClient
from sparkmirror.pipeline.copy import CopyTask
from sparkmirror.wire.loop import Loop

RECEIPT_DDL = (
    "kind string, split int, topic string, partition int, source_first long, source_last long, "
    "target_first long, records long, bytes long, is_exact boolean, position long, "
    "downstream long, producer_id long, producer_epoch int, next_sequence int, leader_epoch int, "
    "is_clean boolean, error_code int, error string"
)
_TYPES = {"string": pa.string(), "int": pa.int32(), "long": pa.int64(), "boolean": pa.bool_()}
RECEIPT_SCHEMA = pa.schema(
    [(name, _TYPES[kind]) for name, kind in (column.split() for column in RECEIPT_DDL.split(", "))]
)
CopyFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def copy_function(invitation: Invitation) -> CopyFunction:
    """The function for `mapInArrow`."""

    def copy(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for arrow_batch in rows:
            for index in arrow_batch.column(0).to_pylist():
                yield _to_arrow(_copy_split(invitation, int(index)))

    return copy


def _copy_split(invitation: Invitation, index: int) -> list[Receipt]:
    control = ControlClient(invitation, index)
    loop = Loop()
    try:
        control.listen(loop.wake)
        return CopyTask(control.split, control.settings, control, loop).run()
    finally:
        control.close()
        loop.close()


def _to_arrow(receipts: list[Receipt]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [receipt._asdict() for receipt in receipts], schema=RECEIPT_SCHEMA
    )
