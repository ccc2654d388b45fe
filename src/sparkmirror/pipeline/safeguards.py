# SPDX-License-Identifier: Apache-2.0
"""All of a task that sees to it that nothing happens silently, put together.

The copy loop, the take-over and the producer say here what they meet; each kind of thing has a
module of its own that decides by the policies. Owned by the task's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.comparison import Comparison
from sparkmirror.pipeline.contract import TaskSettings
from sparkmirror.pipeline.copy_partition import CopyPartition
from sparkmirror.pipeline.dead_letter_writer import DeadLetterWriter
from sparkmirror.pipeline.incident_desk import IncidentDesk, incident
from sparkmirror.pipeline.open_transactions import OpenTransactions
from sparkmirror.pipeline.refusals import Refusals
from sparkmirror.pipeline.side_topic import SideTopic
from sparkmirror.pipeline.source_log import SourceLog
from sparkmirror.pipeline.target_log import TargetLog
from sparkmirror.state.incidents import STOP, Incident, Kind
from sparkmirror.wire import error_codes
from sparkmirror.wire.budget import Budget
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.fetch_session import SourcePartition
from sparkmirror.wire.fetcher import Fetcher
from sparkmirror.wire.loop import Loop
from sparkmirror.wire.outgoing import Outgoing, halve_own
from sparkmirror.wire.producer import Producer, TargetPartition

_NOT_THERE_YET = (error_codes.UNKNOWN_TOPIC_OR_PARTITION, error_codes.UNKNOWN_LEADER)


class Guarded(Protocol):
    """The copy task, as its safeguards need it."""

    @property
    def is_copying(self) -> bool:
        """Whether the task has not begun to end."""

    def fetch_trouble(self, part: SourcePartition, code: int, text: str) -> None:
        """Remember why a partition cannot be read."""

    def take_over_trouble(self, part: CopyPartition, code: int, text: str) -> None:
        """Remember why a partition does not begin."""

    def read_again(self, part: CopyPartition) -> None:
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
        loop: Loop,
        clusters: tuple[Cluster, Cluster],
        fetcher: Fetcher,
        producer: Producer,
        budget: Budget,
        settings: TaskSettings,
        parts: Sequence[CopyPartition],
    ) -> None:
        source, self._target = clusters
        policies = settings.policies
        self._policies = policies
        self._parts = parts
        self._by_target = {part.target.tp: part for part in parts}
        by_source = {part.source.tp: part for part in parts}
        ledger = SideTopic(producer, settings.ledger_topic)
        self._letters = DeadLetterWriter(SideTopic(producer, settings.dead_letters_topic))
        self._side_topics = {side.line.tp: side for side in (ledger, self._letters.topic)}
        self._desk = IncidentDesk(settings.flow, ledger)
        self._budget = budget
        self._refusals = Refusals(
            settings, budget, self._desk, self._letters, task.read_again, producer.largest
        )
        self.source_log = SourceLog(
            loop,
            source,
            fetcher,
            settings,
            self._desk,
            task,
            by_source,
            self._refusals.forget_from,
        )
        self._target_log = TargetLog(
            source, self._target.alias, policies.target_truncated, self._desk, task
        )
        self._open_transactions = OpenTransactions(
            source, policies.open_transaction_seconds, self._desk, task.fetch_trouble
        )

    # --- the task's clock

    def tick(self) -> None:
        """Called about once a second while copying."""
        self._open_transactions.look(part.source for part in self._parts)
        self.look()

    def look(self) -> None:
        """Let those go on who wait for the ledger or for a dead letter to arrive."""
        self._letters.look()
        self._desk.look()
        self.source_log.look()

    @property
    def is_idle(self) -> bool:
        """Nobody waits for what has been written."""
        return self._letters.is_idle and self._desk.is_idle

    def take(self) -> tuple[Incident, ...]:
        """What the driver is to be told next."""
        return self._desk.take()

    def needs(self) -> tuple[str, ...]:
        """The topics that the driver is to create."""
        return tuple(
            side.topic
            for tp, side in self._side_topics.items()
            if not side.is_idle and tp not in self._target.leaders
        )

    # --- what the producer says

    def acked(self, tp: TopicPartition, out: Outgoing) -> None:
        """The target took a record batch of a topic that is not copied."""
        side = self._side_topics.get(tp)
        if side is not None:
            side.acked(out)

    def is_awaited(self, tp: TopicPartition, code: int) -> bool:
        """Whether an error only means that the driver has not created a topic yet."""
        return tp in self._side_topics and code in _NOT_THERE_YET

    def refused(
        self,
        part: TargetPartition,
        out: Outgoing,
        code: int,
        text: str,
        record_errors: Mapping[int, str],
    ) -> list[Outgoing] | None:
        """What to send instead of a record batch that will never be taken; None: it waits."""
        mine = self._by_target.get(part.tp)
        if mine is not None:
            return self._refusals.refused(mine, out, code, text, record_errors)
        if part is self._letters.topic.line:
            return [] if self._letters.refused() else None
        return halve_own(out, self._budget) if code == error_codes.MESSAGE_TOO_LARGE else None

    def is_busy_with(self, part: CopyPartition) -> bool:
        """Whether a partition waits for its refused records to be recorded."""
        return self._refusals.is_busy_with(part)

    def produce_trouble(self, part: CopyPartition, code: int, text: str) -> None:
        """A partition cannot be written."""
        if code in error_codes.NOT_AUTHORIZED:
            cause = f"{error_codes.name(code)}: {text or error_codes.advice(code)}"
            self._happened(Kind.REFUSED, part, cause)

    # --- what the fetcher says

    def pass_by(self, part: CopyPartition, batches: list[Outgoing]) -> list[Outgoing]:
        """What is left to be sent of record batches that were read."""
        return self._refusals.pass_by(part, batches)

    def fetch_trouble(self, part: CopyPartition, code: int) -> None:
        """A partition cannot be read."""
        if code == error_codes.TOPIC_RECREATED and self._policies.source_recreated == STOP:
            self._happened(Kind.SOURCE_RECREATED, part, "its position means nothing there", STOP)

    # --- what the take-over says

    def target_truncated(self, part: CopyPartition, missing: int) -> None:
        """Acknowledged records are gone from the target."""
        self._target_log.truncated(part, missing)

    def is_further_back(self, part: CopyPartition) -> bool:
        """Both sides did not agree: whether they are compared again, from an earlier pair."""
        return self._target_log.is_further_back(part)

    def compared(
        self, part: CopyPartition, comparison: Comparison, then: Callable[[], None]
    ) -> None:
        """Go on where a comparison ended, once what it found is recorded; or wait."""
        self.source_log.compared(part, comparison, then)

    def mismatch(self, part: CopyPartition, text: str) -> None:
        """What is on the target is not what should be there."""
        self._happened(Kind.RESUME_MISMATCH, part, text)

    def blind(self, part: CopyPartition) -> None:
        """The target may not be read, or not in a way that we speak."""
        topic = part.target.tp.topic
        cause = f"{self._target.alias}: {topic} cannot be read; grant READ on the remote topics"
        self._happened(Kind.NO_READ, part, cause)

    def taken_over(self, part: CopyPartition) -> None:
        """A partition goes on at its pair."""
        self._target_log.found(part)
        part.settle()

    def _happened(self, kind: Kind, part: CopyPartition, cause: str, policy: str = "") -> None:
        """Something happened where a partition stands; nobody waits for the ledger."""
        at = (part.position, part.position)
        self._desk.record([incident(kind, part.source.tp, at, -1, cause, policy)], lambda: None)
