# SPDX-License-Identifier: Apache-2.0
"""The transactions of one transactional id, one after the other: our talk with its coordinator.

    EMPTY --add--> OPEN --commit, abort--> ENDING --answered--> EMPTY
      any state --fenced or refused--> LOST, for good

A lost connection, a coordinator that moves and one that is still busy with the transaction before
are tried again with pauses; the broker recognises an end that it has seen. With transactions v2
(KIP-890) every end gives a new producer epoch, and sequences begin at 0 again; with v1 a commit
changes nothing, and after an abort we ask for a new epoch, so that no doubtful sequence is left.
The identity to begin with comes from whoever fenced the id: holding the current one is the right
to write, and InitProducerId without it would take that right from somebody else.
Owned by the loop's thread.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from enum import Enum
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
from sparkmirror.wire.answers import decode_answer
from sparkmirror.wire.backoff import Backoff
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.connection import Connection
from sparkmirror.wire.loop import Loop

_TRANSACTION_KEY = 1  # the kind of coordinator that is asked for
_FIND_VERSION = 3
_FEATURES_VERSION = 3  # the first that tells which features are on
_ADD_VERSION = 3  # the last that is meant for clients
_INIT_VERSION = 5
_END_V1, _END_V2 = 4, 5
_BUSY_PAUSES = (0.005, 0.2)  # while the coordinator writes the markers of the last transaction
_NOBODY = -1


class Identity(NamedTuple):
    """Who a transactional id is at the moment: the newest holder can write, all others not."""

    producer_id: int
    producer_epoch: int


class TransactionState(Enum):
    """Where a transactional id stands."""

    EMPTY = "empty"
    OPEN = "open"
    ENDING = "ending"
    LOST = "lost"


class TransactionOwner(Protocol):
    """Who is told what became of the transactions."""

    def partitions_added(self) -> None:
        """More partitions may be written in the open transaction; see `Transactions.holds`."""

    def partition_refused(self, tp: TopicPartition, code: int) -> None:
        """A partition is not in the transaction and cannot be, for now; the others are."""

    def transaction_ended(self, *, is_committed: bool, is_renewed: bool) -> None:
        """It is decided; renewed: there is a new identity, sequences begin at 0."""

    def transactions_lost(self, code: int) -> None:
        """Fenced, timed out or refused: nothing can be written any more with this identity."""


class Transactions:
    """Opens by itself with the first partition that is added."""

    def __init__(
        self,
        loop: Loop,
        cluster: Cluster,
        transactional_id: str,
        identity: Identity,
        timeout_ms: int,
        owner: TransactionOwner,
    ) -> None:
        self._loop = loop
        self._cluster = cluster
        self.transactional_id = transactional_id
        self.identity = identity
        self._timeout_ms = timeout_ms
        self._owner = owner
        self.state = TransactionState.EMPTY
        self.trouble = error_codes.NONE  # why nothing moves, while it is tried again
        self._wanted: set[TopicPartition] = set()
        self._added: set[TopicPartition] = set()
        self._is_commit = False
        self._needs_epoch = False  # aborted with v1: a new epoch before anything else
        self._node = _NOBODY
        self._spoken_to: Connection | None = None
        self._has_v2 = False
        self._is_waiting = False  # for an answer or a pause: one request at a time
        self._is_closed = False
        self._backoff = Backoff()
        self._busy_pause = _BUSY_PAUSES[0]

    def holds(self, tp: TopicPartition) -> bool:
        """Whether the partition may be written now."""
        return self.state is TransactionState.OPEN and tp in self._added

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Ask for partitions; those that are there or on their way cost nothing."""
        if self.state in (TransactionState.ENDING, TransactionState.LOST):
            return
        wanted = {tp for tp in partitions if tp not in self._added}
        if wanted:
            self.state = TransactionState.OPEN
            self._wanted |= wanted
            self._pump()

    def commit(self) -> None:
        """Make everything that was acknowledged visible; nothing may be on its way any more."""
        self._end(is_commit=True)

    def abort(self) -> None:
        """Throw away everything since the last end."""
        self._end(is_commit=False)

    def close(self) -> None:
        """Ask nothing more; an open transaction is left to whoever fences the id."""
        self._is_closed = True

    def _end(self, *, is_commit: bool) -> None:
        if self.state is not TransactionState.OPEN:
            return
        self.state = TransactionState.ENDING
        self._is_commit = is_commit
        self._pump()

    # --- one request after the other

    def _pump(self) -> None:
        if self._is_waiting or self._is_closed or self.state is TransactionState.LOST:
            return
        send = self._next()
        if send is None:
            if self.state is TransactionState.ENDING:
                self._close_transaction(self.identity)  # every partition was refused
            return
        self._is_waiting = True
        try:
            if self._node == _NOBODY:
                self._find()
            else:
                self._reach(send)
        except UnreachableError as error:
            self._broken(error)

    def _next(self) -> Callable[[Connection], None] | None:
        if self._wanted:
            return self._send_add  # also before an end: what was asked may be in the transaction
        if self.state is TransactionState.ENDING and self._added:
            return self._send_init if self._needs_epoch else self._send_end
        return None

    def _answered(self) -> None:
        """The coordinator did what was asked."""
        self._is_waiting = False
        self._backoff.reset()
        self._busy_pause = _BUSY_PAUSES[0]
        self.trouble = error_codes.NONE

    def _again(self, pause: float) -> None:
        def resume() -> None:
            self._is_waiting = False
            self._pump()

        self._loop.call_later(pause, resume)

    def _failed(self, code: int) -> None:
        """Try again, at the same coordinator or another one, or give up for good."""
        if code in error_codes.COORDINATOR_BUSY:
            pause, self._busy_pause = self._busy_pause, min(self._busy_pause * 2, _BUSY_PAUSES[1])
            if pause == _BUSY_PAUSES[1]:
                self.trouble = code
            self._again(pause)
        elif code in error_codes.COORDINATOR_ELSEWHERE:
            self.trouble = code
            self._node = _NOBODY
            self._again(self._backoff.next_pause())
        else:
            self.state = TransactionState.LOST
            self.trouble = code
            self._is_waiting = False
            self._owner.transactions_lost(code)

    def _broken(self, error: UnreachableError) -> None:
        if self._is_closed:
            return
        self._cluster.complain(error)
        self._failed(error_codes.LOST_CONNECTION)

    # --- the coordinator

    def _find(self) -> None:
        def found(answer: Any) -> None:
            if answer.error_code:
                self._failed(answer.error_code)
                return
            self._node = answer.node_id
            self._is_waiting = False
            self._pump()

        def send() -> None:
            message = FindCoordinatorRequest(key=self.transactional_id, key_type=_TRANSACTION_KEY)
            self._call(connection, message, found, _FIND_VERSION)

        node = self._cluster.any_node()
        if node is None:
            self._cluster.refresh()
            self._failed(error_codes.LOST_CONNECTION)
            return
        connection = self._cluster.connection(node)
        connection.when_ready(send, self._broken)

    def _reach(self, send: Callable[[Connection], None]) -> None:
        """Send to the coordinator, on a new connection after asking which transactions it has."""
        connection = self._cluster.connection(self._node)

        def featured(frame: memoryview) -> None:
            answer = decode_answer(ApiVersionsResponse, frame[4:], message.API_VERSION)
            self._has_v2 = any(
                one.name == "transaction.version" and one.max_version_level >= 2  # noqa: PLR2004
                for one in getattr(answer, "finalized_features", None) or ()
            )
            self._spoken_to = connection
            send(connection)

        def ready() -> None:
            if connection is self._spoken_to:
                send(connection)
            else:
                connection.exchange(message, featured, self._broken, newest=_FEATURES_VERSION)

        message = ApiVersionsRequest(
            client_software_name="sparkmirror", client_software_version="1"
        )
        connection.when_ready(ready, self._broken)

    def _call(
        self, connection: Connection, message: Any, reply: Callable[[Any], None], newest: int
    ) -> None:
        try:
            connection.call(message, reply, self._broken, newest=newest)
        except WireError:
            self._failed(error_codes.UNSUPPORTED_VERSION)

    # --- adding partitions

    def _send_add(self, connection: Connection) -> None:
        asked = frozenset(self._wanted)
        by_topic: defaultdict[str, list[int]] = defaultdict(list)
        for tp in sorted(asked):
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
        self._call(connection, message, lambda answer: self._adding(asked, answer), _ADD_VERSION)

    def _adding(self, asked: frozenset[TopicPartition], answer: Any) -> None:
        codes = {
            TopicPartition(topic.name, one.partition_index): one.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        }
        refused = {tp: code for tp, code in codes.items() if code in error_codes.REFUSES_PARTITION}
        others = set(codes.values()) - {error_codes.NONE, error_codes.NOT_ATTEMPTED}
        others -= error_codes.REFUSES_PARTITION
        if others:
            self._failed(others.pop())
            return
        self._answered()
        self._wanted -= refused.keys()
        if not refused:
            self._added |= asked
            self._wanted -= asked
        for tp, code in refused.items():
            self._owner.partition_refused(tp, code)
        if not refused and self.state is TransactionState.OPEN:
            self._owner.partitions_added()
        self._pump()

    # --- the end

    def _send_end(self, connection: Connection) -> None:
        message = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            committed=self._is_commit,
        )
        self._call(connection, message, self._ending, _END_V2 if self._has_v2 else _END_V1)

    def _ending(self, answer: Any) -> None:
        if answer.error_code:
            self._failed(answer.error_code)
            return
        self._answered()
        producer_id = getattr(answer, "producer_id", _NOBODY)
        if self._has_v2 and producer_id is not None and producer_id >= 0:
            self._close_transaction(Identity(producer_id, answer.producer_epoch))
        elif self._is_commit:
            self._close_transaction(self.identity)
        else:
            self._needs_epoch = True
            self._pump()

    def _send_init(self, connection: Connection) -> None:
        message = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
        )
        self._call(connection, message, self._renewing, _INIT_VERSION)

    def _renewing(self, answer: Any) -> None:
        if answer.error_code:
            self._failed(answer.error_code)
            return
        self._answered()
        self._needs_epoch = False
        self._close_transaction(Identity(answer.producer_id, answer.producer_epoch))

    def _close_transaction(self, identity: Identity) -> None:
        is_renewed = identity != self.identity
        self.identity = identity
        self._added.clear()
        self.state = TransactionState.EMPTY
        self._owner.transaction_ended(is_committed=self._is_commit, is_renewed=is_renewed)
