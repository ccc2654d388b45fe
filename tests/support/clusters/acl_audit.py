# SPDX-License-Identifier: Apache-2.0
"""Compares the ACLs in docs/security.md with those that a broker checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from sparkmirror.kafka.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from support.clusters.secure_cluster import SecureCluster

DOCUMENT = Path(__file__).parents[3] / "docs" / "security.md"
# topic prefix `A.`, group `<group>`, each of them; cluster
_RESOURCE = re.compile(r"(topic|group|cluster|transactional id)( prefix)?(?: `([^`]+)`)?")
_AUDITED = re.compile(
    r"Principal = User:(\S+) is (Allowed|Denied) operation = (\w+) .* on resource = "
    r"(\w+):LITERAL:(\S+) for request = (\w+)"
)

_TYPES = {
    "Topic": ResourceType.TOPIC,
    "Group": ResourceType.GROUP,
    "Cluster": ResourceType.CLUSTER,
    "TransactionalId": ResourceType.TRANSACTIONAL_ID,
}


def documented_acls(
    side: str, user: str, names: Mapping[str, str], without: tuple[str, ...] = ()
) -> set[AclBinding]:
    """Return the ACLs of a table; `names` replace the document's placeholders.

    Leaves out rows whose first cell starts with a text in `without`.
    """
    section = DOCUMENT.read_text(encoding="utf-8").split(f"## Rights on the {side}\n")[1]
    rows = re.findall(
        r"^\| (.+?) \| (.+?) \| ([A-Z_, ]+) \|$", section.split("\n## ")[0], re.MULTILINE
    )
    assert rows
    found = set()
    for purpose, resource, rights in rows:
        if purpose.startswith(without):
            continue
        kind, is_prefix, name = _parsed(resource)
        for one in rights.split(", "):
            found.add(
                AclBinding(
                    ResourceType[kind.upper().replace(" ", "_")],
                    _named(name, names) if name else "kafka-cluster",
                    PatternType.PREFIXED if is_prefix else PatternType.LITERAL,
                    f"User:{user}",
                    "*",
                    Operation[one],
                    Permission.ALLOW,
                )
            )
    return found


class AuthorizerAudit:
    """The checks of the authorizer since this was created."""

    def __init__(self, secure: SecureCluster) -> None:
        [broker] = secure.cluster.brokers
        self._log = broker.log_file
        self._start = self._log.stat().st_size
        loggers = ConfigResource(
            ConfigResourceType.BROKER_LOGGER,
            str(broker.node_id),
            {"kafka.authorizer.logger": "DEBUG"},
        )
        client = KafkaAdminClient(bootstrap_servers=secure.bootstrap_servers)
        try:
            client.alter_configs([loggers], raise_on_unknown=False)
        finally:
            client.close()

    def denied(self, user: str) -> set[str]:
        return {
            f"{operation} {kind} {name} ({request})"
            for who, verdict, operation, kind, name, request in self._entries()
            if who == user and verdict == "Denied"
        }

    def unused(self, granted: set[AclBinding]) -> set[AclBinding]:
        """Return ACLs that no check needed."""
        return granted - {one for one in granted for entry in self._entries() if _uses(one, entry)}

    def _entries(self) -> set[tuple[str, ...]]:
        with self._log.open("rb") as log:
            log.seek(self._start)
            return set(_AUDITED.findall(log.read().decode(errors="replace")))


def _uses(acl: AclBinding, entry: tuple[str, ...]) -> bool:
    who, verdict, operation, kind, name, _ = entry
    is_it = name.startswith(acl.name) if acl.pattern is PatternType.PREFIXED else name == acl.name
    return (
        verdict == "Allowed"
        and acl.principal == f"User:{who}"
        and acl.resource_type is _TYPES[kind]
        and acl.operation.name == operation
        and is_it
    )


def _parsed(resource: str) -> tuple[str, bool, str]:
    found = _RESOURCE.match(resource)
    assert found, resource
    return found[1], bool(found[2]), found[3] or ""


def _named(name: str, names: Mapping[str, str]) -> str:
    return re.sub(r"<[^>]+>|\b[AB]\b", lambda found: names[found[0]], name)
