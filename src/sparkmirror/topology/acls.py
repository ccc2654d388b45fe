# SPDX-License-Identifier: Apache-2.0
"""Which ACLs a target should have, and what to grant and revoke. Pure plans.

Scope `topics` follows MM2 exactly: literal ACLs of mirrored topics under the remote name, without
the right to write. Scope `all` also copies prefixed ACLs and those of groups, transactional ids and
the cluster; if the policy keeps names (a migration) also rights to write. ACLs of delegation tokens
are not copied: a token belongs to one cluster.

Only ACLs that the flow granted are ever revoked.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeVar

from sparkmirror.kafka.acls import (
    WILDCARD,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

A = TypeVar("A", "GrantAcl", "RevokeAcl")


class AclScope(Enum):
    """Which ACLs are copied."""

    TOPICS = "topics"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class AclRules:
    """A flow's decisions about names."""

    scope: AclScope
    replicates: Callable[[str], bool]
    remote_name: Callable[[str], str]
    wants_group: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class DesiredAcls:
    """The ACLs that a target should have, and a notice for each that cannot be copied."""

    bindings: frozenset[AclBinding]
    notices: tuple[str, ...] = ()
    inactive: frozenset[AclBinding] = frozenset()  # match no topic now: not granted, not revoked


@dataclass(frozen=True, order=True, slots=True)
class GrantAcl:
    """Create an ACL on the target."""

    binding: AclBinding


@dataclass(frozen=True, order=True, slots=True)
class RevokeAcl:
    """Delete an ACL from the target that the flow created."""

    binding: AclBinding


@dataclass(frozen=True, slots=True)
class AclPlan:
    """Changes to the ACLs of a target."""

    grants: tuple[GrantAcl, ...] = ()
    revocations: tuple[RevokeAcl, ...] = ()
    vanished: tuple[AclBinding, ...] = ()  # granted by us, not desired, deleted by others: forget
    target_unreadable: bool = False  # the target's ACLs cannot be listed
    notices: tuple[str, ...] = ()
    skip_reason: str = ""  # why nothing is synced


def plan_acls(
    desired: AbstractSet[AclBinding],
    existing: AbstractSet[AclBinding] | None,
    granted: AbstractSet[AclBinding],
    *,
    removals: bool,
    inactive: AbstractSet[AclBinding] = frozenset(),
) -> AclPlan:
    """Compare; `existing` is None if it cannot be listed, `granted` is what the flow created.

    Without a list the target gets what the flow has not granted yet, and nothing is revoked: an
    ACL may belong to others.
    """
    if existing is None:
        return AclPlan(grants=_sorted(GrantAcl, desired - granted), target_unreadable=True)
    obsolete = granted - desired - inactive
    return AclPlan(
        grants=_sorted(GrantAcl, desired - existing),
        revocations=_sorted(RevokeAcl, obsolete & existing) if removals else (),
        vanished=tuple(sorted(obsolete - existing)),
    )


def _sorted(action: Callable[[AclBinding], A], bindings: Iterable[AclBinding]) -> tuple[A, ...]:
    return tuple(action(one) for one in sorted(bindings))


def desired_acls(
    bindings: Iterable[AclBinding], rules: AclRules, mirrored: Collection[str] = ()
) -> DesiredAcls:
    """Return what the target should have; `mirrored` are the source topics of the flow."""
    if rules.scope is AclScope.TOPICS:
        copied = (_as_mm2(one, rules) for one in bindings)
        return DesiredAcls(frozenset(one for one in copied if one is not None))
    names = sorted(mirrored)
    desired: set[AclBinding] = set()
    inactive: set[AclBinding] = set()
    notices: list[str] = []
    for one in bindings:
        if one.resource_type is not ResourceType.TOPIC:
            if _could_lock_out_mirror(one):
                notices.append(
                    f"The ACL '{one}' is not copied: on the target it could lock out this "
                    "mirror, which could not revoke it. Create it there manually."
                )
            elif _keeps_its_name(one, rules):
                desired.add(one)
            continue
        is_prefix = one.pattern is PatternType.PREFIXED
        matches_mirrored = _matches_mirrored(one, rules, names)
        if not is_prefix and not matches_mirrored:
            continue
        resource = _remote_resource(one, rules)
        remote = _renamed(one, *resource) if resource is not None else None
        if remote is not None:
            (desired if matches_mirrored else inactive).add(remote)
        elif resource is None and matches_mirrored:
            notices.append(
                f"The ACL '{one}' is not copied: the replication policy does not map its names "
                "to names with a common prefix."
            )
    return DesiredAcls(frozenset(desired), tuple(notices), frozenset(inactive - desired))


def _as_mm2(one: AclBinding, rules: AclRules) -> AclBinding | None:
    # The name '*' is treated like any other, as in MM2: it becomes a literal ACL on 'A.*'.
    is_literal_topic = (
        one.resource_type is ResourceType.TOPIC and one.pattern is PatternType.LITERAL
    )
    if not is_literal_topic or not rules.replicates(one.name):
        return None
    return _readers_only(replace(one, name=rules.remote_name(one.name)))


def _readers_only(one: AclBinding) -> AclBinding | None:
    """Only the mirror writes to remote topics; DENY entries stay as they are."""
    if one.permission is Permission.ALLOW and one.operation is Operation.WRITE:
        return None
    if one.permission is Permission.ALLOW and one.operation is Operation.ALL:
        return replace(one, operation=Operation.READ)
    return one


def _renamed(one: AclBinding, name: str, pattern: PatternType) -> AclBinding | None:
    if (name, pattern) == (one.name, one.pattern):
        return one  # the policy keeps names: producers of the topic will write to it here
    return _readers_only(replace(one, name=name, pattern=pattern))


def _could_lock_out_mirror(one: AclBinding) -> bool:
    """Whether it denies something on the whole cluster: it may be meant for the mirror itself."""
    return one.resource_type is ResourceType.CLUSTER and one.permission is Permission.DENY


def _keeps_its_name(one: AclBinding, rules: AclRules) -> bool:
    """Whether an ACL that is not a topic's is copied unchanged."""
    if one.resource_type is ResourceType.GROUP:
        is_one_group = one.pattern is PatternType.LITERAL and one.name != WILDCARD
        return not is_one_group or rules.wants_group(one.name)
    return one.resource_type in (ResourceType.TRANSACTIONAL_ID, ResourceType.CLUSTER)


def _matches_mirrored(one: AclBinding, rules: AclRules, names: Sequence[str]) -> bool:
    """Whether a topic's ACL matches a mirrored topic."""
    if one.pattern is PatternType.PREFIXED:
        at = bisect_left(names, one.name)  # the first name that may have the prefix
        return at < len(names) and names[at].startswith(one.name)
    return one.name == WILDCARD or rules.replicates(one.name)


def _remote_resource(one: AclBinding, rules: AclRules) -> tuple[str, PatternType] | None:
    """Return name and pattern on the target; None if the policy has no such names."""
    remote = rules.remote_name
    if one.pattern is PatternType.PREFIXED:
        prefix = remote(one.name)
        return (prefix, one.pattern) if remote(f"{one.name}x").startswith(prefix) else None
    if one.name != WILDCARD:
        return remote(one.name), one.pattern
    # Tried with names, because a policy may not accept the empty one.
    prefix = remote("x").removesuffix("x")
    if [remote("x"), remote("y")] != [f"{prefix}x", f"{prefix}y"]:
        return None
    return (prefix, PatternType.PREFIXED) if prefix else (WILDCARD, PatternType.LITERAL)
