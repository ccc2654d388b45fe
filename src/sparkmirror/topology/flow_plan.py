# SPDX-License-Identifier: Apache-2.0
"""All that would be done for a pair of clusters, as one value; and whether it still fits.

A plan is made by reading both sides and is carried out later, maybe by somebody else. Before that
it is made again: an action fits if the new plan has the same one, with the same state before it.
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
    """Set where a consumer group goes on in one partition of the target."""

    group: str
    topic: str
    partition: int
    before: int | None  # None: the group has no offset there yet
    after: int
    metadata: str = ""  # what the group itself committed beside its offset


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
# In this order they are shown and carried out: what takes something away comes last.
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
    """What would be done for one pair, what a person should know, and what is to be copied."""

    flow: Flow
    settings: str  # a digest of what the file says about the pair
    source_id: str | None  # the clusters' ids; None: the brokers do not tell
    target_id: str | None
    actions: tuple[Action, ...] = ()
    notices: tuple[str, ...] = ()
    forecast: Forecast | None = None  # None: the pair only emits heartbeats


@dataclass(frozen=True, slots=True)
class ChangedAction:
    """An action that cannot be carried out as it was planned."""

    action: Action
    replacement: Action | None  # what would be planned now in its place; None: nothing


@dataclass(frozen=True, slots=True)
class PlanDrift:
    """A stored plan held against one that was made now."""

    changed: tuple[ChangedAction, ...] = ()
    new_actions: tuple[Action, ...] = ()  # only in the new plan: left alone


def sorted_actions(actions: Iterable[Action]) -> tuple[Action, ...]:
    """As they are shown, stored and carried out."""
    return tuple(sorted(actions, key=action_key))


def is_destructive(action: Action) -> bool:
    """Whether it takes something away."""
    return isinstance(action, _DESTRUCTIVE)


def compare_actions(stored: Sequence[Action], now: Sequence[Action]) -> PlanDrift:
    """Which actions of a stored plan do not fit any more, and which are new."""
    by_subject = {action_key(action): action for action in now}
    misfits = [
        ChangedAction(action, found)
        for action in stored
        if not _is_unchanged(action, found := by_subject.get(action_key(action)))
    ]
    known = {action_key(action) for action in stored}
    news = [action for about, action in by_subject.items() if about not in known]
    return PlanDrift(tuple(misfits), sorted_actions(news))


def _is_unchanged(stored: Action, now: Action | None) -> bool:
    if isinstance(stored, MoveGroup) and isinstance(now, MoveGroup):
        # Groups go on while a plan waits. To set an earlier position of the group costs it some
        # records twice, as any plan does; one that is not copied yet could cost it records.
        return stored.before == now.before and stored.after <= now.after
    return stored == now


def action_key(action: Action) -> _Subject:
    """What an action is about; no two actions of a plan are about the same."""
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
