# SPDX-License-Identifier: Apache-2.0
"""MapChunk: which source offsets became which target offsets, in the offset map topic.

    key    topic STRING (source side) | partition INT32 | first source offset INT64
    value  version INT16 = 0 | covered INT64 | first target offset INT64
           target offset that is covered INT64 | runs, to the end:
           source gap UVARINT | target gap UVARINT | length UVARINT

A chunk covers the source offsets from `first` up to, not including, `covered`; offsets in no run
hold no mirrored record. On the target it covers everything before `target_covered`, including
markers of our own transactions. A gap counts from the end of the previous run, for the first run
from the chunk's first offsets. Inside a run target = source + constant. UVARINT is little-endian
base 128, unsigned. A topic without gaps is one run: about 30 bytes.

A key with the first source offset -1 is no chunk: `covered` is the offset up to which records are
being copied again, after a reset to an earlier offset; the new copies start at the first target
offset.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from sparkmirror.errors import WireError
from sparkmirror.formats.primitives import (
    FieldReader,
    pack_int32,
    pack_int64,
    pack_string,
)
from sparkmirror.model import TopicPartition

_VERSION = 0
_HEADER = struct.Struct(">hqqq")
_MORE = 0x80
_MAX_SHIFT = 63
_NUMBERS_PER_RUN = 3
_MAX_OFFSET = 2**63 - 1
COPIED_BEFORE = -1  # the first offset in the key of a record that is no chunk


class MappedRun(NamedTuple):
    """Consecutive source offsets that became consecutive target offsets."""

    source: int
    target: int
    length: int

    @property
    def source_end(self) -> int:
        """One past the last source offset."""
        return self.source + self.length

    @property
    def target_end(self) -> int:
        """One past the last target offset."""
        return self.target + self.length


class ChunkKey(NamedTuple):
    """The key of a chunk; the chunk is rewritten while it grows."""

    topic_partition: TopicPartition
    first: int

    def pack(self) -> bytes:
        topic, partition = self.topic_partition
        return pack_string(topic) + pack_int32(partition) + pack_int64(self.first)

    @classmethod
    def unpack(cls, key: bytes) -> ChunkKey:
        fields = FieldReader(key, "The key of an offset map's chunk")
        return cls(TopicPartition(fields.string(), fields.int32()), fields.int64())


@dataclass(frozen=True, slots=True)
class MapChunk:
    """A range of one topic partition's offset map."""

    first: int
    target_first: int
    covered: int
    target_covered: int
    runs: tuple[MappedRun, ...]

    @property
    def target_end(self) -> int:
        """One past the target offset of its last record."""
        return self.runs[-1].target_end if self.runs else self.target_first

    def value(self) -> bytes:
        encoded = bytearray(
            _HEADER.pack(_VERSION, self.covered, self.target_first, self.target_covered)
        )
        source, target = self.first, self.target_first
        for run in self.runs:
            for number in (run.source - source, run.target - target, run.length):
                _append(encoded, number)
            source, target = run.source_end, run.target_end
        return bytes(encoded)

    @classmethod
    def from_value(cls, first: int, value: bytes) -> MapChunk:
        """Decode the chunk of a record whose key has `first`."""
        target_first, _record = read_header(first, value)
        _version, covered, _target_first, target_covered = _HEADER.unpack_from(value)
        numbers = [*_numbers(value[_HEADER.size :])]
        if len(numbers) % _NUMBERS_PER_RUN:
            raise WireError(f"A chunk of an offset map ends within a run: {value.hex()}.")
        runs = []
        source, target = first, target_first
        for at in range(0, len(numbers), _NUMBERS_PER_RUN):
            run = MappedRun(source + numbers[at], target + numbers[at + 1], numbers[at + 2])
            source, target = run.source_end, run.target_end
            runs.append(run)
        if max(source, target) > _MAX_OFFSET:
            raise WireError("A chunk of an offset map contains a number that is too large.")
        return cls(first, target_first, covered, target_covered, tuple(runs))


class CopiedBefore(NamedTuple):
    """Source offsets before `until` were copied once already; again from `target_first` on."""

    until: int
    target_first: int

    def value(self) -> bytes:
        return _HEADER.pack(_VERSION, self.until, self.target_first, self.target_first)

    @classmethod
    def from_value(cls, value: bytes) -> CopiedBefore:
        target_first, _record = read_header(0, value)
        until: int = _HEADER.unpack_from(value)[1]
        return cls(until, target_first)


def read_header(first: int, value: bytes) -> tuple[int, int | None]:
    """Return the first target offset, and the source offset of the first record if any.

    Readers keep only this of a chunk.
    """
    fields = FieldReader(value, "The value of an offset map's chunk")
    fields.version(_VERSION)
    if len(value) < _HEADER.size:
        raise WireError(f"A chunk of an offset map ends within its header: {value.hex()}.")
    target_first: int = _HEADER.unpack_from(value)[2]
    gap = next(_numbers(value[_HEADER.size :]), None)
    return target_first, None if gap is None else first + gap


def _append(encoded: bytearray, number: int) -> None:
    if number < 0:
        raise WireError(f"A chunk of an offset map cannot hold the negative number {number}.")
    while number >= _MORE:
        encoded.append(number & (_MORE - 1) | _MORE)
        number >>= 7
    encoded.append(number)


def _numbers(data: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in data:
        number |= (byte & (_MORE - 1)) << shift
        if byte < _MORE:
            yield number
            number = shift = 0
        elif (shift := shift + 7) > _MAX_SHIFT:
            raise WireError("A chunk of an offset map contains a number that is too large.")
    if shift:
        raise WireError("A chunk of an offset map ends within a number.")
