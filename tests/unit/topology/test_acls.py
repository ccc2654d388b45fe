# SPDX-License-Identifier: Apache-2.0
"""Which ACLs are copied under which name; ACLs of others are never revoked."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.kafka.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from sparkmirror.model import Flow
from sparkmirror.policy.loading import load_policy
from sparkmirror.topology.acls import (
    AclPlan,
    AclRules,
    AclScope,
    GrantAcl,
    RevokeAcl,
    desired_acls,
    plan_acls,
)

FILE = """
clusters = a, b
a.bootstrap.servers = 127.0.0.1:1
b.bootstrap.servers = 127.0.0.1:2
a->b.enabled = true
"""
IDENTITY = "replication.policy.class=org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


def rules(scope: AclScope, *lines: str) -> AclRules:
    """The rules of the flow a->b, with further lines in its file."""
    flow = Flow("a", "b")
    settings = MirrorConfig.parse("\n".join((FILE, *lines))).flow_settings(flow)
    policy = load_policy(settings.policy, flow)
    return AclRules(
        scope,
        policy.selection.should_replicate_topic,
        lambda topic: policy.replication.format_remote_topic("a", topic),
        policy.group_filter.should_replicate_group,
    )


def acl(
    name: str = "orders",
    operation: Operation = Operation.READ,
    permission: Permission = Permission.ALLOW,
    *,
    kind: ResourceType = ResourceType.TOPIC,
    pattern: PatternType = PatternType.LITERAL,
) -> AclBinding:
    return AclBinding(kind, name, pattern, "User:app", "*", operation, permission)


def carried(one: AclBinding, to: AclRules, *mirrored: str) -> AclBinding | None:
    """Return the copy of one ACL; None if it is not copied."""
    wanted = desired_acls([one], to, mirrored)
    assert wanted.notices == ()
    return next(iter(wanted.bindings), None)


def test_an_acl_reads_as_a_phrase() -> None:
    expected = "allow User:app READ from * on topic 'a.orders' (literal)"
    assert expected == str(acl("a.orders"))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (acl(), acl("a.orders")),
        (acl(operation=Operation.DESCRIBE), acl("a.orders", Operation.DESCRIBE)),
        (acl(operation=Operation.WRITE), None),
        (acl(operation=Operation.ALL), acl("a.orders")),
        (
            acl(operation=Operation.WRITE, permission=Permission.DENY),
            acl("a.orders", Operation.WRITE, Permission.DENY),
        ),
        (
            acl(operation=Operation.ALL, permission=Permission.DENY),
            acl("a.orders", Operation.ALL, Permission.DENY),
        ),
        (acl("*"), acl("a.*")),
        (acl("__consumer_offsets"), None),
        (acl("b.orders"), None),
        (acl(pattern=PatternType.PREFIXED), None),
        (acl(kind=ResourceType.GROUP), None),
        (acl(kind=ResourceType.TRANSACTIONAL_ID), None),
        (acl("kafka-cluster", kind=ResourceType.CLUSTER), None),
    ],
    ids=str,
)
def test_the_scope_of_topics_is_mm2s(found: AclBinding, expected: AclBinding | None) -> None:
    """Literal ACLs of mirrored topics, never the right to write, and MM2's literal 'A.*'."""
    assert expected == carried(found, rules(AclScope.TOPICS), "orders")


def test_the_topics_scope_grants_no_write_under_the_identity_policy() -> None:
    """As in MM2, whatever the policy."""
    identity = rules(AclScope.TOPICS, IDENTITY)
    assert carried(acl(operation=Operation.WRITE), identity) is None
    assert acl() == carried(acl(operation=Operation.ALL), identity)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (acl(), acl("a.orders")),
        (acl(operation=Operation.WRITE), None),
        (acl(operation=Operation.ALL), acl("a.orders")),
        (acl("b.orders"), None),
        (acl("or", pattern=PatternType.PREFIXED), acl("a.or", pattern=PatternType.PREFIXED)),
        (acl("or", Operation.WRITE, pattern=PatternType.PREFIXED), None),
        (
            acl("or", Operation.ALL, pattern=PatternType.PREFIXED),
            acl("a.or", pattern=PatternType.PREFIXED),
        ),
        (
            acl("orders", Operation.ALL, Permission.DENY, pattern=PatternType.PREFIXED),
            acl("a.orders", Operation.ALL, Permission.DENY, pattern=PatternType.PREFIXED),
        ),
        (acl("orders-", pattern=PatternType.PREFIXED), None),
        (acl("p", pattern=PatternType.PREFIXED), None),
        (acl("*"), acl("a.", pattern=PatternType.PREFIXED)),
        (acl("*", Operation.ALL), acl("a.", pattern=PatternType.PREFIXED)),
        (acl("*", Operation.WRITE), None),
    ],
    ids=str,
)
def test_the_scope_of_all_has_prefixed_topic_acls(
    found: AclBinding, expected: AclBinding | None
) -> None:
    """If a mirrored topic has the prefix; '*' becomes the common prefix of remote names."""
    assert expected == carried(found, rules(AclScope.ALL), "orders", "z")


@pytest.mark.parametrize(
    "found",
    [
        acl(kind=ResourceType.GROUP),
        acl("*", kind=ResourceType.GROUP),
        acl("console-consumer-", kind=ResourceType.GROUP, pattern=PatternType.PREFIXED),
        acl("tx", Operation.WRITE, kind=ResourceType.TRANSACTIONAL_ID),
        acl("tx", kind=ResourceType.TRANSACTIONAL_ID, pattern=PatternType.PREFIXED),
        acl("kafka-cluster", Operation.IDEMPOTENT_WRITE, kind=ResourceType.CLUSTER),
    ],
    ids=str,
)
def test_what_is_not_about_topics_keeps_its_name(found: AclBinding) -> None:
    """Groups, transactional ids and clusters have the same names on both clusters."""
    assert found == carried(found, rules(AclScope.ALL))


