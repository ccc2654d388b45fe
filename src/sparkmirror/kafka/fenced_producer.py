# SPDX-License-Identifier: Apache-2.0
"""An idempotent producer with a transactional id: the latest holder fences all earlier ones.

Its record batches have the producer id, epoch and sequences of the transactional id, but are not
part of a transaction, so consumers see them immediately.

A  In a partition, brokers refuse older epochs once a batch with the new epoch is written there.
B  A sequence that may be in use is never reused: when in doubt, the producer bumps its epoch, which
   only the holder can do. The new epoch starts at sequence 0.
C  Coordinator and brokers expire unused ids (after 7 days and 1 day). A new holder would then get
   another producer id, which fences nothing. So a holder bumps its epoch if the last confirmation
   is more than an hour old.

Belongs to one thread; does not close the client.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from sparkmirror.errors import BrokerError, ClusterError, LeadershipLostError
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.topic_log import KeyValue, build_record_batch
from sparkmirror.kafka.transactions import BUMP_VERSION, TransactionalIds
from sparkmirror.wire import error_codes
from sparkmirror.wire.record_batch import SEQUENCE_MASK
from sparkmirror.wire.transaction import ProducerIdAndEpoch

# Not authorized for the cluster or the transactional id, or not supported by the broker.
CANNOT_FENCE = frozenset({31, 35, 53})

_CONFIRMED_SECONDS = 3600.0
_TRANSACTION_TIMEOUT_MS = 60_000  # required by InitProducerId; there is no transaction
_TIMEOUT_SECONDS = 30.0
_OUT_OF_ORDER = frozenset({45, 59})  # the brokers lost the last records, or expired the producer


class FencedProducer:
    """Holds a transactional id, from `acquire` until another producer acquires it."""

    def __init__(
        self,
        client: ClusterClient,
        transactional_id: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock` must include the time while the machine is suspended."""
        self._ids = TransactionalIds(client.connection, client)
        self._alias = client.connection.alias
        self.transactional_id = transactional_id
        self._clock = clock
        self._identity: ProducerIdAndEpoch | None = None
        self._sequences: dict[int, int] = {}
        self._is_in_doubt = False
        self._confirmed_at = 0.0

    def acquire(self) -> None:
        """Fence all earlier holders, and abort an open transaction of theirs.

        BrokerError with a code of CANNOT_FENCE if the cluster does not allow it.
        """
        self._identity = None
        fenced = self._ids.fence(
            [self.transactional_id],
            transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS,
            timeout_seconds=_TIMEOUT_SECONDS,
            oldest_version=BUMP_VERSION,
        )
        self._set_identity(fenced[self.transactional_id])

    def write(
        self,
        append: Callable[[bytes], int],
        partition: int,
        records: Sequence[KeyValue],
    ) -> int:
        """Call `append` with a record batch that has the next sequence; returns its offset.

        LeadershipLostError, also from every later call, if another producer is the holder.
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
                timeout_seconds=_TIMEOUT_SECONDS,
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
            f"'{self.transactional_id}': it is the leader now, and this worker is fenced{reason}",
            cluster=self._alias,
        )
