# SPDX-License-Identifier: Apache-2.0
"""The transactions of one transactional id: requests to its coordinator.

    EMPTY --add--> OPEN --commit, abort--> ENDING --response--> EMPTY
      any state --fenced or refused--> FATAL_ERROR

Retries after a lost connection, while the coordinator moves, and while it completes the previous
transaction; the broker detects a repeated EndTxn. With transactions v2 (KIP-890) every EndTxn
returns a new producer epoch, and sequences start at 0. With v1 a commit keeps the epoch; after an
abort, InitProducerId bumps it, so that no sequence stays in doubt.
The caller gets the first producer id and epoch by fencing the id. InitProducerId without them would
fence the current holder. Owned by the loop's thread.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from enum import Enum
from functools import partial
from typing import Any, NamedTuple, Protocol

from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
)
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)

from sparkmirror.errors import UnreachableError, WireError
from sparkmirror.model import TopicPartition
from sparkmirror.wire import error_codes
from sparkmirror.wire.backoff import Backoff
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.connection import BrokerConnection
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.responses import decode_response

_TRANSACTION_KEY = 1  # FindCoordinator's key type
_FIND_VERSION = 3
_FEATURES_VERSION = 3  # the first ApiVersions with finalized features
_ADD_VERSION = 3  # the last for clients; later versions are for brokers
_INIT_VERSION = 5
_END_V1, _END_V2 = 4, 5
_BUSY_PAUSES = (0.005, 0.2)  # first and longest, while the coordinator writes the markers
_NO_COORDINATOR = -1


class ProducerIdAndEpoch(NamedTuple):
    """The producer id and epoch of a transactional id; brokers fence all older epochs."""

    producer_id: int
    producer_epoch: int


class TransactionState(Enum):
    """The state of a transactional id."""

    EMPTY = "empty"
    OPEN = "open"
    ENDING = "ending"
    FATAL_ERROR = "lost"


class TransactionListener(Protocol):
    """Receives the results of a TransactionClient."""

    def on_partitions_added(self) -> None:
        """Handle partitions that are now in the transaction; see `contains`."""

    def on_partition_refused(self, tp: TopicPartition, code: int) -> None:
        """Handle a partition that the coordinator did not add; the others are not affected."""

    def on_transaction_ended(self, *, is_committed: bool, is_renewed: bool) -> None:
        """Handle the end; `is_renewed`: the epoch is new, and sequences start at 0."""

    def on_fatal_error(self, code: int) -> None:
        """Handle a fenced, timed out or refused id; it cannot write any more."""


class TransactionClient:
    """The first partition that is added starts a transaction."""

    def __init__(
        self,
        loop: EventLoop,
        cluster: Cluster,
        transactional_id: str,
        identity: ProducerIdAndEpoch,
        timeout_ms: int,
        owner: TransactionListener,
    ) -> None:
        self._loop = loop
        self._cluster = cluster
        self.transactional_id = transactional_id
        self.identity = identity
        self._timeout_ms = timeout_ms
        self._owner = owner
        self.state = TransactionState.EMPTY
        self.error_code = error_codes.NONE  # of the request that is being retried
        self._wanted: set[TopicPartition] = set()
        self._added: set[TopicPartition] = set()
        self._is_commit = False
        self._needs_epoch = False  # after an abort with v1
        self._node = _NO_COORDINATOR
        self._probed_connection: BrokerConnection | None = None
        self._has_v2 = False
        self._is_waiting = False  # for a response or a pause: one request at a time
        self._is_closed = False
        self._backoff = Backoff()
        self._busy_pause = _BUSY_PAUSES[0]

    def contains(self, tp: TopicPartition) -> bool:
        """Whether the partition is in the open transaction."""
        return self.state is TransactionState.OPEN and tp in self._added

    def add_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions to the transaction; ignores those already added or requested."""
        if self.state in (TransactionState.ENDING, TransactionState.FATAL_ERROR):
            return
        wanted = {tp for tp in partitions if tp not in self._added}
        if wanted:
            self.state = TransactionState.OPEN
            self._wanted |= wanted
            self._send_next()

    def commit(self) -> None:
        """Commit the transaction; all its produce requests must be acknowledged."""
        self._end(is_commit=True)

    def abort(self) -> None:
        self._end(is_commit=False)

    def close(self) -> None:
        """Send no more requests; the next fencing or a timeout ends an open transaction."""
        self._is_closed = True

    def _end(self, *, is_commit: bool) -> None:
        if self.state is not TransactionState.OPEN:
            return
        self.state = TransactionState.ENDING
        self._is_commit = is_commit
        self._send_next()

    # --- one request at a time

    def _send_next(self) -> None:
        if self._is_waiting or self._is_closed or self.state is TransactionState.FATAL_ERROR:
            return
        send = self._next()
        if send is None:
            if self.state is TransactionState.ENDING:
                self._finish(self.identity)  # every partition was refused
            return
        self._is_waiting = True
        try:
            if self._node == _NO_COORDINATOR:
                self._find_coordinator()
            else:
                self._send_to_coordinator(send)
        except UnreachableError as error:
            self._on_connection_lost(error)

    def _next(self) -> Callable[[BrokerConnection], None] | None:
        if self._wanted:
            return self._send_add  # also before an end, as the coordinator may have added them
        if self.state is TransactionState.ENDING and self._added:
            return self._send_init if self._needs_epoch else self._send_end
        return None

    def _on_success(self) -> None:
        self._is_waiting = False
        self._backoff.reset()
        self._busy_pause = _BUSY_PAUSES[0]
        self.error_code = error_codes.NONE

    def _retry_after(self, pause: float) -> None:
        def resume() -> None:
            self._is_waiting = False
            self._send_next()

        self._loop.call_later(pause, resume)

    def _on_error(self, code: int) -> None:
        """Retry with the same coordinator, find the coordinator again, or fail permanently."""
        if code in error_codes.COORDINATOR_BUSY:
            pause, self._busy_pause = self._busy_pause, min(self._busy_pause * 2, _BUSY_PAUSES[1])
            if pause == _BUSY_PAUSES[1]:
                self.error_code = code
            self._retry_after(pause)
        elif code in error_codes.COORDINATOR_MOVED:
            self.error_code = code
            self._node = _NO_COORDINATOR
            self._retry_after(self._backoff.next_pause())
        else:
            self.state = TransactionState.FATAL_ERROR
            self.error_code = code
            self._is_waiting = False
            self._owner.on_fatal_error(code)

    def _on_connection_lost(self, error: UnreachableError) -> None:
        if self._is_closed:
            return
        self._cluster.report_error(error)
        self._on_error(error_codes.CONNECTION_LOST)

    # --- the coordinator

    def _find_coordinator(self) -> None:
        def found(answer: Any) -> None:
            if answer.error_code:
                self._on_error(answer.error_code)
                return
            self._node = answer.node_id
            self._is_waiting = False
            self._send_next()

        def send() -> None:
            message = FindCoordinatorRequest(key=self.transactional_id, key_type=_TRANSACTION_KEY)
            self._call(connection, message, found, _FIND_VERSION)

        node = self._cluster.next_node()
        if node is None:
            self._cluster.refresh_metadata()
            self._on_error(error_codes.CONNECTION_LOST)
            return
        connection = self._cluster.connection(node)
        connection.when_ready(send, self._on_connection_lost)

    def _send_to_coordinator(self, send: Callable[[BrokerConnection], None]) -> None:
        """Send to the coordinator; on a new connection, request its transaction version first."""
        connection = self._cluster.connection(self._node)

        def featured(frame: memoryview) -> None:
            answer = decode_response(ApiVersionsResponse, frame[4:], message.API_VERSION)
            self._has_v2 = any(
                one.name == "transaction.version" and one.max_version_level >= 2  # noqa: PLR2004
                for one in getattr(answer, "finalized_features", None) or ()
            )
            self._probed_connection = connection
            send(connection)

        def ready() -> None:
            if connection is self._probed_connection:
                send(connection)
            else:
                connection.request_raw(
                    message, featured, self._on_connection_lost, newest=_FEATURES_VERSION
                )

        message = ApiVersionsRequest(
            client_software_name="sparkmirror", client_software_version="1"
        )
        connection.when_ready(ready, self._on_connection_lost)

    def _call(
        self, connection: BrokerConnection, message: Any, reply: Callable[[Any], None], newest: int
    ) -> None:
        try:
            connection.request(message, reply, self._on_connection_lost, newest=newest)
        except WireError:
            self._on_error(error_codes.UNSUPPORTED_VERSION)

    # --- adding partitions

    def _send_add(self, connection: BrokerConnection) -> None:
        requested = frozenset(self._wanted)
        by_topic: defaultdict[str, list[int]] = defaultdict(list)
        for tp in sorted(requested):
            by_topic[tp.topic].append(tp.partition)
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        message = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.producer_epoch,
            v3_and_below_topics=[
                topic(name=name, partitions=indexes) for name, indexes in by_topic.items()
            ],
        )
        reply = partial(self._on_add_response, requested)
        self._call(connection, message, reply, _ADD_VERSION)

    def _on_add_response(self, requested: frozenset[TopicPartition], answer: Any) -> None:
        codes = {
            TopicPartition(topic.name, one.partition_index): one.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        }
        refused = {tp: code for tp, code in codes.items() if code in error_codes.PARTITION_REFUSED}
        others = set(codes.values()) - {error_codes.NONE, error_codes.OPERATION_NOT_ATTEMPTED}
        others -= error_codes.PARTITION_REFUSED
        if others:
            self._on_error(others.pop())
            return
        self._on_success()
        self._wanted -= refused.keys()
        if not refused:
            self._added |= requested
            self._wanted -= requested
        for tp, code in refused.items():
            self._owner.on_partition_refused(tp, code)
        if not refused and self.state is TransactionState.OPEN:
            self._owner.on_partitions_added()
        self._send_next()

    # --- the end

    def _send_end(self, connection: BrokerConnection) -> None:
        message = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            committed=self._is_commit,
        )
        self._call(connection, message, self._on_end_response, _END_V2 if self._has_v2 else _END_V1)

    def _on_end_response(self, answer: Any) -> None:
        if answer.error_code:
            self._on_error(answer.error_code)
            return
        self._on_success()
        producer_id = getattr(answer, "producer_id", _NO_COORDINATOR)
        if self._has_v2 and producer_id is not None and producer_id >= 0:
            self._finish(ProducerIdAndEpoch(producer_id, answer.producer_epoch))
        elif self._is_commit:
            self._finish(self.identity)
        else:
            self._needs_epoch = True
            self._send_next()

    def _send_init(self, connection: BrokerConnection) -> None:
        message = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
        )
        self._call(connection, message, self._on_init_response, _INIT_VERSION)

    def _on_init_response(self, answer: Any) -> None:
        if answer.error_code:
            self._on_error(answer.error_code)
            return
        self._on_success()
        self._needs_epoch = False
        self._finish(ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch))

    def _finish(self, identity: ProducerIdAndEpoch) -> None:
        is_renewed = identity != self.identity
        self.identity = identity
        self._added.clear()
        self.state = TransactionState.EMPTY
        self._owner.on_transaction_ended(is_committed=self._is_commit, is_renewed=is_renewed)
