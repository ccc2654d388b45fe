# SPDX-License-Identifier: Apache-2.0
"""All of a task that sees to it that nothing happens silently, put together.

The copy loop, the take-over and the producer say here what they meet; each kind of thing has a
module of its own that decides by the policies. Owned by the task's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from sparkmirror.state.incidents import STOP, IncidentKind
from sparkmirror.task.comparison import Comparison
from sparkmirror.task.copy_partition import CopyPartition
from sparkmirror.task.dead_letters import DeadLetterWriter
from sparkmirror.task.incident_reporter import IncidentReporter
from sparkmirror.task.messages import TaskSettings
from sparkmirror.task.on_demand_topic import OnDemandTopic
from sparkmirror.task.open_transaction_monitor import OpenTransactionMonitor
from sparkmirror.task.read_control import ReadControl
from sparkmirror.task.refused_records import RefusedRecords
from sparkmirror.task.source_log_recovery import SourceLogRecovery
from sparkmirror.task.target_truncation import TargetTruncation
from sparkmirror.wire import error_codes
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.fetcher import Fetcher
from sparkmirror.wire.memory import MemoryBudget
from sparkmirror.wire.outgoing import OutgoingBatch
from sparkmirror.wire.producer import Producer


class Guarded(Protocol):
    """The copy task, as its safeguards need it."""

    @property
    def is_copying(self) -> bool:
        """Whether the task has not begun to end."""

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
        read_control: ReadControl,
        budget: MemoryBudget,
        settings: TaskSettings,
        parts: Sequence[CopyPartition],
    ) -> None:
        source, self._target = clusters
        policies = settings.policies
        self._policies = policies
        by_source = {part.source.tp: part for part in parts}
        alias = self._target.alias
        ledger = OnDemandTopic(producer, settings.ledger_topic, alias, budget)
        letters = OnDemandTopic(producer, settings.dead_letters_topic, alias, budget)
        self._letters = DeadLetterWriter(letters)
        self.on_demand_topics = (ledger, letters)
        self.reporter = IncidentReporter(settings.flow, ledger)
        self.refused = RefusedRecords(
            settings,
            budget,
            self.reporter,
            self._letters,
            read_control,
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
            self.refused.forget_from,
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
            one.topic
            for one in self.on_demand_topics
            if not one.is_idle and one.partition.tp not in self._target.leaders
        )

    # --- what the producer says

    def produce_trouble(self, part: CopyPartition, code: int, text: str) -> None:
        """A partition cannot be written."""
        if code in error_codes.NOT_AUTHORIZED:
            cause = f"{error_codes.name(code)}: {text or error_codes.advice(code)}"
            self.reporter.report_at(IncidentKind.REFUSED, part, cause)

    # --- what the fetcher says

    def pass_by(self, part: CopyPartition, batches: list[OutgoingBatch]) -> list[OutgoingBatch]:
        """What is left to be sent of record batches that were read."""
        return self.refused.filter_batches(part, batches)

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
