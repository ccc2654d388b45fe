# SPDX-License-Identifier: Apache-2.0
"""Everything that would be done for a flow, as one value; and whether it still applies.

A plan is made from both clusters and carried out later, maybe by another person. Before that it is
made again: an action applies if the new plan has the same one with the same previous state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from sparkmirror.topology.acls import GrantAcl, RevokeAcl
from sparkmirror.topology.configs import AlterTopic
from sparkmirror.topology.internal_topics import CreateInternalTopic
from sparkmirror.topology.topic_deletions import DeleteTopic
from sparkmirror.topology.topics import CreateTopic, GrowTopic

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sparkmirror.model import Flow
    from sparkmirror.topology.forecast import Forecast


@dataclass(frozen=True, slots=True)
class MoveGroup:
    """Set the committed offset of a consumer group in one partition of the target."""

    group: str
    topic: str
    partition: int
    before: int | None  # None: the group has no offset there
    after: int
    metadata: str = ""  # the metadata that the group committed with its offset


Action: TypeAlias = (
    CreateInternalTopic
    | CreateTopic
    | GrowTopic
    | AlterTopic
    | GrantAcl
    | MoveGroup
    | RevokeAcl
    | DeleteTopic
)
# The order in which actions are shown and carried out: destructive ones come last.
STAGES: tuple[type[Action], ...] = (
    CreateInternalTopic,
    CreateTopic,
    GrowTopic,
    AlterTopic,
    GrantAcl,
    MoveGroup,
    RevokeAcl,
    DeleteTopic,
)
_DESTRUCTIVE = (RevokeAcl, DeleteTopic)
_Subject: TypeAlias = tuple[int, *tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """The actions for one flow, notices for the user, and the amount to copy."""

    flow: Flow
    settings: str  # a digest of the flow's settings
    source_id: str | None  # cluster ids; None if the brokers have none
    target_id: str | None
    actions: tuple[Action, ...] = ()
    notices: tuple[str, ...] = ()
    forecast: Forecast | None = None  # None: the flow only emits heartbeats


@dataclass(frozen=True, slots=True)
class ChangedAction:
    """A planned action that does not apply any more."""

    action: Action
    replacement: Action | None  # the action of a new plan; None: no action


@dataclass(frozen=True, slots=True)
class PlanDrift:
    """The difference between a stored plan and a new one."""

    changed: tuple[ChangedAction, ...] = ()
    new_actions: tuple[Action, ...] = ()  # only in the new plan: not carried out


def sorted_actions(actions: Iterable[Action]) -> tuple[Action, ...]:
    """Sort in the order in which actions are shown, stored and carried out."""
    return tuple(sorted(actions, key=action_key))


def is_destructive(action: Action) -> bool:
    """Whether it deletes or revokes something."""
    return isinstance(action, _DESTRUCTIVE)


def compare_actions(stored: Sequence[Action], now: Sequence[Action]) -> PlanDrift:
    """Find the actions of a stored plan that do not apply any more, and new ones."""
    by_subject = {action_key(action): action for action in now}
    changed = [
        ChangedAction(action, found)
        for action in stored
        if not _is_unchanged(action, found := by_subject.get(action_key(action)))
    ]
    known = {action_key(action) for action in stored}
    new_actions = [action for subject, action in by_subject.items() if subject not in known]
    return PlanDrift(tuple(changed), sorted_actions(new_actions))


def _is_unchanged(stored: Action, now: Action | None) -> bool:
    if isinstance(stored, MoveGroup) and isinstance(now, MoveGroup):
        # Groups continue while a plan waits. An earlier position of the group costs some records
        # twice, as any plan does; a position that is not copied yet could lose records.
        return stored.before == now.before and stored.after <= now.after
    return stored == now


def action_key(action: Action) -> _Subject:
    """Return the subject of an action; unique within a plan."""
    stage = STAGES.index(type(action))
    match action:
        case CreateInternalTopic():
            return (stage, action.side.value, action.name)
        case CreateTopic() | GrowTopic() | AlterTopic() | DeleteTopic():
            return (stage, action.remote)
        case GrantAcl() | RevokeAcl():
            return (stage, *action.binding.as_dict().values())
        case MoveGroup():
            return (stage, action.group, action.topic, f"{action.partition:08}")
