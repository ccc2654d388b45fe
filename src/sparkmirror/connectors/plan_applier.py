# SPDX-License-Identifier: Apache-2.0
"""Carries out the actions of a flow's plan, and reports the result of each.

Nothing is retried, and a failure does not stop the other actions. A stage ends when the cluster
shows its changes, so that a new plan does not contain them again.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.acl_sync import AclSync
from sparkmirror.connectors.topic_deletion_sync import delete_topic_state
from sparkmirror.errors import BrokerError, SparkmirrorError, join_sentences
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import PAUSE_SECONDS, Closable, ClusterClient
from sparkmirror.kafka.descriptions import CommittedOffset, ConfigSource
from sparkmirror.kafka.groups import GroupAdmin
from sparkmirror.kafka.topic_requests import chunks
from sparkmirror.model import TopicPartition
from sparkmirror.policy.loading import load_policy
from sparkmirror.policy.sparkmirror_topics import offset_map_topic
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.state.offset_store import OffsetStore
from sparkmirror.topology.acls import AclPlan, GrantAcl, RevokeAcl
from sparkmirror.topology.apply_configs import AlterResult, apply_configs
from sparkmirror.topology.apply_topics import (
    apply_topic_plan,
    rejected_config_messages,
    unknown_config_messages,
)
from sparkmirror.topology.configs import AlterTopic
from sparkmirror.topology.flow_plan import Action, MoveGroup
from sparkmirror.topology.internal_topics import (
    CreateInternalTopic,
    Side,
    create_internal_topics,
)
from sparkmirror.topology.topic_deletions import DeleteTopic, deleted_topics
from sparkmirror.topology.topics import CreateTopic, GrowTopic

_ACTIONS_PER_STEP = 200  # between two progress updates
_VISIBLE_SECONDS = 10.0
_TOPIC_ALREADY_EXISTS = 36

A = TypeVar("A", bound=Action)


@dataclass(frozen=True, slots=True)
class ActionResult:
    """The result of one action."""

    action: Action
    error: str = ""  # empty on success
    warning: str = ""  # a difference to the plan


class FlowPlanApplier(Closable):
    """Applies the plan of one flow. Not thread-safe."""

    def __init__(self, settings: FlowSettings) -> None:
        self._settings = settings
        policy = load_policy(settings.policy, settings.flow)
        self._map_topic = offset_map_topic(policy.replication, settings.flow.source)
        self._acls = AclSync(settings, policy, FlowStatus(str(settings.flow)))
        self._current_acls: AclPlan | None = None
        self._store = OffsetStore(
            settings.state_cluster,
            settings.internal_topics.offsets,
            connector=settings.source.name,
            source_alias=settings.flow.source,
        )
        self._source_client = ClusterClient(settings.source_admin)
        self._target_client = ClusterClient(settings.target_admin)
        self._source = ClusterAdmin(settings.source_admin, self._source_client)
        self._target = ClusterAdmin(settings.target_admin, self._target_client)
        self._groups = GroupAdmin(settings.target_admin, self._target_client)

    def close(self) -> None:
        self._acls.close()
        self._source_client.close()
        self._target_client.close()

    def apply_stage(self, stage: type[Action], actions: Sequence[Action]) -> Iterator[ActionResult]:
        """Carry out the actions of one stage, some at a time."""
        if stage is CreateInternalTopic:
            internal = _of_type(CreateInternalTopic, actions)
            for side, admin in ((Side.TARGET, self._target), (Side.SOURCE, self._source)):
                on_side = [action for action in internal if action.side is side]
                yield from _in_batches(on_side, partial(_create_internal, admin))
        elif stage is CreateTopic:
            yield from _in_batches(_of_type(CreateTopic, actions), self._create)
        elif stage is GrowTopic:
            yield from _in_batches(_of_type(GrowTopic, actions), self._grow)
        elif stage is AlterTopic:
            yield from _in_batches(_of_type(AlterTopic, actions), self._alter)
        elif stage is GrantAcl:
            yield from _in_batches(_of_type(GrantAcl, actions), self._grant)
        elif stage is RevokeAcl:
            yield from _in_batches(_of_type(RevokeAcl, actions), self._revoke)
        elif stage is MoveGroup:
            yield from _in_batches(_of_type(MoveGroup, actions), self._move)
        elif stage is DeleteTopic:
            yield from _in_batches(_of_type(DeleteTopic, actions), self._delete)

    # --- topics

    def _create(self, actions: Sequence[CreateTopic]) -> list[ActionResult]:
        outcomes = apply_topic_plan(actions, self._target)
        created = [one.action.remote for one in outcomes if one.error is None]
        if created:
            self._target.await_topics(created, _VISIBLE_SECONDS)
        return [
            ActionResult(
                one.action,
                str(one.error or ""),
                join_sentences([*rejected_config_messages([one]), *unknown_config_messages([one])]),
            )
            for one in outcomes
        ]

    def _grow(self, actions: Sequence[GrowTopic]) -> list[ActionResult]:
        outcomes = apply_topic_plan(actions, self._target)
        grown = {one.remote: one.to for one in actions}

        def is_visible() -> bool:
            shown = self._target.topics(list(grown)).found
            return all(shown[name].partitions >= grown[name] for name in grown if name in shown)

        _wait_until_visible(is_visible)
        self._target.await_topics(list(grown), _VISIBLE_SECONDS)
        return [ActionResult(one.action, str(one.error or "")) for one in outcomes]

    def _alter(self, actions: Sequence[AlterTopic]) -> list[ActionResult]:
        results = apply_configs(actions, self._target)
        altered = {one.action.remote: one.changes for one in results if one.error is None}

        def is_visible() -> bool:
            shown = self._target.topic_configs(altered).found
            for name, entries in shown.items():
                own = {e.name: e.value for e in entries if e.source is ConfigSource.DYNAMIC_TOPIC}
                if any(own.get(key) != value for key, value in altered[name].items()):
                    return False
            return True

        _wait_until_visible(is_visible)
        return [ActionResult(one.action, _alteration_error(one)) for one in results]

    def _delete(self, actions: Sequence[DeleteTopic]) -> list[ActionResult]:
        """Delete only the planned topics: another topic with that name is not ours.

        The source is read again, because other actions may have taken long.
        """
        unknown = deleted_topics(self._source.topics([one.source for one in actions]).failed)
        found = self._target.topics([one.remote for one in actions]).found
        same = {
            one.remote: found[one.remote]
            for one in actions
            if one.remote in found
            and one.source in unknown
            and str(found[one.remote].topic_id) == one.topic_id
        }
        results = self._target.delete_topics(list(same.values())) if same else {}
        deleted = [one.source for one in actions if results.get(one.remote, True) is None]
        warning = ""
        try:
            _wait_until_visible(
                lambda: not same.keys() & self._target.topics(list(same)).found.keys()
            )
            delete_topic_state(self._settings, self._store, self._map_topic, deleted)
        except SparkmirrorError as error:
            warning = f"its stored positions remain: {error}"
        done = []
        for one in actions:
            if one.remote in same:
                failure = results.get(one.remote)
                done.append(ActionResult(one, str(failure or ""), "" if failure else warning))
            elif one.remote in found and one.source not in unknown:
                done.append(ActionResult(one, f"'{one.source}' exists on the source again"))
            elif one.remote in found:
                done.append(
                    ActionResult(one, f"'{one.remote}' was recreated since the plan was made")
                )
            else:
                done.append(ActionResult(one, warning=f"'{one.remote}' was already deleted"))
        return done

    # --- ACLs

    def _grant(self, actions: Sequence[GrantAcl]) -> list[ActionResult]:
        return self._change_acls(AclPlan(grants=tuple(actions)))

    def _revoke(self, actions: Sequence[RevokeAcl]) -> list[ActionResult]:
        return self._change_acls(AclPlan(revocations=tuple(actions)))

    def _change_acls(self, plan: AclPlan) -> list[ActionResult]:
        if self._current_acls is None:
            # Reads what was granted before, and whether the target's ACLs can be listed.
            self._current_acls = self._acls.plan(())
        outcomes = self._acls.apply(
            replace(plan, target_unreadable=self._current_acls.target_unreadable)
        )
        expected = {
            one.action.binding: isinstance(one.action, GrantAcl)
            for one in outcomes
            if one.error is None
        }
        if expected and not self._current_acls.target_unreadable:
            _wait_until_visible(lambda: self._acls.is_visible(expected))
        return [ActionResult(one.action, str(one.error or "")) for one in outcomes]

    # --- groups

    def _move(self, actions: Sequence[MoveGroup]) -> list[ActionResult]:
        writes: dict[str, dict[TopicPartition, CommittedOffset]] = defaultdict(dict)
        for one in actions:
            tp = TopicPartition(one.topic, one.partition)
            writes[one.group][tp] = CommittedOffset(one.after, one.metadata)
        results = self._groups.commit_offsets(writes)
        return [ActionResult(one, _group_error(one, results.get(one.group))) for one in actions]


def _create_internal(
    admin: ClusterAdmin, actions: Sequence[CreateInternalTopic]
) -> list[ActionResult]:
    results = create_internal_topics(actions, admin)
    done = []
    for one in actions:
        error = results.get(one.name)
        existed = error is not None and error.code == _TOPIC_ALREADY_EXISTS
        done.append(ActionResult(one, "" if error is None or existed else str(error)))
    return done


def _of_type(kind: type[A], actions: Sequence[Action]) -> list[A]:
    return [action for action in actions if isinstance(action, kind)]


def _in_batches(
    actions: Sequence[A], step: Callable[[Sequence[A]], list[ActionResult]]
) -> Iterator[ActionResult]:
    for chunk in chunks(actions, _ACTIONS_PER_STEP):
        try:
            yield from step(chunk)
        except SparkmirrorError as error:
            yield from (ActionResult(action, str(error)) for action in chunk)


def _group_error(move: MoveGroup, error: BrokerError | None) -> str:
    """An error that names a topic does not apply to the group's other topics."""
    if error is None or error.topic not in (None, move.topic):
        return ""
    return str(error)


def _alteration_error(one: AlterResult) -> str:
    if one.error is not None or not one.rejected:
        return str(one.error or "")
    rejected = "; ".join(
        f"{name} was rejected: {message}" for name, message in one.rejected.items()
    )
    return f"{rejected} Other changes are applied." if one.changes else rejected


def _wait_until_visible(is_visible: Callable[[], bool]) -> None:
    """Wait, with a timeout, until the cluster shows what it has acknowledged."""
    deadline = time.monotonic() + _VISIBLE_SECONDS
    while not is_visible() and time.monotonic() < deadline:
        time.sleep(PAUSE_SECONDS)
