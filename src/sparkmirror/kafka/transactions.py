# SPDX-License-Identifier: Apache-2.0
"""Fence transactional ids, and find the open transaction that blocks a read.

InitProducerId aborts the open transaction of the previous holder, waits for one that is committing,
and returns a new epoch, which fences all older ones. The driver passes producer id and epoch to a
task.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from kafka.protocol.admin import ListTransactionsRequest
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer import InitProducerIdRequest

from sparkmirror.errors import (
    BrokerError,
    ClusterError,
    OpenTransactionError,
    UnreachableError,
)
from sparkmirror.kafka.cluster_client import (
    PAUSE_SECONDS,
    Closable,
    ClusterClient,
    partition_results,
)
from sparkmirror.kafka.error_mapping import REQUEST_ERRORS, broker_error
from sparkmirror.kafka.request import Request
from sparkmirror.kafka.topic_requests import describe_producers_request
from sparkmirror.model import TopicPartition
from sparkmirror.quantities import counted, number_form
from sparkmirror.wire import error_codes
from sparkmirror.wire.settings import ConnectionSettings
from sparkmirror.wire.transaction import ProducerIdAndEpoch

_TRANSACTION_KEY = 1  # FindCoordinator's key type
_INIT_VERSION = 5  # the next one adds two-phase commit
BUMP_VERSION = 3  # the first InitProducerId with the holder's producer id and epoch
_NO_HOLDER = ProducerIdAndEpoch(-1, -1)
_RETRIABLE = error_codes.COORDINATOR_BUSY | error_codes.COORDINATOR_MOVED
_BUSY_SECONDS = 0.01

_NONE_OPEN = -1


class TransactionalIds(Closable):
    """The transactional ids of one cluster; belongs to one thread."""

    def __init__(self, connection: ConnectionSettings, client: ClusterClient | None = None) -> None:
        self._has_own_client = client is None  # a shared client stays open
        self._client = client or ClusterClient(connection)

    def close(self) -> None:
        if self._has_own_client:
            self._client.close()

    def list_ids(self, prefix: str) -> list[str]:
        """Return the ids `<prefix><number>` of the cluster, also those of an earlier run.

        Empty with brokers before Kafka 3.0, which cannot list transactions.
        """
        pattern = re.compile(re.escape(prefix) + "[0-9]+")
        return sorted(name for name in self._producers() if pattern.fullmatch(name))

    def names_by_producer_id(self) -> dict[int, str]:
        """Return the transactional ids of the cluster, by producer id."""
        return {one: name for name, one in self._producers().items()}

    def fence(
        self,
        ids: Iterable[str],
        *,
        transaction_timeout_ms: int,
        timeout_seconds: float = 60.0,
        oldest_version: int = 0,
    ) -> dict[str, ProducerIdAndEpoch]:
        """Fence the holders of all ids; if one fails, raises, and none of the ids may be used.

        `oldest_version=BUMP_VERSION` requires a broker where `bump_epoch` works.
        """
        holders = dict.fromkeys(ids, _NO_HOLDER)
        return self._init_producer_ids(
            holders, transaction_timeout_ms, timeout_seconds, oldest_version
        )

    def bump_epoch(
        self,
        name: str,
        holder: ProducerIdAndEpoch,
        *,
        transaction_timeout_ms: int,
        timeout_seconds: float = 60.0,
    ) -> ProducerIdAndEpoch:
        """Bump the epoch of an id's holder; BrokerError if another producer has fenced it.

        The error is UNSUPPORTED_VERSION with brokers before Kafka 2.5.
        """
        holders = {name: holder}
        bumped = self._init_producer_ids(
            holders, transaction_timeout_ms, timeout_seconds, BUMP_VERSION
        )
        return bumped[name]

    def _init_producer_ids(
        self,
        holders: Mapping[str, ProducerIdAndEpoch],
        transaction_timeout_ms: int,
        timeout_seconds: float,
        oldest_version: int,
    ) -> dict[str, ProducerIdAndEpoch]:
        wanted = set(holders)
        fenced: dict[str, ProducerIdAndEpoch] = {}
        deadline = time.monotonic() + timeout_seconds
        while wanted:
            some = {name: holders[name] for name in sorted(wanted)}
            step = partial(self._fence, some, transaction_timeout_ms, oldest_version)
            found, codes = self._client.retry("fencing transactional ids", step)
            fenced |= found
            wanted -= found.keys()
            for name, code in codes.items():
                if code not in _RETRIABLE or time.monotonic() > deadline:
                    raise self._error(name, code)
            if wanted:
                is_busy = error_codes.COORDINATOR_BUSY.issuperset(codes.values())
                self._client.pause(_BUSY_SECONDS if is_busy else PAUSE_SECONDS)
        return fenced

    def _producers(self) -> dict[str, int]:
        try:
            return self._client.retry("listing transactions", self._list)
        except BrokerError as error:
            if error.code != error_codes.UNSUPPORTED_VERSION:
                raise
            return {}

    def _list(self) -> dict[str, int]:
        """List the ids of every coordinator."""
        producers: dict[str, int] = {}
        requests = {
            broker.node_id: Request(
                ListTransactionsRequest(state_filters=[], producer_id_filters=[]), 0, 1
            )
            for broker in self._client.metadata([]).brokers
        }
        for answer in self._client.send_to_each(requests).values():
            if answer.error_code:
                raise self._error("", answer.error_code)
            producers |= {
                one.transactional_id: one.producer_id for one in answer.transaction_states
            }
        return producers

    def _fence(
        self,
        holders: Mapping[str, ProducerIdAndEpoch],
        transaction_timeout_ms: int,
        oldest_version: int,
    ) -> tuple[dict[str, ProducerIdAndEpoch], dict[str, int]]:
        """Try once; returns the fenced ids, and error codes for the others."""
        found: dict[str, ProducerIdAndEpoch] = {}
        codes: dict[str, int] = {}
        for name, holder in holders.items():
            message = FindCoordinatorRequest(key=name, key_type=_TRANSACTION_KEY)
            where = self._client.send(Request(message, 0, 3))
            answer = where
            if not where.error_code:
                answer = self._client.send(
                    _init(name, holder, transaction_timeout_ms, oldest_version), where.node_id
                )
            if answer.error_code:
                codes[name] = answer.error_code
            else:
                found[name] = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
        return found, codes

    def _error(self, name: str, code: int) -> BrokerError:
        doing = f"fencing the transactional id '{name}'" if name else "listing transactions"
        return broker_error(self._client.connection, doing, code, error_codes.advice(code))


def _init(
    name: str, holder: ProducerIdAndEpoch, transaction_timeout_ms: int, oldest_version: int
) -> Request:
    message = InitProducerIdRequest(
        transactional_id=name,
        transaction_timeout_ms=transaction_timeout_ms,
        producer_id=holder.producer_id,
        producer_epoch=holder.producer_epoch,
    )
    return Request(message, oldest_version, _INIT_VERSION)


class OpenTransaction(NamedTuple):
    """An open transaction in one partition."""

    tp: TopicPartition
    producer_id: int
    first_offset: int


def blocked_read_error(
    client: ClusterClient, partitions: Sequence[TopicPartition], seconds: float
) -> ClusterError:
    """Return the error for partitions of a topic without progress for these seconds."""
    alias = client.connection.alias
    try:
        first = min(
            open_transactions(client, partitions), key=lambda one: one.first_offset, default=None
        )
    except (ClusterError, *REQUEST_ERRORS):  # not authorized, or an old broker
        first = None
    if first is None:
        return UnreachableError(
            f"Cluster '{alias}' returned no more records of topic '{partitions[0].topic}' for "
            f"{seconds:g} s; {counted(len(partitions), 'partition')} "
            f"{number_form(len(partitions), 'is', 'are')} not read to the end. Check that its "
            "brokers are up and that every partition has a leader.",
            cluster=alias,
        )
    return OpenTransactionError(
        f"{first.tp} on cluster '{alias}' could not be read to its end for {seconds:g} s: "
        f"{_producer_name(client, first.producer_id)} has an open transaction at offset "
        f"{first.first_offset}, which blocks all later records. Resume the producer, wait for its "
        f"transaction.timeout.ms, or abort the transaction with kafka-transactions.sh.",
        cluster=alias,
    )


def open_transactions(
    client: ClusterClient, partitions: Iterable[TopicPartition]
) -> list[OpenTransaction]:
    """Return the open transactions of partitions; needs Kafka 2.8."""
    found: list[OpenTransaction] = []
    leaders, _ = client.partitions_by_leader(partitions)
    for leader, some in leaders.items():
        answer = client.send(describe_producers_request(some), leader)
        found += [
            OpenTransaction(tp, producer.producer_id, producer.current_txn_start_offset)
            for tp, one in partition_results(answer.topics)
            for producer in one.active_producers
            if producer.current_txn_start_offset > _NONE_OPEN
        ]
    return found


def _producer_name(client: ClusterClient, producer_id: int) -> str:
    try:
        name = TransactionalIds(client.connection, client).names_by_producer_id().get(producer_id)
    except ClusterError:  # not authorized
        name = None
    known = "" if name is None else f"transactional id '{name}', "
    return f"{known}producer id {producer_id}"
