# SPDX-License-Identifier: Apache-2.0
"""Starts, ticks, stops and closes the parts of a copy task, and collects their errors.

`task_builder.py` constructs and connects them. Owned by the task's thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sparkmirror.task.batch_origins import BatchOrigins
from sparkmirror.task.comparison_runner import ComparisonRunner
from sparkmirror.task.copy_partition import CopyPartition
from sparkmirror.task.dead_letters import DeadLetterWriter
from sparkmirror.task.delivery import Delivery
from sparkmirror.task.incident_reporter import IncidentReporter
from sparkmirror.task.internal_producer import InternalProducer
from sparkmirror.task.offset_map_writer import OffsetMapWriter
from sparkmirror.task.offset_sync_writer import OffsetSyncWriter
from sparkmirror.task.on_demand_topic import OnDemandTopic
from sparkmirror.task.open_transaction_monitor import OpenTransactionMonitor
from sparkmirror.task.position_writer import PositionWriter
from sparkmirror.task.producer_registration import ProducerRegistration
from sparkmirror.task.source_log_recovery import SourceLogRecovery
from sparkmirror.task.take_over import TakeOver
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.fetcher import Fetcher
from sparkmirror.wire.memory import MemoryBudget, return_freed_memory
from sparkmirror.wire.producer import Producer


@dataclass
class TaskParts:
    """The parts of one task that have a lifecycle."""

    partitions: Sequence[CopyPartition]
    budget: MemoryBudget
    source: Cluster
    target: Cluster
    fetcher: Fetcher
    producer: Producer
    positions: PositionWriter
    positions_producer: InternalProducer | None  # None: positions are on the target
    offset_map: OffsetMapWriter
    syncs: OffsetSyncWriter | None  # None: no offset syncs are written
    ledger: OnDemandTopic
    reporter: IncidentReporter
    dead_letters: DeadLetterWriter
    delivery: Delivery
    registration: ProducerRegistration
    recovery: SourceLogRecovery
    origins: BatchOrigins
    monitor: OpenTransactionMonitor
    comparisons: ComparisonRunner
    take_over: TakeOver
    _is_copying: bool = field(default=True, init=False)

    def start(self) -> None:
        """Request metadata and start all partitions."""
        topics = {part.target.tp.topic for part in self.partitions}
        if self.positions_producer is None:
            topics.add(self.positions.topic)
        else:
            self.positions_producer.producer.track_topics([self.positions.topic])
        if self.offset_map.topic:
            topics.add(self.offset_map.topic)
        self.producer.track_topics(topics)
        if self.syncs is not None:
            self.syncs.start()
        self.source.track_topics({part.source.tp.topic for part in self.partitions})
        self.origins.start()
        self.take_over.start(self.partitions)

    def tick(self, now: float) -> None:
        """Called about once a second."""
        self.source.check_timeouts()
        self.target.check_timeouts()
        if self._is_copying:
            self.comparisons.tick(now)
            self.comparisons.read_more()
            self.fetcher.send_fetches()
            self.monitor.check()
            self.dead_letters.check_acks()
            self.reporter.check_acks()
            self.recovery.check_drained()
        self.delivery.tick(now)
        if self.syncs is not None:
            self.syncs.check_timeouts()
        if self.positions_producer is not None:
            self.positions_producer.check_timeouts()
        if self.budget.reset_peak() > self.budget.limit // 2:
            return_freed_memory()

    def stop_reading(self) -> None:
        """Stop reading; records that were read are still copied."""
        self._is_copying = False
        self.fetcher.close()
        self.take_over.close()
        self.comparisons.close()
        self.recovery.close()
        self.origins.close()

    def stop_writing(self) -> None:
        """Stop writing records and positions."""
        self.producer.close()
        if self.positions_producer is not None:
            self.positions_producer.producer.close()

    def close(self) -> None:
        self.delivery.close()
        if self.positions_producer is not None:
            self.positions_producer.close()
        if self.syncs is not None:
            self.syncs.close()
        self.source.close()
        self.target.close()

    @property
    def is_drained(self) -> bool:
        """Whether all records read are on the target, and ledger and dead letters are written."""
        is_acked = all(part.target.is_idle for part in self.partitions)
        return is_acked and self.dead_letters.is_idle and self.reporter.is_idle

    @property
    def is_flushed(self) -> bool:
        """Whether positions are stored and offset syncs are written."""
        return self.delivery.is_flushed and (self.syncs is None or self.syncs.is_flushed)

    @property
    def errors(self) -> list[str]:
        """The errors of clusters and internal topics."""
        internal = (
            self.positions_producer or self.positions.listener,
            self.offset_map.listener,
            self.ledger,
            self.dead_letters.topic,
            self.registration,
            self.delivery,
            self.offset_map,
            *(() if self.syncs is None else (self.syncs,)),
        )
        clusters = [str(one.error) for one in (self.source, self.target) if one.error is not None]
        return clusters + [one.error for one in internal if one.error]

    @property
    def missing_topics(self) -> tuple[str, ...]:
        """The topics that the driver must create."""
        return tuple(
            one.topic
            for one in (self.ledger, self.dead_letters.topic)
            if not one.is_idle and one.partition.tp not in self.target.leaders
        )
