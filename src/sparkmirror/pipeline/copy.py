# SPDX-License-Identifier: Apache-2.0
"""The copy loop of one task: fetch raw, patch or reframe, produce, and account for it.

Runs on an executor, on one thread, without Spark. It ends at its deadline, when the driver says
so, when everything wanted has been copied, or when the driver has gone silent; each time it lets
the target acknowledge what was sent, writes its positions and says where it stands.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Protocol

from sparkmirror.config.settings import ConnectionSettings
from sparkmirror.errors import CorruptRecordBatchError, FencedError, LeaseLostError
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.comparison import Comparison
from sparkmirror.pipeline.contract import Progress, Receipt, Split, TaskSettings
from sparkmirror.pipeline.copy_partition import CopyPartition
from sparkmirror.pipeline.delivery import Delivery, PeriodicDelivery
from sparkmirror.pipeline.position_writer import PositionWriter
from sparkmirror.pipeline.safeguards import Safeguards
from sparkmirror.pipeline.take_over import TakeOver
from sparkmirror.pipeline.transactional_delivery import TransactionalDelivery, TransactionLimits
from sparkmirror.wire import error_codes
from sparkmirror.wire.allocator import return_freed_memory
from sparkmirror.wire.budget import Budget, Buffer
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.codecs import codec_named
from sparkmirror.wire.connection import Address, Dialer
from sparkmirror.wire.fetch_protocol import FetchLimits
from sparkmirror.wire.fetch_session import SourcePartition
from sparkmirror.wire.fetcher import Fetcher
from sparkmirror.wire.log_bounds import ask_log_bounds
from sparkmirror.wire.loop import Loop
from sparkmirror.wire.outgoing import AbortedTransaction, Admitted, Outgoing, admit
from sparkmirror.wire.producer import ProduceLimits, Producer, TargetPartition
from sparkmirror.wire.record_batch import SEQUENCE_MASK

TICK_SECONDS = 1.0
DRAIN_SECONDS = 4.0  # how long an ending task waits for the target to acknowledge
FLUSH_SECONDS = 2.0


class Control(Protocol):
    """The task's line to its driver."""

    @property
    def end_requested(self) -> bool:
        """The driver wants this task to finish."""

    @property
    def silence_seconds(self) -> float:
        """For how long nothing has been heard from the driver."""

    def report(self, progress: Progress) -> None:
        """Send progress; never blocks for long."""


class _Phase(Enum):
    COPYING = 1
    DRAINING = 2
    FLUSHING = 3
    DONE = 4


