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
from sparkmirror.connectors.side_topics import SideTopics
from sparkmirror.connectors.source_topics import Mirrored, MirroredPartition
from sparkmirror.connectors.starting_points import Known, StartingPoints
from sparkmirror.formats.source_offsets import StoredPosition
from sparkmirror.kafka.descriptions import LogEnd
from sparkmirror.kafka.transactions import TransactionalIds
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.contract import PartitionStart, Split, TransactionStart
from sparkmirror.pipeline.epochs import EpochResult
from sparkmirror.pipeline.status import FlowStatus
from sparkmirror.wire.transaction import Identity


class FencedPoints(StartingPoints):
    """The positions of one exactly-once flow, and the right to write on from there."""

    def __init__(self, settings: FlowSettings, status: FlowStatus, side_topics: SideTopics) -> None:
        super().__init__(settings, status, side_topics)
        self._transactions = settings.transactions
        self._used: set[str] = set()  # ids that somebody may still write with
        self._fenced: dict[str, Identity] = {}
        self._is_stale = True

    def read(self) -> bool:
        """Find the ids of earlier runs; positions are read once these are fenced."""
        with TransactionalIds(self._settings.target_admin) as ids:
            self._used.update(ids.list_ids(self._transactions.id_prefix))
        return True

    def starts(
        self, mirrored: Mirrored, ends: Mapping[TopicPartition, LogEnd], most: int
    ) -> list[PartitionStart]:
        """Fence, read if need be, and start every partition that can begin."""
        wanted = self._used | {self._name(index) for index in range(min(most, len(mirrored)))}
        with TransactionalIds(self._settings.target_admin) as ids:
            self._fenced |= ids.fence(
                wanted - self._fenced.keys(), transaction_timeout_ms=self._transactions.timeout_ms
            )
        self._used.clear()
        if self._is_stale:
            super().read()
            self._is_stale = False
        return self._starts(mirrored, ends)

    def entitle(self, splits: Sequence[Split]) -> tuple[Split, ...]:
        """Hand each task its id; whoever had it before can write no more."""
        entitled = []
        for split in splits:
            name = self._name(split.index)
            self._used.add(name)
            identity = self._fenced.pop(name)
            entitled.append(replace(split, transaction=TransactionStart(name, *identity)))
        return tuple(entitled)

    def take(self, result: EpochResult) -> None:
        """Go on from the receipts if all of them are final, else from what is committed."""
        standings = result.standings
        if result.failure or not all(standing.is_clean for standing in standings.values()):
            self._is_stale = True
            return
        super().take(result)
        for tp in standings:
            known = self._pairs[tp]
            without = replace(known.stored, producer=None)
            self._pairs[tp] = replace(known, stored=without, is_handed_over=True)

    def _name(self, index: int) -> str:
        return f"{self._transactions.id_prefix}{index}"

    def _learn(self, tp: TopicPartition, position: StoredPosition) -> None:
        """A position with a producer is from a time without transactions: compare once."""
        self._pairs[tp] = Known(position, is_handed_over=position.producer is None)

    def _make(
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
