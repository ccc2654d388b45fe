# SPDX-License-Identifier: Apache-2.0
"""The actions of a plan as JSON, and back: `do` says which, `before` what it is now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkmirror.errors import WireError
from sparkmirror.kafka.acls import AclBinding
from sparkmirror.topology.acls import GrantAcl, RevokeAcl
from sparkmirror.topology.configs import AlterTopic
from sparkmirror.topology.flow_plan import MoveGroup
from sparkmirror.topology.internal_topics import CreateInternalTopic, Side
from sparkmirror.topology.topic_deletions import DeleteTopic
from sparkmirror.topology.topics import CreateTopic, GrowTopic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sparkmirror.topology.flow_plan import Action
    from sparkmirror.topology.plan_fields import JsonFields


def dump_action(action: Action) -> dict[str, object]:
    """An action as JSON."""
    fields: Mapping[str, object]
    match action:
        case CreateInternalTopic():
            kind = "create-internal-topic"
            fields = {
                "side": action.side.value,
                "topic": action.name,
                "partitions": action.partitions,
                "replicationFactor": action.replication_factor,
                "configs": dict(sorted(action.configs.items())),
                "needsConfigs": action.needs_configs,
            }
        case CreateTopic():
            kind = "create-topic"
            fields = {
                "source": action.source,
                "topic": action.remote,
                "partitions": action.partitions,
                "replicationFactor": action.replication_factor,
                "configs": dict(sorted(action.configs.items())),
            }
        case GrowTopic():
            kind = "grow-topic"
            fields = {
                "source": action.source,
                "topic": action.remote,
                "before": action.from_,
                "after": action.to,
            }
        case AlterTopic():
            kind = "alter-topic"
            fields = {
                "source": action.source,
                "topic": action.remote,
                "before": dict(sorted(action.before.items())),
                "after": dict(sorted(action.changes.items())),
            }
        case GrantAcl():
            kind, fields = "grant-acl", action.binding.as_dict()
        case RevokeAcl():
            kind, fields = "revoke-acl", action.binding.as_dict()
        case MoveGroup():
            kind = "move-group"
            fields = {
                "group": action.group,
                "topic": action.topic,
                "partition": action.partition,
                "before": action.before,
                "after": action.after,
                "metadata": action.metadata,
            }
        case DeleteTopic():
            kind = "delete-topic"
            fields = {
                "source": action.source,
                "topic": action.remote,
                "topicId": action.topic_id,
            }
    return {"do": kind, **fields}


def parse_action(fields: JsonFields) -> Action:
    """An action from JSON; PlanError if anything about it is odd."""
    kind = fields.text("do")
    if kind not in _READERS:
        raise fields.error("do", f"is {kind!r}, and nobody here knows how to do that")
    action = _READERS[kind](fields)
    fields.require_empty()
    return action


def _create_internal_topic(fields: JsonFields) -> Action:
    return CreateInternalTopic(
        Side(fields.one_of("side", [side.value for side in Side])),
        fields.text("topic"),
        fields.number("partitions", least=1),
        fields.number("replicationFactor", least=-1),
        fields.mapping("configs"),
        fields.boolean("needsConfigs"),
    )


def _create_topic(fields: JsonFields) -> Action:
    return CreateTopic(
        fields.text("source"),
        fields.text("topic"),
        fields.number("partitions", least=1),
        fields.number("replicationFactor", least=-1),
        fields.mapping("configs"),
    )


def _grow_topic(fields: JsonFields) -> Action:
    before = fields.number("before", least=1)
    after = fields.number("after", least=before + 1)
    return GrowTopic(fields.text("source"), fields.text("topic"), before, after)


def _alter_topic(fields: JsonFields) -> Action:
    before, after = fields.mapping_or_none("before"), fields.mapping_or_none("after")
    if not after or set(before) != set(after):
        raise fields.error("after", "does not name the same configs as before")
    return AlterTopic(fields.text("source"), fields.text("topic"), after, before)


def _binding(fields: JsonFields) -> AclBinding:
    found = {name: fields.text(name, may_be_empty=True) for name in fields.names()}
    try:
        binding = AclBinding.from_dict(found)
    except WireError as error:
        raise fields.error("the ACL", f"is none: {error}") from error
    if found != binding.as_dict():
        raise fields.error("the ACL", "has fields that are not known here")
    return binding


def _grant_acl(fields: JsonFields) -> Action:
    return GrantAcl(_binding(fields))


def _revoke_acl(fields: JsonFields) -> Action:
    return RevokeAcl(_binding(fields))


def _move_group(fields: JsonFields) -> Action:
    before = fields.number_or_none("before")
    return MoveGroup(
        fields.text("group", may_be_empty=True),
        fields.text("topic"),
        fields.number("partition"),
        before,
        fields.number("after", least=0 if before is None else before + 1),  # never back
        fields.text("metadata", may_be_empty=True),
    )


def _delete_topic(fields: JsonFields) -> Action:
    return DeleteTopic(fields.text("source"), fields.text("topic"), fields.text("topicId"))


_READERS: dict[str, Callable[[JsonFields], Action]] = {
    "create-internal-topic": _create_internal_topic,
    "create-topic": _create_topic,
    "grow-topic": _grow_topic,
    "alter-topic": _alter_topic,
    "grant-acl": _grant_acl,
    "move-group": _move_group,
    "revoke-acl": _revoke_acl,
    "delete-topic": _delete_topic,
}
