# SPDX-License-Identifier: Apache-2.0
"""Evidence for a lost or duplicated record: the record batches around it on the target.

Reads batch headers from the log segments of a broker with its own parser. Also writes the ledger
entries beside the expected ones.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from chaos.arena import Environment
from chaos.history import Entry
from chaos.verdict import StreamVerdict

_HEADER = struct.Struct(">qiibIhiqqqhii")  # a record batch up to its records
_AROUND = 200  # offsets before and after


class BatchLine(NamedTuple):
    """The header fields that identify the producer and the order of a record batch."""

    base_offset: int
    records: int
    producer_id: int
    producer_epoch: int
    sequence: int
    leader_epoch: int
    attributes: int


def batch_lines(folder: Path) -> Iterator[BatchLine]:
    """Yield the record batches of one partition, oldest first."""
    for segment in sorted(folder.glob("*.log")):
        data = segment.read_bytes()
        position = 0
        while position + _HEADER.size <= len(data):
            (
                base_offset,
                length,
                leader_epoch,
                _magic,
                _crc,
                attributes,
                _last_delta,
                _base_time,
                _max_time,
                producer_id,
                producer_epoch,
                sequence,
                records,
            ) = _HEADER.unpack_from(data, position)
            if length <= 0:
                break  # room that was reserved and not used
            yield BatchLine(
                base_offset,
                records,
                producer_id,
                producer_epoch,
                sequence,
                leader_epoch,
                attributes,
            )
            position += 12 + length


def write_ledger(arena: Environment, entries: Sequence[Entry]) -> None:
    """Write the ledger entries and the actual log changes."""
    lines = [*map(str, entries), "", *map(str, arena.history.claims), ""]
    (arena.directory / "ledger.txt").write_text("\n".join(lines), encoding="utf-8")


def write_evidence(arena: Environment, streams: Sequence[StreamVerdict]) -> None:
    """Write a file per partition with anomalies, from the first broker; replicas are equal."""
    wrong = {one.stream[1] for one in streams if not one.is_right}
    data = arena.target.brokers[0].data
    for partition in sorted(wrong):
        places = [
            place
            for one in streams
            if one.stream[1] == partition
            for anomaly in one.anomalies
            for place in (anomaly.at, anomaly.at + anomaly.records)
        ]
        folder = data / f"{arena.scenario.remote_topic}-{partition}"
        lines = [
            str(line)
            for line in batch_lines(folder)
            if any(abs(line.base_offset - place) <= _AROUND for place in places)
        ]
        file = arena.directory / f"evidence-{partition}.txt"
        file.write_text("\n".join([*lines, ""]), encoding="utf-8")
