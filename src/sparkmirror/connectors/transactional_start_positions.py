# SPDX-License-Identifier: Apache-2.0
"""Where the partitions of an exactly-once flow begin: read after everybody has been fenced.

Transactional ids are taken over before positions are looked up, so that nothing can be committed
any more that the next tasks do not know of. After an epoch that ended cleanly its receipts tell
where it ended; after any other the positions are read again, and held against the ends of the
remote partitions: what these have lost since is copied again.
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
    """The positions of one exactly-once flow, and the right to write on from there."""

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
        self._used: set[str] = set()  # ids that somebody may still write with
        self._fenced: dict[str, ProducerIdAndEpoch] = {}
        self._is_stale = True
        self._unchecked: set[TopicPartition] = set()  # whether the target has what is stored
        self._waiting: set[TopicPartition] = set()  # because their target lost records

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
            self._unchecked = set(self._positions)
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

    # --- targets that lost records

    def _handle_truncated(self, mirrored: MirroredPartitions) -> None:
        """Go back to what the target still has, or wait, as the policy says."""
        wanted = {
            TopicPartition(one.remote_topic, one.source.partition): one.source
            for one in mirrored
            if one.source in self._unchecked and self._last_record(one.source) is not None
        }
        if not wanted:
            return
        last_records = {target: self._last_record(tp) or 0 for target, tp in wanted.items()}
        producer_ids = {one.producer_id for one in self._fenced.values()}
        with closing(ClusterClient(self._settings.target_admin)) as client:
            tails = TargetLogEnds(client).check(last_records, producer_ids)
            positions = self._positions_at(
                client, {wanted[target]: end for target, end in tails.truncated.items()}
            )
        self._unchecked -= {tp for target, tp in wanted.items() if target not in tails.unknown}
        waited, self._waiting = self._waiting, set()
        for target, end in tails.truncated.items():
            self._go_back(wanted[target], target, end, positions[wanted[target]])
        for target, offset in tails.open_since.items():
            self._wait(
                wanted[target],
                f"{self._flow.target}: {target} was cut off within a transaction, which therefore "
                f"never ends: abort the one that begins at offset {offset} (kafka-transactions.sh "
                "abort), then copying goes on",
            )
        for tp in waited - self._waiting:
            self._status.set_problem(f"truncated {tp}", "")

    def _last_record(self, tp: TopicPartition) -> int | None:
        """The target offset of the last committed record; None: nobody knows, or it is compared."""
        known = self._positions.get(tp)
        is_known = known is not None and known.is_handed_over and tp not in self._stopped
        return known.stored.downstream if known is not None and is_known else None

    def _positions_at(
        self, client: ClusterClient, ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Translation | None]:
        """Where the target's end lies on the source, by the offset map."""
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
        self, tp: TopicPartition, target: TopicPartition, end: int, place: Translation | None
    ) -> None:
        stored, alias = self._positions[tp].stored, self._flow.target
        if place is not None and place.offset > stored.offset:
            return  # no record of ours was lost
        policy = STOP if place is None else self._settings.incident_policies.target_truncated
        first = stored.offset + 1 if place is None else min(place.offset, stored.offset + 1)
        cause = (
            f"{alias}: {target} was cut off, as by an unclean leader election; it has committed "
            f"records up to offset {end - 1}, and should have them up to {stored.downstream}"
        )
        if place is not None and place.fit is not Fit.EXACT:
            cause += "; the offset map does not reach there, so some records may come twice"
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
                "the offset map does not say where to go on: set the stored offset"
                if place is None
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
