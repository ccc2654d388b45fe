# SPDX-License-Identifier: Apache-2.0
"""Start positions of an exactly-once flow: read after all earlier producers are fenced.

Transactional ids are fenced before positions are read, so that nothing can be committed that the
next tasks do not know. After a clean epoch its receipts have the end positions. Otherwise the
positions are read again and compared with the ends of the remote partitions: lost records are
copied again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.loop_protection import LoopProtection
from sparkmirror.connectors.on_demand_topics import OnDemandTopics
from sparkmirror.connectors.source_topics import MirroredPartition, MirroredPartitions
from sparkmirror.connectors.start_positions import KnownPosition, StartPositions
from sparkmirror.connectors.target_log_ends import LogEndCheck, TargetLogEnds
from sparkmirror.errors import BrokerError, OpenTransactionError
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
from sparkmirror.state.remedies import with_command
from sparkmirror.task.messages import PartitionStart, Split, TransactionStart
from sparkmirror.wire import error_codes
from sparkmirror.wire.transaction import ProducerIdAndEpoch

_NUMBERS_OF_A_SOURCE = 10_000  # transactional ids of the flow while its source is one cluster
_log = logging.getLogger(__name__)


class TransactionalStartPositions(StartPositions):
    """The positions of one exactly-once flow, and the transactional ids of its tasks."""

    def __init__(
        self,
        settings: FlowSettings,
        status: FlowStatus,
        on_demand_topics: OnDemandTopics,
        loops: LoopProtection,
        map_topic: str,
    ) -> None:
        super().__init__(settings, status, on_demand_topics, loops)
        self._map_topic = map_topic
        self._transactions = settings.transactions
        self._used: set[str] = set()  # ids that may still be in use
        self._first_number = 0  # of the transactional ids of the tasks
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
        with TransactionalIds(self._settings.target_admin) as ids:
            while True:
                numbers = range(min(max_splits, len(mirrored)))
                transactional_ids = self._used | {self._transactional_id(one) for one in numbers}
                self._fenced |= ids.fence(
                    transactional_ids - self._fenced.keys(),
                    transaction_timeout_ms=self._transactions.timeout_ms,
                )
                names = [self._transactional_id(one) for one in numbers]
                if not any(self._loops.is_taken(self._fenced[n].producer_id) for n in names):
                    break
                # The source was another cluster then; its records must stay recognizable.
                self._first_number += _NUMBERS_OF_A_SOURCE
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

    @property
    def producer_ids(self) -> dict[int, str | None]:
        return super().producer_ids | {
            identity.producer_id: name for name, identity in self._fenced.items()
        }

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
        return f"{self._transactions.id_prefix}{self._first_number + index}"

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
        truncations = [
            self._truncation(unchecked[target], target, end, positions[unchecked[target]])
            for target, end in log_ends.truncated.items()
        ]
        lost = [one for one in truncations if one is not None]
        self._on_demand_topics.record_incidents([incident for incident, _ in lost])
        moved = {incident.tp: position for incident, position in lost if position is not None}
        if moved:
            self._store.write(moved)
        for tp, stored in moved.items():
            self._positions[tp] = KnownPosition(stored, is_handed_over=True)
        # Not before the positions are stored: an error above means that all is checked again.
        self._unchecked -= {
            tp for target, tp in unchecked.items() if target not in log_ends.unknown
        }
        waited, self._waiting = self._waiting, set()
        for incident, position in lost:
            if position is None:
                named = with_command(incident, str(self._flow), self._settings.source.name)
                self._wait(incident.tp, named.cause)
        self._wait_for_a_person(unchecked, log_ends)
        for tp in waited - self._waiting:
            self._status.set_problem(f"truncated {tp}", "")

    def _wait_for_a_person(
        self, sources: Mapping[TopicPartition, TopicPartition], log_ends: LogEndCheck
    ) -> None:
        alias = self._flow.target
        for target, offset in log_ends.open_since.items():
            self._wait(
                sources[target],
                f"{alias}: {target} was truncated within a transaction, which never ends: abort "
                f"the transaction that starts at offset {offset} (kafka-transactions.sh abort), "
                "then copying continues",
            )
        for target in log_ends.unreadable:
            self._wait(
                sources[target],
                f"{alias}: {target} was truncated, and only its records show where to continue: "
                "grant READ on the remote topic",
            )

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
        except (BrokerError, OpenTransactionError) as error:
            is_missing = getattr(error, "code", None) == error_codes.UNKNOWN_TOPIC_OR_PARTITION
            if not is_missing and not isinstance(error, OpenTransactionError):
                raise
            # The map may have been truncated within a transaction, too.
            _log.warning(f"{self._flow}: no offset map; resuming at the stored positions: {error}")
            return dict.fromkeys(ends)
        return {tp: _position_at(offsets, tp, end) for tp, end in ends.items()}

    def _truncation(
        self, tp: TopicPartition, target: TopicPartition, end: int, position: Translation | None
    ) -> tuple[Incident, StoredPosition | None] | None:
        """Return what was lost and where to continue; without a position the partition waits."""
        stored = self._positions[tp].stored
        if position is not None and position.offset > stored.offset:
            return None  # only markers were lost
        policy = STOP if position is None else self._settings.incident_policies.target_truncated
        first = stored.offset + 1 if position is None else position.offset
        cause = (
            f"{self._flow.target}: {target} was truncated, for example by an unclean leader "
            f"election; it has committed records up to offset {end - 1} instead of "
            f"{stored.downstream}"
        )
        if position is None:
            cause += "; the offset map has no position to continue at"
        elif policy == STOP:
            cause += "; target.truncated.policy is stop; set it to recopy"
        elif position.fit is not Fit.EXACT:
            cause += "; the offset map has a gap there, so some records may be written twice"
        incident = Incident(
            IncidentKind.TARGET_TRUNCATED,
            *tp,
            first,
            stored.offset,
            stored.offset + 1 - first,
            cause,
            int(time.time() * 1000),
            policy,
        )
        if policy == STOP:
            return incident, None
        return incident, replace(stored, offset=first - 1, downstream=end - 1, leader_epoch=-1)

    def _wait(self, tp: TopicPartition, reason: str) -> None:
        self._status.set_problem(f"truncated {tp}", reason)
        self._waiting.add(tp)
        self._stopped.add(tp)
        self._unchecked.add(tp)


def _position_at(offsets: MapTopic, tp: TopicPartition, end: int) -> Translation | None:
    """Return the source position of a target offset; None before the first record of the map."""
    if tp not in offsets.maps or offsets.maps[tp].is_empty:
        return None
    start = offsets.to_target(tp, offsets.bounds(tp)[0])
    return None if start is None or end < start.offset else offsets.to_source(tp, end)
