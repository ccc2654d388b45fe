# SPDX-License-Identifier: Apache-2.0
"""Model of one partition's log, with a broker's rules for producers and leader epochs.

Tests call `append`, `cut`, `delete_before`, `compact` and `forget_producers` to change the log as
operators, retention, the log cleaner and unclean elections do. `ScriptedCluster` serves it.
Nothing here uses the package under test.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from support.data.record_batches import Record, decode, encode, header

NO_ERROR, OUT_OF_RANGE, INVALID_RECORD = 0, 1, 87
OUT_OF_ORDER, OLD_PRODUCER_EPOCH = 45, 47
FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH = 74, 76
SEQUENCES = 1 << 31
_REMEMBERED = 5  # record batches per producer
_BASE_OFFSET = struct.Struct(">q")
_LEADER_EPOCH = struct.Struct(">i")
_LEADER_EPOCH_AT = 12


class LogBatch(NamedTuple):
    """One record batch in the log."""

    raw: bytes
    base_offset: int
    last_offset: int
    leader_epoch: int
    producer: tuple[int, int, int]  # id, epoch, first sequence
    records: tuple[Record, ...]

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; a compacted batch keeps it."""
        return (self.producer[2] + self.last_offset - self.base_offset) % SEQUENCES


@dataclass(slots=True)
class ProducerEntry:
    """What the leader remembers of one producer id."""

    epoch: int
    batches: list[tuple[int, int, int]] = field(default_factory=list)  # sequences, base offset

    @property
    def last_sequence(self) -> int:
        """The sequence of its last record."""
        return self.batches[-1][1]


class Removed(NamedTuple):
    """A record that is no longer in the log."""

    how: str  # cut, deleted or compacted
    record: Record


class ReadResult(NamedTuple):
    """The result of a read."""

    error: int
    records: bytes = b""
    diverging: tuple[int, int] | None = None  # epoch, end offset


