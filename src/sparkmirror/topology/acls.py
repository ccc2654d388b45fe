# SPDX-License-Identifier: Apache-2.0
"""Which ACLs a target should have, and what to grant and take away: pure plans.

Scope `topics` is MM2 to the letter: literal ACLs of mirrored topics, under the remote name, never
the right to write. Scope `all` carries prefixed ACLs and those of groups, transactional ids and
the cluster as well; where the policy keeps names (a migration) rights to write go along. Those of
delegation tokens stay: a token belongs to one cluster.

Only what we granted ourselves is ever taken away.
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
    """Which ACLs are carried over."""

    TOPICS = "topics"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class AclRules:
    """What a flow decides about names."""

    scope: AclScope
    replicates: Callable[[str], bool]
    remote_name: Callable[[str], str]
    wants_group: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class WantedAcls:
    """The ACLs that a target should have, and a sentence for each that cannot be carried over."""

    bindings: frozenset[AclBinding]
    notices: tuple[str, ...] = ()
    inactive: frozenset[AclBinding] = (
        frozenset()
    )  # about no topic just now: neither given nor taken


@dataclass(frozen=True, order=True, slots=True)
class GrantAcl:
    """Create an ACL on the target."""

    binding: AclBinding


@dataclass(frozen=True, order=True, slots=True)
class RevokeAcl:
    """Delete an ACL from the target; one that we had created."""

    binding: AclBinding


@dataclass(frozen=True, slots=True)
class AclPlan:
    """What to do about the ACLs of a target."""

    grants: tuple[GrantAcl, ...] = ()
    revocations: tuple[RevokeAcl, ...] = ()
    vanished: tuple[
        AclBinding, ...
    ] = ()  # ours, not wanted, and not there any more: to be forgotten
    target_unreadable: bool = False  # the target does not tell what it has
    notices: tuple[str, ...] = ()
    skip_reason: str = ""  # why there is nothing to sync at all


def plan_acls(
    wanted: AbstractSet[AclBinding],
    existing: AbstractSet[AclBinding] | None,
    ours: AbstractSet[AclBinding],
    *,
    removals: bool,
    idle: AbstractSet[AclBinding] = frozenset(),
) -> AclPlan:
    """What differs; `existing` is None if the target does not tell, `ours` is what we granted.

    A target that does not tell gets what it has not got from us yet, and loses nothing: what is
    there may be somebody else's.
    """
    if existing is None:
        return AclPlan(grants=_sorted(GrantAcl, wanted - ours), target_unreadable=True)
    unwanted = ours - wanted - idle
    return AclPlan(
        grants=_sorted(GrantAcl, wanted - existing),
        revocations=_sorted(RevokeAcl, unwanted & existing) if removals else (),
        vanished=tuple(sorted(unwanted - existing)),
    )


def _sorted(action: Callable[[AclBinding], A], bindings: Iterable[AclBinding]) -> tuple[A, ...]:
    return tuple(action(one) for one in sorted(bindings))


def wanted_acls(
    bindings: Iterable[AclBinding], rules: AclRules, mirrored: Collection[str] = ()
) -> WantedAcls:
    """What the target should have; `mirrored` are the source's topics that the flow copies."""
    if rules.scope is AclScope.TOPICS:
        carried = (_as_mm2(one, rules) for one in bindings)
        return WantedAcls(frozenset(one for one in carried if one is not None))
    names = sorted(mirrored)
    wanted: set[AclBinding] = set()
    idle: set[AclBinding] = set()
    notices: list[str] = []
    for one in bindings:
        if one.resource_type is not ResourceType.TOPIC:
            if _could_lock_out_mirror(one):
                notices.append(
                    f"The ACL '{one}' is not carried over: on the target it could shut this "
                    "mirror out, which could not take it back. Create it there by hand."
                )
            elif _keeps_its_name(one, rules):
                wanted.add(one)
            continue
        is_prefix, is_about_ours = one.pattern is PatternType.PREFIXED, _concerns(one, rules, names)
        if not is_prefix and not is_about_ours:
            continue
        place = _remote_place(one, rules)
        remote = _renamed(one, *place) if place is not None else None
        if remote is not None:
            (wanted if is_about_ours else idle).add(remote)
        elif place is None and is_about_ours:
            notices.append(
                f"The ACL '{one}' is not carried over: the replication policy does not turn "
                "the names that it is about into names with one beginning."
            )
    return WantedAcls(frozenset(wanted), tuple(notices), frozenset(idle - wanted))


def _as_mm2(one: AclBinding, rules: AclRules) -> AclBinding | None:
    # The name '*' is looked at like any other, as in MM2: it becomes a literal ACL on 'A.*'.
    is_literal_topic = (
        one.resource_type is ResourceType.TOPIC and one.pattern is PatternType.LITERAL
    )
    if not is_literal_topic or not rules.replicates(one.name):
        return None
    return _readers_only(replace(one, name=rules.remote_name(one.name)))


def _readers_only(one: AclBinding) -> AclBinding | None:
    """Remote topics are written by the mirror alone; denials stay as they are."""
    if one.permission is Permission.ALLOW and one.operation is Operation.WRITE:
        return None
    if one.permission is Permission.ALLOW and one.operation is Operation.ALL:
        return replace(one, operation=Operation.READ)
    return one


def _renamed(one: AclBinding, name: str, pattern: PatternType) -> AclBinding | None:
    if (name, pattern) == (one.name, one.pattern):
        return one  # the policy keeps names: who wrote to the topic will write to it here
    return _readers_only(replace(one, name=name, pattern=pattern))


def _could_lock_out_mirror(one: AclBinding) -> bool:
    """A denial on the whole cluster: it may be about the mirror itself, read-only on the source."""
    return one.resource_type is ResourceType.CLUSTER and one.permission is Permission.DENY


def _keeps_its_name(one: AclBinding, rules: AclRules) -> bool:
    """Whether an ACL that is not a topic's is carried over, as it is."""
    if one.resource_type is ResourceType.GROUP:
        is_one_group = one.pattern is PatternType.LITERAL and one.name != WILDCARD
        return not is_one_group or rules.wants_group(one.name)
    return one.resource_type in (ResourceType.TRANSACTIONAL_ID, ResourceType.CLUSTER)


def _concerns(one: AclBinding, rules: AclRules, names: Sequence[str]) -> bool:
    """Whether a topic's ACL is about something that the flow copies."""
    if one.pattern is PatternType.PREFIXED:
        at = bisect_left(names, one.name)  # the first name that may begin so
        return at < len(names) and names[at].startswith(one.name)
    return one.name == WILDCARD or rules.replicates(one.name)


def _remote_place(one: AclBinding, rules: AclRules) -> tuple[str, PatternType] | None:
    """Name and pattern on the target; None if the policy has no such names."""
    remote = rules.remote_name
    if one.pattern is PatternType.PREFIXED:
        prefix = remote(one.name)
        return (prefix, one.pattern) if remote(f"{one.name}x").startswith(prefix) else None
    if one.name != WILDCARD:
        return remote(one.name), one.pattern
    # Tried out with names, as a policy need not have an answer for the empty one.
    beginning = remote("x").removesuffix("x")
    if [remote("x"), remote("y")] != [f"{beginning}x", f"{beginning}y"]:
        return None
    return (beginning, PatternType.PREFIXED) if beginning else (WILDCARD, PatternType.LITERAL)
