# SPDX-License-Identifier: Apache-2.0
"""ACL sync: principals that may read a source topic may read its remote topic.

`plan` only reads, `apply` carries out, `sync` does both and updates status and log. Not
thread-safe: one thread calls `sync` at the interval. A failed round shows in the status and is
retried at the next one.
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
from sparkmirror.quantities import counted
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

_STATUS_KEY = "acls"
_RETRY_REJECTED_SECONDS = 60.0
_DISABLE = "set sync.topic.acls.enabled=false"
_WITHOUT_ACLS = {
    SECURITY_DISABLED: "has no authorizer",
    UNSUPPORTED_VERSION: "does not support ACLs",
}
_REMEDIES = {
    CLUSTER_AUTHORIZATION_FAILED: "ACL sync needs {operation} on the cluster: grant it, or",
    # The response of an authorizer that delegates its decisions.
    -1: "If its authorizer has no ACLs,",
}
_UNAVAILABLE = frozenset({3, 29})  # unknown topic, not authorized
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AclOutcome:
    """The result of one action; `error` is None on success."""

    action: GrantAcl | RevokeAcl
    error: BrokerError | None = None


class AclSync(Closable):
    """The ACL sync of one flow; connects at the first round."""

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
        # ACLs that flows granted on the source: copied under the same name they would circulate.
        self._mirrored_to_source: dict[str, GrantedAcls] = {}
        self._source_admin = ClusterAdmin(settings.source_admin, self._source_client)
        self._granted_by_process: set[AclBinding] = set()  # not stored in the ACLs topic
        self._rejected: dict[AclBinding, tuple[BrokerError, float]] = {}  # error, and retry time
        self._last = AclPlan()
        self._logged: set[str] = set()
        self._problem = ""

    def close(self) -> None:
        """Close the connections; a later round connects again."""
        self._source_client.close()
        self._target_client.close()

    def sync(self, mirrored_topics: Sequence[str]) -> None:
        """Sync once; errors of clusters go to the status instead of being raised."""
        try:
            plan = self.plan(mirrored_topics)
            delayed = self._backing_off(plan)
            outcomes = [*self.apply(self._without(self._confirmed_twice(plan), delayed)), *delayed]
        except SparkmirrorError as error:
            self._report(str(error))
            return
        if plan.skip_reason:
            self._log_once(logging.INFO, plan.skip_reason)
        for notice in plan.notices:
            self._log_once(logging.WARNING, notice)
        self._report_outcomes(outcomes)

    def _backing_off(self, plan: AclPlan) -> list[AclOutcome]:
        """Return recently rejected grants: they fail without being sent again."""
        now = time.monotonic()
        planned = {action.binding for action in plan.grants}
        for binding in [one for one in self._rejected if one not in planned]:
            del self._rejected[binding]
        return [
            AclOutcome(action, self._rejected[action.binding][0])
            for action in plan.grants
            if action.binding in self._rejected and self._rejected[action.binding][1] > now
        ]

    @staticmethod
    def _without(plan: AclPlan, delayed: Sequence[AclOutcome]) -> AclPlan:
        skipped = {one.action for one in delayed}
        return replace(plan, grants=tuple(one for one in plan.grants if one not in skipped))

    # --- planning

    def plan(self, mirrored_topics: Sequence[str]) -> AclPlan:
        """Plan without changing anything. Raises ClusterError if the source cannot be read."""
        is_all = self._rules.scope is AclScope.ALL
        try:
            found = self._read_source(ResourceType.ANY if is_all else ResourceType.TOPIC)
            existing = self._read_target()
        except BrokerError as error:
            if error.code in _WITHOUT_ACLS:
                return AclPlan(skip_reason=_skip_reason(error))
            raise
        desired = desired_acls(found, self._rules, mirrored_topics)
        notices = [*desired.notices]
        if self._source.unknown_acls:
            notices.append(
                f"Cluster '{self._source.alias}' has "
                f"{counted(self._source.unknown_acls, 'ACL')} of unknown type; not copied."
            )
        if existing is None:
            notices.append(
                f"Cannot list ACLs on cluster '{self._target.alias}': ACLs deleted there are not "
                "restored, and none is revoked. Grant DESCRIBE on the cluster."
            )
        granted: set[AclBinding] = set()
        if self._granted_acls is not None:
            self._granted_acls.refresh()
            granted |= self._granted_acls.bindings
        if existing is None:
            granted |= self._granted_by_process
        removals = self._settings.source.acl_removals
        if removals and not found and len(granted) > 1:
            removals = False
            notices.append(
                f"Cluster '{self._source.alias}' lists no ACLs at all, so it may be another "
                f"cluster: none of the {len(granted)} granted ACLs is revoked."
            )
        plan = plan_acls(
            desired.bindings, existing, granted, removals=removals, inactive=desired.inactive
        )
        return replace(plan, notices=tuple(notices))

    def is_visible(self, expected: Mapping[AclBinding, bool]) -> bool:
        """Whether the target lists these ACLs (True) and not those (False)."""
        existing = frozenset(self._target.describe(ResourceType.ANY))
        return all((binding in existing) is is_listed for binding, is_listed in expected.items())

    def _read_source(self, kind: ResourceType) -> list[AclBinding]:
        # Read before and after the ACLs: an ACL that the other flow is just creating or deleting is
        # stored at one of these times at least.
        before = self._read_mirrored_to_source()
        try:
            found = self._source.describe(kind)
        except BrokerError as error:
            raise _with_remedy(error, "DESCRIBE") from error
        foreign = before | self._read_mirrored_to_source()
        return [one for one in found if one not in foreign or self._is_renamed(one)]

    def _read_mirrored_to_source(self) -> frozenset[AclBinding]:
        """Return what flows into the source granted there, from any cluster."""
        if self._rules.scope is not AclScope.ALL:
            return frozenset()
        for topic in self._source_admin.topics().found:
            if is_acls_topic(topic) and topic not in self._mirrored_to_source:
                self._mirrored_to_source[topic] = GrantedAcls(self._source_client, topic)
        found: set[AclBinding] = set()
        for granted in self._mirrored_to_source.values():
            try:
                granted.refresh()
            except BrokerError as error:
                if error.code not in _UNAVAILABLE:
                    raise
            found |= granted.bindings
        return frozenset(found)

    def _is_renamed(self, one: AclBinding) -> bool:
        """Whether the name changes ('a.orders' to 'b.a.orders'); cycles are excluded as topics."""
        is_topic = one.resource_type is ResourceType.TOPIC
        return is_topic and self._rules.remote_name(one.name) != one.name

    def _read_target(self) -> frozenset[AclBinding] | None:
        # All types if granted ACLs are stored: the scope may have been another one before.
        kind = ResourceType.TOPIC if self._granted_acls is None else ResourceType.ANY
        try:
            return frozenset(self._target.describe(kind))
        except BrokerError as error:
            if error.code != CLUSTER_AUTHORIZATION_FAILED:
                raise _with_remedy(error, "DESCRIBE") from error
            return None

    def _confirmed_twice(self, plan: AclPlan) -> AclPlan:
        """Keep only revocations that two rounds in a row planned.

        A broker with stale data, or topics that could not be listed for a moment, would otherwise
        revoke rights.
        """
        last, self._last = self._last, plan
        revocations, vanished = set(last.revocations), set(last.vanished)
        return replace(
            plan,
            revocations=tuple(one for one in plan.revocations if one in revocations),
            vanished=tuple(one for one in plan.vanished if one in vanished),
        )

    # --- applying

    def apply(self, plan: AclPlan) -> list[AclOutcome]:
        """Carry out a plan, grants first. Returns one outcome per action."""
        granted = self._grant(
            [action.binding for action in plan.grants], is_blind=plan.target_unreadable
        )
        revoked = self._target.delete([action.binding for action in plan.revocations])
        if self._granted_acls is not None:
            deleted = [one for one, error in revoked.items() if error is None]
            self._granted_acls.remove([*plan.vanished, *deleted])
        return [
            *(AclOutcome(action, granted[action.binding]) for action in plan.grants),
            *(AclOutcome(action, revoked[action.binding]) for action in plan.revocations),
        ]

    def _grant(
        self, bindings: Sequence[AclBinding], *, is_blind: bool
    ) -> dict[AclBinding, BrokerError | None]:
        # The first one alone: without the right to create ACLs the others are not tried.
        results = self._grant_chunk(bindings[:1], is_blind=is_blind)
        error = next(iter(results.values()), None)
        if error is not None and error.code == CLUSTER_AUTHORIZATION_FAILED:
            return dict.fromkeys(bindings, error)
        return results | self._grant_chunk(bindings[1:], is_blind=is_blind)

    def _grant_chunk(
        self, bindings: Sequence[AclBinding], *, is_blind: bool
    ) -> dict[AclBinding, BrokerError | None]:
        if not bindings:
            return {}
        # ACLs that existed before, or may have, are never stored as granted by us.
        store = None if is_blind else self._granted_acls
        new: set[AclBinding] = set()
        if store is not None:
            new = set(bindings) - store.bindings
            self._record_granted(store, new)
        results = self._target.create(bindings)
        if store is None:
            self._granted_by_process |= {one for one, error in results.items() if error is None}
        else:
            store.remove([one for one in new if results[one] is not None])
        return {
            one: _with_remedy(error, "ALTER") if error is not None else None
            for one, error in results.items()
        }

    def _record_granted(self, store: GrantedAcls, bindings: set[AclBinding]) -> None:
        if bindings and not store.topic_exists:  # deleted, or `apply` before the first run
            topic = granted_acls_topic(self._settings, self._names)
            admin = ClusterAdmin(self._settings.target_admin, self._target_client)
            for one in ensure_internal_topics([topic], admin, ReplicationFactorChooser()):
                if one.error is not None:
                    raise one.error
        store.add(bindings)

    # --- reporting

    def _report_outcomes(self, outcomes: Iterable[AclOutcome]) -> None:
        done: dict[type[GrantAcl | RevokeAcl], list[AclBinding]] = {GrantAcl: [], RevokeAcl: []}
        failed: list[AclOutcome] = []
        for one in outcomes:
            if one.error is None:
                done[type(one.action)].append(one.action.binding)
            else:
                failed.append(one)
        granted, revoked = done[GrantAcl], done[RevokeAcl]
        new = [one for one in failed if one.action.binding not in self._rejected]
        if new:
            self._status.count_change("acl refused", len(new))
        for binding in granted:
            self._rejected.pop(binding, None)
        now = time.monotonic()
        for one in failed:
            # Without the right to create any, one is tried in each round.
            if one.error is None or one.error.code == CLUSTER_AUTHORIZATION_FAILED:
                continue
            binding = one.action.binding
            if binding not in self._rejected or self._rejected[binding][1] <= now:
                self._rejected[binding] = one.error, now + _RETRY_REJECTED_SECONDS
        for verb, bindings in (("granted", granted), ("revoked", revoked)):
            if bindings:
                self._status.count_change(verb, len(bindings))
                first = bindings[0] if len(bindings) == 1 else f"{bindings[0]} and others"
                _log.info(
                    f"{self._flow}: {counted(len(bindings), 'ACL')} {verb} on cluster "
                    f"'{self._target.alias}': {first}"
                )
        self._report(_failure_summary(failed) if failed else "")

    def _report(self, problem: str) -> None:
        """Update the status, and log a change."""
        if problem and not self._problem:
            _log.warning(f"{self._flow}: ACLs: {problem}")
        if self._problem and not problem:
            _log.info(f"{self._flow}: ACLs: recovered")
        self._problem = problem
        self._status.set_problem(_STATUS_KEY, f"ACLs: {problem}" if problem else "")

    def _log_once(self, level: int, sentence: str) -> None:
        if sentence not in self._logged:
            self._logged.add(sentence)
            _log.log(level, "%s: %s", self._flow, sentence)


def _skip_reason(error: BrokerError) -> str:
    reason = _WITHOUT_ACLS[error.code]
    return f"cluster '{error.cluster}' {reason}: no ACLs to sync; {_DISABLE} to silence this"


def _with_remedy(error: BrokerError, operation: str) -> BrokerError:
    remedy = _REMEDIES.get(error.code, "").format(operation=operation)
    return BrokerError(
        f"{error} {remedy} {_DISABLE}." if remedy else str(error),
        cluster=error.cluster,
        code=error.code,
        retriable=error.retriable,
    )


def _failure_summary(failed: Sequence[AclOutcome]) -> str:
    first = failed[0]
    verb = "granted" if isinstance(first.action, GrantAcl) else "revoked"
    return f"{len(failed)} failed; the first ({first.action.binding}) is not {verb}: {first.error}"
