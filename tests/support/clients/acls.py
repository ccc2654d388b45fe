# SPDX-License-Identifier: Apache-2.0
"""ACLs as another implementation sees and makes them; its numbers are the protocol's, too."""

from __future__ import annotations

from confluent_kafka import admin as confluent

from sparkmirror.kafka.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from support.clients.librdkafka import Cluster, admin
from support.waiting import PATIENCE_SECONDS, eventually

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


def acls(cluster: Cluster, principal: str) -> set[AclBinding]:
    """All ACLs of a principal."""
    client = admin(cluster)
    everything = confluent.AclBindingFilter(
        confluent.ResourceType.ANY,
        None,
        confluent.ResourcePatternType.ANY,
        principal,
        None,
        confluent.AclOperation.ANY,
        confluent.AclPermissionType.ANY,
    )
    return {
        AclBinding(
            ResourceType(one.restype.value),
            one.name,
            PatternType(one.resource_pattern_type.value),
            one.principal,
            one.host,
            Operation(one.operation.value),
            Permission(one.permission_type.value),
        )
        for one in client.describe_acls(everything).result(PATIENCE_SECONDS)
    }


def grant(cluster: Cluster, *bindings: AclBinding) -> None:
    """Create ACLs, and wait until they show."""
    client = admin(cluster)
    made = client.create_acls([acl_binding(confluent.AclBinding, one) for one in bindings])
    for future in made.values():
        future.result(PATIENCE_SECONDS)
    for principal in {one.principal for one in bindings}:
        own = {one for one in bindings if one.principal == principal}
        eventually(
            lambda own=own, who=principal: own <= acls(cluster, who),
            PATIENCE_SECONDS,
            f"granted to {principal}",
        )


def revoke(cluster: Cluster, *bindings: AclBinding) -> None:
    """Delete ACLs, and wait until they are gone."""
    if not bindings:
        return
    client = admin(cluster)
    gone = client.delete_acls([acl_binding(confluent.AclBindingFilter, one) for one in bindings])
    for future in gone.values():
        future.result(PATIENCE_SECONDS)
    for principal in {one.principal for one in bindings}:
        eventually(
            lambda who=principal: not acls(cluster, who) & {*bindings},
            PATIENCE_SECONDS,
            f"revoked from {principal}",
        )


def acl_binding(
    kind: type[confluent.AclBinding | confluent.AclBindingFilter], binding: AclBinding
) -> confluent.AclBinding:
    """An ACL, or the question for it, as confluent-kafka has it."""
    return kind(
        confluent.ResourceType(binding.resource_type),
        binding.name,
        confluent.ResourcePatternType(binding.pattern),
        binding.principal,
        binding.host,
        confluent.AclOperation(binding.operation),
        confluent.AclPermissionType(binding.permission),
    )
