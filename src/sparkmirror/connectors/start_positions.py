# SPDX-License-Identifier: Apache-2.0
"""Start positions of a flow's topic partitions: resume points, stored before anything is written.

A resume point has the next source offset, the last target offset and the next sequence of the
flow's producer. Every partition has one in Kafka before a task writes to it. So after a crash the
next task knows where to compare, and recognises what the dead task wrote. Positions of Java
MirrorMaker 2 have only the source offset; they are completed from the target.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote

from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.loop_protection import LoopProtection
from sparkmirror.connectors.offset_resets import OffsetResets
from sparkmirror.connectors.on_demand_topics import OnDemandTopics
from sparkmirror.connectors.recreated_topics import find_recreated
from sparkmirror.connectors.source_topics import MirroredPartition, MirroredPartitions
from sparkmirror.errors import UnreachableError
from sparkmirror.formats.source_offsets import StoredPosition
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.descriptions import LogEnd, PartialResults
from sparkmirror.kafka.groups import GroupAdmin
from sparkmirror.model import NO_PRODUCER, ProducerState, TopicPartition
from sparkmirror.quantities import counted
from sparkmirror.spark.epoch_runner import EpochResult
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.state.incidents import STOP
from sparkmirror.state.offset_resets import OffsetReset
from sparkmirror.state.offset_store import OffsetStore
from sparkmirror.state.remedies import flow_place
from sparkmirror.task.messages import PartitionStart, Split

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KnownPosition:
    """A resume point, whether the last task ended cleanly there, and its open chunk if so."""

    stored: StoredPosition
    is_handed_over: bool = False
    map_chunk: str = ""


def may_be_truncated(stored: StoredPosition, end: LogEnd) -> bool:
    """Whether a log without new records may have lost its tail, and perhaps grown again."""
    position = stored.offset + 1
    has_new_leader = -1 < stored.leader_epoch < end.leader_epoch
    return position > end.offset or (position == end.offset and has_new_leader)


class StartPositions:
    """The resume points of one flow, kept from epoch to epoch."""

    def __init__(
        self,
        settings: FlowSettings,
        status: FlowStatus,
        on_demand_topics: OnDemandTopics,
        loops: LoopProtection,
    ) -> None:
        self._settings = settings
        self._flow = settings.flow
        self._place = flow_place(str(settings.flow), settings.source.name)
        self._status = status
        self._on_demand_topics = on_demand_topics
        self._loops = loops
        self._store = OffsetStore(
            settings.state_cluster,
            settings.internal_topics.offsets,
            connector=settings.source.name,
            source_alias=settings.flow.source,
        )
        self._offset_resets = OffsetResets(settings, on_demand_topics.record_incidents)
        self._resets: dict[TopicPartition, OffsetReset] = {}  # requested, not carried out yet
        self._positions: dict[TopicPartition, KnownPosition] = {}
        self._incomplete: dict[TopicPartition, StoredPosition] = {}
        self._from_beginning: set[TopicPartition] = set()  # start at the first source offset
        self._stopped: set[TopicPartition] = set()  # by a policy
        self._copied: set[TopicPartition] = set()  # by an epoch of this run
        self._forgotten: deque[str] = deque()  # topics; another thread appends
        self._is_added: dict[TopicPartition, bool] = {}  # partitions without resume point
        self._producer = NO_PRODUCER
        self.offsets_partitions = 0

    def read(self) -> bool:
        """Read the stored positions. Returns True, for the caller's retry loop."""
        stored = self._store.read()
        self.offsets_partitions = stored.partitions
        self._resets = {tp: one for tp, one in stored.resets.items() if not one.error}
        for tp, position in stored.positions.items():
            self._register(tp, position)
        return True

    def _register(self, tp: TopicPartition, position: StoredPosition) -> None:
        if position.producer is None:
            self._incomplete[tp] = position
            return
        self._positions[tp] = KnownPosition(position)
        is_newer = position.producer.producer_id > self._producer.producer_id
        if is_newer and not self._loops.is_taken(position.producer.producer_id):
            self._producer = replace(position.producer, next_sequence=0)

    @property
    def producer_ids(self) -> dict[int, str | None]:
        """The known producer ids of the flow, with their transactional ids."""
        stored = [known.stored.producer for known in self._positions.values()]
        return {one.producer_id: None for one in stored if one is not None}

    @property
    def waiting(self) -> int:
        """How many partitions wait for a person, by policy."""
        return len(self._stopped)

    def forget_topic(self, topic: str) -> None:
        """Drop a topic that was deleted on both clusters. Thread-safe."""
        self._forgotten.append(topic)

    def assign_transactional_ids(self, splits: Sequence[Split]) -> tuple[Split, ...]:
        """Add what the tasks need to write; nothing in the default mode."""
        return tuple(splits)

    def update_from(self, result: EpochResult) -> None:
        """Store the end positions of an epoch."""
        self._copied.update(result.ends)
        for tp, end in result.ends.items():
            before = self._positions[tp].stored
            self._positions[tp] = KnownPosition(
                replace(
                    before,
                    offset=end.position - 1,
                    downstream=end.downstream,
                    producer=end.producer,
                    leader_epoch=end.leader_epoch,
                ),
                end.is_clean,
                end.map_chunk if end.is_clean else "",
            )

    def starts(
        self, mirrored: MirroredPartitions, ends: Mapping[TopicPartition, LogEnd], max_splits: int
    ) -> list[PartitionStart]:
        """Return a start for every partition that can be copied, for at most `max_splits` splits.

        `ends` are the stop offsets of a bounded run.
        """
        del max_splits
        return self._starts(mirrored, ends)

    def _starts(
        self, mirrored: MirroredPartitions, ends: Mapping[TopicPartition, LogEnd]
    ) -> list[PartitionStart]:
        while self._forgotten:
            self._drop(self._forgotten.popleft())
        self._apply_resets(mirrored)
        self._handle_recreated(mirrored)
        self._handle_truncated(mirrored)
        self._complete([one for one in mirrored if one.source not in self._positions])
        starts = [
            self._start(one, self._positions[one.source], ends.get(one.source))
            for one in mirrored
            if one.source in self._positions and one.source not in self._stopped
        ]
        return [s for s in starts if s.stop_at is None or s.position < s.stop_at]

    def _apply_resets(self, mirrored: MirroredPartitions) -> None:
        """Carry out requested offset resets: no task runs now."""
        if not self._resets:
            return
        stored = {tp: known.stored for tp, known in self._positions.items()}
        moved = self._offset_resets.apply(self._resets, mirrored, self._incomplete | stored)
        for tp, position in moved.items():
            del self._resets[tp]
            if position is not None:
                self._positions.pop(tp, None)
                self._register(tp, position)

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
            stop_at = position + 1  # the task finds the truncation
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
            skip_origins=self._loops.skip_origins(one.source.topic),
        )

    def _handle_recreated(self, mirrored: MirroredPartitions) -> None:
        """Apply the policies to recreated topics, which have another id."""
        known = {tp: position.stored for tp, position in self._positions.items()}
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
                    f"again, and target.recreated.policy is stop: {tp} waits; to copy it again: "
                    f"sparkmirror offsets recopy {self._place} --topic {quote(tp.topic)}",
                )
                continue
            del self._positions[tp]
            if one.policy == "restart":
                self._from_beginning.add(tp)
            else:
                self._incomplete[tp] = one.stored

    def _handle_truncated(self, mirrored: MirroredPartitions) -> None:
        """Do nothing: in the default mode tasks detect a truncated target when they compare."""

    # --- completing

    def _complete(self, incomplete: list[MirroredPartition]) -> None:
        """Create and store resume points for partitions without one."""
        positions = {
            one.source: self._incomplete[one.source].offset + 1
            for one in incomplete
            if one.source in self._incomplete
        }
        others = [one.source for one in incomplete if one.source not in positions]
        from_beginning = self._from_beginning | self._added_partitions(others)
        positions |= self._reset_positions([tp for tp in others if tp not in from_beginning])
        positions |= self._earliest([tp for tp in others if tp in from_beginning])
        ready = [one for one in incomplete if one.source in positions]
        if not ready:
            return
        created = self._new_positions(ready, positions)
        if any(tp in self._incomplete and self._incomplete[tp].is_foreign for tp in created):
            self._loops.register_java()
        self._store.write(created)
        self._log_foreign_positions(created)
        for tp, stored in created.items():
            self._incomplete.pop(tp, None)
            self._from_beginning.discard(tp)
            self._register(tp, stored)

    def _added_partitions(self, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Return partitions that were added to an already mirrored topic.

        Producers find them first, so even a flow with auto.offset.reset=latest copies them from the
        beginning.
        """
        last: dict[str, int] = {}
        for tp in self._positions:
            last[tp.topic] = max(tp.partition, last.get(tp.topic, -1))
        for tp in partitions:
            self._is_added.setdefault(tp, tp.topic in last and tp.partition > last[tp.topic])
        return {tp for tp in partitions if self._is_added[tp]}

    def _new_positions(
        self, partitions: list[MirroredPartition], positions: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, StoredPosition]:
        """Create resume points, as far as the target responds."""
        created: dict[TopicPartition, StoredPosition] = {}
        with ClusterAdmin(self._settings.target_admin) as admin:
            is_new = self._producer.producer_id < 0
            if is_new:
                self._producer = self._new_producer(admin)
            remote = {
                one.source: TopicPartition(one.remote_topic, one.source.partition)
                for one in partitions
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
                self._producer = self._new_producer(admin)  # the old one may have written there
            producers |= dict.fromkeys(unknown, self._producer)
        for target in ends.found:
            if target not in producers:
                raise UnreachableError(
                    f"Cluster '{self._flow.target}': the leader of {target} does not respond; "
                    "retrying.",
                    cluster=self._flow.target,
                )
        for one in partitions:
            target = remote[one.source]
            error = ends.failed.get(target)
            self._status.set_problem(f"start {one.source}", str(error) if error else "")
            if target in ends.found:
                before = self._incomplete.get(one.source)
                created[one.source] = StoredPosition(
                    positions[one.source] - 1,
                    ends.found[target] - 1,
                    producers[target],
                    before.leader_epoch if before else -1,
                    (before.source_topic if before else None) or one.topic_id,
                    one.target_topic_id,
                )
        if ends.failed and not created:
            raise next(iter(ends.failed.values()))
        return created

    def _new_producer(self, admin: ClusterAdmin) -> ProducerState:
        """Return a new producer id, which no flow from another cluster has registered.

        A target that was restored from an older copy issues ids again.
        """
        producer = admin.init_producer_id()
        while self._loops.is_taken(producer.producer_id):
            _log.warning(
                f"{self._flow}: producer id {producer.producer_id} is registered for a flow from "
                "another cluster; another one is used"
            )
            producer = admin.init_producer_id()
        return producer

    def _log_foreign_positions(self, created: Iterable[TopicPartition]) -> None:
        foreign = sum(
            1 for tp in created if tp in self._incomplete and self._incomplete[tp].is_foreign
        )
        if foreign:
            _log.info(
                f"{self._flow}: MirrorMaker 2 stored the positions of "
                f"{counted(foreign, 'topic partition')}: copying continues after the stored "
                "offsets. This is exact if MirrorMaker 2 was "
                "stopped cleanly, and after any crash from now on"
            )

    def _reset_positions(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the start of partitions without a stored position."""
        known = self._initial_offsets(partitions)
        return known | self._reset_offsets([tp for tp in partitions if tp not in known])

    def _initial_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the committed offsets of another mirror's consumer group."""
        group = self._settings.pipeline.initial_offsets_group
        if not group or not partitions:
            return {}
        with GroupAdmin(self._settings.source_admin) as admin:
            result = admin.committed_offsets([group])
        for error in result.failed.values():
            raise error
        offsets = result.found.get(group, {})
        found = {tp: offsets[tp].offset for tp in partitions if tp in offsets}
        _log.info(
            f"{self._flow}: {len(found)} of {len(partitions)} new topic partitions start at the "
            f"offsets of group '{group}' on '{self._flow.source}'"
        )
        return found

    def _reset_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        reset = self._settings.fetch.auto_offset_reset
        if reset == "none":
            for tp in partitions:
                self._status.set_problem(
                    f"reset {tp}",
                    f"{self._flow.source}: {tp}: no offset is stored and auto.offset.reset is "
                    "none; set it to earliest or latest, or choose a start: sparkmirror offsets "
                    f"reset {self._place} --topic {quote(tp.topic)} --partition {tp.partition} "
                    "--to earliest",
                )
            return {}
        if reset == "earliest":
            return self._earliest(partitions)
        with ClusterAdmin(self._settings.source_admin) as admin:
            found = admin.end_offsets(partitions, self._settings.fetch.isolation_level)
        return self._offsets(partitions, found)

    def _earliest(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        with ClusterAdmin(self._settings.source_admin) as admin:
            found = admin.earliest_offsets(partitions)
        return self._offsets(partitions, found)

    def _offsets(
        self, partitions: list[TopicPartition], found: PartialResults[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        for tp in partitions:
            error = found.failed.get(tp)
            self._status.set_problem(f"reset {tp}", str(error) if error else "")
        if found.failed and not found.found:
            raise next(iter(found.failed.values()))
        return dict(found.found)
