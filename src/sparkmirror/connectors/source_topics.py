# SPDX-License-Identifier: Apache-2.0
"""Finds the topic partitions of a flow on the source, and creates remote topics on the target.

Runs on its own thread with its own admin clients, at the refresh interval. A failed round shows in
the flow's status and is retried; copying continues.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sparkmirror.config.settings import FlowSettings
from sparkmirror.errors import BrokerError, ClusterError, join_sentences
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.descriptions import TopicDescription
from sparkmirror.model import Flow, TopicPartition
from sparkmirror.policy.loading import FlowPolicy
from sparkmirror.spark.flow_status import FlowState, FlowStatus
from sparkmirror.system.log_scope import ScopedThread
from sparkmirror.topology.apply_topics import (
    apply_topic_plan,
    rejected_config_messages,
    unknown_config_messages,
)
from sparkmirror.topology.replication_factors import ReplicationFactorChooser
from sparkmirror.topology.topics import (
    CreateTopic,
    TopicAction,
    TopicNotice,
    TopicRules,
    mirrored_topics,
    plan_topics,
    remote_names,
    topics_to_create,
)
from sparkmirror.topology.unmatched_topics import missing_topics
from sparkmirror.wire.backoff import Backoff

_NEW_TOPIC_SECONDS = 10.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MirroredPartition:
    """A source partition with an existing remote partition."""

    source: TopicPartition
    remote_topic: str
    topic_id: str | None
    target_topic_id: str | None


MirroredPartitions = tuple[MirroredPartition, ...]


def topic_rules(policy: FlowPolicy, flow: Flow, *, creates: bool = True) -> TopicRules:
    """Return a flow's policy for the planners."""
    return TopicRules(
        replicates=policy.selection.should_replicate_topic,
        remote_name=lambda topic: policy.replication.format_remote_topic(flow.source, topic),
        copies_config=policy.config_filter.should_replicate_config_property,
        copies_default=policy.config_filter.should_replicate_source_default,
        creates=creates,
    )


