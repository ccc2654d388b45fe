# SPDX-License-Identifier: Apache-2.0
"""Start positions of an exactly-once flow: read after all earlier producers are fenced.

Transactional ids are fenced before positions are read, so that nothing can be committed that the
next tasks do not know. After a clean epoch its receipts have the end positions. Otherwise the
positions are read again and compared with the ends of the remote partitions: lost records are
copied again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.on_demand_topics import OnDemandTopics
from sparkmirror.connectors.source_topics import MirroredPartition, MirroredPartitions
from sparkmirror.connectors.start_positions import KnownPosition, StartPositions
from sparkmirror.connectors.target_log_ends import TargetLogEnds
from sparkmirror.errors import BrokerError
from sparkmirror.formats.source_offsets import StoredPosition
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.descriptions import LogEnd
from sparkmirror.kafka.transactions import TransactionalIds
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.map_topic import MapTopic
from sparkmirror.offsets.offset_map import Fit, Translation
from sparkmirror.spark.epoch_runner import EpochResult
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.state.incidents import STOP, Incident, IncidentKind
from sparkmirror.task.messages import PartitionStart, Split, TransactionStart
from sparkmirror.wire import error_codes
from sparkmirror.wire.transaction import ProducerIdAndEpoch


class TransactionalStartPositions(StartPositions):
    """The positions of one exactly-once flow, and the transactional ids of its tasks."""

    def __init__(
        self,
        settings: FlowSettings,
        status: FlowStatus,
        on_demand_topics: OnDemandTopics,
        map_topic: str,
    ) -> None:
        super().__init__(settings, status, on_demand_topics)
        self._map_topic = map_topic
        self._transactions = settings.transactions
        self._used: set[str] = set()  # ids that may still be in use
        self._fenced: dict[str, ProducerIdAndEpoch] = {}
        self._is_stale = True
        self._unchecked: set[TopicPartition] = set()  # not compared with the target's log yet
        self._waiting: set[TopicPartition] = set()  # because the target lost records

    def read(self) -> bool:
        """Find the ids of earlier runs; positions are read once these are fenced."""
        with TransactionalIds(self._settings.target_admin) as ids:
            self._used.update(ids.list_ids(self._transactions.id_prefix))
        return True

    def starts(
        self, mirrored: MirroredPartitions, ends: Mapping[TopicPartition, LogEnd], max_splits: int
    ) -> list[PartitionStart]:
        """Fence, read positions if needed, and start every partition that can be copied."""
        transactional_ids = self._used | {
            self._transactional_id(index) for index in range(min(max_splits, len(mirrored)))
        }
        with TransactionalIds(self._settings.target_admin) as ids:
            self._fenced |= ids.fence(
                transactional_ids - self._fenced.keys(),
                transaction_timeout_ms=self._transactions.timeout_ms,
            )
        self._used.clear()
        if self._is_stale:
            super().read()
            self._unchecked = set(self._positions)
            self._is_stale = False
        return self._starts(mirrored, ends)

    def assign_transactional_ids(self, splits: Sequence[Split]) -> tuple[Split, ...]:
        """Assign each task its id; earlier producers with it are fenced."""
        assigned = []
        for split in splits:
            name = self._transactional_id(split.index)
            self._used.add(name)
            identity = self._fenced.pop(name)
            assigned.append(replace(split, transaction=TransactionStart(name, *identity)))
        return tuple(assigned)

    def update_from(self, result: EpochResult) -> None:
        """Continue from the receipts if all of them are final, else from what is committed."""
        ends = result.ends
        if result.failure or not all(end.is_clean for end in ends.values()):
            self._is_stale = True
            return
        super().update_from(result)
        for tp in ends:
            known = self._positions[tp]
            without = replace(known.stored, producer=None)
            self._positions[tp] = replace(known, stored=without, is_handed_over=True)

    def _transactional_id(self, index: int) -> str:
        return f"{self._transactions.id_prefix}{index}"

    def _register(self, tp: TopicPartition, position: StoredPosition) -> None:
        """A position with a producer was stored without transactions: compare once."""
        self._positions[tp] = KnownPosition(position, is_handed_over=position.producer is None)

    def _new_positions(
        self, partitions: list[MirroredPartition], positions: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, StoredPosition]:
        """Create positions with the source offset only: committed records need no comparison."""
        return {
            one.source: StoredPosition(
                positions[one.source] - 1,
                source_topic=one.topic_id,
                target_topic=one.target_topic_id,
            )
            for one in partitions
        }

    # --- targets that lost records

    def _handle_truncated(self, mirrored: MirroredPartitions) -> None:
        """Go back to what the target still has, or wait, by policy."""
        unchecked = {
            TopicPartition(one.remote_topic, one.source.partition): one.source
            for one in mirrored
            if one.source in self._unchecked and self._last_record(one.source) is not None
        }
        if not unchecked:
            return
        last_records = {target: self._last_record(tp) or 0 for target, tp in unchecked.items()}
        producer_ids = {one.producer_id for one in self._fenced.values()}
        with closing(ClusterClient(self._settings.target_admin)) as client:
            log_ends = TargetLogEnds(client).check(last_records, producer_ids)
            positions = self._positions_at(
                client, {unchecked[target]: end for target, end in log_ends.truncated.items()}
            )
        self._unchecked -= {
            tp for target, tp in unchecked.items() if target not in log_ends.unknown
        }
        waited, self._waiting = self._waiting, set()
        for target, end in log_ends.truncated.items():
            self._go_back(unchecked[target], target, end, positions[unchecked[target]])
        for target, offset in log_ends.open_since.items():
            self._wait(
                unchecked[target],
                f"{self._flow.target}: {target} was truncated within a transaction, which never "
                f"ends: abort the transaction that starts at offset {offset} "
                "(kafka-transactions.sh abort), then copying continues",
            )
        for tp in waited - self._waiting:
            self._status.set_problem(f"truncated {tp}", "")

    def _last_record(self, tp: TopicPartition) -> int | None:
        """Return the target offset of the last committed record; None if unknown or compared."""
        known = self._positions.get(tp)
        is_known = known is not None and known.is_handed_over and tp not in self._stopped
        return known.stored.downstream if known is not None and is_known else None

    def _positions_at(
        self, client: ClusterClient, ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Translation | None]:
        """Translate the target's end to the source, by the offset map."""
        if not ends:
            return {}
        offsets = MapTopic(client, self._map_topic)
        try:
            offsets.refresh()
        except BrokerError as error:
            if error.code != error_codes.UNKNOWN_TOPIC_OR_PARTITION:
                raise
        return {tp: offsets.to_source(tp, end) for tp, end in ends.items()}

    def _go_back(
        self, tp: TopicPartition, target: TopicPartition, end: int, position: Translation | None
    ) -> None:
        stored, alias = self._positions[tp].stored, self._flow.target
        if position is not None and position.offset > stored.offset:
            return  # no record of ours was lost
        policy = STOP if position is None else self._settings.incident_policies.target_truncated
        first = stored.offset + 1 if position is None else min(position.offset, stored.offset + 1)
        cause = (
            f"{alias}: {target} was truncated, for example by an unclean leader election; it has "
            f"committed records up to offset {end - 1} instead of {stored.downstream}"
        )
        if position is not None and position.fit is not Fit.EXACT:
            cause += "; the offset map does not reach there, so some records may be written twice"
        self._on_demand_topics.record_incidents(
            [
                Incident(
                    IncidentKind.TARGET_TRUNCATED,
                    *tp,
                    first,
                    stored.offset,
                    stored.offset + 1 - first,
                    cause,
                    int(time.time() * 1000),
                    policy,
                )
            ]
        )
        if policy == STOP:
            remedy = (
                "the offset map has no position to continue at: set the stored offset"
                if position is None
                else "target.truncated.policy is stop; set it to recopy"
            )
            self._wait(tp, f"{cause}; {remedy}")
            return
        moved = replace(stored, offset=first - 1, downstream=end - 1, leader_epoch=-1)
        self._store.write({tp: moved})
        self._positions[tp] = KnownPosition(moved, is_handed_over=True)

    def _wait(self, tp: TopicPartition, reason: str) -> None:
        self._status.set_problem(f"truncated {tp}", reason)
        self._waiting.add(tp)
        self._stopped.add(tp)
        self._unchecked.add(tp)
