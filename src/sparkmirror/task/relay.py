# SPDX-License-Identifier: Apache-2.0
"""Between the fetcher and the producer: hands record batches on and accounts for the answers.

Also where the helpers of a task meet: the take-over of what a predecessor left, the safeguards
for what cannot be copied, and the delivery that stores positions. Owned by the task's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from sparkmirror.errors import CorruptRecordBatchError
from sparkmirror.model import TopicPartition
from sparkmirror.task.comparison import Comparison
from sparkmirror.task.copy_partition import CopyPartition
from sparkmirror.task.delivery import Delivery, PeriodicDelivery
from sparkmirror.task.internal_producer import InternalProducer
from sparkmirror.task.messages import Split, TaskSettings
from sparkmirror.task.offset_map_writer import OffsetMapWriter
from sparkmirror.task.offset_sync_writer import OffsetSyncWriter
from sparkmirror.task.position_writer import PositionWriter
from sparkmirror.task.safeguards import Safeguards
from sparkmirror.task.take_over import TakeOver
from sparkmirror.task.transactional_delivery import TransactionalDelivery, TransactionLimits
from sparkmirror.wire import error_codes
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.codecs import codec_id
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.fetch_protocol import FetchLimits
from sparkmirror.wire.fetch_session import FetchPartition
from sparkmirror.wire.fetcher import Fetcher
from sparkmirror.wire.log_queries import request_log_bounds
from sparkmirror.wire.memory import MemoryBudget, SharedBuffer, return_freed_memory
from sparkmirror.wire.merge import MAX_MERGED_BYTES
from sparkmirror.wire.outgoing import (
    AbortedTransaction,
    OutgoingBatch,
    PreparedBatches,
    prepare_batches,
)
from sparkmirror.wire.producer import ProduceLimits, ProducePartition, Producer
from sparkmirror.wire.record_batch import SEQUENCE_MASK


class Relay:
    """One split's record batches on their way."""

    def __init__(self, split: Split, settings: TaskSettings, loop: EventLoop) -> None:
        self._split = split
        self._settings = settings
        self._loop = loop
        self.budget = MemoryBudget(settings.buffer_bytes)
        self.source = Cluster(loop, settings.consumer)
        self.target = Cluster(loop, settings.producer)
        fetch, produce = settings.fetch, settings.produce
        self._codec = codec_id(produce.compression)
        self.fetcher = Fetcher(
            loop,
            self.source,
            FetchLimits(
                read_committed=fetch.isolation_level == "read_committed",
                max_bytes=fetch.fetch_max_bytes,
                max_partition_bytes=fetch.max_partition_fetch_bytes,
                max_wait_ms=fetch.fetch_max_wait_ms,
                min_bytes=fetch.fetch_min_bytes,
            ),
            self.budget,
            self,
        )
        self.producer = Producer(
            loop,
            self.target,
            ProduceLimits(
                acks=produce.acks,
                timeout_ms=produce.request_timeout_ms,
                max_request_bytes=produce.max_request_bytes,
                max_in_flight=produce.max_in_flight,
                is_request_size_hard=produce.enforces_max_request_bytes,
            ),
            self.budget,
            self,
            settings.producer.client_id,
        )
        self._state = self._new_state()
        self._positions = PositionWriter(
            self.producer if self._state is None else self._state.producer,
            topic=settings.offsets_topic,
            partitions=settings.offsets_partitions,
            connector=settings.connector,
            source_alias=settings.source_alias,
        )
        self._map = OffsetMapWriter(self.producer, settings.map_topic)
        self.syncs = self._new_syncs()
        self.partitions = [CopyPartition(start) for start in split.partitions]
        for part in self.partitions:
            most = self.producer.max_batch_bytes(part.target.tp)
            part.target.max_merged_bytes = min(
                part.target.max_merged_bytes, most or MAX_MERGED_BYTES
            )
        self._by_source: dict[TopicPartition, CopyPartition] = {
            part.source.tp: part for part in self.partitions
        }
        self._by_target: dict[TopicPartition, CopyPartition] = {
            part.target.tp: part for part in self.partitions
        }
        self.safeguards = Safeguards(
            self,
            loop,
            (self.source, self.target),
            self.fetcher,
            self.producer,
            self.budget,
            settings,
            self.partitions,
        )
        self.take_over = TakeOver(loop, self.target, settings.buffer_bytes, self, self.safeguards)
        self.delivery = self._new_delivery()
        self.is_copying = True  # until the task begins to end
        self._notices: list[str] = []
        self._state_trouble = ""

    def _new_state(self) -> InternalProducer | None:
        """In transactions positions are where the records are."""
        settings = self._settings
        if settings.offsets_cluster is None or self._split.transaction is not None:
            return None
        cluster = Cluster(self._loop, settings.offsets_cluster)
        return InternalProducer(
            self._loop, cluster, settings.offsets_cluster.client_id, self.on_produce_response
        )

    def _new_syncs(self) -> OffsetSyncWriter | None:
        settings = self._settings
        if not settings.syncs_topic:
            return None
        side = settings.consumer if settings.syncs_on_source else settings.producer
        cluster = Cluster(self._loop, side)
        produce = settings.produce
        is_bound = produce.enforces_max_request_bytes and not settings.syncs_on_source
        return OffsetSyncWriter(
            self._loop,
            cluster,
            settings.syncs_topic,
            settings.offset_lag_max,
            side.client_id,
            max_request_bytes=produce.max_request_bytes if is_bound else None,
        )

    def _new_delivery(self) -> Delivery:
        settings, start = self._settings, self._split.transaction
        if start is None:
            return PeriodicDelivery(
                self._positions, self._map, self.syncs, self.partitions, settings.flush_seconds
            )
        return TransactionalDelivery(
            self._loop,
            self.target,
            self.producer,
            self._positions,
            self._map,
            self.syncs,
            self.partitions,
            self,
            start,
            TransactionLimits(
                settings.commit_seconds, settings.flush_seconds, settings.transaction_timeout_ms
            ),
        )

    def start(self) -> None:
        """Find the leaders and begin."""
        topics = {part.target.tp.topic for part in self.partitions}
        if self._state is None:
            topics.add(self._positions.topic)
        else:
            self._state.start(self._positions.topic)
        if self._map.topic:
            topics.add(self._map.topic)
        self.producer.track_topics(topics)
        if self.syncs is not None:
            self.syncs.start()
        self.source.track_topics({part.source.tp.topic for part in self.partitions})
        self.start_partitions()

    def start_partitions(self) -> None:
        """Partitions that a predecessor ended cleanly go on at once, the others are compared."""
        handed_over = [part for part in self.partitions if part.is_taken_over]
        for part in handed_over:
            part.resume_producer(is_known=False)  # it may have been idle until the broker forgot us
            self.delivery.on_partition_started(part)
        if handed_over:
            self.fetcher.add(part.source for part in handed_over)
        others = [part for part in self.partitions if not part.is_taken_over]
        if others:
            self.take_over.begin(others)

    def tick(self, now: float) -> None:
        """What is looked at once a second."""
        self.source.check_timeouts()
        self.target.check_timeouts()
        if self.is_copying:
            self.take_over.tick(now)
            self.take_over.read_more()
            self.fetcher.send_fetches()
            self.safeguards.tick()
        self.delivery.tick(now)
        if self.syncs is not None:
            self.syncs.tick()
        if self._state is not None:
            self._state.tick()
        if self.budget.reset_peak() > self.budget.limit // 2:
            return_freed_memory()

    def stop_reading(self) -> None:
        """Copy what has been read and no more."""
        self.is_copying = False
        self.fetcher.close()
        self.take_over.close()

    def stop_writing(self) -> None:
        """Write nothing more, neither records nor positions."""
        self.producer.close()
        if self._state is not None:
            self._state.producer.close()

    def close(self) -> None:
        """Hang up."""
        self.delivery.close()
        if self._state is not None:
            self._state.close()
        if self.syncs is not None:
            self.syncs.close()
        self.source.close()
        self.target.close()

    # --- from the fetcher

    def on_records(
        self,
        part: FetchPartition,
        records: memoryview,
        aborted: Sequence[AbortedTransaction],
        buffer: SharedBuffer,
    ) -> int:
        """Queue record batches for the target, or compare them with what is there."""
        mine = self._by_source[part.tp]
        is_waiting = mine.comparison is None and not mine.is_taken_over
        if is_waiting or self.safeguards.is_busy_with(mine):
            self.fetcher.pause(part)  # nobody knows yet from where on it is wanted
            return part.position
        # A comparison wants them as they are: each has a leader epoch of its own.
        most = mine.target.max_merged_bytes if mine.comparison is None else 0
        try:
            batches = prepare_batches(
                records, part.position, aborted, codec=self._codec, merged_bytes=most
            )
        except CorruptRecordBatchError as error:
            if self.safeguards.source_log.try_skip(part, records, str(error)):
                return part.position
            raise
        for out in batches.batches:
            out.pin(buffer, self.budget)
        mine.is_changed = True
        if mine.comparison is not None:
            return self._compare(mine, mine.comparison, batches)
        for out in self.safeguards.pass_by(mine, batches.batches):
            part.queued_bytes += out.source_size
            out.is_live = part.is_at_end
            self.producer.enqueue(mine.target, out)
        if batches.leader_epoch >= 0:  # a response without a whole batch says nothing of it
            part.last_leader_epoch = mine.leader_epoch = batches.leader_epoch
        if mine.target.is_idle:
            mine.set_position(batches.position)  # nothing but markers and aborted records
        return batches.position

    def _compare(
        self, mine: CopyPartition, comparison: Comparison, batches: PreparedBatches
    ) -> int:
        """What a partition that is being taken over has on the source."""
        part = mine.source
        part.position = batches.position
        for out in batches.batches:
            part.queued_bytes += out.source_size
            out.detach(self.budget)
            comparison.add_source_batch(out)
        comparison.skip_source_offsets(batches.skipped)
        if batches.leader_epoch >= 0:
            part.last_leader_epoch = batches.leader_epoch
        self.take_over.step(mine)
        return part.position  # the end of a comparison turns to another one

    def on_fetch_response(self) -> None:
        """Send what one fetch brought."""
        self.producer.send_ready()
        self.take_over.read_more()

    def read_on(self) -> None:
        """A comparison has made room: read more of the source."""
        self.fetcher.send_fetches()

    def on_fetch_error(self, part: FetchPartition, code: int, text: str) -> None:
        """Remember why a partition cannot be read."""
        mine = self._by_source[part.tp]
        self.safeguards.fetch_trouble(mine, code)
        self._trouble(mine, code, self.source.alias, text)

    def on_fetch_recovered(self, part: FetchPartition) -> None:
        """Forget it again."""
        self._trouble(self._by_source[part.tp], error_codes.NONE, self.source.alias, "")

    def on_diverged(self, part: FetchPartition, end_offset: int) -> None:
        """The source lost what had been read and went on from there."""
        self.safeguards.source_log.on_diverged(part, end_offset)

    def on_out_of_range(self, part: FetchPartition) -> None:
        """The source's log does not hold the position."""
        self.safeguards.source_log.on_out_of_range(part)

    def on_ended_early(self, part: FetchPartition) -> None:
        """The source may have lost what a bounded run was to copy."""
        self.safeguards.source_log.on_ended_early(part)

    # --- from the producer

    def on_acked(self, part: ProducePartition, out: OutgoingBatch) -> None:
        """Account for one record batch."""
        mine = self._by_target.get(part.tp)
        if mine is None:
            self.safeguards.acked(part.tp, out)  # if it is not a position record
            return
        source = mine.source
        if not mine.is_taken_over:
            return  # the comparison finds it
        if 0 <= out.base_offset <= mine.downstream:  # the target has lost what was there
            if not self.delivery.handles_truncated_target(part):
                self._halt(mine)
                self.producer.drop_unsent(part)
                self.safeguards.target_truncated(mine, mine.downstream + 1 - out.base_offset)
            return
        source.queued_bytes -= out.source_size
        if mine.is_paused:
            mine.is_paused = False
            self.fetcher.seek(source, source.position)
        self.fetcher.on_drained(source)
        mine.records += out.count
        mine.bytes += out.size
        if out.sequence >= 0:
            mine.next_sequence = (out.sequence + out.count) & SEQUENCE_MASK
        if out.base_offset >= 0:
            # With transactions a partition may begin without knowing the target's end.
            is_known = mine.downstream >= 0 or self._split.transaction is None
            if mine.verify_next_batch or (is_known and out.base_offset != mine.downstream + 1):
                self.take_over.start_readback(mine, out)
            mine.downstream = out.base_offset + out.count - 1
            mine.runs.add(out)
        elif out.runs:
            mine.map_copied_runs()
            mine.map_builder.leave_hole(out.runs[0].first, out.next_position)
        # Skipped markers behind the last record batch count as copied once it is acknowledged.
        mine.set_position(source.position if part.is_idle else out.next_position)
        self.delivery.on_acked(mine, out)

    def _halt(self, mine: CopyPartition) -> None:
        """Neither read nor write a partition until both sides have been compared."""
        mine.source.queued_bytes = 0
        mine.is_taken_over = False
        self.fetcher.pause(mine.source, mine.position)

    def on_produce_response(self) -> None:
        """Room has been made: read on."""
        self.safeguards.look()
        self.delivery.on_produce_response()
        self.fetcher.send_fetches()

    def on_produce_error(self, part: ProducePartition, code: int, text: str) -> None:
        """Remember why a partition cannot be written."""
        mine = self._by_target.get(part.tp)
        if mine is not None:
            if not self.safeguards.is_busy_with(mine):
                self.safeguards.produce_trouble(mine, code, text)
                self._trouble(mine, code, self.target.alias, text)
                self._pause(mine)
        elif self._map.owns(part) and code in error_codes.PARTITION_REFUSED:
            self._map.disable(f"{error_codes.name(code)}: {text or error_codes.advice(code)}")
            self.delivery.on_produce_response()  # it waits no longer
        elif not self.safeguards.is_awaited(part.tp, code):
            self._state_trouble = (
                f"{self.target.alias}: {part.tp} cannot be written: "
                f"{error_codes.name(code)}: {text or error_codes.advice(code)}"
            )

    def _pause(self, mine: CopyPartition) -> None:
        """Read no more of a partition that cannot be written: its neighbours need the memory."""
        shed = self.producer.shed_unsent(mine.target)
        mine.source.queued_bytes -= sum(out.source_size for out in shed)
        position = mine.target.pending[-1].next_position if shed else None
        self.fetcher.pause(mine.source, position)
        mine.is_paused = True

    def on_rewind(self, part: ProducePartition, pause: float) -> bool:
        """Read a refused partition again, from the last acknowledged position."""
        mine = self._by_target.get(part.tp)
        if mine is None:
            return False
        self.reread(mine, pause)
        return True

    def reread(self, part: CopyPartition, pause: float) -> None:
        """Read on from a partition's position; the producer has dropped what was queued."""
        part.is_paused = False
        part.source.queued_bytes = 0
        if self.safeguards.is_busy_with(part):
            self.fetcher.pause(part.source, part.position)  # `read_again` follows
        else:
            self.fetcher.seek_later(part.source, part.position, pause)

    def on_refused(
        self,
        part: ProducePartition,
        out: OutgoingBatch,
        code: int,
        text: str,
        record_errors: Mapping[int, str],
    ) -> list[OutgoingBatch] | None:
        """What to send instead of a record batch that will never be taken."""
        return self.safeguards.refused(part, out, code, text, record_errors)

    def reread_now(self, part: CopyPartition) -> None:
        """What was refused has been recorded: go on without it."""
        part.target.backoff.reset()
        self._trouble(part, error_codes.NONE, self.target.alias, "")
        self._seek(part, part.position)
        self.fetcher.send_fetches()

    def on_sequence_lost(self, part: ProducePartition, pause: float) -> None:
        """Somebody else wrote as this flow's producer: see what is there."""
        if self.delivery.handles_lost_sequence(part):
            return
        mine = self._by_target[part.tp]
        self._halt(mine)
        self._notices.append(
            f"resume: {self.target.alias}: {part.tp}: the broker expects another sequence; both "
            "sides are compared"
        )
        self.take_over.on_sequence_lost(mine, pause)

    # --- from the take-over

    def seek_to_resume_points(self, parts: Iterable[CopyPartition]) -> None:
        """Read from the last pair on, to compare."""
        for part in parts:
            part.source.stop_at = None  # a predecessor may have copied more than is wanted now
            self._seek(part, part.resume_point.position)
        self.fetcher.send_fetches()

    def compare_again(self, part: CopyPartition, pause: float) -> None:
        """Compare both sides, from the partition's pair."""
        self.take_over.compare(part, pause)

    def cut_while_comparing(self, part: CopyPartition, end: int) -> None:
        """The source goes on differently from there."""
        self.fetcher.pause(part.source)
        self.take_over.on_source_truncated(part, end)

    def store(self, part: CopyPartition, then: Callable[[], None]) -> None:
        """Wait until the position is on the target."""
        self.delivery.store_position(part, then)

    def request_log_end(self, part: CopyPartition, done: Callable[[int | None], None]) -> None:
        """Ask the source's leader, by the flow's isolation level."""
        request_log_bounds(
            self.source,
            part.source.tp,
            read_committed=self._settings.fetch.isolation_level == "read_committed",
            done=lambda _first, end: done(end),
            failed=lambda _code: done(None),  # asked again at the next tick
        )

    def release_compared(self, part: CopyPartition, done: list[OutgoingBatch]) -> None:
        """These are on the target already, or are read again."""
        for out in done:
            part.source.queued_bytes -= out.source_size
            out.release()
        self.fetcher.on_drained(part.source)
        part.is_changed = True

    def resume_copying(self, parts: Iterable[CopyPartition]) -> None:
        """Copy on from exact pairs."""
        for part in parts:
            self.safeguards.taken_over(part)
            part.source.stop_at = part.start.stop_at
            part.is_taken_over = True
            part.verify_next_batch = True
            self.delivery.on_partition_started(part)
            part.target.backoff.reset()
            self.take_over_trouble(part, error_codes.NONE, "")
            self._seek(part, part.position)
        self.fetcher.send_fetches()

    def _seek(self, part: CopyPartition, position: int) -> None:
        part.is_paused = False
        part.source.queued_bytes = 0
        self.fetcher.seek(part.source, position)

    def take_over_trouble(self, part: CopyPartition, code: int, text: str) -> None:
        """Remember why a partition does not begin."""
        self._trouble(part, code, self.target.alias, text)

    def notice(self, text: str) -> None:
        """Say something once."""
        self._notices.append(text)

    def on_produce_recovered(self, part: ProducePartition) -> None:
        """Forget it again."""
        mine = self._by_target.get(part.tp)
        if mine is not None:
            self._trouble(mine, error_codes.NONE, self.target.alias, "")
        else:
            self._state_trouble = ""

    # --- accounts

    def _trouble(self, part: CopyPartition, code: int, cluster: str, text: str) -> None:
        tp = part.source.tp if cluster == self.source.alias else part.target.tp
        part.set_error(code, cluster, tp, text)

    @property
    def errors(self) -> list[str]:
        """What is wrong, apart from single partitions."""
        found = [str(c.error) for c in (self.source, self.target) if c.error is not None]
        syncs = self.syncs.error if self.syncs is not None else ""
        state = self._state.error if self._state is not None else ""
        ours = (self._state_trouble, state, self.delivery.error, self._map.error, syncs)
        return found + [text for text in ours if text]

    @property
    def is_flushed(self) -> bool:
        """All that counts is stored, and said to those who read offset syncs."""
        return self.delivery.is_flushed and (self.syncs is None or self.syncs.is_flushed)

    def drain_notices(self) -> tuple[str, ...]:
        """What happened once since this was last asked."""
        notices = tuple(self._notices)
        self._notices.clear()
        return notices
