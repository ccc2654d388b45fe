# SPDX-License-Identifier: Apache-2.0
"""Where the partitions of an exactly-once flow begin: read after everybody has been fenced.

Transactional ids are taken over before positions are looked up, so that nothing can be committed
any more that the next tasks do not know of. After an epoch that ended cleanly its receipts tell
where it ended; after any other the positions are read again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.on_demand_topics import OnDemandTopics
from sparkmirror.connectors.source_topics import MirroredPartition, MirroredPartitions
from sparkmirror.connectors.start_positions import KnownPosition, StartPositions
from sparkmirror.formats.source_offsets import StoredPosition
from sparkmirror.kafka.descriptions import LogEnd
from sparkmirror.kafka.transactions import TransactionalIds
from sparkmirror.model import TopicPartition
from sparkmirror.spark.epoch_runner import EpochResult
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.task.messages import PartitionStart, Split, TransactionStart
from sparkmirror.wire.transaction import ProducerIdAndEpoch


class TransactionalStartPositions(StartPositions):
    """The positions of one exactly-once flow, and the right to write on from there."""

    def __init__(
        self, settings: FlowSettings, status: FlowStatus, on_demand_topics: OnDemandTopics
    ) -> None:
        super().__init__(settings, status, on_demand_topics)
        self._transactions = settings.transactions
        self._used: set[str] = set()  # ids that somebody may still write with
        self._fenced: dict[str, ProducerIdAndEpoch] = {}
        self._is_stale = True

    def read(self) -> bool:
        """Find the ids of earlier runs; positions are read once these are fenced."""
        with TransactionalIds(self._settings.target_admin) as ids:
            self._used.update(ids.list_ids(self._transactions.id_prefix))
        return True

    def starts(
        self, mirrored: MirroredPartitions, ends: Mapping[TopicPartition, LogEnd], most: int
    ) -> list[PartitionStart]:
        """Fence, read if need be, and start every partition that can begin."""
        wanted = self._used | {
            self._transactional_id(index) for index in range(min(most, len(mirrored)))
        }
        with TransactionalIds(self._settings.target_admin) as ids:
            self._fenced |= ids.fence(
                wanted - self._fenced.keys(), transaction_timeout_ms=self._transactions.timeout_ms
            )
        self._used.clear()
        if self._is_stale:
            super().read()
            self._is_stale = False
        return self._starts(mirrored, ends)

    def assign_transactional_ids(self, splits: Sequence[Split]) -> tuple[Split, ...]:
        """Hand each task its id; whoever had it before can write no more."""
        entitled = []
        for split in splits:
            name = self._transactional_id(split.index)
            self._used.add(name)
            identity = self._fenced.pop(name)
            entitled.append(replace(split, transaction=TransactionStart(name, *identity)))
        return tuple(entitled)

    def update_from(self, result: EpochResult) -> None:
        """Go on from the receipts if all of them are final, else from what is committed."""
        standings = result.ends
        if result.failure or not all(standing.is_clean for standing in standings.values()):
            self._is_stale = True
            return
        super().update_from(result)
        for tp in standings:
            known = self._positions[tp]
            without = replace(known.stored, producer=None)
            self._positions[tp] = replace(known, stored=without, is_handed_over=True)

    def _transactional_id(self, index: int) -> str:
        return f"{self._transactions.id_prefix}{index}"

    def _register(self, tp: TopicPartition, position: StoredPosition) -> None:
        """A position with a producer is from a time without transactions: compare once."""
        self._positions[tp] = KnownPosition(position, is_handed_over=position.producer is None)

    def _new_positions(
        self, wanted: list[MirroredPartition], positions: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, StoredPosition]:
        """What is committed needs no comparison: the source's side is enough."""
        return {
            one.source: StoredPosition(
                positions[one.source] - 1,
                source_topic=one.topic_id,
                target_topic=one.target_topic_id,
            )
            for one in wanted
        }