class ScriptedLog:
    """One partition: record batches, log start, high watermark, epochs, producer states."""

    def __init__(self) -> None:
        self.start = 0
        self.end = 0
        self.leader_epoch = 0
        self.batches: list[LogBatch] = []
        self.epochs: list[tuple[int, int]] = [(0, 0)]  # epoch, start offset
        self.producers: dict[int, ProducerEntry] = {}
        self.readable_limit: int | None = None  # the high watermark stays at or below it
        self.removed: list[Removed] = []  # in the order of events
        self._forgotten_until = 0

    @property
    def high_watermark(self) -> int:
        """Consumers read up to here."""
        return self.end if self.readable_limit is None else min(self.end, self.readable_limit)

    @property
    def records(self) -> list[Record]:
        """All records from the log start on, with their offsets."""
        return [one for batch in self.batches for one in batch.records if one.offset >= self.start]

    @property
    def bodies(self) -> list[bytes | None]:
        """The values of all records."""
        return [one.value for one in self.records]

    # --- what tests do to the log

    def append(
        self, bodies: Iterable[bytes], *, producer: tuple[int, int, int] = (-1, -1, -1)
    ) -> None:
        """One record batch, as a client writes it."""
        records = [
            Record(index, 1_700_000_000_000 + index, b"k", body)
            for index, body in enumerate(bodies)
        ]
        error, _offset = self.produce(bytes(encode(records, producer=producer)))
        assert not error, f"the scripted log refused its own record batch with error {error}"

    def truncate(self, offset: int, new_epoch: int | None = None) -> None:
        """Remove records from an offset on (from their batch's first one); elect a new leader."""
        before = self.records
        lost = {one.base_offset for one in self.batches if one.last_offset >= offset}
        self.batches = [one for one in self.batches if one.last_offset < offset]
        self._note_removed("cut", before)
        end = max((one.last_offset + 1 for one in self.batches), default=self.start)
        self.end = min(self.end, max(end, self.start)) if offset < self.end else self.end
        self.epochs = [one for one in self.epochs if one[1] < self.end]
        self.leader_epoch = self.leader_epoch + 1 if new_epoch is None else new_epoch
        self.epochs.append((self.leader_epoch, self.end))
        self._load_producers(lost)

    def elect(self) -> None:
        self.truncate(self.end)

    def delete_before(self, offset: int) -> None:
        """Move the log start, as retention or DeleteRecords does."""
        before = self.records
        self.start = min(max(self.start, offset), self.end)
        self.batches = [one for one in self.batches if one.last_offset >= self.start]
        self._note_removed("deleted", before)
        older = [one for one in self.epochs if one[1] <= self.start]
        if older:
            kept = [one for one in self.epochs if one[1] > self.start]
            self.epochs = [(older[-1][0], self.start), *kept]

    def compact(self, is_kept: Callable[[Record], bool] | Collection[int]) -> None:
        """Remove records as the log cleaner does: offsets stay, batches may become empty or go.

        The last record batch stays as it is: it lies in the active segment.
        """
        keeps = is_kept if callable(is_kept) else lambda one: one.offset in is_kept
        last_of = {one.producer[0]: one.base_offset for one in self.batches}
        cleaned: list[LogBatch] = []
        for batch in self.batches[:-1]:
            records = tuple(one for one in batch.records if keeps(one))
            is_last_of_producer = (
                batch.producer[0] >= 0 and last_of[batch.producer[0]] == batch.base_offset
            )
            if records == batch.records:
                cleaned.append(batch)
            elif records or is_last_of_producer:
                raw = encode(
                    records,
                    base_offset=batch.base_offset,
                    last_offset=batch.last_offset,
                    producer=batch.producer,
                    leader_epoch=batch.leader_epoch,
                )
                cleaned.append(batch._replace(raw=bytes(raw), records=records))
        before = self.records
        self.batches = [*cleaned, *self.batches[-1:]]
        self._note_removed("compacted", before)

    def _note_removed(self, how: str, before: list[Record]) -> None:
        kept = {one.value for one in self.records}
        self.removed += [Removed(how, one) for one in before if one.value not in kept]

    def expire_producers(self) -> None:
        self.producers.clear()
        self._forgotten_until = self.end

    # --- what a leader does

    def produce(self, raw: bytes) -> tuple[int, int]:
        """Append a record batch by a broker's rules: error code and base offset."""
        head = header(raw)
        count = head.records_count
        is_sound = head.validate_crc() and not head.base_offset and count > 0
        if not is_sound or head.last_offset_delta + 1 != count:
            return INVALID_RECORD, -1
        producer = (head.producer_id, head.producer_epoch, head.base_sequence)
        if producer[0] >= 0:
            error, known = self._check_sequence(producer, count)
            if error or known is not None:
                return error, -1 if known is None else known
        base = self.end
        patched = bytearray(raw)
        _BASE_OFFSET.pack_into(patched, 0, base)
        _LEADER_EPOCH.pack_into(patched, _LEADER_EPOCH_AT, self.leader_epoch)
        records = tuple(one._replace(offset=one.offset + base) for one in decode(raw))
        self._store(
            LogBatch(bytes(patched), base, base + count - 1, self.leader_epoch, producer, records)
        )
        return NO_ERROR, base

    def _check_sequence(self, producer: tuple[int, int, int], count: int) -> tuple[int, int | None]:
        producer_id, epoch, first = producer
        entry = self.producers.get(producer_id)
        if entry is None:
            return NO_ERROR, None
        if epoch < entry.epoch:
            return OLD_PRODUCER_EPOCH, None
        if epoch > entry.epoch:
            return (OUT_OF_ORDER if first else NO_ERROR), None
        last = (first + count - 1) % SEQUENCES
        for known_first, known_last, base in entry.batches:
            if (known_first, known_last) == (first, last):
                return NO_ERROR, base
        is_next = first == (entry.last_sequence + 1) % SEQUENCES
        return (NO_ERROR if is_next else OUT_OF_ORDER), None

    def _store(self, batch: LogBatch) -> None:
        self.batches.append(batch)
        self.end = batch.last_offset + 1
        self._remember(batch)

    def _remember(self, batch: LogBatch) -> None:
        producer_id, epoch, first = batch.producer
        if producer_id < 0:
            return
        entry = self.producers.get(producer_id)
        if entry is None or entry.epoch != epoch:
            entry = self.producers[producer_id] = ProducerEntry(epoch)
        entry.batches.append((first, batch.last_sequence, batch.base_offset))
        del entry.batches[:-_REMEMBERED]

    def _load_producers(self, lost: set[int]) -> None:
        """Producer states after a restart: from the log, and from snapshots of what was deleted."""
        before, self.producers = self.producers, {}
        for batch in self.batches:
            if batch.last_offset >= self._forgotten_until:
                self._remember(batch)
        for producer_id, entry in before.items():
            kept = [one for one in entry.batches if one[2] < self.end and one[2] not in lost]
            if kept and producer_id not in self.producers:
                self.producers[producer_id] = ProducerEntry(entry.epoch, kept)

    def read(
        self, offset: int, max_bytes: int, leader_epoch: int = -1, last_epoch: int = -1
    ) -> ReadResult:
        """Whole record batches from an offset on, at least one if there is any."""
        error = self.check_leader_epoch(leader_epoch)
        if error:
            return ReadResult(error)
        if last_epoch >= 0:
            epoch, end = self.end_of_epoch(last_epoch)
            if epoch < 0 or offset < self.start:
                return ReadResult(OUT_OF_RANGE)
            if epoch < last_epoch or end < offset:
                return ReadResult(NO_ERROR, diverging=(epoch, end))
        if not self.start <= offset <= self.end:
            return ReadResult(OUT_OF_RANGE)
        found: list[bytes] = []
        size = 0
        for batch in self.batches:
            if batch.last_offset < offset:
                continue
            if batch.last_offset >= self.high_watermark or (
                found and size + len(batch.raw) > max_bytes
            ):
                break
            found.append(batch.raw)
            size += len(batch.raw)
        return ReadResult(NO_ERROR, b"".join(found))

    def check_leader_epoch(self, leader_epoch: int) -> int:
        """The error code for a request that names the leader's epoch; -1: it names none."""
        if leader_epoch < 0 or leader_epoch == self.leader_epoch:
            return NO_ERROR
        return FENCED_LEADER_EPOCH if leader_epoch < self.leader_epoch else UNKNOWN_LEADER_EPOCH

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch up to this one, and its end offset; (-1, -1): not known."""
        if epoch == self.leader_epoch:
            return epoch, self.end
        higher = [one for one in self.epochs if one[0] > epoch]
        if not higher:
            return -1, -1
        lower = [one for one in self.epochs if one[0] <= epoch]
        return (lower[-1][0] if lower else epoch), higher[0][1]


def bodies(prefix: str, first: int, count: int) -> Sequence[bytes]:
    return [b"%s-%d" % (prefix.encode(), first + index) for index in range(count)]
