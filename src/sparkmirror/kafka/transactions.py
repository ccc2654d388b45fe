# SPDX-License-Identifier: Apache-2.0
"""Fencing: whoever wrote with a transactional id before cannot write any more once this is done.

InitProducerId aborts what the last holder left open, waits for what it left half committed, and
gives an epoch that every broker prefers to the old one. The answer is the right to write, which
the driver hands to a task.

Why the rest of a topic cannot be read: whose transaction is open, or that nobody answers.
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
from sparkmirror.kafka.cluster_client import PAUSE_SECONDS, Closable, ClusterClient
from sparkmirror.kafka.error_mapping import REQUEST_ERRORS, broker_error
from sparkmirror.kafka.request import Request
from sparkmirror.kafka.topic_requests import describe_producers_request
from sparkmirror.model import TopicPartition
from sparkmirror.wire import error_codes
from sparkmirror.wire.settings import ConnectionSettings
from sparkmirror.wire.transaction import ProducerIdAndEpoch

_TRANSACTION_KEY = 1  # the kind of coordinator that is asked for
_INIT_VERSION = 5  # the one after it is about two-phase commits
RENEW_VERSION = 3  # the first one that tells who holds the id
_NOBODY = ProducerIdAndEpoch(-1, -1)
_RETRIABLE = error_codes.COORDINATOR_BUSY | error_codes.COORDINATOR_MOVED
_BUSY_SECONDS = 0.01

_NONE_OPEN = -1


class TransactionalIds(Closable):
    """The transactional ids on one cluster; belongs to one thread."""

    def __init__(self, connection: ConnectionSettings, client: ClusterClient | None = None) -> None:
        self._has_own_client = client is None  # one that is shared stays open
        self._client = client or ClusterClient(connection)

    def close(self) -> None:
        """Close the connections."""
        if self._has_own_client:
            self._client.close()

    def list_ids(self, prefix: str) -> list[str]:
        """The ids `<prefix><number>` that the cluster remembers: also those of an earlier run.

        Brokers before Kafka 3.0 cannot tell: none.
        """
        ours = re.compile(re.escape(prefix) + "[0-9]+")
        return sorted(name for name in self._producers() if ours.fullmatch(name))

    def producer_ids(self, prefixes: Iterable[str]) -> set[int]:
        """The producer ids behind the transactional ids that begin like this."""
        wanted = tuple(prefixes)
        return {one for name, one in self._producers().items() if name.startswith(wanted)}

    def names_by_producer_id(self) -> dict[int, str]:
        """The transactional ids that the cluster remembers, by their producer ids."""
        return {one: name for name, one in self._producers().items()}

    def fence(
        self,
        ids: Iterable[str],
        *,
        transaction_timeout_ms: int,
        patience_seconds: float = 60.0,
        oldest_version: int = 0,
    ) -> dict[str, ProducerIdAndEpoch]:
        """Take over every id; raises if one cannot be had, and then none may be used.

        With RENEW_VERSION: only where `renew` will work, too.
        """
        holders = dict.fromkeys(ids, _NOBODY)
        return self._init_producer_ids(
            holders, transaction_timeout_ms, patience_seconds, oldest_version
        )

    def bump_epoch(
        self,
        name: str,
        holder: ProducerIdAndEpoch,
        *,
        transaction_timeout_ms: int,
        patience_seconds: float = 60.0,
    ) -> ProducerIdAndEpoch:
        """A newer epoch for the holder of an id; refused if somebody else has taken it over.

        UNSUPPORTED_VERSION from brokers before Kafka 2.5.
        """
        holders = {name: holder}
        taken = self._init_producer_ids(
            holders, transaction_timeout_ms, patience_seconds, RENEW_VERSION
        )
        return taken[name]

    def _init_producer_ids(
        self,
        holders: Mapping[str, ProducerIdAndEpoch],
        transaction_timeout_ms: int,
        patience_seconds: float,
        oldest_version: int,
    ) -> dict[str, ProducerIdAndEpoch]:
        wanted = set(holders)
        fenced: dict[str, ProducerIdAndEpoch] = {}
        deadline = time.monotonic() + patience_seconds
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
        """Every coordinator knows its own ids only."""
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
        """One try: the ids that were fenced, and error codes for the others."""
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
    """A transaction that has not ended, in one partition."""

    tp: TopicPartition
    producer_id: int
    first_offset: int


def blocked_read_error(
    client: ClusterClient, partitions: Sequence[TopicPartition], seconds: float
) -> ClusterError:
    """The error that says why these partitions of a topic were not read on for so long."""
    alias = client.connection.alias
    try:
        first = min(
            open_transactions(client, partitions), key=lambda one: one.first_offset, default=None
        )
    except (ClusterError, *REQUEST_ERRORS):  # not everybody may ask, and old brokers cannot tell
        first = None
    if first is None:
        return UnreachableError(
            f"Cluster '{alias}' has not delivered more of topic '{partitions[0].topic}' for "
            f"{seconds:g} s; {len(partitions)} partitions are not read to their end. Check that "
            f"its brokers are up and that every partition has a leader.",
            cluster=alias,
        )
    return OpenTransactionError(
        f"{first.tp} on cluster '{alias}' could not be read to its end for {seconds:g} s: "
        f"{_holder(client, first.producer_id)} has had a transaction open since offset "
        f"{first.first_offset}, and what follows can be read only when that ends. Let its holder "
        f"go on, wait for its transaction.timeout.ms, or abort it with kafka-transactions.sh.",
        cluster=alias,
    )


def open_transactions(
    client: ClusterClient, partitions: Iterable[TopicPartition]
) -> list[OpenTransaction]:
    """What their leaders know of; needs Kafka 2.8."""
    found: list[OpenTransaction] = []
    leaders, _ = client.partitions_by_leader(partitions)
    for leader, some in leaders.items():
        for topic in client.send(describe_producers_request(some), leader).topics:
            for one in topic.partitions:
                found += [
                    OpenTransaction(
                        TopicPartition(topic.name, one.partition_index),
                        producer.producer_id,
                        producer.current_txn_start_offset,
                    )
                    for producer in one.active_producers
                    if producer.current_txn_start_offset > _NONE_OPEN
                ]
    return found


def _holder(client: ClusterClient, producer_id: int) -> str:
    try:
        name = TransactionalIds(client.connection, client).names_by_producer_id().get(producer_id)
    except ClusterError:  # not everybody may list them
        name = None
    known = "" if name is None else f"transactional id '{name}', "
    return f"{known}producer id {producer_id}"
