# SPDX-License-Identifier: Apache-2.0
"""Whoever writes last as a transactional id may write: earlier holders are refused by the brokers.

Its record batches carry the producer id and epoch of the transactional id and are numbered, but
are in no transaction: everybody can read them at once.

A  An epoch refuses older ones in a partition once something was written with it there.
B  A record batch is never given a number of which it is not known whether it was used: after such
   doubt a newer epoch is asked for, which counts from 0, and which only the holder gets.
C  Coordinator and brokers forget ids that are not used (7 days, 1 day), and a new holder would then
   get another producer id, which refuses nobody: a holder that has not been confirmed for an hour
   has itself confirmed first.

Belongs to one thread, and to whoever owns the client.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from sparkmirror.errors import BrokerError, ClusterError, LeadershipLostError
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.topic_log import KeyValue, build_record_batch
from sparkmirror.kafka.transactions import RENEW_VERSION, TransactionalIds
from sparkmirror.wire import error_codes
from sparkmirror.wire.record_batch import SEQUENCE_MASK
from sparkmirror.wire.transaction import ProducerIdAndEpoch

# Not authorised (for the cluster, for the transactional id), or unknown to such brokers.
CANNOT_FENCE = frozenset({31, 35, 53})

_CONFIRMED_SECONDS = 3600.0
_TRANSACTION_TIMEOUT_MS = 60_000  # never used, and every cluster allows it
_PATIENCE_SECONDS = 30.0
_OUT_OF_ORDER = frozenset({45, 59})  # the brokers have lost our last records, or forgotten us


class FencedProducer:
    """The holder of a transactional id, from `take` until somebody else takes it."""

    def __init__(
        self,
        client: ClusterClient,
        transactional_id: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """The clock goes on while the machine is suspended."""
        self._ids = TransactionalIds(client.connection, client)
        self._alias = client.connection.alias
        self.transactional_id = transactional_id
        self._clock = clock
        self._identity: ProducerIdAndEpoch | None = None
        self._sequences: dict[int, int] = {}
        self._is_in_doubt = False
        self._confirmed_at = 0.0

    def acquire(self) -> None:
        """Become the holder, and abort what an earlier one has left open.

        BrokerError with a code of CANNOT_FENCE if the cluster does not let us.
        """
        self._identity = None
        fenced = self._ids.fence(
            [self.transactional_id],
            transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS,
            patience_seconds=_PATIENCE_SECONDS,
            oldest_version=RENEW_VERSION,
        )
        self._set_identity(fenced[self.transactional_id])

    def write(
        self,
        append: Callable[[bytes], int],
        partition: int,
        records: Sequence[KeyValue],
    ) -> int:
        """Have a record batch written with the next number; returns its offset.

        LeadershipLostError if somebody else has become the holder, now and ever after.
        """
        identity = self._confirmed_identity()
        for is_last in (False, True):
            batch = build_record_batch(records, *identity, self._sequences.get(partition, 0))
            self._is_in_doubt = True
            try:
                offset = append(batch)
            except BrokerError as error:
                self._is_in_doubt = error.code not in error_codes.NOT_APPENDED
                if error.code in error_codes.FENCED:
                    raise self._fenced_error(error) from error
                if error.code not in _OUT_OF_ORDER or is_last:
                    raise
                identity = self._bump_epoch(identity)
            else:
                break
        self._is_in_doubt = False
        following = self._sequences.get(partition, 0) + len(records)
        self._sequences[partition] = following & SEQUENCE_MASK
        return offset

    def _confirmed_identity(self) -> ProducerIdAndEpoch:
        if self._identity is None:
            raise self._fenced_error(None)
        is_old = abs(self._clock() - self._confirmed_at) > _CONFIRMED_SECONDS
        if self._is_in_doubt or is_old:  # B, C
            return self._bump_epoch(self._identity)
        return self._identity

    def _bump_epoch(self, identity: ProducerIdAndEpoch) -> ProducerIdAndEpoch:
        try:
            found = self._ids.bump_epoch(
                self.transactional_id,
                identity,
                transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS,
                patience_seconds=_PATIENCE_SECONDS,
            )
        except BrokerError as error:
            if error.code in error_codes.FENCED:
                raise self._fenced_error(error) from error
            raise
        self._set_identity(found)
        return found

    def _set_identity(self, identity: ProducerIdAndEpoch) -> None:
        self._identity = identity
        self._sequences.clear()
        self._is_in_doubt = False
        self._confirmed_at = self._clock()

    def _fenced_error(self, error: ClusterError | None) -> LeadershipLostError:
        self._identity = None
        reason = "" if error is None else f" ({error})"
        return LeadershipLostError(
            f"Another worker writes to cluster '{self._alias}' as transactional id "
            f"'{self.transactional_id}': it leads now, and this one may not write{reason}",
            cluster=self._alias,
        )