@pytest.mark.parametrize(
    "found",
    [
        acl("console-consumer-1", kind=ResourceType.GROUP),
        acl("token", kind=ResourceType.DELEGATION_TOKEN),
        acl("app", kind=ResourceType.USER),
    ],
    ids=str,
)
def test_groups_that_are_left_out_and_tokens_stay(found: AclBinding) -> None:
    """The group filter excludes the group; a token belongs to its cluster."""
    assert carried(found, rules(AclScope.ALL)) is None


@pytest.mark.parametrize("operation", [Operation.WRITE, Operation.ALL, Operation.READ])
@pytest.mark.parametrize("name", ["orders", "*"])
def test_a_migration_carries_topic_acls_as_they_are(name: str, operation: Operation) -> None:
    """With the identity policy producers write to the same topic on the target."""
    found = acl(name, operation)
    assert found == carried(found, rules(AclScope.ALL, IDENTITY), "orders")
    prefixed = acl("ord", operation, pattern=PatternType.PREFIXED)
    assert prefixed == carried(prefixed, rules(AclScope.ALL, IDENTITY), "orders")


@pytest.mark.parametrize("found", [acl("ord", pattern=PatternType.PREFIXED), acl("*")], ids=str)
def test_an_acl_that_the_policy_cannot_carry_is_named(found: AclBinding) -> None:
    """A policy that appends the source's alias has no common prefix."""
    suffix = replace(rules(AclScope.ALL), remote_name=lambda topic: f"{topic}.x")
    wanted = desired_acls([found, acl()], suffix, ["orders"])
    assert wanted.bindings == {acl("orders.x")}
    assert [str(found) in notice for notice in wanted.notices] == [True]


def test_only_what_is_missing_is_granted() -> None:
    """A granted ACL that was deleted on the target is granted again."""
    one, two, three = acl("a.1"), acl("a.2"), acl("a.3")
    plan = plan_acls({one, two, three}, {one}, {one, two}, removals=False)
    assert plan == AclPlan(grants=(GrantAcl(two), GrantAcl(three)))


def test_only_created_acls_are_revoked_and_only_if_configured() -> None:
    """ACLs of others stay; one that is deleted already is forgotten."""
    ours, theirs, gone = acl("a.1"), acl("a.2"), acl("a.3")
    plan = plan_acls(set(), {ours, theirs}, {ours, gone}, removals=True)
    assert plan == AclPlan(revocations=(RevokeAcl(ours),), vanished=(gone,))
    plan = plan_acls(set(), {ours, theirs}, {ours, gone}, removals=False)
    assert plan == AclPlan(vanished=(gone,))


def test_a_target_that_does_not_tell_gets_each_acl_once() -> None:
    """Nothing is revoked: an existing ACL may belong to others."""
    one, two, three = acl("a.1"), acl("a.2"), acl("a.3")
    plan = plan_acls({one, two}, None, {one, three}, removals=True)
    assert plan == AclPlan(grants=(GrantAcl(two),), target_unreadable=True)


SETS = st.frozensets(st.sampled_from([acl(f"a.{number}") for number in range(6)]))


@given(SETS, st.none() | SETS, SETS, st.booleans())
def test_a_plan_never_reaches_beyond_ours(
    wanted: frozenset[AclBinding],
    existing: frozenset[AclBinding] | None,
    ours: frozenset[AclBinding],
    removals: bool,
) -> None:
    """For any sets: no ACL of others is revoked, and all desired ACLs exist."""
    plan = plan_acls(wanted, existing, ours, removals=removals)
    grants = {action.binding for action in plan.grants}
    revoked = {action.binding for action in plan.revocations}
    assert revoked <= ours - wanted
    assert set(plan.vanished) <= ours - wanted
    assert grants <= wanted
    assert removals or not revoked
    if existing is not None:
        after = (existing | grants) - revoked
        assert wanted <= after
        assert existing - ours <= after
        again = plan_acls(wanted, after, ours - revoked - set(plan.vanished), removals=removals)
        assert again == AclPlan()


def test_a_denial_on_the_whole_cluster_is_not_carried_over() -> None:
    """It may be meant for the mirror itself, which could not revoke it."""
    denial = acl("kafka-cluster", Operation.ALTER, Permission.DENY, kind=ResourceType.CLUSTER)
    found = desired_acls([denial], rules(AclScope.ALL))
    assert found.bindings == frozenset()
    assert "could lock out this mirror" in found.notices[0]


def test_a_prefix_without_a_topic_is_neither_given_nor_taken() -> None:
    """Topics that cannot be listed for a while do not cause a revocation."""
    one = acl("orders-", pattern=PatternType.PREFIXED)
    there = replace(one, name="a.orders-")
    assert desired_acls([one], rules(AclScope.ALL), ["orders-eu"]).bindings == {there}
    found = desired_acls([one], rules(AclScope.ALL), [])
    assert (found.bindings, found.inactive) == (frozenset(), {there})
    plan = plan_acls(found.bindings, {there}, {there}, removals=True, inactive=found.inactive)
    assert (plan.grants, plan.revocations, plan.vanished) == ((), (), ())
    assert plan_acls(set(), {there}, {there}, removals=True).revocations == (RevokeAcl(there),)