class SourceTopics:
    """Updates `current` and calls `on_change` after a change."""

    def __init__(
        self,
        settings: FlowSettings,
        policy: FlowPolicy,
        factors: ReplicationFactorChooser,
        status: FlowStatus,
        on_change: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._flow = settings.flow
        self._factors = factors
        self._status = status
        self._on_change = on_change
        self._policy = policy
        self._rules = topic_rules(
            policy, self._flow, creates=settings.source.topic_creation_enabled
        )
        self._stop = threading.Event()
        self._logged: set[str] = set()
        self._topics_with_problems: set[str] = set()
        self._noticed: set[str] = set()
        self._thread = ScopedThread(
            target=self._run, name=f"{self._flow}/source/topics", daemon=True
        )
        self.current: MirroredPartitions | None = None  # None before the first round
        self.first_round = threading.Event()

    def start(self) -> None:
        """Start the thread, which runs a round at once."""
        self._thread.start()

    def stop(self) -> None:
        """Request a stop; a pending request ends first."""
        self._stop.set()
        self.first_round.set()

    @property
    def is_running(self) -> bool:
        """Whether its thread runs: a round in progress may still create topics."""
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._loop()
        except Exception as error:  # noqa: BLE001 - a thread's root: report it in the status
            _log.exception(
                "%s: refreshing the topics failed unexpectedly; restart the connector", self._flow
            )
            reason = f"{type(error).__name__}: {error}"
            self._status.set_state(FlowState.FAILED, reason, traceback.format_exc())

    def _loop(self) -> None:
        interval = self._settings.source.refresh_topics_seconds
        backoff = Backoff()
        with (
            ClusterAdmin(self._settings.source_admin) as source,
            ClusterAdmin(self._settings.target_admin) as target,
        ):
            while not self._stop.is_set():
                try:
                    self._run_round(source, target)
                except ClusterError as error:
                    self._failed(error)
                    self._stop.wait(backoff.next_pause())
                    continue
                backoff.reset()
                self._status.set_problem("topics", "")
                self.first_round.set()
                if interval is None:
                    return
                self._stop.wait(interval)

    def _failed(self, error: ClusterError) -> None:
        if self.current is None:
            state = FlowState.RETRYING if error.retriable else FlowState.FAILED
            self._status.set_state(state, str(error))
        else:
            self._status.set_problem("topics", str(error))

    def _log_once(self, level: int, sentence: str) -> None:
        if sentence not in self._logged:
            self._logged.add(sentence)
            _log.log(level, "%s: %s", self._flow, sentence)

    def _run_round(self, source: ClusterAdmin, target: ClusterAdmin) -> None:
        on_source, on_target = source.topics(), target.topics()
        self._report_failed(on_source.failed)
        missing = missing_topics(
            self._settings.policy, self._policy, self._flow.source, on_source.found
        )
        self._status.set_problem("missing topics", join_sentences(missing))
        names = topics_to_create(on_source.found, on_target.found, self._rules)
        configs = source.topic_configs(names).found if names else {}
        replicas = self._replicas(target) if names else 1  # not needed otherwise
        plan = plan_topics(on_source.found, on_target.found, configs, self._rules, replicas)
        self._report_notices(plan.notices)
        remote = dict(on_target.found)
        if plan.actions:
            remote = self._apply(plan.actions, target, remote)
        self._publish(mirrored_topics(on_source.found, self._rules), remote)

    def _report_notices(self, notices: Sequence[TopicNotice]) -> None:
        """Log new notices, and keep all current ones in the status."""
        now = {f"{one.kind} {one.remote}": one.message for one in notices}
        for key, sentence in now.items():
            self._log_once(logging.WARNING, sentence)
            self._status.set_problem(key, sentence)
        for key in self._noticed - now.keys():
            self._status.set_problem(key, "")
        self._noticed = set(now)

    def _replicas(self, target: ClusterAdmin) -> int:
        brokers = len(target.cluster().brokers)
        factor = self._settings.source.replication_factor
        return self._factors.choose(factor, self._flow.target, brokers)

    def _apply(
        self,
        actions: Sequence[TopicAction],
        target: ClusterAdmin,
        remote: dict[str, TopicDescription],
    ) -> dict[str, TopicDescription]:
        outcomes = apply_topic_plan(actions, target)
        for sentence in rejected_config_messages(outcomes):
            self._log_once(logging.WARNING, sentence)
        for sentence in unknown_config_messages(outcomes):
            self._log_once(logging.INFO, sentence)
        changed: set[str] = set()
        for outcome in outcomes:
            topic = outcome.action.remote
            if outcome.error is None:
                changed.add(topic)
                self._status.count_change(
                    "created" if isinstance(outcome.action, CreateTopic) else "grown"
                )
            self._set_topic_problem(topic, str(outcome.error) if outcome.error else "")
        if changed:
            target.await_topics(sorted(changed), _NEW_TOPIC_SECONDS)
            remote |= target.topics(sorted(changed)).found
        return remote

    def _report_failed(self, failed: Mapping[str, BrokerError]) -> None:
        for topic, error in failed.items():
            if self._rules.replicates(topic):
                self._set_topic_problem(topic, str(error))
        for topic in [t for t in self._topics_with_problems if t not in failed]:
            self._set_topic_problem(topic, "")

    def _set_topic_problem(self, topic: str, problem: str) -> None:
        self._status.set_problem(f"topic {topic}", problem)
        if problem:
            self._topics_with_problems.add(topic)
            self._log_once(logging.WARNING, problem)
        else:
            self._topics_with_problems.discard(topic)

    def _publish(
        self, mirrored: Mapping[str, TopicDescription], remote: Mapping[str, TopicDescription]
    ) -> None:
        self._status.set_scope(
            TopicPartition(name, index)
            for name in remote_names(mirrored, self._rules)
            for index in range(mirrored[name].partitions)
        )
        partitions: list[MirroredPartition] = []
        for name, remote_name in remote_names(mirrored, self._rules).items():
            topic = mirrored[name]
            counterpart = remote.get(remote_name)
            if counterpart is None:
                continue  # its creation failed: shown in the status, retried in the next round
            ready = min(topic.partitions, counterpart.partitions)
            topic_id, target_id = (
                str(one.topic_id) if one.topic_id else None for one in (topic, counterpart)
            )
            partitions += [
                MirroredPartition(TopicPartition(name, index), remote_name, topic_id, target_id)
                for index in range(ready)
            ]
        before, self.current = self.current, tuple(partitions)
        if before is not None and before != self.current:
            self._on_change()
