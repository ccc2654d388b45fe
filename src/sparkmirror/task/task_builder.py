# SPDX-License-Identifier: Apache-2.0
"""Builds the parts of a copy task and connects them.

Parts get their dependencies as constructor arguments. Upward calls go through listeners, callbacks
and `PartitionEvents`, which `build_parts` connects at its end. Owned by the task's thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from sparkmirror.formats.producer_registry import PRODUCERS_TOPIC
from sparkmirror.task.batch_origins import BatchOrigins
from sparkmirror.task.comparison_runner import ComparisonRunner
from sparkmirror.task.copy_partition import ClusterAliases, CopyPartition
from sparkmirror.task.corrupt_batches import CorruptBatches
from sparkmirror.task.dead_letters import DeadLetterWriter
from sparkmirror.task.delivery import Delivery, PeriodicDelivery
from sparkmirror.task.events import PartitionEvents
from sparkmirror.task.incident_reporter import IncidentReporter
from sparkmirror.task.internal_producer import InternalProducer, InternalTopicListener
from sparkmirror.task.messages import Split, TaskSettings
from sparkmirror.task.offset_map_writer import OffsetMapWriter
from sparkmirror.task.offset_sync_writer import OffsetSyncWriter
from sparkmirror.task.on_demand_topic import OnDemandTopic
from sparkmirror.task.open_transaction_monitor import OpenTransactionMonitor
from sparkmirror.task.position_writer import PositionWriter
from sparkmirror.task.producer_registration import ProducerRegistration
from sparkmirror.task.read_control import ReadControl
from sparkmirror.task.refused_records import RefusedRecords
from sparkmirror.task.source_log_recovery import SourceLogRecovery
from sparkmirror.task.source_reader import SourceReader
from sparkmirror.task.take_over import TakeOver
from sparkmirror.task.target_readback import TargetReadback
from sparkmirror.task.target_truncation import TargetTruncation
from sparkmirror.task.target_writer import TargetWriter
from sparkmirror.task.task_parts import TaskParts
from sparkmirror.task.transactional_delivery import TransactionalDelivery, TransactionLimits
from sparkmirror.wire.backoff import Backoff
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.codecs import codec_id
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.fetcher import Fetcher
from sparkmirror.wire.memory import MemoryBudget
from sparkmirror.wire.merge import MAX_MERGED_BYTES
from sparkmirror.wire.producer import Producer
from sparkmirror.wire.settings import FetchSettings

_COMPARISON_FETCH = FetchSettings(
    isolation_level="read_uncommitted",
    fetch_max_bytes=8 << 20,
    max_partition_fetch_bytes=1 << 20,
    fetch_max_wait_ms=100,
)
_MIN_COMPARISON_BYTES = 4 << 20


def build_parts(split: Split, settings: TaskSettings, loop: EventLoop) -> TaskParts:
    """Construct all parts of a task bottom-up, then connect the upward calls.

    The order matters: metadata listeners run in the order of construction, and merge limits are
    computed before the producer becomes transactional.
    """
    policies = settings.policies
    budget = MemoryBudget(settings.buffer_bytes)
    source = Cluster(loop, settings.consumer)
    target = Cluster(loop, settings.producer)
    fetcher = Fetcher(loop, source, settings.fetch, budget)
    producer = Producer(loop, target, settings.produce, budget, settings.producer.client_id)

    # Internal topics
    positions_producer = _positions_producer(split, settings, loop)
    positions = _position_writer(settings, producer, positions_producer, target.alias, budget)
    offset_map = OffsetMapWriter(producer, settings.map_topic, target.alias, budget)
    syncs = _offset_sync_writer(settings, loop)
    ledger = OnDemandTopic(producer, settings.ledger_topic, target.alias, budget)
    reporter = IncidentReporter(settings.flow, ledger, settings.connector)
    dead_letters = DeadLetterWriter(
        OnDemandTopic(producer, settings.dead_letters_topic, target.alias, budget)
    )
    registration = ProducerRegistration(
        OnDemandTopic(producer, PRODUCERS_TOPIC, target.alias, budget), settings
    )

    # Partitions and delivery
    aliases = ClusterAliases(source.alias, target.alias, settings.flow, settings.connector)
    partitions = [CopyPartition(start, aliases) for start in split.partitions]
    by_source = {part.source.tp: part for part in partitions}
    by_target = {part.target.tp: part for part in partitions}
    _limit_merging(partitions, producer)
    read_control = ReadControl(
        source,
        fetcher,
        read_committed=settings.fetch.reads_committed,
    )
    delivery: Delivery
    if split.transaction is None:
        delivery = PeriodicDelivery(
            positions, offset_map, syncs, partitions, settings.flush_seconds
        )
    else:
        delivery = TransactionalDelivery(
            loop,
            target,
            producer,
            positions,
            offset_map,
            syncs,
            partitions,
            read_control,
            reporter,
            registration,
            split.transaction,
            TransactionLimits(
                settings.commit_seconds, settings.flush_seconds, settings.transaction_timeout_ms
            ),
        )

    # Recovery
    events = PartitionEvents()
    refused = RefusedRecords(
        settings, budget, reporter, dead_letters, read_control, producer.max_batch_bytes
    )
    truncation = TargetTruncation(source, target.alias, policies.target_truncated, reporter, events)
    recovery = SourceLogRecovery(
        loop, source, fetcher, settings, reporter, delivery, refused, by_source, events
    )
    origins = BatchOrigins(loop, source, fetcher, settings, partitions, reporter, recovery)
    monitor = OpenTransactionMonitor(
        source, policies.open_transaction_seconds, reporter, partitions
    )
    target_fetcher = Fetcher(
        loop,
        target,
        _COMPARISON_FETCH,
        MemoryBudget(max(settings.buffer_bytes // 4, _MIN_COMPARISON_BYTES)),
    )
    backoff = Backoff()
    readback = TargetReadback(target_fetcher, target.alias, reporter)
    comparisons = ComparisonRunner(
        target,
        target_fetcher,
        read_control,
        truncation,
        recovery,
        reporter,
        readback,
        events,
        backoff,
    )
    take_over = TakeOver(
        loop,
        target,
        comparisons,
        truncation,
        delivery,
        registration,
        read_control,
        reporter,
        backoff,
    )

    # Data path
    reader = SourceReader(
        by_source,
        codec_id(settings.produce.compression),
        budget,
        fetcher,
        producer,
        refused,
        CorruptBatches(fetcher, policies.corrupt_batch, reporter, by_source),
        comparisons,
        origins,
        reporter,
        policies,
    )
    writer = TargetWriter(
        by_target,
        producer,
        fetcher,
        read_control,
        delivery,
        take_over,
        truncation,
        readback,
        refused,
        reporter,
        target.alias,
        is_transactional=split.transaction is not None,
    )

    # Upward calls
    for part in partitions:
        part.source.listener = reader
        part.target.listener = writer
    fetcher.log_changes = origins
    target_fetcher.log_changes = comparisons
    fetcher.on_response = (producer.send_ready, comparisons.read_more, origins.decide_if_read)
    target_fetcher.on_response = (comparisons.step_all, fetcher.send_fetches, readback.finish)
    producer.on_response = (
        dead_letters.check_acks,
        reporter.check_acks,
        recovery.check_drained,
        registration.check_acks,
        delivery.on_produce_response,
        fetcher.send_fetches,
    )
    if positions_producer is not None:
        positions_producer.producer.on_response = producer.on_response
    offset_map.on_disabled = delivery.on_produce_response
    events.connect(
        compare=take_over.compare,
        resume=take_over.resume,
        source_truncated=comparisons.on_source_truncated,
        target_ends_at=take_over.on_target_end,
        target_unreadable=take_over.continue_unread,
    )
    return TaskParts(
        partitions=partitions,
        budget=budget,
        source=source,
        target=target,
        fetcher=fetcher,
        producer=producer,
        positions=positions,
        positions_producer=positions_producer,
        offset_map=offset_map,
        syncs=syncs,
        ledger=ledger,
        reporter=reporter,
        dead_letters=dead_letters,
        delivery=delivery,
        registration=registration,
        recovery=recovery,
        origins=origins,
        monitor=monitor,
        comparisons=comparisons,
        take_over=take_over,
    )


def _limit_merging(partitions: Sequence[CopyPartition], producer: Producer) -> None:
    """Merge small record batches only up to what fits into a request."""
    for part in partitions:
        limit = producer.max_batch_bytes(part.target.tp) or MAX_MERGED_BYTES
        part.target.max_merged_bytes = min(part.target.max_merged_bytes, limit)


def _positions_producer(
    split: Split, settings: TaskSettings, loop: EventLoop
) -> InternalProducer | None:
    """Return the producer for positions; None: they go to the target, as always in transactions."""
    if settings.offsets_cluster is None or split.transaction is not None:
        return None
    cluster = Cluster(loop, settings.offsets_cluster)
    return InternalProducer(
        loop,
        cluster,
        settings.offsets_cluster.client_id,
        consequence="positions are not stored",
    )


def _position_writer(
    settings: TaskSettings,
    producer: Producer,
    own: InternalProducer | None,
    target_alias: str,
    budget: MemoryBudget,
) -> PositionWriter:
    return PositionWriter(
        producer if own is None else own.producer,
        InternalTopicListener(target_alias, budget) if own is None else own.listener,
        topic=settings.offsets_topic,
        partitions=settings.offsets_partitions,
        connector=settings.connector,
        source_alias=settings.source_alias,
    )


def _offset_sync_writer(settings: TaskSettings, loop: EventLoop) -> OffsetSyncWriter | None:
    if not settings.syncs_topic:
        return None
    client = settings.consumer if settings.syncs_on_source else settings.producer
    produce = settings.produce
    is_limited = produce.enforces_max_request_bytes and not settings.syncs_on_source
    internal = InternalProducer(
        loop,
        Cluster(loop, client),
        client.client_id,
        consequence="Java's tools see old offset syncs",
        max_request_bytes=produce.max_request_bytes if is_limited else None,
    )
    return OffsetSyncWriter(loop, internal, settings.syncs_topic, settings.offset_lag_max)
