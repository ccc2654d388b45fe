# SPDX-License-Identifier: Apache-2.0
"""A source's log that is not what it was: records gone at its beginning, at its end, or damaged.

Each case has a policy. Under `stop` the partition waits, is looked at again now and then, and says
so; otherwise it goes on, once the ledger says what was left out. Owned by the task's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.contract import TaskSettings
from sparkmirror.pipeline.copy_partition import CopyPartition
from sparkmirror.pipeline.incident_desk import IncidentDesk, incident
from sparkmirror.state.incidents import STOP, Incident, Kind
from sparkmirror.wire import error_codes
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.damage import after_damage
from sparkmirror.wire.fetch_session import UNKNOWN_EPOCH, SourcePartition
from sparkmirror.wire.fetcher import Fetcher
from sparkmirror.wire.log_bounds import ask_log_bounds
from sparkmirror.wire.loop import Loop

_TRIES = 3  # a damaged record batch is read so often before it counts as damaged on the disk


class Reader(Protocol):
    """The copy task, as this module needs it."""

    @property
    def is_copying(self) -> bool:
        """Whether the task has not begun to end."""

    def fetch_trouble(self, part: SourcePartition, code: int, text: str) -> None:
        """Remember why a partition cannot be read."""


class SourceLog:
    """What happens to the logs of a task's partitions."""

    def __init__(
        self,
        loop: Loop,
        source: Cluster,
        fetcher: Fetcher,
        settings: TaskSettings,
        desk: IncidentDesk,
        reader: Reader,
        parts: Mapping[TopicPartition, CopyPartition],
    ) -> None:
        self._loop = loop
        self._source = source
        self._fetcher = fetcher
        self._policies = settings.policies
        self._desk = desk
        self._reader = reader
        self._parts = parts
        self._read_committed = settings.fetch.isolation_level == "read_committed"
        self._suspects: dict[TopicPartition, int] = {}  # positions that seemed beyond the end once
        self._damaged: dict[TopicPartition, tuple[int, int]] = {}  # position, tries

    # --- gone at the beginning or at the end

    def out_of_range(self, part: SourcePartition) -> None:
        """Find out what happened to the log, and go on or report."""

        def bounds(earliest: int, latest: int) -> None:
            if part.position < earliest:
                self._gap(part, earliest)
            elif part.position > latest and self._suspects.get(part.tp) == part.position:
                self._truncated(part, latest, lambda: self.out_of_range(part))
            else:  # is it, or was it a leader that did not know its own end yet?
                self._suspects[part.tp] = part.position
                part.last_epoch = UNKNOWN_EPOCH
                self._fetcher.rewind(part, part.position, part.backoff.next_pause())

        def failed(code: int) -> None:
            self._wait(part, code, "", lambda: self.out_of_range(part))

        if self._reader.is_copying:
            ask_log_bounds(
                self._source,
                part.tp,
                read_committed=self._read_committed,
                done=bounds,
                failed=failed,
            )

    def diverged(self, part: SourcePartition, end_offset: int) -> None:
        """The source lost what had been read, and has been written anew from there."""
        position = part.position
        if end_offset >= position:  # what is lost had been read ahead, and never arrived
            part.last_epoch = UNKNOWN_EPOCH
            self._fetcher.rewind(part, position, 0.0)
            return
        self._truncated(part, end_offset, lambda: self._fetcher.rewind(part, position, 0.0))

    def _gap(self, part: SourcePartition, earliest: int) -> None:
        policy = self._policies.gap
        found = incident(
            Kind.GAP,
            part.tp,
            (part.position, earliest - 1),
            earliest - part.position,
            f"its log begins at offset {earliest}",
            policy,
        )
        if policy == STOP:
            self._desk.report(found)
            self._wait(part, error_codes.GAP, "", lambda: self.out_of_range(part))
        else:
            self._go_on(part, earliest, found)

    def _truncated(self, part: SourcePartition, end: int, again: Callable[[], None]) -> None:
        policy = self._policies.source_truncated
        found = incident(
            Kind.SOURCE_TRUNCATED,
            part.tp,
            (end, part.position - 1),
            part.position - end,
            f"its log was cut off at offset {end}, as by an unclean leader election; what was "
            "copied of it stays on the target",
            policy,
        )
        if policy == STOP:
            self._desk.report(found)
            self._wait(part, error_codes.SOURCE_TRUNCATED, "", again)
        else:
            self._go_on(part, end, found)

    # --- damaged

    def is_skipped(self, part: SourcePartition, records: memoryview, text: str) -> bool:
        """The first record batch does not match its checksum; whether it is being skipped."""
        before, tries = self._damaged.get(part.tp, (-1, 0))
        tries = tries + 1 if before == part.position else 1
        self._damaged[part.tp] = (part.position, tries)
        if tries < _TRIES:
            return False
        policy = self._policies.corrupt_batch
        following = after_damage(records, part.position, part.end_offset)
        last = part.position if following is None else following - 1
        cause = text if following is not None else f"{text}; where it ends cannot be told"
        found = incident(
            Kind.CORRUPT_BATCH,
            part.tp,
            (part.position, last),
            -1 if following is None else following - part.position,
            cause,
            STOP if following is None else policy,
        )
        if policy == STOP or following is None:
            self._desk.report(found)
            return False
        self._fetcher.pause(part)
        self._go_on(part, following, found)
        return True

    # --- both

    def _go_on(self, part: SourcePartition, position: int, found: Incident) -> None:
        before = part.position

        def recorded() -> None:
            mine = self._parts[part.tp]
            is_waiting = mine.comparison is None and not mine.is_taken_over
            if part.position != before or is_waiting:
                return  # it was turned back meanwhile, and will come here again
            if mine.target.is_idle and mine.comparison is None:
                mine.move_to(position)
            self._fetcher.resume(part, position)

        self._desk.record([found], recorded)

    def _wait(self, part: SourcePartition, code: int, text: str, again: Callable[[], None]) -> None:
        self._reader.fetch_trouble(part, code, text)
        pause = part.backoff.next_pause(slow=not error_codes.is_retriable(code))
        self._loop.call_later(pause, lambda: again() if self._reader.is_copying else None)
