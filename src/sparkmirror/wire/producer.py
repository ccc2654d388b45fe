# SPDX-License-Identifier: Apache-2.0
"""Write record batches to the leaders of the target, in order, several requests in flight.

Per partition: `pending` has not been sent, `window` has been sent and not acknowledged. A record
batch once sent keeps its cut and its sequence until it is answered, so a resend is recognised by
the broker among the last five; hence at most five requests in flight per connection. After a
failure nothing of that partition is sent before all its answers are in; then everything from the
first unanswered one on goes out again. Owned by the loop's thread.
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from kafka.protocol.producer import ProduceResponse

from sparkmirror.errors import UnreachableError, UnreadableAnswerError
from sparkmirror.model import TopicPartition
from sparkmirror.wire import error_codes
from sparkmirror.wire.answers import decode_answer
from sparkmirror.wire.backoff import Backoff
from sparkmirror.wire.budget import Budget
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.connection import Connection
from sparkmirror.wire.error_codes import Remedy
from sparkmirror.wire.loop import Loop, Timer
from sparkmirror.wire.merge import MERGED_BYTES
from sparkmirror.wire.outgoing import Outgoing, join
from sparkmirror.wire.produce_protocol import (
    IDS_VERSION,
    OLDEST_VERSION,
    PARTITION_BYTES,
    PRODUCE_KEY,
    REQUEST_BYTES,
    VERSION,
    produce_request,
)
from sparkmirror.wire.record_batch import SEQUENCE_MASK, stamp

NO_PRODUCER = -1
_FORGOTTEN_AFTER_SECONDS = 1.0  # brokers keep producers for a day, or for as long as configured


@dataclass(frozen=True, slots=True)
class ProduceLimits:
    """How a produce request is made."""

    acks: int
    timeout_ms: int
    max_request_bytes: int
    max_in_flight: int
    merged_bytes: int = MERGED_BYTES  # tiny record batches that wait become one of this size; 0: no
    is_size_final: bool = False  # whether even one record batch may not make a request larger


class TargetPartition:
    """Where writing one partition stands."""

    __slots__ = (
        "backoff",
        "failure",
        "failure_text",
        "idle_since",
        "is_introduced",
        "line",
        "most_joined",
        "next_sequence",
        "node",
        "out_of_order_twice",
        "pending",
        "producer_epoch",
        "producer_id",
        "record_errors",
        "refused",
        "timer",
        "topic_id",
        "tp",
        "unanswered",
        "waiting_since",
        "window",
    )

    def __init__(
        self,
        tp: TopicPartition,
        producer_id: int = NO_PRODUCER,
        producer_epoch: int = -1,
        next_sequence: int = 0,
        topic_id: uuid.UUID | None = None,
    ) -> None:
        self.tp = tp
        self.topic_id = topic_id  # as planned: another id means a recreated topic
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.next_sequence = next_sequence
        # A broker takes any first sequence of a producer it has not seen: until one record batch
        # is acknowledged there, a second one must not be able to overtake it.
        self.is_introduced = producer_id == NO_PRODUCER or next_sequence > 0
        self.pending: deque[Outgoing] = deque()
        self.window: deque[Outgoing] = deque()
        self.unanswered = 0
        self.node = -1  # the broker that has them
        self.line: deque[TargetPartition] | None = None  # the queue it stands in
        self.failure = error_codes.NONE
        self.failure_text = ""
        self.refused: Outgoing | None = None  # the record batch that the failure is about
        self.record_errors: Mapping[int, str] = {}  # its records that are to blame, and why
        self.most_joined = MERGED_BYTES  # tiny record batches are joined up to this size
        self.out_of_order_twice = False
        self.backoff = Backoff()
        self.timer: Timer | None = None  # after a failure: when it is tried again
        self.idle_since = time.monotonic()  # when the broker last said that it knows the producer
        self.waiting_since = 0.0  # when the oldest unacknowledged one was first sent

    @property
    def is_idle(self) -> bool:
        """Everything that was offered has been acknowledged."""
        return not self.pending and not self.window


class WriteGate(Protocol):
    """Who decides, inside transactions, which partition may be written and as whom."""

    @property
    def transactional_id(self) -> bytes:
        """The id that every request names."""

    def admits(self, part: TargetPartition) -> bool:
        """Whether the partition's next record batch may be sent; if not, `release` follows."""

    def broken(self, code: int) -> None:
        """A broker says that the transaction is over for us; nothing more is sent."""


