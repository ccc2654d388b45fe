# SPDX-License-Identifier: Apache-2.0
"""A local broker with the restrictions of managed services.

Two policies reject topic configs and replication factors, large requests close the connection, and
the authorizer denies creating topics with a prefix and altering the cluster.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.devcluster.jars import kafka_classpath
from sparkmirror.system.java import java_binary
from support.clients.librdkafka import admin
from support.waiting import PATIENCE_SECONDS

MOST_BYTES = 1_046_528  # what Event Hubs takes in one request
NO_CREATION = "forbidden"  # nobody may create a topic with this beginning
_POLICIES = ("RefusingCreateTopicPolicy", "RefusingAlterConfigPolicy")
_SOURCES = Path(__file__).parents[1] / "java"
_ANYBODY = "User:ANONYMOUS"


def restricted_cluster(
    name: str, directory: Path, version: str, *, configs: str, extra: Mapping[str, str]
) -> LocalCluster:
    """Return a broker, not started, that accepts only these topic configs and one replica."""
    classes = directory / "policies"
    classes.mkdir(parents=True)
    jars = kafka_classpath(version)
    compiler = java_binary().resolve().parent / "javac"
    subprocess.run(
        [
            str(compiler),
            "-cp",
            ":".join(map(str, jars)),
            "-d",
            str(classes),
            *(str(_SOURCES / f"{policy}.java") for policy in _POLICIES),
        ],
        check=True,
        timeout=PATIENCE_SECONDS,
    )
    return LocalCluster(
        name,
        directory / name,
        version=version,
        plugins=[classes],
        config={
            "create.topic.policy.class.name": _POLICIES[0],
            "alter.config.policy.class.name": _POLICIES[1],
            "refusing.allowed.configs": configs,
            "refusing.allowed.factor": "1",
            "socket.request.max.bytes": str(MOST_BYTES),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            **extra,
        },
    )


def forbid_creation_and_acls(cluster: LocalCluster) -> None:
    """Deny to all users what accounts of managed services may not do."""
    client = admin(cluster)
    for some in (
        # What is not denied must be allowed once a resource has an ACL; this one comes first.
        [_acl(ResourceType.BROKER, "kafka-cluster", AclOperation.ALL, AclPermissionType.ALLOW)],
        [
            _acl(
                ResourceType.TOPIC,
                NO_CREATION,
                AclOperation.ALL,
                AclPermissionType.ALLOW,
                ResourcePatternType.PREFIXED,
            )
        ],
        [
            _acl(
                ResourceType.TOPIC,
                NO_CREATION,
                AclOperation.CREATE,
                AclPermissionType.DENY,
                ResourcePatternType.PREFIXED,
            ),
            _acl(ResourceType.BROKER, "kafka-cluster", AclOperation.CREATE, AclPermissionType.DENY),
        ],
        [_acl(ResourceType.BROKER, "kafka-cluster", AclOperation.ALTER, AclPermissionType.DENY)],
    ):
        for future in client.create_acls(some).values():
            future.result(PATIENCE_SECONDS)


def _acl(
    kind: ResourceType,
    name: str,
    operation: AclOperation,
    permission: AclPermissionType,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
) -> AclBinding:
    return AclBinding(kind, name, pattern, _ANYBODY, "*", operation, permission)
