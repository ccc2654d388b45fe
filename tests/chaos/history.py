# SPDX-License-Identifier: Apache-2.0
"""Records what logs lost in a run, and checks the ledger against it. Pure: logs are lists.

A ledger entry is true if its offsets hold exactly its records: a `source-truncated` entry those
that only the target has, a `gap` those that neither side has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from chaos.verdict import Seen, Stream

TRUNCATED, GAP = "source-truncated", "gap"
TARGET_TRUNCATED, TARGET_RECREATED = "target-truncated", "target-recreated"


class Entry(NamedTuple):
    """One entry of the ledger."""

    kind: str
    stream: Stream
    first: int
    last: int
    records: int

    def __str__(self) -> str:
        source, partition = self.stream
        where = f"{self.kind} of {source}, partition {partition}"
        return f"{where}: offsets {self.first} to {self.last}, {self.records} records"


@dataclass(slots=True)
class Claim:
    """A change of one stream; `log` has all source offsets at that time, `named` the affected ones.

    `is_part`: an entry may name fewer offsets. `is_required`: the ledger must have an entry.
    """

    kind: str
    stream: Stream
    log: tuple[int, ...]
    named: tuple[int, ...]
    is_part: bool = False
    is_required: bool = True

    def covers(self, entry: Entry) -> bool:
        """Whether this change makes the entry true."""
        if (entry.kind, entry.stream) != (self.kind, self.stream):
            return False
        if not self.named:
            return True  # the topic as a whole
        held = {offset for offset in self.log if entry.first <= offset <= entry.last}
        is_right = held <= {*self.named} if self.is_part else held == {*self.named}
        is_counted = entry.records in (len(held), entry.last - entry.first + 1)
        return bool(held) and is_right and is_counted and entry.last <= self.log[-1]

    def __str__(self) -> str:
        source, partition = self.stream
        where = f"{self.kind} of {source}, partition {partition}"
        if not self.named:
            return where
        return f"{where}: offsets {self.named[0]} to {self.named[-1]}, {len(self.named)} records"


class History:
    """Collects what logs lost. Not thread-safe: one fault changes logs at a time."""

    def __init__(self) -> None:
        self.claims: list[Claim] = []
        self._gone: dict[Stream, dict[int, int]] = {}

    def gone(self, stream: Stream) -> dict[int, int]:
        """Return the digests, by number, of records that the source lost."""
        return self._gone.setdefault(stream, {})

    def source_truncated(
        self, stream: Stream, before: Sequence[Seen], after: Iterable[Seen], copies: Iterable[Seen]
    ) -> None:
        """The source lost its tail; the copies stay on the target."""
        lost, copied = self._lose(stream, before, after), {one.number for one in copies}
        self._claim(TRUNCATED, stream, before, [one for one in lost if one.number in copied])

    def source_deleted(
        self, stream: Stream, before: Sequence[Seen], after: Iterable[Seen], copies: Iterable[Seen]
    ) -> None:
        """The source lost its beginning; records that were not copied are lost."""
        lost, copied = self._lose(stream, before, after), {one.number for one in copies}
        self._claim(GAP, stream, before, [one for one in lost if one.number not in copied])

    def source_compacted(
        self, stream: Stream, before: Sequence[Seen], after: Iterable[Seen]
    ) -> None:
        """The source lost records with newer ones of the same key; this is no data loss."""
        self._lose(stream, before, after)

    def target_truncated(
        self, stream: Stream, log: Sequence[Seen], before: Iterable[Seen], after: Iterable[Seen]
    ) -> None:
        """The target lost its tail; records without a stored position need no entry."""
        lost = {one.number for one in before} - {one.number for one in after}
        named = [one for one in log if one.number in lost]
        self._claim(TARGET_TRUNCATED, stream, log, named, is_part=True, is_required=False)

    def target_recreated(self, stream: Stream) -> None:
        """The remote topic was recreated."""
        self.claims.append(Claim(TARGET_RECREATED, stream, (), ()))

    def target_restored(self) -> None:
        """The target was restored from an older copy, including its ledger."""
        for claim in self.claims:
            claim.is_required = False

    def _lose(self, stream: Stream, before: Sequence[Seen], after: Iterable[Seen]) -> list[Seen]:
        held = {one.number for one in after}
        lost = [one for one in before if one.number not in held]
        self.gone(stream).update({one.number: one.digest for one in lost})
        return lost

    def _claim(
        self,
        kind: str,
        stream: Stream,
        log: Sequence[Seen],
        named: Sequence[Seen],
        *,
        is_part: bool = False,
        is_required: bool = True,
    ) -> None:
        if not named:
            return
        for claim in self.claims:  # the ledger's newer entry replaces the older one
            if (claim.kind, claim.stream, claim.named[:1]) == (kind, stream, (named[0].offset,)):
                claim.is_required = False
        offsets = tuple(one.offset for one in log)
        here = tuple(one.offset for one in named)
        self.claims.append(Claim(kind, stream, offsets, here, is_part, is_required))

    def untruths(self, entries: Sequence[Entry]) -> list[str]:
        """Return wrong entries and missing entries."""
        wrong = [
            f"the ledger is wrong: {entry}"
            for entry in entries
            if not any(claim.covers(entry) for claim in self.claims)
        ]
        missing = [
            f"the ledger does not say: {claim}"
            for claim in self.claims
            if claim.is_required and not any(claim.covers(entry) for entry in entries)
        ]
        return wrong + missing