class ProduceSink(Protocol):
    """Who is told what became of the record batches."""

    def acked(self, part: TargetPartition, out: Outgoing) -> None:
        """A record batch is on the target at `out.base_offset` (-1: there, offset unknown)."""

    def answered(self) -> None:
        """One produce response has been handled completely."""

    def produce_trouble(self, part: TargetPartition, code: int, text: str) -> None:
        """A partition cannot be written now; it is tried again with growing pauses."""

    def rewound(self, part: TargetPartition, pause: float) -> bool:
        """The target refuses this partition: read again from the last acknowledged position.

        Returns whether that is possible; everything queued has then been dropped.
        """

    def refused(
        self,
        part: TargetPartition,
        out: Outgoing,
        code: int,
        text: str,
        record_errors: Mapping[int, str],
    ) -> list[Outgoing] | None:
        """The target will never take this record batch: what to send instead; None: nothing yet.

        `record_errors` says of single records, by their number, what is wrong with them.
        """

    def sequence_lost(self, part: TargetPartition, pause: float) -> None:
        """The broker expects another sequence: everything queued has been dropped."""

    def produce_recovered(self, part: TargetPartition) -> None:
        """A partition in trouble can be written again."""


class Producer:
    """All writing of one task."""

    def __init__(
        self,
        loop: Loop,
        cluster: Cluster,
        limits: ProduceLimits,
        budget: Budget,
        sink: ProduceSink,
        client_id: str,
    ) -> None:
        self._loop = loop
        self._cluster = cluster
        self._limits = limits
        self._budget = budget
        self._sink = sink
        self._client_id = client_id.encode()
        self._overhead = REQUEST_BYTES + len(self._client_id)
        self._ready: dict[int, deque[TargetPartition]] = {}
        self._in_flight: dict[int, int] = {}
        self._opening: set[int] = set()
        self._homeless: deque[TargetPartition] = deque()
        self._parked: deque[TargetPartition] = deque()
        self._closing = False
        self.gate: WriteGate | None = None  # none: no transactions
        cluster.on_metadata.append(self._settle)

    def largest(self, tp: TopicPartition) -> int | None:
        """The largest record batch that can be sent to a partition; None: it depends on it."""
        if not self._limits.is_size_final:
            return None
        names = len(tp.topic) + (0 if self.gate is None else len(self.gate.transactional_id))
        room = self._limits.max_request_bytes - self._overhead - PARTITION_BYTES - names
        return max(room, 1)

    def start(self, topics: Iterable[str]) -> None:
        """Find the leaders of these topics."""
        self._cluster.want(topics)

    def offer(self, part: TargetPartition, out: Outgoing) -> None:
        """Queue a record batch; `pump` sends."""
        if part.is_introduced and part.is_idle and part.producer_id != NO_PRODUCER:
            is_recent = time.monotonic() - part.idle_since < _FORGOTTEN_AFTER_SECONDS
            part.is_introduced = is_recent
        part.pending.append(out)
        if part.line is None and not part.failure:
            self._line_up(part)

    def pump(self) -> None:
        """Send whatever may be sent now."""
        for node, queue in [*self._ready.items()]:
            if queue:
                self._pump(node)

    def hold(self) -> None:
        """The gate has closed: partitions in line ask it again."""
        for queue in [*self._ready.values()]:
            waiting = [*queue]
            queue.clear()
            for part in waiting:
                part.line = None
                self._line_up(part)

    def release(self) -> None:
        """The gate has opened, perhaps: partitions that it did not admit ask again."""
        parked, self._parked = self._parked, deque()
        for part in parked:
            part.line = None
            self._line_up(part)
        self.pump()

    @property
    def has_parked(self) -> bool:
        """Whether record batches wait for the gate."""
        return bool(self._parked)

    def reject(self, part: TargetPartition, code: int) -> None:
        """A partition of the gate's cannot be written: as if its leader had said so."""
        self._withdraw(part)
        self._fail(part, code, "")

    def take_back(self, part: TargetPartition) -> bool:
        """Make unsent what was refused; false if the target may have some of it."""
        sent = [out for out in part.pending if out.sequence >= 0]
        if part.window or any(out.is_doubtful for out in sent):
            return False
        if sent:
            part.next_sequence = sent[0].sequence
        for out in sent:
            out.sequence = -1
        return True

    def shed(self, part: TargetPartition) -> list[Outgoing]:
        """Let go of what can be read again: all that was never sent, but for one to try with."""
        sent = sum(out.sequence >= 0 for out in part.pending)
        shed = [*part.pending][max(sent, 1) :]
        for out in shed:
            part.pending.pop()
            out.let_go()
        return shed

    def drop_unsent(self, part: TargetPartition) -> None:
        """Forget what is queued; what is unanswered stays, and keeps its sequence."""
        self._withdraw(part)
        while part.pending and part.pending[-1].sequence < 0:
            part.pending.pop().let_go()
        if part.pending and not part.failure:
            self._line_up(part)

    def discard(self, part: TargetPartition) -> None:
        """Forget all that is queued; nothing is unanswered."""
        self._withdraw(part)
        part.pending.extendleft(reversed(part.window))
        part.window.clear()
        self._drop(part)

    # --- sending

    def _line_up(self, part: TargetPartition) -> None:
        leader = self._cluster.leaders.get(part.tp)
        if part.unanswered and (
            leader is None or leader.node != part.node or not part.is_introduced
        ):
            return  # the answer first, or the order may be lost; then it lines up
        if leader is None:
            self._sink.produce_trouble(part, self._cluster.leader_error(part.tp), "")
            self._await_metadata(part, part.backoff.next_pause())
            return
        if self._is_recreated(part):
            self._sink.produce_trouble(part, error_codes.TOPIC_RECREATED, "")
            self._await_metadata(part, part.backoff.next_pause(slow=True))
            return
        if self.gate is not None and not self.gate.admits(part):
            part.line = self._parked
        else:
            part.node = leader.node
            part.line = self._ready.setdefault(leader.node, deque())
        part.line.append(part)

    def _await_metadata(self, part: TargetPartition, pause: float) -> None:
        """Line up again when the cluster has told of the topic, not before."""
        for out in part.pending:
            out.step_aside(self._budget)
        part.line = self._homeless
        part.line.append(part)
        self._cluster.refresh(after=pause, topics=[part.tp.topic])

    def _is_recreated(self, part: TargetPartition) -> bool:
        """Whether the topic is another one than planned: the driver decides what becomes of it."""
        now_id = self._cluster.topic_ids.get(part.tp.topic)
        return part.topic_id is not None and now_id is not None and now_id != part.topic_id

    def _withdraw(self, part: TargetPartition) -> None:
        if part.line is not None:
            part.line.remove(part)
            part.line = None

    def _settle(self) -> None:
        """Metadata arrived: partitions without a leader look again."""
        homeless, self._homeless = self._homeless, deque()
        for part in homeless:
            part.line = None
            self._line_up(part)
        self.pump()

    def _pump(self, node: int) -> None:
        queue = self._ready[node]
        if node in self._opening or self._closing:
            return
        try:
            connection = self._cluster.connection(node)
        except UnreachableError as error:
            self._cannot_reach(node, error)
            return
        if not connection.api_versions:
            self._opening.add(node)
            connection.when_ready(
                lambda: self._opened(node), lambda error: self._cannot_reach(node, error)
            )
            return
        version = connection.api_versions.get(PRODUCE_KEY, (0, -1))[1]
        if version < OLDEST_VERSION:
            why = f"cluster {self._cluster.alias!r}: broker {node} is too old for record batches"
            self._cannot_reach(node, UnreachableError(why, cluster=self._cluster.alias))
            return
        while queue and self._in_flight.get(node, 0) < self._limits.max_in_flight:
            self._send(node, connection, queue, version)

    def _opened(self, node: int) -> None:
        self._opening.discard(node)
        self._pump(node)

    def _cannot_reach(self, node: int, error: UnreachableError) -> None:
        self._opening.discard(node)
        self._cluster.complain(error)
        queue, self._ready[node] = self._ready.get(node, deque()), deque()
        for part in queue:
            part.line = None
            self._fail(part, error_codes.LOST_CONNECTION, str(error))
        self._sink.answered()

    def _send(
        self, node: int, connection: Connection, queue: deque[TargetPartition], version: int
    ) -> None:
        """One request: the next record batch of every partition in line."""
        chosen: list[tuple[TargetPartition, Outgoing]] = []
        transactional_id = None if self.gate is None else self.gate.transactional_id
        size = self._overhead + len(transactional_id or b"")
        for _ in range(len(queue)):
            part = queue[0]
            if self._limits.merged_bytes:
                most = min(self._limits.merged_bytes, part.most_joined)
                join(part.pending, most, self._budget)
            out = part.pending[0]
            added = out.size + PARTITION_BYTES + len(part.tp.topic)
            if chosen and size + added > self._limits.max_request_bytes:
                break
            queue.popleft()
            if self._is_too_large(part, out):
                part.line = None
                if not part.unanswered:  # else it lines up again with the last answer
                    self._refuse(part, out)
                continue
            part.pending.popleft()
            self._seal(part, out)
            if not part.window:
                part.waiting_since = time.monotonic()
            part.window.append(out)
            part.unanswered += 1
            size += added
            chosen.append((part, out))
            if self.gate is None and part.pending and part.is_introduced:
                queue.append(part)
                continue
            part.line = None
            if part.pending and part.is_introduced:
                self._line_up(part)
        if not chosen:
            return
        topic_ids = self._topic_ids(chosen) if version >= IDS_VERSION else None
        version = min(version, VERSION if topic_ids is None else IDS_VERSION)
        header, body = produce_request(
            ((part.tp, out.view) for part, out in chosen),
            client_id=self._client_id,
            acks=self._limits.acks,
            timeout_ms=self._limits.timeout_ms,
            transactional_id=transactional_id,
            version=version,
            topic_ids=topic_ids,
        )
        self._in_flight[node] = self._in_flight.get(node, 0) + 1
        connection.send(
            header,
            body,
            lambda frame: self._answered(node, chosen, frame, version, topic_ids),
            lambda error: self._lost(node, chosen, error),
        )

    def _topic_ids(
        self, chosen: list[tuple[TargetPartition, Outgoing]]
    ) -> dict[str, uuid.UUID] | None:
        """The ids of all topics of a request, as planned; None: it must name them.

        In transactions it does: newer versions would add partitions to them by themselves.
        """
        if self.gate is not None:
            return None
        known = self._cluster.topic_ids
        ids = {part.tp.topic: part.topic_id or known.get(part.tp.topic) for part, _out in chosen}
        found = {topic: one for topic, one in ids.items() if one is not None}
        return found if len(found) == len(ids) else None

    def _is_too_large(self, part: TargetPartition, out: Outgoing) -> bool:
        """Whether the target would close the connection rather than answer."""
        if out.sequence >= 0:
            return False  # it was sent before, and keeps its cut
        largest = self.largest(part.tp)
        return largest is not None and out.size > largest

    def _refuse(self, part: TargetPartition, out: Outgoing) -> None:
        """As if the leader had said that a record batch is too large; nothing is unanswered."""
        part.failure = error_codes.MESSAGE_TOO_LARGE
        part.failure_text = (
            f"a record batch of {out.size} bytes does not fit into a request of "
            f"{self._limits.max_request_bytes} (producer.max.request.size)"
        )
        part.refused = out
        part.record_errors = {}
        # Not at once: a request is just being put together.
        part.timer = self._loop.call_later(0.0, lambda: self._recover(part))

    def _seal(self, part: TargetPartition, out: Outgoing) -> None:
        if out.sequence >= 0:
            return  # a resend: same bytes, same sequence
        if part.producer_id == NO_PRODUCER:
            stamp(out.view, -1, -1, -1)
            return
        out.sequence = part.next_sequence
        stamp(
            out.view,
            part.producer_id,
            part.producer_epoch,
            out.sequence,
            is_transactional=self.gate is not None,
        )
        part.next_sequence = (out.sequence + out.count) & SEQUENCE_MASK

    # --- answers

    def _answered(
        self,
        node: int,
        sent: list[tuple[TargetPartition, Outgoing]],
        frame: memoryview,
        version: int,
        topic_ids: dict[str, uuid.UUID] | None,
    ) -> None:
        tags = 1 if version >= VERSION else 0
        answer = decode_answer(ProduceResponse, frame[4 + tags :], version)
        names = {one: topic for topic, one in (topic_ids or {}).items()}
        results = {
            (names.get(topic.topic_id, "") if names else topic.name, one.index): one
            for topic in answer.responses or ()
            for one in topic.partition_responses or ()
        }
        missing = next((part.tp for part, _out in sent if part.tp not in results), None)
        if missing is not None:
            raise UnreadableAnswerError(f"a produce response does not speak of {missing}")
        self._in_flight[node] -= 1
        for part, out in sent:
            part.unanswered -= 1
            one = results[part.tp]
            if one.error_code in (error_codes.NONE, error_codes.DUPLICATE_SEQUENCE_NUMBER):
                self._succeed(part, out, one.base_offset)
            else:
                if not part.failure:
                    part.refused = out
                    part.record_errors = {
                        wrong.batch_index: wrong.batch_index_error_message or ""
                        for wrong in one.record_errors or ()
                    }
                out.is_doubtful |= one.error_code not in error_codes.NOT_APPENDED
                self._fail(part, one.error_code, one.error_message or "")
                continue
            if part.unanswered:
                continue
            if part.failure:
                self._recover(part)
            elif part.pending and part.line is None:
                self._line_up(part)
        self._sink.answered()
        self.pump()

    def _succeed(self, part: TargetPartition, out: Outgoing, base_offset: int) -> None:
        out.is_acked = True
        out.base_offset = base_offset
        part.is_introduced = True
        window = part.window
        while window and window[0].is_acked:
            done = window.popleft()
            done.let_go()
            self._sink.acked(part, done)
        now = time.monotonic()
        part.waiting_since, part.idle_since = (now, part.idle_since) if window else (0.0, now)
        if part.backoff.is_growing and not part.failure:
            part.out_of_order_twice = False
            part.backoff.reset()
            self._sink.produce_recovered(part)

    def _lost(
        self, node: int, sent: list[tuple[TargetPartition, Outgoing]], error: UnreachableError
    ) -> None:
        self._in_flight[node] -= 1
        self._cluster.complain(error)
        for part, out in sent:
            part.unanswered -= 1
            out.is_doubtful = True
            self._fail(part, error_codes.LOST_CONNECTION, str(error))
        if not self._closing:
            self._sink.answered()

    def _fail(self, part: TargetPartition, code: int, text: str) -> None:
        """Remember the first failure and send no more until all answers are in."""
        if not part.failure:
            part.failure, part.failure_text = code, text
            self._withdraw(part)
        if not part.unanswered:
            self._recover(part)

    def _recover(self, part: TargetPartition) -> None:
        """All answers of a failed partition are in: put back what is not acknowledged."""
        if self._closing:
            return
        code = part.failure
        part.pending.extendleft(reversed(part.window))
        part.window.clear()
        remedy = error_codes.remedy(code)
        if remedy is Remedy.REFUSED:
            if self._replace_refused(part, code):
                self._again(part)
                return
            remedy = Remedy.QUARANTINE
        self._sink.produce_trouble(part, code, part.failure_text)
        if self.gate is not None and code in error_codes.ENDS_TRANSACTIONS:
            self.gate.broken(code)
            return
        pause = part.backoff.next_pause(slow=remedy is Remedy.QUARANTINE)
        if remedy is Remedy.QUARANTINE and self._sink.rewound(part, pause):
            self._drop(part)
            return
        for out in part.pending:
            out.is_doubtful |= out.is_acked
            out.is_acked = False  # the broker recognises those it has
            out.step_aside(self._budget)
        if remedy is Remedy.COMPARE and part.producer_id != NO_PRODUCER:
            if part.out_of_order_twice:
                part.out_of_order_twice = False
                self._drop(part)
                self._sink.sequence_lost(part, pause)
                return
            part.out_of_order_twice = True  # resent once with the same sequences
        if remedy is Remedy.REFRESH:  # what is known may be of a topic that is gone
            part.failure = error_codes.NONE
            part.refused = None
            self._await_metadata(part, pause)
            return
        part.timer = self._loop.call_later(pause, lambda: self._again(part))

    def _replace_refused(self, part: TargetPartition, code: int) -> bool:
        """Put what the sink offers in the place of a record batch that was refused.

        The broker took neither it nor anything after it: their sequences are free again.
        """
        refused = part.refused
        if refused is None or not part.pending or part.pending[0] is not refused:
            return False  # one before it is unanswered: that first, then it is refused again
        pieces = self._sink.refused(part, refused, code, part.failure_text, part.record_errors)
        if pieces is None:
            return False
        part.pending.popleft()
        refused.let_go()
        if refused.sequence >= 0:
            part.next_sequence = refused.sequence
        for out in part.pending:
            out.sequence = -1
            out.is_acked = False
        part.pending.extendleft(reversed(pieces))
        return True

    def _drop(self, part: TargetPartition) -> None:
        """Forget what was refused: the broker took none of it, so its sequence is free again."""
        first = part.pending[0].sequence if part.pending else -1
        if first >= 0:
            part.next_sequence = first
        for out in part.pending:
            out.let_go()
        part.pending.clear()
        part.failure = error_codes.NONE
        part.refused = None
        if part.timer is not None:
            part.timer.cancel()
            part.timer = None

    def _again(self, part: TargetPartition) -> None:
        if self._closing:
            return
        part.timer = None
        part.failure = error_codes.NONE
        part.refused = None
        if part.pending and part.line is None:
            self._line_up(part)
        self.pump()

    def close(self) -> None:
        """Send nothing more."""
        self._closing = True
