# SPDX-License-Identifier: Apache-2.0
"""Between the fetcher and the producer: hands record batches on and accounts for the answers.

Also where the helpers of a task meet: the take-over of what a predecessor left, the safeguards
for what cannot be copied, and the delivery that stores positions. Owned by the task's thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from sparkmirror.config.settings import ConnectionSettings
from sparkmirror.errors import CorruptRecordBatchError
from sparkmirror.model import TopicPartition
from sparkmirror.state.incidents import STOP, IncidentKind
from sparkmirror.task.comparison import Comparison
from sparkmirror.task.comparison_runner import ComparisonRunner
from sparkmirror.task.copy_partition import ClusterAliases, CopyPartition
from sparkmirror.task.corrupt_batches import CorruptBatches
from sparkmirror.task.dead_letters import DeadLetterWriter
from sparkmirror.task.delivery import Delivery, PeriodicDelivery
from sparkmirror.task.events import PartitionEvents
from sparkmirror.task.incident_reporter import IncidentReporter
from sparkmirror.task.internal_producer import InternalProducer
from sparkmirror.task.internal_topic_listener import InternalTopicListener
from sparkmirror.task.messages import Split, TaskSettings
from sparkmirror.task.offset_map_writer import OffsetMapWriter
from sparkmirror.task.offset_sync_writer import OffsetSyncWriter
from sparkmirror.task.on_demand_topic import OnDemandTopic
from sparkmirror.task.open_transaction_monitor import OpenTransactionMonitor
from sparkmirror.task.position_writer import PositionWriter
from sparkmirror.task.read_control import ReadControl
from sparkmirror.task.refused_records import RefusedRecords
from sparkmirror.task.source_log_recovery import SourceLogRecovery
from sparkmirror.task.take_over import TakeOver
from sparkmirror.task.target_readback import TargetReadback
from sparkmirror.task.target_truncation import TargetTruncation
from sparkmirror.task.transactional_delivery import TransactionalDelivery, TransactionLimits
from sparkmirror.wire import error_codes
from sparkmirror.wire.backoff import Backoff
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.codecs import codec_id
from sparkmirror.wire.dialer import Address, Dialer
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.fetch_partition import FetchPartition
from sparkmirror.wire.fetch_protocol import FetchLimits
from sparkmirror.wire.fetcher import Fetcher
from sparkmirror.wire.memory import MemoryBudget, SharedBuffer, return_freed_memory
from sparkmirror.wire.merge import MAX_MERGED_BYTES
from sparkmirror.wire.outgoing import (
    AbortedTransaction,
    OutgoingBatch,
    PreparedBatches,
    prepare_batches,
)
from sparkmirror.wire.produce_partition import ProduceLimits, ProducePartition, RefusedBatch
from sparkmirror.wire.producer import Producer
from sparkmirror.wire.record_batch import SEQUENCE_MASK

_COMPARISON_LIMITS = FetchLimits(
    read_committed=False,
    max_bytes=8 << 20,
    max_partition_bytes=1 << 20,
    max_wait_ms=100,
    min_bytes=1,
)


class Relay:
    """One split's record batches on their way."""

    def __init__(self, split: Split, settings: TaskSettings, loop: EventLoop) -> None:
        self._split = split
        self._settings = settings
        self._loop = loop
        self.budget = MemoryBudget(settings.buffer_bytes)
        self.source = _open_cluster(loop, settings.consumer)
        self.target = _open_cluster(loop, settings.producer)
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
        )
        self.fetcher.on_response = (self.on_fetch_response,)
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
            settings.producer.client_id,
        )
        self.producer.on_response = (self.on_produce_response,)
        self._state = self._new_state()
        positions = (
            InternalTopicListener(self.target.alias, self.budget)
            if self._state is None
            else self._state.listener
        )
        self._positions = PositionWriter(
            self.producer if self._state is None else self._state.producer,
            positions,
            topic=settings.offsets_topic,
            partitions=settings.offsets_partitions,
            connector=settings.connector,
            source_alias=settings.source_alias,
        )
        self._map = OffsetMapWriter(
            self.producer, settings.map_topic, self.target.alias, self.budget
        )
        self.syncs = self._new_syncs()
        aliases = ClusterAliases(self.source.alias, self.target.alias)
        self.partitions = [CopyPartition(start, aliases) for start in split.partitions]
        for part in self.partitions:
            most = self.producer.max_batch_bytes(part.target.tp)
            part.target.max_merged_bytes = min(
                part.target.max_merged_bytes, most or MAX_MERGED_BYTES
            )
            part.source.listener = part.target.listener = self
        self._by_source: dict[TopicPartition, CopyPartition] = {
            part.source.tp: part for part in self.partitions
        }
        self._by_target: dict[TopicPartition, CopyPartition] = {
            part.target.tp: part for part in self.partitions
        }
        self.read_control = ReadControl(
            self.source,
            self.fetcher,
            self.producer,
            read_committed=fetch.isolation_level == "read_committed",
        )
        policies = settings.policies
        alias = self.target.alias
        ledger = OnDemandTopic(self.producer, settings.ledger_topic, alias, self.budget)
        letters = OnDemandTopic(self.producer, settings.dead_letters_topic, alias, self.budget)
        self._on_demand_topics = (ledger, letters)
        self.reporter = IncidentReporter(settings.flow, ledger)
        self._dead_letters = DeadLetterWriter(letters)
        self.delivery = self._new_delivery()
        self._map.on_disabled = self.delivery.on_produce_response
        events = PartitionEvents()
        self._refused = RefusedRecords(
            settings,
            self.budget,
            self.reporter,
            self._dead_letters,
            self.read_control,
            self.producer.max_batch_bytes,
        )
        self._truncation = TargetTruncation(
            self.source, alias, policies.target_truncated, self.reporter, events
        )
        self._recovery = SourceLogRecovery(
            loop,
            self.source,
            self.fetcher,
            settings,
            self.reporter,
            self.delivery,
            self._refused,
            self._by_source,
            events,
        )
        self._corrupt = CorruptBatches(
            self.fetcher, policies.corrupt_batch, self.reporter, self._by_source
        )
        self._open_transactions = OpenTransactionMonitor(
            self.source, policies.open_transaction_seconds, self.reporter, self.partitions
        )
        comparing = Fetcher(
            loop,
            self.target,
            _COMPARISON_LIMITS,
            MemoryBudget(
                max(settings.buffer_bytes // 4, 4 * _COMPARISON_LIMITS.max_partition_bytes)
            ),
        )
        backoff = Backoff()
        self._readback = TargetReadback(comparing, alias, self.reporter)
        self.comparisons = ComparisonRunner(
            self.target,
            comparing,
            self.read_control,
            self._truncation,
            self._recovery,
            self.reporter,
            self._readback,
            events,
            backoff,
        )
        self.take_over = TakeOver(
            loop,
            self.target,
            self.comparisons,
            self._truncation,
            self.delivery,
            self.read_control,
            self.reporter,
            backoff,
        )
        self.fetcher.log_changes = self._recovery
        comparing.log_changes = self.comparisons
        comparing.on_response = (
            self.comparisons.step_all,
            self.fetcher.send_fetches,
            self._readback.finish,
        )
        events.connect(
            compare=self.take_over.compare,
            resume=self.take_over.resume,
            source_truncated=self.comparisons.on_source_truncated,
            target_ends_at=self.take_over.on_target_end,
            target_unreadable=self.take_over.continue_unread,
        )
        self._is_copying = True  # until the task begins to end

    def _new_state(self) -> InternalProducer | None:
        """In transactions positions are where the records are."""
        settings = self._settings
        if settings.offsets_cluster is None or self._split.transaction is not None:
            return None
        cluster = _open_cluster(self._loop, settings.offsets_cluster)
        made = InternalProducer(
            self._loop,
            cluster,
            settings.offsets_cluster.client_id,
            consequence="positions are not stored",
        )
        made.producer.on_response = self.producer.on_response
        return made

    def _new_syncs(self) -> OffsetSyncWriter | None:
        settings = self._settings
        if not settings.syncs_topic:
            return None
        side = settings.consumer if settings.syncs_on_source else settings.producer
        cluster = _open_cluster(self._loop, side)
        produce = settings.produce
        is_bound = produce.enforces_max_request_bytes and not settings.syncs_on_source
        internal = InternalProducer(
            self._loop,
            cluster,
            side.client_id,
            consequence="Java's tools see old offset syncs",
            max_request_bytes=produce.max_request_bytes if is_bound else None,
        )
        return OffsetSyncWriter(self._loop, internal, settings.syncs_topic, settings.offset_lag_max)

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
            self.read_control,
            self.reporter,
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
            self._state.producer.track_topics([self._positions.topic])
        if self._map.topic:
            topics.add(self._map.topic)
        self.producer.track_topics(topics)
        if self.syncs is not None:
            self.syncs.start()
        self.source.track_topics({part.source.tp.topic for part in self.partitions})
        self.take_over.start(self.partitions)

    def tick(self, now: float) -> None:
        """What is looked at once a second."""
        self.source.check_timeouts()
        self.target.check_timeouts()
        if self._is_copying:
            self.comparisons.tick(now)
            self.comparisons.read_more()
            self.fetcher.send_fetches()
            self._open_transactions.check()
            self.check_acks()
        self.delivery.tick(now)
        if self.syncs is not None:
            self.syncs.check_timeouts()
        if self._state is not None:
            self._state.check_timeouts()
        if self.budget.reset_peak() > self.budget.limit // 2:
            return_freed_memory()

    def stop_reading(self) -> None:
        """Copy what has been read and no more."""
        self._is_copying = False
        self.fetcher.close()
        self.take_over.close()
        self.comparisons.close()
        self._recovery.close()

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
        if is_waiting or mine.is_recording:
            self.fetcher.pause(part)  # nobody knows yet from where on it is wanted
            return part.position
        # A comparison wants them as they are: each has a leader epoch of its own.
        most = mine.target.max_merged_bytes if mine.comparison is None else 0
        try:
            batches = prepare_batches(
                records, part.position, aborted, codec=self._codec, merged_bytes=most
            )
        except CorruptRecordBatchError as error:
            if self._corrupt.try_skip(part, records, str(error)):
                return part.position
            raise
        for out in batches.batches:
            out.pin(buffer, self.budget)
        mine.is_changed = True
        if mine.comparison is not None:
            return self._compare(mine, mine.comparison, batches)
        for out in self._refused.filter_batches(mine, batches.batches):
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
        self.comparisons.step(mine)
        return part.position  # the end of a comparison turns to another one

    def on_fetch_response(self) -> None:
        """Send what one fetch brought."""
        self.producer.send_ready()
        self.comparisons.read_more()

    def on_fetch_error(self, part: FetchPartition, code: int, text: str) -> None:
        """Remember why a partition cannot be read."""
        mine = self._by_source[part.tp]
        if code == error_codes.TOPIC_RECREATED and self._settings.policies.source_recreated == STOP:
            self.reporter.report_at(
                IncidentKind.SOURCE_RECREATED, mine, "its position means nothing there", STOP
            )
        mine.set_source_error(code, text)

    def on_fetch_recovered(self, part: FetchPartition) -> None:
        """Forget it again."""
        self._by_source[part.tp].set_source_error(error_codes.NONE)

    # --- from the producer

    def on_acked(self, part: ProducePartition, out: OutgoingBatch) -> None:
        """Account for one record batch."""
        mine = self._by_target[part.tp]
        source = mine.source
        if not mine.is_taken_over:
            return  # the comparison finds it
        if 0 <= out.base_offset <= mine.downstream:  # the target has lost what was there
            if not self.delivery.handles_truncated_target(part):
                self.read_control.halt(mine)
                self.producer.drop_unsent(part)
                self._truncation.on_truncated(mine, mine.downstream + 1 - out.base_offset)
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
                self._readback.start(mine, out)
            mine.downstream = out.base_offset + out.count - 1
            mine.runs.add(out)
        elif out.runs:
            mine.map_copied_runs()
            mine.map_builder.leave_hole(out.runs[0].first, out.next_position)
        # Skipped markers behind the last record batch count as copied once it is acknowledged.
        mine.set_position(source.position if part.is_idle else out.next_position)
        self.delivery.on_acked(mine, out)

    def on_produce_response(self) -> None:
        """Room has been made: read on."""
        self.check_acks()
        self.delivery.on_produce_response()
        self.fetcher.send_fetches()

    def on_produce_error(self, part: ProducePartition, code: int, text: str) -> None:
        """Remember why a partition cannot be written."""
        mine = self._by_target[part.tp]
        if not mine.is_recording:
            if code in error_codes.NOT_AUTHORIZED:
                cause = f"{error_codes.name(code)}: {text or error_codes.advice(code)}"
                self.reporter.report_at(IncidentKind.REFUSED, mine, cause)
            mine.set_target_error(code, text)
            self.read_control.pause(mine)

    def on_rewind(self, part: ProducePartition, pause: float) -> bool:
        """Read a refused partition again, from the last acknowledged position."""
        self.read_control.reread(self._by_target[part.tp], pause)
        return True

    def on_refused(self, refused: RefusedBatch) -> list[OutgoingBatch] | None:
        """What to send instead of a record batch that will never be taken."""
        return self._refused.replace(self._by_target[refused.partition.tp], refused)

    def on_sequence_lost(self, part: ProducePartition, pause: float) -> None:
        """Somebody else wrote as this flow's producer: see what is there."""
        if self.delivery.handles_lost_sequence(part):
            return
        mine = self._by_target[part.tp]
        self.read_control.halt(mine)
        self.reporter.notice(
            f"resume: {self.target.alias}: {part.tp}: the broker expects another sequence; both "
            "sides are compared"
        )
        self.take_over.on_sequence_lost(mine, pause)

    def on_produce_recovered(self, part: ProducePartition) -> None:
        """Forget it again."""
        self._by_target[part.tp].set_target_error(error_codes.NONE)

    # --- accounts

    def check_acks(self) -> None:
        """Run what waits for the ledger, a dead letter, or the target."""
        self._dead_letters.check_acks()
        self.reporter.check_acks()
        self._recovery.check_drained()

    @property
    def has_recorded_all(self) -> bool:
        """Nothing waits for the ledger or for a dead letter."""
        return self._dead_letters.is_idle and self.reporter.is_idle

    def missing_topics(self) -> tuple[str, ...]:
        """The topics that the driver is to create."""
        return tuple(
            one.topic
            for one in self._on_demand_topics
            if not one.is_idle and one.partition.tp not in self.target.leaders
        )

    @property
    def errors(self) -> list[str]:
        """What is wrong, apart from single partitions."""
        found = [str(c.error) for c in (self.source, self.target) if c.error is not None]
        positions = self._positions.listener if self._state is None else self._state
        internal = (
            positions,
            self._map.listener,
            *self._on_demand_topics,
            self.delivery,
            self._map,
            *(() if self.syncs is None else (self.syncs,)),
        )
        return found + [one.error for one in internal if one.error]

    @property
    def is_flushed(self) -> bool:
        """All that counts is stored, and said to those who read offset syncs."""
        return self.delivery.is_flushed and (self.syncs is None or self.syncs.is_flushed)


def _open_cluster(loop: EventLoop, settings: ConnectionSettings) -> Cluster:
    dialer = Dialer(
        cluster=settings.alias,
        client_id=settings.client_id,
        connect_timeout_seconds=settings.connect_timeout_seconds,
        request_timeout_seconds=settings.request_timeout_seconds,
        send_buffer_bytes=settings.send_buffer_bytes,
        receive_buffer_bytes=settings.receive_buffer_bytes,
        max_idle_seconds=settings.max_idle_seconds,
        security=settings.security,
    )
    return Cluster(loop, dialer, [_address(text) for text in settings.bootstrap_servers])


def _address(text: str) -> Address:
    host, _colon, port = text.rpartition(":")
    return Address(host.strip("[]"), int(port))
