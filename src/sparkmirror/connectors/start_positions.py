# SPDX-License-Identifier: Apache-2.0
"""Where each topic partition of a flow begins: a complete pair, stored before anything is written.

A pair says which source offset comes next, behind which target offset, and with which sequence
of the flow's producer. As every partition has one in Kafka before a task may write to it, whoever
comes after a crash knows what to compare, and recognises what the dead one wrote. Positions that
Java MirrorMaker 2 wrote have only the source offset: they are completed by what the target says.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.on_demand_topics import OnDemandTopics
from sparkmirror.connectors.recreated_topics import find_recreated
from sparkmirror.connectors.source_topics import MirroredPartition, MirroredPartitions
from sparkmirror.errors import UnreachableError
from sparkmirror.formats.source_offsets import StoredPosition
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.descriptions import LogEnd, PartialResults
from sparkmirror.kafka.groups import GroupAdmin
from sparkmirror.model import NO_PRODUCER, TopicPartition
from sparkmirror.spark.epoch_runner import EpochResult
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.state.incidents import STOP
from sparkmirror.state.offset_store import OffsetStore
from sparkmirror.task.messages import PartitionStart, Split

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KnownPosition:
    """A complete pair, whether the last task ended cleanly there, and its open chunk if so."""

    stored: StoredPosition
    is_handed_over: bool = False
    map_chunk: str = ""


def may_be_truncated(stored: StoredPosition, end: LogEnd) -> bool:
    """Whether a log with nothing new in it may have lost its tail, and perhaps grown again."""
    position = stored.offset + 1
    has_new_leader = -1 < stored.leader_epoch < end.leader_epoch
    return position > end.offset or (position == end.offset and has_new_leader)


class StartPositions:
    """The pairs of one flow, kept from epoch to epoch."""

    def __init__(
        self, settings: FlowSettings, status: FlowStatus, on_demand_topics: OnDemandTopics
    ) -> None:
        self._settings = settings
        self._flow = settings.flow
        self._status = status
        self._on_demand_topics = on_demand_topics
        self._store = OffsetStore(
            settings.state_cluster,
            settings.internal_topics.offsets,
            connector=settings.source.name,
            source_alias=settings.flow.source,
        )
        self._positions: dict[TopicPartition, KnownPosition] = {}
        self._incomplete: dict[TopicPartition, StoredPosition] = {}
        self._from_beginning: set[TopicPartition] = set()  # to begin at the source's beginning
        self._stopped: set[TopicPartition] = set()  # by a policy
        self._copied: set[TopicPartition] = set()  # by an epoch of this run
        self._forgotten: deque[str] = deque()  # topics; another thread appends
        self._is_added: dict[
            TopicPartition, bool
        ] = {}  # partitions without a pair, when first seen
        self._producer = NO_PRODUCER
        self.offsets_partitions = 0

    def read(self) -> bool:
        """Read what is stored; true, for `_until_it_works`."""
        stored = self._store.read()
        self.offsets_partitions = stored.partitions
        for tp, position in stored.positions.items():
            self._register(tp, position)
        return True

    def _register(self, tp: TopicPartition, position: StoredPosition) -> None:
        if position.producer is None:
            self._incomplete[tp] = position
            return
        self._positions[tp] = KnownPosition(position)
        if position.producer.producer_id > self._producer.producer_id:
            self._producer = replace(position.producer, next_sequence=0)

    def forget_topic(self, topic: str) -> None:
        """A topic is gone on both sides: one made anew begins anew. Callable from any thread."""
        self._forgotten.append(topic)

    def assign_transactional_ids(self, splits: Sequence[Split]) -> tuple[Split, ...]:
        """Give the splits what their tasks need to write."""
        return tuple(splits)

    def update_from(self, result: EpochResult) -> None:
        """Remember where an epoch left its partitions."""
        self._copied.update(result.ends)
        for tp, standing in result.ends.items():
            before = self._positions[tp].stored
            self._positions[tp] = KnownPosition(
                replace(
                    before,
                    offset=standing.position - 1,
                    downstream=standing.downstream,
                    producer=standing.producer,
                    leader_epoch=standing.leader_epoch,
                ),
                standing.is_clean,
                standing.map_chunk if standing.is_clean else "",
            )

    def starts(
        self, mirrored: MirroredPartitions, ends: Mapping[TopicPartition, LogEnd], most: int
    ) -> list[PartitionStart]:
        """A start for every partition that can begin, in at most so many splits.

        A bounded run says where it ends.
        """
        del most
        return self._starts(mirrored, ends)

    def _starts(
        self, mirrored: MirroredPartitions, ends: Mapping[TopicPartition, LogEnd]
    ) -> list[PartitionStart]:
        """A start for every partition that can begin."""
        while self._forgotten:
            self._drop(self._forgotten.popleft())
        self._handle_recreated(mirrored)
        self._handle_truncated(mirrored)
        self._complete([one for one in mirrored if one.source not in self._positions])
        starts = [
            self._start(one, self._positions[one.source], ends.get(one.source))
            for one in mirrored
            if one.source in self._positions and one.source not in self._stopped
        ]
        return [s for s in starts if s.stop_at is None or s.position < s.stop_at]

    def _drop(self, topic: str) -> None:
        for known in (self._positions, self._incomplete, self._is_added):
            for tp in [one for one in known if one.topic == topic]:
                del known[tp]

    def _start(
        self, one: MirroredPartition, known: KnownPosition, end: LogEnd | None
    ) -> PartitionStart:
        stored = known.stored
        downstream, producer = stored.downstream, stored.producer
        position = stored.offset + 1
        stop_at = None if end is None else end.offset
        if end is not None and one.source not in self._copied and may_be_truncated(stored, end):
            stop_at = position + 1  # the task finds out where it was cut
        return PartitionStart(
            topic=one.source.topic,
            partition=one.source.partition,
            remote_topic=one.remote_topic,
            position=position,
            downstream=-1 if downstream is None else downstream,
            stop_at=stop_at,
            topic_id=stored.source_topic or one.topic_id,
            target_topic_id=stored.target_topic or one.target_topic_id,
            producer=producer or NO_PRODUCER,
            leader_epoch=stored.leader_epoch,
            is_handed_over=known.is_handed_over,
            map_chunk=known.map_chunk,
        )

    def _handle_recreated(self, mirrored: MirroredPartitions) -> None:
        """A topic with another id is another topic: do what the policies say."""
        known = {tp: pair.stored for tp, pair in self._positions.items()}
        found = find_recreated(mirrored, known, self._settings.incident_policies)
        now = int(time.time() * 1000)
        self._on_demand_topics.record_incidents(
            [one.incident(self._flow.target, now) for one in found]
        )
        stopped = {one.mirrored.source for one in found if one.policy == STOP}
        for tp in self._stopped - stopped:
            self._status.set_problem(f"recreated {tp}", "")
        self._stopped = stopped
        for one in found:
            tp = one.mirrored.source
            if one.policy == STOP:
                self._status.set_problem(
                    f"recreated {tp}",
                    f"{self._flow.target}: {one.mirrored.remote_topic} was deleted and created "
                    f"again, "
                    f"and target.recreated.policy is stop: {tp} waits",
                )
                continue
            del self._positions[tp]
            if one.policy == "restart":
                self._from_beginning.add(tp)
            else:
                self._incomplete[tp] = one.stored

    def _handle_truncated(self, mirrored: MirroredPartitions) -> None:
        """A target that lost records: the tasks notice, when they compare."""

    # --- completing

    def _complete(self, newcomers: list[MirroredPartition]) -> None:
        """Make and store a pair for partitions that have none."""
        positions = {
            one.source: self._incomplete[one.source].offset + 1
            for one in newcomers
            if one.source in self._incomplete
        }
        others = [one.source for one in newcomers if one.source not in positions]
        whole = self._from_beginning | self._added_partitions(others)
        positions |= self._reset_positions([tp for tp in others if tp not in whole])
        positions |= self._earliest([tp for tp in others if tp in whole])
        wanted = [one for one in newcomers if one.source in positions]
        if not wanted:
            return
        made = self._new_positions(wanted, positions)
        self._store.write(made)
        self._log_foreign_positions(made)
        for tp, stored in made.items():
            self._incomplete.pop(tp, None)
            self._from_beginning.discard(tp)
            self._register(tp, stored)

    def _added_partitions(self, newcomers: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Those that were added to a topic which was mirrored already when they were first seen.

        Their first records were written before anybody could notice, so even a flow that begins
        at the end (auto.offset.reset=latest) takes them from the beginning.
        """
        last: dict[str, int] = {}
        for tp in self._positions:
            last[tp.topic] = max(tp.partition, last.get(tp.topic, -1))
        for tp in newcomers:
            self._is_added.setdefault(tp, tp.topic in last and tp.partition > last[tp.topic])
        return {tp for tp in newcomers if self._is_added[tp]}

    def _new_positions(
        self, wanted: list[MirroredPartition], positions: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, StoredPosition]:
        """Complete pairs, as far as the target answers."""
        made: dict[TopicPartition, StoredPosition] = {}
        with ClusterAdmin(self._settings.target_admin) as admin:
            is_new = self._producer.producer_id < 0
            if is_new:
                self._producer = admin.init_producer_id()
            remote = {
                one.source: TopicPartition(one.remote_topic, one.source.partition) for one in wanted
            }
            ends = admin.end_offsets(remote.values(), "read_uncommitted")
            sequences = admin.next_sequences(ends.found, self._producer.producer_id)
            producers = {
                target: replace(self._producer, next_sequence=sequence)
                for target, sequence in sequences.items()
                if sequence is not None
            }
            unknown = [target for target, sequence in sequences.items() if sequence is None]
            if unknown and not is_new:
                self._producer = admin.init_producer_id()  # it may have written there before
            producers |= dict.fromkeys(unknown, self._producer)
        for target in ends.found:
            if target not in producers:
                raise UnreachableError(
                    f"Cluster '{self._flow.target}': the leader of {target} does not answer just "
                    "now; trying again.",
                    cluster=self._flow.target,
                )
        for one in wanted:
            target = remote[one.source]
            error = ends.failed.get(target)
            self._status.set_problem(f"start {one.source}", str(error) if error else "")
            if target in ends.found:
                before = self._incomplete.get(one.source)
                made[one.source] = StoredPosition(
                    positions[one.source] - 1,
                    ends.found[target] - 1,
                    producers[target],
                    before.leader_epoch if before else -1,
                    (before.source_topic if before else None) or one.topic_id,
                    one.target_topic_id,
                )
        if ends.failed and not made:
            raise next(iter(ends.failed.values()))
        return made

    def _log_foreign_positions(self, made: Iterable[TopicPartition]) -> None:
        foreign = sum(
            1 for tp in made if tp in self._incomplete and self._incomplete[tp].is_foreign
        )
        if foreign:
            _log.info(
                f"{self._flow}: {foreign} topic partitions have positions that MirrorMaker 2 "
                "wrote: copying goes on after the stored offsets, which is exact if it was "
                "stopped cleanly, and exact after any crash from here on"
            )

    def _reset_positions(self, wanted: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Where partitions begin that have no stored position."""
        known = self._initial_offsets(wanted)
        wanted = [tp for tp in wanted if tp not in known]
        return known | self._reset_offsets(wanted)

    def _initial_offsets(self, wanted: list[TopicPartition]) -> dict[TopicPartition, int]:
        """What another mirror's consumer group had read before this flow began."""
        group = self._settings.pipeline.initial_offsets_group
        if not group or not wanted:
            return {}
        with GroupAdmin(self._settings.source_admin) as admin:
            answer = admin.committed_offsets([group])
        for error in answer.failed.values():
            raise error
        offsets = answer.found.get(group, {})
        found = {tp: offsets[tp].offset for tp in wanted if tp in offsets}
        _log.info(
            f"{self._flow}: {len(found)} of {len(wanted)} new topic partitions begin where group "
            f"'{group}' stands on '{self._flow.source}'"
        )
        return found

    def _reset_offsets(self, wanted: list[TopicPartition]) -> dict[TopicPartition, int]:
        if not wanted:
            return {}
        reset = self._settings.fetch.auto_offset_reset
        if reset == "none":
            for tp in wanted:
                self._status.set_problem(
                    f"reset {tp}",
                    f"{self._flow.source}: {tp}: no offset is stored and auto.offset.reset is none"
                    "; store an offset or set it to earliest or latest",
                )
            return {}
        if reset == "earliest":
            return self._earliest(wanted)
        with ClusterAdmin(self._settings.source_admin) as admin:
            found = admin.end_offsets(wanted, self._settings.fetch.isolation_level)
        return self._offsets(wanted, found)

    def _earliest(self, wanted: list[TopicPartition]) -> dict[TopicPartition, int]:
        if not wanted:
            return {}
        with ClusterAdmin(self._settings.source_admin) as admin:
            found = admin.earliest_offsets(wanted)
        return self._offsets(wanted, found)

    def _offsets(
        self, wanted: list[TopicPartition], found: PartialResults[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        for tp in wanted:
            error = found.failed.get(tp)
            self._status.set_problem(f"reset {tp}", str(error) if error else "")
        if found.failed and not found.found:
            raise next(iter(found.failed.values()))
        return dict(found.found)