class CopyTask:
    """Copies one split until it ends; `run` returns the receipts."""

    def __init__(self, split: Split, settings: TaskSettings, control: Control, loop: Loop) -> None:
        self._split = split
        self._settings = settings
        self._control = control
        self._loop = loop
        self._budget = Budget(settings.buffer_bytes)
        self._source = _cluster(loop, settings.consumer)
        self._target = _cluster(loop, settings.producer)
        fetch, produce = settings.fetch, settings.produce
        self._codec = codec_named(produce.compression)
        self._fetcher = Fetcher(
            loop,
            self._source,
            FetchLimits(
                read_committed=fetch.isolation_level == "read_committed",
                max_bytes=fetch.fetch_max_bytes,
                max_partition_bytes=fetch.max_partition_fetch_bytes,
                max_wait_ms=fetch.fetch_max_wait_ms,
                min_bytes=fetch.fetch_min_bytes,
            ),
            self._budget,
            self,
        )
        self._producer = Producer(
            loop,
            self._target,
            ProduceLimits(
                acks=produce.acks,
                timeout_ms=produce.request_timeout_ms,
                max_request_bytes=produce.max_request_bytes,
                max_in_flight=produce.max_in_flight,
            ),
            self._budget,
            self,
            settings.producer.client_id,
        )
        self._positions = PositionWriter(
            self._producer,
            topic=settings.offsets_topic,
            partitions=settings.offsets_partitions,
            connector=settings.connector,
            source_alias=settings.source_alias,
        )
        self._parts = [CopyPartition(start) for start in split.partitions]
        self._by_source: dict[TopicPartition, CopyPartition] = {
            part.source.tp: part for part in self._parts
        }
        self._by_target: dict[TopicPartition, CopyPartition] = {
            part.target.tp: part for part in self._parts
        }
        self._safeguards = Safeguards(
            self,
            loop,
            (self._source, self._target),
            self._fetcher,
            self._producer,
            self._budget,
            settings,
            self._parts,
        )
        self._take_over = TakeOver(
            loop, self._target, settings.buffer_bytes, self, self._safeguards
        )
        self._delivery = self._new_delivery()
        self._notices: list[str] = []
        self._state_trouble = ""
        self._phase = _Phase.COPYING
        self._phase_deadline = time.monotonic() + settings.epoch_seconds
        self._is_lease_lost = False
        self._attempt = time.time_ns()

    def _new_delivery(self) -> Delivery:
        settings, start = self._settings, self._split.transaction
        if start is None:
            return PeriodicDelivery(self._positions, self._parts, settings.flush_seconds)
        return TransactionalDelivery(
            self._loop,
            self._target,
            self._producer,
            self._positions,
            self._parts,
            self,
            start,
            TransactionLimits(
                settings.commit_seconds, settings.flush_seconds, settings.transaction_timeout_ms
            ),
        )

    # --- the life of the task

    @property
    def is_copying(self) -> bool:
        """Whether the task has not begun to end."""
        return self._phase is _Phase.COPYING

    def run(self) -> list[Receipt]:
        """Copy until the end; raises LeaseLostError after cleaning up if the driver is gone."""
        self._producer.start(
            {part.target.tp.topic for part in self._parts} | {self._positions.topic}
        )
        self._source.want({part.source.tp.topic for part in self._parts})
        self._begin()
        next_tick = time.monotonic() + TICK_SECONDS
        try:
            while self._phase is not _Phase.DONE:
                now = time.monotonic()
                self._loop.turn(max(0.0, min(next_tick, self._phase_deadline) - now))
                now = time.monotonic()
                if now >= next_tick:
                    next_tick = now + TICK_SECONDS
                    self._tick(now)
                self._advance(now)
            self._report()
        finally:
            self._delivery.close()
            self._source.close()
            self._target.close()
        if self._delivery.is_over:
            raise FencedError(f"{self._settings.flow}: {self._delivery.trouble}")
        if self._is_lease_lost:
            raise LeaseLostError(
                f"{self._settings.flow}: the driver has been silent for "
                f"{self._settings.lease_seconds:g} s; the task stopped and wrote its positions"
            )
        return [receipt for part in self._parts for receipt in part.receipts(self._split.index)]

    def _begin(self) -> None:
        """Partitions that a predecessor ended cleanly go on at once, the others are compared."""
        handed_over = [part for part in self._parts if part.is_taken_over]
        for part in handed_over:
            part.introduce(is_known=False)  # it may have been idle until the broker forgot us
            self._delivery.begin(part)
        if handed_over:
            self._fetcher.start(part.source for part in handed_over)
        others = [part for part in self._parts if not part.is_taken_over]
        if others:
            self._take_over.begin(others)

    def _tick(self, now: float) -> None:
        self._source.check_deadlines()
        self._target.check_deadlines()
        if self.is_copying:
            self._take_over.check(now)
            self._take_over.read_on()
            self._fetcher.pump()
            self._safeguards.tick()
        self._delivery.tick(now)
        if self._budget.take_peak() > self._budget.limit // 2:
            return_freed_memory()
        self._report()

    def _advance(self, now: float) -> None:
        """Move on to the next phase when this one is over."""
        if self._delivery.is_over:
            self._producer.close()
            self._phase = _Phase.DONE
        if self._phase is _Phase.COPYING:
            self._is_lease_lost = self._control.silence_seconds > self._settings.lease_seconds
            finished = all(part.is_finished for part in self._parts)
            if (
                finished
                or self._is_lease_lost
                or self._control.end_requested
                or now >= self._phase_deadline
            ):
                self._fetcher.close()
                self._take_over.close()
                self._enter(_Phase.DRAINING, now + DRAIN_SECONDS)
        if self._phase is _Phase.DRAINING:
            drained = all(part.target.is_idle for part in self._parts)
            drained = drained and self._safeguards.is_idle
            if drained or now >= self._phase_deadline:
                self._delivery.finish()
                self._enter(_Phase.FLUSHING, now + FLUSH_SECONDS)
        if self._phase is _Phase.FLUSHING and (
            self._delivery.is_settled or now >= self._phase_deadline
        ):
            self._producer.close()
            self._phase = _Phase.DONE

    def _enter(self, phase: _Phase, deadline: float) -> None:
        self._phase = phase
        self._phase_deadline = deadline

    # --- from the fetcher

    def received(
        self,
        part: SourcePartition,
        records: memoryview,
        aborted: Sequence[AbortedTransaction],
        buffer: Buffer,
    ) -> int:
        """Queue record batches for the target, or compare them with what is there."""
        mine = self._by_source[part.tp]
        is_waiting = mine.comparison is None and not mine.is_taken_over
        if is_waiting or self._safeguards.is_busy_with(mine):
            self._fetcher.pause(part)  # nobody knows yet from where on it is wanted
            return part.position
        most = mine.target.most_joined
        try:
            batches = admit(records, part.position, aborted, codec=self._codec, merged_bytes=most)
        except CorruptRecordBatchError as error:
            if self._safeguards.source_log.is_skipped(part, records, str(error)):
                return part.position
            raise
        for out in batches.outgoing:
            out.lie_in(buffer, self._budget)
        mine.notable = True
        if mine.comparison is not None:
            return self._compare(mine, mine.comparison, batches)
        for out in self._safeguards.pass_by(mine, batches.outgoing):
            part.queued_bytes += out.source_size
            out.is_fresh = part.is_at_end
            self._producer.offer(mine.target, out)
        if batches.leader_epoch >= 0:  # a response without a whole batch says nothing of it
            part.last_epoch = batches.leader_epoch
        if mine.target.is_idle:
            mine.move_to(batches.position)  # nothing but markers and aborted records
        return batches.position

    def _compare(self, mine: CopyPartition, comparison: Comparison, batches: Admitted) -> int:
        """What a partition that is being taken over has on the source."""
        part = mine.source
        part.position = batches.position
        for out in batches.outgoing:
            part.queued_bytes += out.source_size
            out.detach(self._budget)
            comparison.see_source(out)
        self._take_over.step(mine)
        return part.position  # the end of a comparison turns to another one

    def fetched(self) -> None:
        """Send what one fetch brought."""
        self._producer.pump()
        self._take_over.read_on()

    def read_on(self) -> None:
        """A comparison has made room: read more of the source."""
        self._fetcher.pump()

    def fetch_trouble(self, part: SourcePartition, code: int, text: str) -> None:
        """Remember why a partition cannot be read."""
        mine = self._by_source[part.tp]
        self._safeguards.fetch_trouble(mine, code)
        self._trouble(mine, code, self._source.alias, text)

    def fetch_recovered(self, part: SourcePartition) -> None:
        """Forget it again."""
        self._trouble(self._by_source[part.tp], error_codes.NONE, self._source.alias, "")

    def diverged(self, part: SourcePartition, end_offset: int) -> None:
        """The source lost what had been read and went on from there."""
        self._safeguards.source_log.diverged(part, end_offset)

    def out_of_range(self, part: SourcePartition) -> None:
        """The source's log does not hold the position."""
        self._safeguards.source_log.out_of_range(part)

    # --- from the producer

    def acked(self, part: TargetPartition, out: Outgoing) -> None:
        """Account for one record batch."""
        mine = self._by_target.get(part.tp)
        if mine is None:
            self._safeguards.acked(part.tp, out)  # if it is not a position record
            return
        source = mine.source
        source.queued_bytes -= out.source_size
        self._fetcher.drained(source)
        mine.records += out.count
        mine.bytes += out.size
        if out.sequence >= 0:
            mine.next_sequence = (out.sequence + out.count) & SEQUENCE_MASK
        if out.base_offset >= 0:
            # With transactions a partition may begin without knowing the target's end.
            is_known = mine.downstream >= 0 or self._split.transaction is None
            if mine.is_unproven or (is_known and out.base_offset != mine.downstream + 1):
                self._take_over.look(mine, out)
            mine.downstream = out.base_offset + out.count - 1
            mine.runs.add(out)
        # Skipped markers behind the last record batch count as copied once it is acknowledged.
        mine.move_to(source.position if part.is_idle else out.next_position)
        self._delivery.acked(mine, out)

    def answered(self) -> None:
        """Room has been made: read on."""
        self._safeguards.look()
        self._delivery.answered()
        self._fetcher.pump()

    def produce_trouble(self, part: TargetPartition, code: int, text: str) -> None:
        """Remember why a partition cannot be written."""
        mine = self._by_target.get(part.tp)
        if mine is not None:
            if not self._safeguards.is_busy_with(mine):
                self._safeguards.produce_trouble(mine, code, text)
                self._trouble(mine, code, self._target.alias, text)
        elif not self._safeguards.is_awaited(part.tp, code):
            self._state_trouble = (
                f"{self._target.alias}: {part.tp} cannot be written: "
                f"{error_codes.name(code)}: {text or error_codes.advice(code)}"
            )

    def rewound(self, part: TargetPartition, pause: float) -> bool:
        """Read a refused partition again, from the last acknowledged position."""
        mine = self._by_target.get(part.tp)
        if mine is None:
            return False
        self.start_over(mine, pause)
        return True

    def start_over(self, part: CopyPartition, pause: float) -> None:
        """Read on from a partition's position; the producer has dropped what was queued."""
        part.source.queued_bytes = 0
        if self._safeguards.is_busy_with(part):
            self._fetcher.pause(part.source, part.position)  # `read_again` follows
        else:
            self._fetcher.rewind(part.source, part.position, pause)

    def refused(
        self,
        part: TargetPartition,
        out: Outgoing,
        code: int,
        text: str,
        record_errors: Mapping[int, str],
    ) -> list[Outgoing] | None:
        """What to send instead of a record batch that will never be taken."""
        return self._safeguards.refused(part, out, code, text, record_errors)

    def read_again(self, part: CopyPartition) -> None:
        """What was refused has been recorded: go on without it."""
        part.target.backoff.reset()
        self._trouble(part, error_codes.NONE, self._target.alias, "")
        self._read_from(part, part.position)
        self._fetcher.pump()

    def sequence_lost(self, part: TargetPartition, pause: float) -> None:
        """Somebody else wrote as this flow's producer: see what is there."""
        if self._delivery.sequence_lost(part):
            return
        mine = self._by_target[part.tp]
        mine.source.queued_bytes = 0
        mine.is_taken_over = False
        self._fetcher.pause(mine.source, mine.position)
        self._notices.append(
            f"resume: {self._target.alias}: {part.tp}: the broker expects another sequence; both "
            "sides are compared"
        )
        self._take_over.again(mine, pause)

    # --- from the take-over

    def read_source(self, parts: Iterable[CopyPartition]) -> None:
        """Read from the last pair on, to compare."""
        for part in parts:
            part.source.stop_at = None  # a predecessor may have copied more than is wanted now
            self._read_from(part, part.pair.position)
        self._fetcher.pump()

    def compare_again(self, part: CopyPartition, pause: float) -> None:
        """Compare both sides, from the partition's pair."""
        self._take_over.again(part, pause)

    def ask_source_end(self, part: CopyPartition, done: Callable[[int | None], None]) -> None:
        """Ask the source's leader, by the flow's isolation level."""
        ask_log_bounds(
            self._source,
            part.source.tp,
            read_committed=self._settings.fetch.isolation_level == "read_committed",
            done=lambda _first, end: done(end),
            failed=lambda _code: done(None),  # asked again at the next tick
        )

    def compared(self, part: CopyPartition, done: list[Outgoing]) -> None:
        """These are on the target already, or are read again."""
        for out in done:
            part.source.queued_bytes -= out.source_size
            out.let_go()
        self._fetcher.drained(part.source)
        part.notable = True

    def taken_over(self, parts: Iterable[CopyPartition]) -> None:
        """Copy on from exact pairs."""
        for part in parts:
            self._safeguards.taken_over(part)
            part.source.stop_at = part.start.stop_at
            part.is_taken_over = True
            part.is_unproven = True
            self._delivery.begin(part)
            part.target.backoff.reset()
            self.take_over_trouble(part, error_codes.NONE, "")
            self._read_from(part, part.position)
        self._fetcher.pump()

    def _read_from(self, part: CopyPartition, position: int) -> None:
        part.source.queued_bytes = 0
        self._fetcher.read_from(part.source, position)

    def take_over_trouble(self, part: CopyPartition, code: int, text: str) -> None:
        """Remember why a partition does not begin."""
        self._trouble(part, code, self._target.alias, text)

    def note(self, text: str) -> None:
        """Say something once."""
        self._notices.append(text)

    def produce_recovered(self, part: TargetPartition) -> None:
        """Forget it again."""
        mine = self._by_target.get(part.tp)
        if mine is not None:
            self._trouble(mine, error_codes.NONE, self._target.alias, "")
        else:
            self._state_trouble = ""

    # --- accounts

    def _trouble(self, part: CopyPartition, code: int, cluster: str, text: str) -> None:
        tp = part.source.tp if cluster == self._source.alias else part.target.tp
        part.set_trouble(code, cluster, tp, text)

    def _report(self) -> None:
        changed = [part for part in self._parts if part.notable]
        for part in changed:
            part.notable = False
        waiting = [part.target.waiting_since for part in self._parts if part.target.window]
        troubles = [str(c.trouble) for c in (self._source, self._target) if c.trouble is not None]
        troubles += [text for text in (self._state_trouble, self._delivery.trouble) if text]
        self._control.report(
            Progress(
                split=self._split.index,
                attempt=self._attempt,
                partitions=tuple(part.progress() for part in changed),
                latency=tuple(self._delivery.latency.items()),
                held_bytes=self._budget.held,
                oldest_unacked_seconds=time.monotonic() - min(waiting) if waiting else 0.0,
                cpu_seconds=time.process_time(),
                notices=tuple(self._notices),
                trouble="; ".join(troubles),
                other_writers=tuple(self._take_over.other_writers),
                incidents=self._safeguards.take(),
                needs=self._safeguards.needs(),
            )
        )
        self._delivery.latency.clear()
        self._notices.clear()


def _cluster(loop: Loop, settings: ConnectionSettings) -> Cluster:
    dialer = Dialer(
        cluster=settings.alias,
        client_id=settings.client_id,
        connect_timeout_seconds=settings.connect_timeout_seconds,
        request_timeout_seconds=settings.request_timeout_seconds,
        send_buffer_bytes=settings.send_buffer_bytes,
        receive_buffer_bytes=settings.receive_buffer_bytes,
    )
    return Cluster(loop, dialer, [_address(text) for text in settings.bootstrap_servers])


def _address(text: str) -> Address:
    host, _colon, port = text.rpartition(":")
    return Address(host.strip("[]"), int(port))
