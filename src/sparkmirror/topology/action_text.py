# SPDX-License-Identifier: Apache-2.0
"""The actions of a plan as text: verb, subject, details."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from sparkmirror.quantities import counted, format_count
from sparkmirror.topology.acls import GrantAcl, RevokeAcl
from sparkmirror.topology.configs import AlterTopic
from sparkmirror.topology.flow_plan import MoveGroup, sorted_actions
from sparkmirror.topology.internal_topics import CreateInternalTopic, Side
from sparkmirror.topology.topic_deletions import DeleteTopic
from sparkmirror.topology.topics import CreateTopic, GrowTopic

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sparkmirror.model import Flow
    from sparkmirror.topology.flow_plan import Action

VERBS: dict[type[Action], str] = {
    CreateInternalTopic: "create",
    CreateTopic: "create",
    GrowTopic: "grow",
    AlterTopic: "alter",
    GrantAcl: "grant",
    MoveGroup: "move",
    RevokeAcl: "revoke",
    DeleteTopic: "delete",
}


class ActionText(NamedTuple):
    """An action for a line or a table row."""

    verb: str
    subject: str
    details: str

    def __str__(self) -> str:
        return f"{self.verb} {self.subject}: {self.details}"


def describe_action(action: Action, flow: Flow) -> ActionText:
    verb, cluster = VERBS[type(action)], flow.target
    match action:
        case CreateInternalTopic():
            cluster = flow.source if action.side is Side.SOURCE else flow.target
            subject = f"internal topic {action.name} on {cluster}"
            details = _shape(action.partitions, action.replication_factor, action.configs)
        case CreateTopic():
            subject = f"topic {action.remote} on {cluster}"
            details = _shape(action.partitions, action.replication_factor, action.configs)
        case GrowTopic():
            subject = f"topic {action.remote} on {cluster}"
            details = f"from {action.from_} to {counted(action.to, 'partition')}"
        case AlterTopic():
            subject = f"topic {action.remote} on {cluster}"
            details = ", ".join(
                _change(key, action.before.get(key), value)
                for key, value in sorted(action.changes.items())
            )
        case GrantAcl() | RevokeAcl():
            subject = f"ACL on {cluster}"
            details = printable(str(action.binding))
        case MoveGroup():
            subject = f"group {printable(action.group)} on {cluster}"
            partition = f"{action.topic}-{action.partition}"
            before = "no offset" if action.before is None else str(action.before)
            details = f"{partition} from {before} to {action.after}"
        case DeleteTopic():
            subject = f"topic {action.remote} on {cluster}"
            details = f"with all records, because {action.source} was deleted on {flow.source}"
    return ActionText(verb, subject, details)


def summarize_actions(actions: Iterable[Action]) -> str:
    """Count the actions of each kind, such as `12 to create, 1 to grow`."""
    counts = Counter(VERBS[type(action)] for action in sorted_actions(actions))
    return ", ".join(f"{format_count(count)} to {verb}" for verb, count in counts.items())


def printable(text: str) -> str:
    """Escape control characters in text from outside."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _shape(partitions: int, replicas: int, configs: Mapping[str, str]) -> str:
    factor = "default replication factor" if replicas < 0 else counted(replicas, "replica")
    settings = [f"{key}={printable(value)}" for key, value in sorted(configs.items())]
    return ", ".join([counted(partitions, "partition"), factor, *settings])


def _change(key: str, before: str | None, after: str | None) -> str:
    if after is None:
        return f"{key} back to the default (was {printable(before or '')})"
    was = "not set" if before is None else printable(before)
    return f"{key}={printable(after)} (was {was})"
