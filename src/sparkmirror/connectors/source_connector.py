# SPDX-License-Identifier: Apache-2.0
"""MirrorSourceConnector: copies the records of a flow, epoch after epoch.

`run` takes the starting points, plans the splits, runs a Spark job, and goes on from what the job's
receipts say. Another thread (`source_topics`) watches the topics and ends an epoch early when they
changed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Container
from dataclasses import replace
from functools import partial
from typing import TypeVar

from sparkmirror.config.settings import ExactlyOnce, FlowSettings
from sparkmirror.connectors.acl_sync import AclSync
from sparkmirror.connectors.loop_protection import LoopProtection
from sparkmirror.connectors.on_demand_topics import OnDemandTopics
from sparkmirror.connectors.source_topics import MirroredPartitions, SourceTopics, topic_rules
from sparkmirror.connectors.start_positions import StartPositions
from sparkmirror.connectors.topic_deletion_sync import TopicDeletionSync
from sparkmirror.connectors.topology_sync import TopologySync
from sparkmirror.connectors.transactional_start_positions import TransactionalStartPositions
from sparkmirror.errors import ClusterError, WireError
from sparkmirror.formats.producer_registry import PRODUCERS_TOPIC
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.descriptions import LogEnd
from sparkmirror.model import TopicPartition
from sparkmirror.policy.loading import FlowPolicy
from sparkmirror.policy.sparkmirror_topics import dead_letters_topic, ledger_topic, offset_map_topic
from sparkmirror.quantities import counted, number_form
from sparkmirror.spark.epoch_runner import EpochResult, EpochRunner
from sparkmirror.spark.flow_status import FlowState, FlowStatus
from sparkmirror.spark.slots import FlowCapacity
from sparkmirror.spark.spark_problem import SparkProblem
from sparkmirror.spark.split_planner import plan_splits, task_settings
from sparkmirror.task.messages import PartitionStart, Split
from sparkmirror.topology.internal_topics import offset_syncs_topic
from sparkmirror.topology.replication_factors import ReplicationFactorChooser
from sparkmirror.wire.backoff import Backoff

_DELIVERY = {  # said where it is not the default
    ExactlyOnce.DISABLED: "",
    ExactlyOnce.PREPARING: "exactly-once is being prepared: still without transactions",
    ExactlyOnce.ENABLED: "exactly-once, in transactions",
}
_NO_SLOT = "waiting for Spark to start executors"
_SLOT_SECONDS = 1.0
_TURN_SECONDS = 20.0  # of an epoch if other flows wait for the slot
T = TypeVar("T")


class MirrorSourceConnector:
    """One enabled flow."""

    def __init__(
        self,
        settings: FlowSettings,
        policy: FlowPolicy,
        factors: ReplicationFactorChooser,
        status: FlowStatus,
        epochs: EpochRunner,
        on_demand_topics: OnDemandTopics,
        loops: LoopProtection,
        *,
        capacity: Callable[[], FlowCapacity],
        once: bool,
    ) -> None:
        self._settings = settings
        self._flow = settings.flow
        self._status = status
        self._epochs = epochs
        self._loops = loops
        self._capacity = capacity
        self._usable_splits = settings.source.tasks_max  # fewer after an epoch with idle splits
        self._once = once
        self._names = policy.replication
        self._stop = threading.Event()
        self._changed = threading.Event()
        self._topics = SourceTopics(settings, policy, factors, status, self.end_epoch)
        rules = topic_rules(policy, self._flow)
        map_topic = offset_map_topic(self._names, self._flow.source)
        self._start_positions = (
            TransactionalStartPositions(settings, status, on_demand_topics, loops, map_topic)
            if settings.transactions.is_enabled
            else StartPositions(settings, status, on_demand_topics, loops)
        )
        deleted = TopicDeletionSync(
            settings, rules, status, map_topic, self._start_positions.forget_topic
        )
        acls = AclSync(settings, policy, status)
        self._topology = TopologySync(settings, rules, status, self._topics, acls, deleted, loops)
        self._ends: dict[TopicPartition, LogEnd] = {}  # where a bounded run ends
        self._ready_topics: Container[str] = ()
        self._map_topic = map_topic
        self._syncs_topic = offset_syncs_topic(settings, self._names)

    def run(self, ready_topics: Container[str]) -> None:
        """Copy until the end. Tasks wait for topics they write, so only ready ones are named."""
        self._map_topic = self._map_topic if self._map_topic in ready_topics else ""
        self._syncs_topic = self._syncs_topic if self._syncs_topic in ready_topics else ""
        self._ready_topics = ready_topics
        self._topics.start()
        self._topology.start()
        try:
            self._copy()
        finally:
            self._loops.close()

    def stop(self) -> None:
        """Ask for the end. Any thread; returns at once."""
        self._stop.set()
        self._topics.stop()
        self._topology.stop()
        self._changed.set()
        self._epochs.end()

    def replan(self) -> None:
        """End the epoch, for a next one that asks again how many splits it may have."""
        self._changed.set()
        self._epochs.end()

    @property
    def is_running(self) -> bool:
        """Whether a helper thread may still change topics or ACLs."""
        return self._topology.is_running or self._topics.is_running

    def end_epoch(self) -> None:
        """Plan again, unless the run is bounded. Any thread."""
        if not self._once:
            self._changed.set()
            self._epochs.end()

    # --- the flow's thread

    def _copy(self) -> None:
        self._topics.first_round.wait()
        steps = [self._prepare_loops, self._start_positions.read]
        steps += [self._set_stop_offsets] if self._once else []
        if any(self._retry(step) is None for step in steps):
            return
        backoff = Backoff()
        while not self._stop.is_set():
            self._changed.clear()
            self._epochs.begin_planning()
            capacity = self._started_capacity()
            if self._stop.is_set():
                break  # asked between the two: nobody would end the epoch
            most = min(self._usable_splits, capacity.slots)
            starts = self._retry(partial(self._partition_starts, max(most, 1)))
            if starts is None:
                return
            if not most:
                self._await_slot(starts)
                continue
            if not starts:
                waiting = self._start_positions.waiting
                wait = (
                    f"{counted(waiting, 'topic partition')} {number_form(waiting, 'waits', 'wait')}"
                )
                reason = f"{wait}, see the problems" if waiting else ""
                if self._once:
                    self._topology.wait_first_round()
                    self._status.set_state(FlowState.FAILED if waiting else FlowState.DONE, reason)
                    return
                self._status.begin_epoch(self._epochs.number, [])
                self._status.set_state(FlowState.RUNNING, reason or "no topic matches yet")
                # Partitions that wait for a person are checked again.
                self._changed.wait(self._settings.pipeline.epoch_seconds)
                continue
            splits = self._start_positions.assign_transactional_ids(plan_splits(starts, most))
            earlier = self._start_positions.producer_ids
            if self._retry(partial(self._loops.register, splits, earlier)) is None:
                break
            result = self._run_epoch(starts, splits, capacity)
            if result.failure is not None and not self._stop.is_set():
                self._set_problem(result.failure, f"the epoch failed: {result.failure}")
                self._changed.wait(backoff.next_pause(slow=result.failure.is_hopeless))
            else:
                backoff.reset()
        self._status.set_state(FlowState.STOPPED)

    def _started_capacity(self) -> FlowCapacity:
        """Wait until Spark runs, has a problem, or the connector was stopped."""
        capacity = self._capacity()
        while capacity.is_starting and not self._stop.is_set():
            capacity = self._capacity()
        return capacity

    def _await_slot(self, starts: list[PartitionStart]) -> None:
        """Wait for a slot, a change or the end. The status shows the reason and the lag."""
        self._usable_splits = self._settings.source.tasks_max
        self._status.begin_epoch(
            self._epochs.number, [(s.source, s.position, s.stop_at) for s in starts]
        )
        while not self._changed.is_set():
            capacity = self._capacity()
            if capacity.slots:
                return
            if capacity.problem is not None:
                self._set_problem(capacity.problem, capacity.problem.reason)
            else:
                is_first = not self._epochs.number  # a new executor takes seconds to start
                self._status.set_state(
                    FlowState.STARTING if is_first else FlowState.RETRYING, _NO_SLOT
                )
            self._changed.wait(_SLOT_SECONDS)

    def _set_problem(self, problem: SparkProblem, reason: str) -> None:
        state = FlowState.FAILED if problem.is_hopeless else FlowState.RETRYING
        self._status.set_state(state, reason)

    def _prepare_loops(self) -> bool:
        return self._loops.prepare(self._mirrored(), self._ready_topics)

    def _partition_starts(self, most: int) -> list[PartitionStart]:
        self._prepare_loops()
        starts = self._start_positions.starts(self._mirrored(), self._ends, most)
        if starts and self._once and self._epochs.number:  # the source may end earlier by now
            self._set_stop_offsets()
            starts = self._start_positions.starts(self._mirrored(), self._ends, most)
        return starts

    def _run_epoch(
        self, starts: list[PartitionStart], splits: tuple[Split, ...], capacity: FlowCapacity
    ) -> EpochResult:
        judges = any(start.skip_origins for start in starts)
        settings = task_settings(
            self._settings,
            self._start_positions.offsets_partitions,
            ledger_topic=ledger_topic(self._names, self._flow.source),
            dead_letters_topic=dead_letters_topic(self._names, self._flow.source),
            map_topic=self._map_topic,
            syncs_topic=self._syncs_topic,
            source_cluster_id=self._loops.source_cluster_id,
            target_cluster_id=self._loops.target_cluster_id,
            registry_topic=PRODUCERS_TOPIC if judges else "",
        )
        if capacity.is_time_shared:
            turn_seconds = min(settings.epoch_seconds, _TURN_SECONDS)
            settings = replace(settings, epoch_seconds=turn_seconds)
        self._status.begin_epoch(
            self._epochs.number + 1,
            [(s.source, s.position, s.stop_at) for s in starts],
            {start.source: split.index for split in splits for start in split.partitions},
        )
        self._status.await_reports(len(splits), _DELIVERY[self._settings.transactions.support])
        result = self._epochs.run(
            splits,
            settings,
            lambda: _is_outdated(capacity, self._capacity(), len(starts)),
            takes_turns=capacity.is_time_shared,
        )
        self._status.set_waiting_splits(())
        self._start_positions.update_from(result)
        # The same plan would leave the same splits idle; other slots are a new chance.
        is_same = self._capacity().slots == capacity.slots
        has_some_idle = 0 < result.idle_splits < len(splits)  # if all are, the job failed
        self._usable_splits = (
            len(splits) - result.idle_splits
            if has_some_idle and is_same
            else self._settings.source.tasks_max
        )
        return result

    def _retry(self, attempt: Callable[[], T]) -> T | None:
        """Repeat until there is an answer; None only when the connector was stopped."""
        backoff = Backoff()
        while not self._stop.is_set():
            try:
                return attempt()
            except (ClusterError, WireError) as error:
                state = FlowState.RETRYING if error.retriable else FlowState.FAILED
                self._status.set_state(state, str(error))
                pause = backoff.next_pause(slow=not error.retriable)  # users get locked out
            self._stop.wait(pause)
        return None

    # --- positions

    def _mirrored(self) -> MirroredPartitions:
        return self._topics.current or ()

    def _set_stop_offsets(self) -> bool:
        """Read where a bounded run ends, by the flow's isolation level; an end only moves back."""
        wanted = [one.source for one in self._mirrored()]
        with ClusterAdmin(self._settings.source_admin) as admin:
            found = admin.log_ends(wanted, self._settings.fetch.isolation_level)
        for error in found.failed.values():
            raise error
        for tp, end in found.found.items():
            before = self._ends.get(tp)
            if before is None or end.offset < before.offset:
                self._ends[tp] = end
        return True


def _is_outdated(planned: FlowCapacity, now: FlowCapacity, partitions: int) -> bool:
    """Whether an epoch would get another number of splits now, or would have to take turns."""
    if now.is_time_shared and not planned.is_time_shared:
        return True
    return min(now.slots, partitions) != min(planned.slots, partitions)
