# SPDX-License-Identifier: Apache-2.0
"""Write record batches to the leaders of the target, in order, several requests in flight.

Per partition: `pending` is not sent yet, `in_flight` is sent and not acknowledged. A sent batch
keeps its records and its sequence, so the broker detects a resend among the last five batches of
the producer; hence at most five requests in flight per connection. After an error, a partition
waits for all its responses, then resends from the first unacknowledged batch on. Owned by the
loop's thread.
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable

from kafka.protocol.producer import ProduceResponse

from sparkmirror.errors import UndecodableResponseError, UnreachableError
from sparkmirror.model import TopicPartition
from sparkmirror.wire import error_codes
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.connection import BrokerConnection
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.memory import MemoryBudget
from sparkmirror.wire.merge import MAX_MERGED_BYTES
from sparkmirror.wire.outgoing import OutgoingBatch, merge_pending
from sparkmirror.wire.produce_partition import (
    NO_PRODUCER_ID,
    ProducePartition,
    TransactionControl,
)
from sparkmirror.wire.produce_protocol import (
    IDS_VERSION,
    OLDEST_VERSION,
    PARTITION_BYTES,
    PRODUCE_KEY,
    REQUEST_BYTES,
    VERSION,
    produce_request,
)
from sparkmirror.wire.produce_recovery import ProduceRecovery
from sparkmirror.wire.record_batch import SEQUENCE_MASK, stamp
from sparkmirror.wire.responses import decode_response
from sparkmirror.wire.settings import ProduceSettings

_PRODUCER_IDLE_SECONDS = 1.0  # brokers forget idle producers (producer.id.expiration.ms)


class Producer:
    """Writes all partitions of one task."""

    def __init__(
        self,
        loop: EventLoop,
        cluster: Cluster,
        settings: ProduceSettings,
        budget: MemoryBudget,
        client_id: str,
        max_merged_bytes: int = MAX_MERGED_BYTES,  # of small queued batches; 0: merge none
    ) -> None:
        self._loop = loop
        self._cluster = cluster
        self._settings = settings
        self._max_merged_bytes = max_merged_bytes
        self._budget = budget
        self._client_id = client_id.encode()
        self._overhead = REQUEST_BYTES + len(self._client_id)
        self._ready: dict[int, deque[ProducePartition]] = {}
        self._in_flight: dict[int, int] = {}
        self._opening: set[int] = set()
        self._without_leader: deque[ProducePartition] = deque()
        self._parked: deque[ProducePartition] = deque()
        self.is_closing = False
        self._recovery = ProduceRecovery(loop, self, budget, settings)
        self.transaction_control: TransactionControl | None = None  # None: no transactions
        # Called in this order after each response.
        self.on_response: tuple[Callable[[], None], ...] = ()
        cluster.metadata_listeners.append(self._on_metadata)

    def max_batch_bytes(self, tp: TopicPartition) -> int | None:
        """The largest record batch for a partition; None if only the target limits it."""
        if not self._settings.enforces_max_request_bytes:
            return None
        names = len(tp.topic) + (
            0
            if self.transaction_control is None
            else len(self.transaction_control.transactional_id)
        )
        room = self._settings.max_request_bytes - self._overhead - PARTITION_BYTES - names
        return max(room, 1)

    def track_topics(self, topics: Iterable[str]) -> None:
        self._cluster.track_topics(topics)

    def enqueue(self, part: ProducePartition, out: OutgoingBatch) -> None:
        """Queue a record batch; `send_ready` sends."""
        if part.is_producer_known and part.is_idle and part.producer_id != NO_PRODUCER_ID:
            is_recent = time.monotonic() - part.idle_since < _PRODUCER_IDLE_SECONDS
            part.is_producer_known = is_recent
        part.pending.append(out)
        if part.queue is None and not part.error_code:
            self.enqueue_for_leader(part)

    def send_ready(self) -> None:
        """Send the queued record batches, up to the in-flight limit of each broker."""
        for node, queue in [*self._ready.items()]:
            if queue:
                self._send_to(node)

    def recheck_ready(self) -> None:
        """Check queued partitions again: the transaction control may refuse them now."""
        for queue in [*self._ready.values()]:
            waiting = [*queue]
            queue.clear()
            for part in waiting:
                part.queue = None
                self.enqueue_for_leader(part)

    def recheck_parked(self) -> None:
        """Check parked partitions again: the transaction control may admit them now."""
        parked, self._parked = self._parked, deque()
        for part in parked:
            part.queue = None
            self.enqueue_for_leader(part)
        self.send_ready()

    @property
    def has_parked(self) -> bool:
        """Whether partitions wait for the transaction control."""
        return bool(self._parked)

    def fail_partition(self, part: ProducePartition, code: int) -> None:
        """Fail a partition of the transaction, as if its leader had returned the error."""
        self.dequeue(part)
        self._recovery.fail(part, code, "")

    def drop_unsent(self, part: ProducePartition) -> None:
        """Drop the batches that were never sent; the others keep their sequences."""
        self.dequeue(part)
        while part.pending and part.pending[-1].sequence < 0:
            part.pending.pop().release()
        if part.pending and not part.error_code:
            self.enqueue_for_leader(part)

    def discard(self, part: ProducePartition) -> None:
        """Drop all batches; requires that no request of the partition is unanswered."""
        self.dequeue(part)
        part.pending.extendleft(reversed(part.in_flight))
        part.in_flight.clear()
        self._recovery.drop(part)

    # --- sending

    def enqueue_for_leader(self, part: ProducePartition) -> None:
        """Put a partition into the queue of its leader, or let it wait for one."""
        leader = self._cluster.leaders.get(part.tp)
        if part.unanswered_requests and (
            leader is None or leader.node != part.node or not part.is_producer_known
        ):
            return  # to keep the order, it is enqueued after the response
        if leader is None and not self._cluster.has_metadata(part.tp):
            self._wait(part)  # the first response is not here yet
            self._cluster.track_topics({part.tp.topic})
            return
        if leader is None:
            part.listener.on_produce_error(part, self._cluster.leader_error(part.tp), "")
            self.await_metadata(part, part.backoff.next_pause())
            return
        if self._is_recreated(part):
            part.listener.on_produce_error(part, error_codes.TOPIC_RECREATED, "")
            self.await_metadata(part, part.backoff.next_pause(slow=True))
            return
        if self.transaction_control is not None and not self.transaction_control.may_send(part):
            part.queue = self._parked
        else:
            part.node = leader.node
            part.queue = self._ready.setdefault(leader.node, deque())
        part.queue.append(part)

    def await_metadata(self, part: ProducePartition, pause: float) -> None:
        """Enqueue a partition again after the next metadata response."""
        self._wait(part)
        self._cluster.refresh_metadata(after=pause, topics=[part.tp.topic])

    def _wait(self, part: ProducePartition) -> None:
        for out in part.pending:
            out.detach_if_sparse(self._budget)
        part.queue = self._without_leader
        part.queue.append(part)

    def _is_recreated(self, part: ProducePartition) -> bool:
        """Whether the topic is another one than planned: the driver decides what becomes of it."""
        now_id = self._cluster.topic_ids.get(part.tp.topic)
        return part.topic_id is not None and now_id is not None and now_id != part.topic_id

    def dequeue(self, part: ProducePartition) -> None:
        if part.queue is not None:
            part.queue.remove(part)
            part.queue = None

    def _on_metadata(self) -> None:
        waiting, self._without_leader = self._without_leader, deque()
        for part in waiting:
            part.queue = None
            self.enqueue_for_leader(part)
        self.send_ready()

    def _send_to(self, node: int) -> None:
        queue = self._ready[node]
        if node in self._opening or self.is_closing:
            return
        try:
            connection = self._cluster.connection(node)
        except UnreachableError as error:
            self._on_unreachable(node, error)
            return
        if not connection.api_versions:
            self._opening.add(node)
            connection.when_ready(
                lambda: self._on_connected(node), lambda error: self._on_unreachable(node, error)
            )
            return
        version = connection.api_versions.get(PRODUCE_KEY, (0, -1))[1]
        if version < OLDEST_VERSION:
            reason = (
                f"cluster {self._cluster.alias!r}: broker {node} does not support Produce "
                f"{OLDEST_VERSION}; Kafka 0.11 or newer is required"
            )
            self._on_unreachable(node, UnreachableError(reason, cluster=self._cluster.alias))
            return
        while queue and self._in_flight.get(node, 0) < self._settings.max_in_flight:
            self._send_request(node, connection, queue, version)

    def _on_connected(self, node: int) -> None:
        self._opening.discard(node)
        self._send_to(node)

    def _on_unreachable(self, node: int, error: UnreachableError) -> None:
        self._opening.discard(node)
        self._cluster.report_error(error)
        queue, self._ready[node] = self._ready.get(node, deque()), deque()
        for part in queue:
            part.queue = None
            self._recovery.fail(part, error_codes.CONNECTION_LOST, str(error))
        for callback in self.on_response:
            callback()

    def _send_request(
        self, node: int, connection: BrokerConnection, queue: deque[ProducePartition], version: int
    ) -> None:
        """Send one request with the next record batch of each queued partition."""
        chosen: list[tuple[ProducePartition, OutgoingBatch]] = []
        transactional_id = (
            None if self.transaction_control is None else self.transaction_control.transactional_id
        )
        size = self._overhead + len(transactional_id or b"")
        for _ in range(len(queue)):
            part = queue[0]
            if self._max_merged_bytes:
                most = min(self._max_merged_bytes, part.max_merged_bytes)
                merge_pending(part.pending, most, self._budget)
            out = part.pending[0]
            added = out.size + PARTITION_BYTES + len(part.tp.topic)
            if chosen and size + added > self._settings.max_request_bytes:
                break
            queue.popleft()
            if self._is_too_large(part, out):
                part.queue = None
                if not part.unanswered_requests:  # else its last response enqueues it again
                    self._recovery.refuse_oversized(part, out)
                continue
            part.pending.popleft()
            self._stamp(part, out)
            if not part.in_flight:
                part.waiting_since = time.monotonic()
            part.in_flight.append(out)
            part.unanswered_requests += 1
            size += added
            chosen.append((part, out))
            if self.transaction_control is None and part.pending and part.is_producer_known:
                queue.append(part)
                continue
            part.queue = None
            if part.pending and part.is_producer_known:
                self.enqueue_for_leader(part)
        if not chosen:
            return
        topic_ids = self._topic_ids(chosen) if version >= IDS_VERSION else None
        version = min(version, VERSION if topic_ids is None else IDS_VERSION)
        header, body = produce_request(
            ((part.tp, out.view) for part, out in chosen),
            client_id=self._client_id,
            acks=self._settings.acks,
            timeout_ms=self._settings.request_timeout_ms,
            transactional_id=transactional_id,
            version=version,
            topic_ids=topic_ids,
        )
        self._in_flight[node] = self._in_flight.get(node, 0) + 1
        connection.send_buffers(
            header,
            body,
            lambda frame: self._on_response(node, chosen, frame, version, topic_ids),
            lambda error: self._on_connection_lost(node, chosen, error),
        )

    def _topic_ids(
        self, chosen: list[tuple[ProducePartition, OutgoingBatch]]
    ) -> dict[str, uuid.UUID] | None:
        """The ids of all topics of a request; None if it must use topic names.

        Transactions use names: from version 12 on, brokers add partitions implicitly (KIP-890).
        """
        if self.transaction_control is not None:
            return None
        known = self._cluster.topic_ids
        ids = {part.tp.topic: part.topic_id or known.get(part.tp.topic) for part, _out in chosen}
        found = {topic: one for topic, one in ids.items() if one is not None}
        return found if len(found) == len(ids) else None

    def _is_too_large(self, part: ProducePartition, out: OutgoingBatch) -> bool:
        """Whether the target would close the connection instead of responding."""
        if out.sequence >= 0:
            return False  # it was sent before
        largest = self.max_batch_bytes(part.tp)
        return largest is not None and out.size > largest

    def _stamp(self, part: ProducePartition, out: OutgoingBatch) -> None:
        if out.sequence >= 0:
            return  # a resend: same bytes, same sequence
        if part.producer_id == NO_PRODUCER_ID:
            stamp(out.view, -1, -1, -1)
            return
        out.sequence = part.next_sequence
        stamp(
            out.view,
            part.producer_id,
            part.producer_epoch,
            out.sequence,
            is_transactional=self.transaction_control is not None,
        )
        part.next_sequence = (out.sequence + out.count) & SEQUENCE_MASK

    # --- responses

    def _on_response(
        self,
        node: int,
        sent: list[tuple[ProducePartition, OutgoingBatch]],
        frame: memoryview,
        version: int,
        topic_ids: dict[str, uuid.UUID] | None,
    ) -> None:
        tags = 1 if version >= VERSION else 0
        answer = decode_response(ProduceResponse, frame[4 + tags :], version)
        names = {one: topic for topic, one in (topic_ids or {}).items()}
        results = {
            (names.get(topic.topic_id, "") if names else topic.name, one.index): one
            for topic in answer.responses or ()
            for one in topic.partition_responses or ()
        }
        missing = next((part.tp for part, _out in sent if part.tp not in results), None)
        if missing is not None:
            raise UndecodableResponseError(f"a produce response lacks {missing}")
        self._in_flight[node] -= 1
        for part, out in sent:
            part.unanswered_requests -= 1
            one = results[part.tp]
            if one.error_code in (error_codes.NONE, error_codes.DUPLICATE_SEQUENCE_NUMBER):
                self._on_batch_acked(part, out, one.base_offset)
            else:
                if not part.error_code:
                    part.refused = out
                    part.record_errors = {
                        error.batch_index: error.batch_index_error_message or ""
                        for error in one.record_errors or ()
                    }
                out.is_in_doubt |= one.error_code not in error_codes.NOT_APPENDED
                self._recovery.fail(part, one.error_code, one.error_message or "")
                continue
            if part.unanswered_requests:
                continue
            if part.error_code:
                self._recovery.recover(part)
            elif part.pending and part.queue is None:
                self.enqueue_for_leader(part)
        for callback in self.on_response:
            callback()
        self.send_ready()

    def _on_batch_acked(self, part: ProducePartition, out: OutgoingBatch, base_offset: int) -> None:
        out.is_acked = True
        out.base_offset = base_offset
        part.is_producer_known = True
        window = part.in_flight
        while window and window[0].is_acked:
            done = window.popleft()
            done.release()
            part.listener.on_acked(part, done)
        now = time.monotonic()
        part.waiting_since, part.idle_since = (now, part.idle_since) if window else (0.0, now)
        if part.backoff.has_failed and not part.error_code:
            part.out_of_order_twice = False
            part.backoff.reset()
            part.listener.on_produce_recovered(part)

    def _on_connection_lost(
        self, node: int, sent: list[tuple[ProducePartition, OutgoingBatch]], error: UnreachableError
    ) -> None:
        self._in_flight[node] -= 1
        self._cluster.report_error(error)
        for part, out in sent:
            part.unanswered_requests -= 1
            out.is_in_doubt = True
            self._recovery.fail(part, error_codes.CONNECTION_LOST, str(error))
        if not self.is_closing:
            for callback in self.on_response:
                callback()

    def close(self) -> None:
        self.is_closing = True
