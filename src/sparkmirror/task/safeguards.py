# SPDX-License-Identifier: Apache-2.0
"""All of a task that sees to it that nothing happens silently, put together.

The copy loop, the take-over and the producer say here what they meet; each kind of thing has a
module of its own that decides by the policies. Owned by the task's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from sparkmirror.model import TopicPartition
from sparkmirror.state.incidents import STOP, IncidentKind
from sparkmirror.task.comparison import Comparison
from sparkmirror.task.copy_partition import CopyPartition
from sparkmirror.task.dead_letters import DeadLetterWriter
from sparkmirror.task.incident_reporter import IncidentReporter
from sparkmirror.task.messages import TaskSettings
from sparkmirror.task.on_demand_topic import OnDemandTopic
from sparkmirror.task.open_transaction_monitor import OpenTransactionMonitor
from sparkmirror.task.refused_records import RefusedRecords
from sparkmirror.task.source_log_recovery import SourceLogRecovery
from sparkmirror.task.target_truncation import TargetTruncation
from sparkmirror.wire import error_codes
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.fetcher import Fetcher
from sparkmirror.wire.memory import MemoryBudget
from sparkmirror.wire.outgoing import OutgoingBatch, halve_batch
from sparkmirror.wire.producer import ProducePartition, Producer

_NOT_THERE_YET = (error_codes.UNKNOWN_TOPIC_OR_PARTITION, error_codes.NO_LEADER)


class Guarded(Protocol):
    """The copy task, as its safeguards need it."""

    @property
    def is_copying(self) -> bool:
        """Whether the task has not begun to end."""

    def reread_now(self, part: CopyPartition) -> None:
        """Read on from the last acknowledged position, with what was queued forgotten."""

    def compare_again(self, part: CopyPartition, pause: float) -> None:
        """Compare both sides, from the partition's pair."""

    def cut_while_comparing(self, part: CopyPartition, end: int) -> None:
        """The source of a partition that is being compared ends there, or goes on differently."""

    def store(self, part: CopyPartition, then: Callable[[], None]) -> None:
        """Call `then` when no successor can begin before the partition's present position."""


class Safeguards:
    """The ledger, the dead letters, and those who write to them."""

    def __init__(
        self,
        task: Guarded,
        loop: EventLoop,
        clusters: tuple[Cluster, Cluster],
        fetcher: Fetcher,
        producer: Producer,
        budget: MemoryBudget,
        settings: TaskSettings,
        parts: Sequence[CopyPartition],
    ) -> None:
        source, self._target = clusters
        policies = settings.policies
        self._policies = policies
        self._by_target = {part.target.tp: part for part in parts}
        by_source = {part.source.tp: part for part in parts}
        ledger = OnDemandTopic(producer, settings.ledger_topic)
        self._letters = DeadLetterWriter(OnDemandTopic(producer, settings.dead_letters_topic))
        self._on_demand_topics = {side.partition.tp: side for side in (ledger, self._letters.topic)}
        self.reporter = IncidentReporter(settings.flow, ledger)
        self._budget = budget
        self._refusals = RefusedRecords(
            settings,
            budget,
            self.reporter,
            self._letters,
            task.reread_now,
            producer.max_batch_bytes,
        )
        self.source_log = SourceLogRecovery(
            loop,
            source,
            fetcher,
            settings,
            self.reporter,
            task,
            by_source,
            self._refusals.forget_from,
        )
        self._target_log = TargetTruncation(
            source, self._target.alias, policies.target_truncated, self.reporter, task
        )
        self._open_transactions = OpenTransactionMonitor(
            source, policies.open_transaction_seconds, self.reporter, parts
        )

    # --- the task's clock

    def tick(self) -> None:
        """Called about once a second while copying."""
        self._open_transactions.check()
        self.look()

    def look(self) -> None:
        """Let those go on who wait for the ledger or for a dead letter to arrive."""
        self._letters.check_acks()
        self.reporter.check_acks()
        self.source_log.check_drained()

    @property
    def is_idle(self) -> bool:
        """Nobody waits for what has been written."""
        return self._letters.is_idle and self.reporter.is_idle

    def missing_topics(self) -> tuple[str, ...]:
        """The topics that the driver is to create."""
        return tuple(
            side.topic
            for tp, side in self._on_demand_topics.items()
            if not side.is_idle and tp not in self._target.leaders
        )

    # --- what the producer says

    def acked(self, tp: TopicPartition, out: OutgoingBatch) -> None:
        """The target took a record batch of a topic that is not copied."""
        side = self._on_demand_topics.get(tp)
        if side is not None:
            side.on_acked(out)

    def is_awaited(self, tp: TopicPartition, code: int) -> bool:
        """Whether an error only means that the driver has not created a topic yet."""
        return tp in self._on_demand_topics and code in _NOT_THERE_YET

    def refused(
        self,
        part: ProducePartition,
        out: OutgoingBatch,
        code: int,
        text: str,
        record_errors: Mapping[int, str],
    ) -> list[OutgoingBatch] | None:
        """What to send instead of a record batch that will never be taken; None: it waits."""
        mine = self._by_target.get(part.tp)
        if mine is not None:
            return self._refusals.replace(mine, out, code, text, record_errors)
        if part is self._letters.topic.partition:
            return [] if self._letters.shrink_refused() else None
        return halve_batch(out, self._budget) if code == error_codes.MESSAGE_TOO_LARGE else None

    def produce_trouble(self, part: CopyPartition, code: int, text: str) -> None:
        """A partition cannot be written."""
        if code in error_codes.NOT_AUTHORIZED:
            cause = f"{error_codes.name(code)}: {text or error_codes.advice(code)}"
            self.reporter.report_at(IncidentKind.REFUSED, part, cause)

    # --- what the fetcher says

    def pass_by(self, part: CopyPartition, batches: list[OutgoingBatch]) -> list[OutgoingBatch]:
        """What is left to be sent of record batches that were read."""
        return self._refusals.filter_batches(part, batches)

    def fetch_trouble(self, part: CopyPartition, code: int) -> None:
        """A partition cannot be read."""
        if code == error_codes.TOPIC_RECREATED and self._policies.source_recreated == STOP:
            self.reporter.report_at(
                IncidentKind.SOURCE_RECREATED, part, "its position means nothing there", STOP
            )

    # --- what the take-over says

    def target_truncated(self, part: CopyPartition, missing: int) -> None:
        """Acknowledged records are gone from the target."""
        self._target_log.on_truncated(part, missing)

    def is_further_back(self, part: CopyPartition) -> bool:
        """Both sides did not agree: whether they are compared again, from an earlier pair."""
        return self._target_log.retry_earlier(part)

    def compared(
        self, part: CopyPartition, comparison: Comparison, then: Callable[[], None]
    ) -> None:
        """Go on where a comparison ended, once what it found is recorded; or wait."""
        self.source_log.on_compared(part, comparison, then)

    def taken_over(self, part: CopyPartition) -> None:
        """A partition goes on at its pair."""
        self._target_log.on_resumed(part)
        part.apply_estimate()
