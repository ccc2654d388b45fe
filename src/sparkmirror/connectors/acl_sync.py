# SPDX-License-Identifier: Apache-2.0
"""ACL sync: who may read a topic on the source may read its copy on the target.

`look` only reads and says what would be done, `apply` does it, `round` is both, with the flow's
status and log. Belongs to one thread, which calls `round` at the interval; a round that fails
shows in the status and is tried again at the next one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sparkmirror.config.settings import FlowSettings
from sparkmirror.errors import BrokerError, SparkmirrorError
from sparkmirror.kafka.acls import (
    CLUSTER_AUTHORIZATION_FAILED,
    SECURITY_DISABLED,
    UNSUPPORTED_VERSION,
    AclAdmin,
    AclBinding,
    ResourceType,
)
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import Closable, ClusterClient
from sparkmirror.policy.loading import FlowPolicy
from sparkmirror.policy.sparkmirror_topics import acls_topic, is_acls_topic
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.state.granted_acls import GrantedAcls
from sparkmirror.topology.acls import (
    AclPlan,
    AclRules,
    AclScope,
    GrantAcl,
    RevokeAcl,
    desired_acls,
    plan_acls,
)
from sparkmirror.topology.internal_topics import ensure_internal_topics, granted_acls_topic
from sparkmirror.topology.replication_factors import ReplicationFactorChooser

_NOTE = "acls"
_REFUSED_SECONDS = 60.0  # what the target refuses is tried again after so long
_OFF = "set sync.topic.acls.enabled=false"
_WITHOUT_ACLS = {
    SECURITY_DISABLED: "has no authorizer",
    UNSUPPORTED_VERSION: "does not know ACLs",
}
_REMEDIES = {
    CLUSTER_AUTHORIZATION_FAILED: "ACL sync needs {operation} on the cluster: allow it, or",
    # What an authorizer that asks somebody else for its decisions answers.
    -1: "If its authorizer keeps no ACLs,",
}
_OUT_OF_REACH = frozenset({3, 29})  # not there, not for us
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AclOutcome:
    """How one action went; `error` is None for success."""

    action: GrantAcl | RevokeAcl
    error: BrokerError | None = None


class AclSync(Closable):
    """The ACLs of one flow; connects at the first round."""

    def __init__(self, settings: FlowSettings, policy: FlowPolicy, status: FlowStatus) -> None:
        source, flow, names = settings.source, settings.flow, policy.replication
        self._settings = settings
        self._flow = flow
        self._status = status
        self._names = names
        self._rules = AclRules(
            scope=AclScope(source.acls_scope),
            replicates=policy.selection.should_replicate_topic,
            remote_name=lambda topic: names.format_remote_topic(flow.source, topic),
            wants_group=policy.group_filter.should_replicate_group,
        )
        self._source_client = ClusterClient(settings.source_admin)
        self._target_client = ClusterClient(settings.target_admin)
        self._source = AclAdmin(settings.source_admin, self._source_client)
        self._target = AclAdmin(settings.target_admin, self._target_client)
        self._granted_acls: GrantedAcls | None = None
        if source.acls_scope == AclScope.ALL.value or source.acl_removals:
            self._granted_acls = GrantedAcls(self._target_client, acls_topic(names, flow.source))
        # What flows brought to the source: under the same name it would go round for ever.
        self._mirrored_to_source: dict[str, GrantedAcls] = {}
        self._source_admin = ClusterAdmin(settings.source_admin, self._source_client)
        self._granted_by_process: set[AclBinding] = set()  # by this process, written down nowhere
        self._refused: dict[AclBinding, tuple[BrokerError, float]] = {}  # why, and until when
        self._last = AclPlan()
        self._said: set[str] = set()
        self._trouble = ""

    def close(self) -> None:
        """Hang up; a later round connects again."""
        self._source_client.close()
        self._target_client.close()

    def sync(self, mirrored_topics: Sequence[str]) -> None:
        """Bring the target in line with the source; never raises for what a cluster does."""
        try:
            plan = self.plan(mirrored_topics)
            waiting = self._backing_off(plan)
            outcomes = [*self.apply(self._without(self._confirmed_twice(plan), waiting)), *waiting]
        except SparkmirrorError as error:
            self._report(str(error))
            return
        if plan.skip_reason:
            self._log_once(logging.INFO, plan.skip_reason)
        for notice in plan.notices:
            self._log_once(logging.WARNING, notice)
        self._report_outcomes(outcomes)

    def _backing_off(self, plan: AclPlan) -> list[AclOutcome]:
        """Grants that were refused a short while ago: they fail without being tried again."""
        now = time.monotonic()
        wanted = {action.binding for action in plan.grants}
        for binding in [one for one in self._refused if one not in wanted]:
            del self._refused[binding]
        return [
            AclOutcome(action, self._refused[action.binding][0])
            for action in plan.grants
            if action.binding in self._refused and self._refused[action.binding][1] > now
        ]

    @staticmethod
    def _without(plan: AclPlan, waiting: Sequence[AclOutcome]) -> AclPlan:
        later = {one.action for one in waiting}
        return replace(plan, grants=tuple(one for one in plan.grants if one not in later))

    # --- looking

    def plan(self, mirrored_topics: Sequence[str]) -> AclPlan:
        """What would be done; touches nothing. Raises ClusterError if the source does not tell."""
        is_all = self._rules.scope is AclScope.ALL
        try:
            found = self._read_source(ResourceType.ANY if is_all else ResourceType.TOPIC)
            existing = self._read_target()
        except BrokerError as error:
            if error.code in _WITHOUT_ACLS:
                return AclPlan(skip_reason=_skip_reason(error))
            raise
        wanted = desired_acls(found, self._rules, mirrored_topics)
        notices = [*wanted.notices]
        if self._source.unknown_acls:
            notices.append(
                f"Cluster '{self._source.alias}' has {self._source.unknown_acls} ACLs of a kind "
                f"that "
                "this version does not know; they are not carried over."
            )
        if existing is None:
            notices.append(
                f"Cluster '{self._target.alias}' does not let us see its ACLs: those that are "
                "deleted there are not noticed, and none is ever taken away. Allow the principal "
                "DESCRIBE on the cluster."
            )
        ours: set[AclBinding] = set()
        if self._granted_acls is not None:
            self._granted_acls.refresh()
            ours |= self._granted_acls.bindings
        if existing is None:
            ours |= self._granted_by_process
        removals = self._settings.source.acl_removals
        if removals and not found and len(ours) > 1:
            removals = False
            notices.append(
                f"Cluster '{self._source.alias}' shows no ACLs at all, so it may be another one: "
                f"none of the {len(ours)} that were granted is taken away."
            )
        plan = plan_acls(
            wanted.bindings, existing, ours, removals=removals, inactive=wanted.inactive
        )
        return replace(plan, notices=tuple(notices))

    def is_visible(self, wanted: Mapping[AclBinding, bool]) -> bool:
        """Whether the target has these ACLs, or has them no longer (False)."""
        existing = frozenset(self._target.describe(ResourceType.ANY))
        return all((binding in existing) is is_there for binding, is_there in wanted.items())

    def _read_source(self, kind: ResourceType) -> list[AclBinding]:
        # Read before and after the ACLs: one that the other flow creates or deletes just now is
        # in its memory at one of these times at least.
        before = self._read_mirrored_to_source()
        try:
            found = self._source.describe(kind)
        except BrokerError as error:
            raise _with_remedy(error, "DESCRIBE") from error
        foreign = before | self._read_mirrored_to_source()
        return [one for one in found if one not in foreign or self._is_renamed(one)]

    def _read_mirrored_to_source(self) -> frozenset[AclBinding]:
        """What the flows into the source granted there, whichever cluster they come from."""
        if self._rules.scope is not AclScope.ALL:
            return frozenset()
        for topic in self._source_admin.topics().found:
            if is_acls_topic(topic) and topic not in self._mirrored_to_source:
                self._mirrored_to_source[topic] = GrantedAcls(self._source_client, topic)
        found: set[AclBinding] = set()
        for memory in self._mirrored_to_source.values():
            try:
                memory.refresh()
            except BrokerError as error:
                if error.code not in _OUT_OF_REACH:
                    raise
            found |= memory.bindings
        return frozenset(found)

    def _is_renamed(self, one: AclBinding) -> bool:
        """Topics of topics: 'a.orders' becomes 'b.a.orders', and cycles are left out as topics."""
        is_topic = one.resource_type is ResourceType.TOPIC
        return is_topic and self._rules.remote_name(one.name) != one.name

    def _read_target(self) -> frozenset[AclBinding] | None:
        # All kinds, where there is a memory: it may be of a time when the scope was another one.
        kind = ResourceType.TOPIC if self._granted_acls is None else ResourceType.ANY
        try:
            return frozenset(self._target.describe(kind))
        except BrokerError as error:
            if error.code != CLUSTER_AUTHORIZATION_FAILED:
                raise _with_remedy(error, "DESCRIBE") from error
            return None

    def _confirmed_twice(self, plan: AclPlan) -> AclPlan:
        """Nothing is taken away or forgotten before two looks in a row said so.

        A broker that lags behind, or topics that could not be listed for a moment, would otherwise
        cost somebody a right.
        """
        last, self._last = self._last, plan
        revocations, gone = set(last.revocations), set(last.vanished)
        return replace(
            plan,
            revocations=tuple(one for one in plan.revocations if one in revocations),
            vanished=tuple(one for one in plan.vanished if one in gone),
        )

    # --- doing

    def apply(self, plan: AclPlan) -> list[AclOutcome]:
        """Carry out a plan, grants first; one outcome per action."""
        granted = self._grant(
            [action.binding for action in plan.grants], is_blind=plan.target_unreadable
        )
        revoked = self._target.delete([action.binding for action in plan.revocations])
        if self._granted_acls is not None:
            gone = [one for one, error in revoked.items() if error is None]
            self._granted_acls.remove([*plan.vanished, *gone])
        return [
            *(AclOutcome(action, granted[action.binding]) for action in plan.grants),
            *(AclOutcome(action, revoked[action.binding]) for action in plan.revocations),
        ]

    def _grant(
        self, bindings: Sequence[AclBinding], *, is_blind: bool
    ) -> dict[AclBinding, BrokerError | None]:
        # One alone at first: a target that lets us create none is not asked for all of them, and
        # not for each of them written to, again and again.
        answers = self._grant_some(bindings[:1], is_blind=is_blind)
        refusal = next(iter(answers.values()), None)
        if refusal is not None and refusal.code == CLUSTER_AUTHORIZATION_FAILED:
            return dict.fromkeys(bindings, refusal)
        return answers | self._grant_some(bindings[1:], is_blind=is_blind)

    def _grant_some(
        self, bindings: Sequence[AclBinding], *, is_blind: bool
    ) -> dict[AclBinding, BrokerError | None]:
        if not bindings:
            return {}
        # What was there before us, or may have been, is never ours.
        memory = None if is_blind else self._granted_acls
        new: set[AclBinding] = set()
        if memory is not None:
            new = set(bindings) - memory.bindings
            self._record_granted(memory, new)
        answers = self._target.create(bindings)
        if memory is None:
            self._granted_by_process |= {one for one, error in answers.items() if error is None}
        else:
            memory.remove([one for one in new if answers[one] is not None])
        return {
            one: _with_remedy(error, "ALTER") if error is not None else None
            for one, error in answers.items()
        }

    def _record_granted(self, memory: GrantedAcls, bindings: set[AclBinding]) -> None:
        if bindings and not memory.topic_exists:  # deleted, or a plan applied before the first run
            topic = granted_acls_topic(self._settings, self._names)
            admin = ClusterAdmin(self._settings.target_admin, self._target_client)
            for one in ensure_internal_topics([topic], admin, ReplicationFactorChooser()):
                if one.error is not None:
                    raise one.error
        memory.add(bindings)

    # --- telling

    def _report_outcomes(self, outcomes: Iterable[AclOutcome]) -> None:
        done: dict[type[GrantAcl | RevokeAcl], list[AclBinding]] = {GrantAcl: [], RevokeAcl: []}
        failed: list[AclOutcome] = []
        for one in outcomes:
            if one.error is None:
                done[type(one.action)].append(one.action.binding)
            else:
                failed.append(one)
        granted, revoked = done[GrantAcl], done[RevokeAcl]
        new = [one for one in failed if one.action.binding not in self._refused]
        if new:
            self._status.count_change("acl refused", len(new))
        for binding in granted:
            self._refused.pop(binding, None)
        now = time.monotonic()
        for one in failed:
            # Without the right to create any, one is tried in each round.
            if one.error is None or one.error.code == CLUSTER_AUTHORIZATION_FAILED:
                continue
            binding = one.action.binding
            if binding not in self._refused or self._refused[binding][1] <= now:
                self._refused[binding] = one.error, now + _REFUSED_SECONDS
        for verb, bindings in (("granted", granted), ("revoked", revoked)):
            if bindings:
                self._status.count_change(verb, len(bindings))
                first = bindings[0] if len(bindings) == 1 else f"{bindings[0]} and others"
                _log.info(
                    f"{self._flow}: {len(bindings)} ACLs {verb} on cluster "
                    f"'{self._target.alias}': {first}"
                )
        self._report(_sentence(failed) if failed else "")

    def _report(self, trouble: str) -> None:
        """Into the status, and once into the log."""
        if trouble and not self._trouble:
            _log.warning(f"{self._flow}: ACLs: {trouble}")
        if self._trouble and not trouble:
            _log.info(f"{self._flow}: ACLs: well again")
        self._trouble = trouble
        self._status.set_problem(_NOTE, f"ACLs: {trouble}" if trouble else "")

    def _log_once(self, level: int, sentence: str) -> None:
        """Log a sentence once."""
        if sentence not in self._said:
            self._said.add(sentence)
            _log.log(level, "%s: %s", self._flow, sentence)


def _skip_reason(error: BrokerError) -> str:
    without = _WITHOUT_ACLS[error.code]
    return f"cluster '{error.cluster}' {without}, so there are no ACLs to sync; {_OFF} to say so"


def _with_remedy(error: BrokerError, operation: str) -> BrokerError:
    remedy = _REMEDIES.get(error.code, "").format(operation=operation)
    return BrokerError(
        f"{error} {remedy} {_OFF}." if remedy else str(error),
        cluster=error.cluster,
        code=error.code,
        retriable=error.retriable,
    )


def _sentence(failed: Sequence[AclOutcome]) -> str:
    first = failed[0]
    verb = "granted" if isinstance(first.action, GrantAcl) else "revoked"
    return f"{len(failed)} failed, the first ({first.action.binding}) is not {verb}: {first.error}"
