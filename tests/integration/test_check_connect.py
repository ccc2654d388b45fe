# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror check --connect` against real brokers: reachable, badly advertised, forbidding."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from typer.testing import CliRunner

from sparkmirror.cli.check import check
from sparkmirror.local.cluster import LocalCluster, start_all

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
# Port 1 is never ours: what a broker inside a container advertises looks like this from outside.
NOWHERE = {"advertised.listeners": "PLAINTEXT://127.0.0.1:1"}

app = typer.Typer()
app.command()(check)


@pytest.fixture(scope="module")
def odd_clusters(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[tuple[LocalCluster, LocalCluster]]:
    """A cluster that forbids some things, and one that advertises an address of nobody."""
    version = request.config.getoption("--kafka")
    clusters = [
        LocalCluster(name, tmp_path_factory.mktemp(name), version=version, config=config)
        for name, config in (("forbidding", AUTHORIZER), ("misled", NOWHERE))
    ]
    start_all(clusters)
    yield clusters[0], clusters[1]
    for cluster in clusters:
        cluster.stop()


def run_check(directory: Path, source: Any, target: Any, *lines: str) -> tuple[int, Any]:
    """Exit code and JSON output for a flow between two clusters."""
    file = directory / "mm2.properties"
    text = (
        "clusters = a, b",
        f"a.bootstrap.servers = {source.bootstrap_servers}",
        f"b.bootstrap.servers = {target.bootstrap_servers}",
        "a->b.enabled = true",
        *lines,
    )
    file.write_text("\n".join(text))
    result = CliRunner().invoke(app, [str(file), "--connect", "--json"])
    return result.exit_code, json.loads(result.stdout)


def test_every_broker_is_reached(
    tmp_path: Path, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    """Address, version and security of each, nothing missing, nothing created."""
    witness = AdminClient({"bootstrap.servers": target_cluster.bootstrap_servers})
    before = set(witness.list_topics(timeout=10).topics)
    code, found = run_check(tmp_path, source_cluster, target_cluster)
    assert code == 0
    assert [cluster["alias"] for cluster in found["clusters"]] == ["a", "b"]
    for cluster, running in zip(found["clusters"], (source_cluster, target_cluster), strict=True):
        assert cluster["ok"]
        assert cluster["security"] == "PLAINTEXT"
        assert cluster["missing_permissions"] == []
        addresses = {broker["address"] for broker in cluster["brokers"]}
        assert addresses == set(running.bootstrap_servers.split(","))
        assert all(broker["version"] for broker in cluster["brokers"])
    assert before == set(witness.list_topics(timeout=10).topics)


def test_an_advertised_address_of_nobody_is_named(
    tmp_path: Path,
    source_cluster: LocalCluster,
    odd_clusters: tuple[LocalCluster, LocalCluster],
) -> None:
    """The bootstrap address answers, the broker's own does not; the other cluster is fine."""
    _, misled = odd_clusters
    code, found = run_check(tmp_path, source_cluster, misled)
    good, bad = found["clusters"]
    assert code == 1
    assert good["ok"]
    assert not bad["ok"]
    assert bad["error"] == ""
    (broker,) = bad["brokers"]
    assert broker["address"] == "127.0.0.1:1"
    assert "advertises 127.0.0.1:1, which cannot be reached from here" in broker["error"]
    assert "advertised.listeners" in broker["error"]


def test_missing_permissions_are_named(
    tmp_path: Path,
    target_cluster: LocalCluster,
    odd_clusters: tuple[LocalCluster, LocalCluster],
) -> None:
    """Reading a topic and creating the positions topic are forbidden; the rest is allowed."""
    forbidding, _ = odd_clusters
    admin = AdminClient({"bootstrap.servers": forbidding.bootstrap_servers})
    for future in admin.create_topics([NewTopic("closed", 1, 1), NewTopic("open", 1, 1)]).values():
        future.result()
    rules = [
        _rule("closed", AclOperation.DESCRIBE, AclPermissionType.ALLOW),
        _rule("closed", AclOperation.DESCRIBE_CONFIGS, AclPermissionType.ALLOW),
        _rule("closed", AclOperation.READ, AclPermissionType.DENY),
        _rule("mm2-offsets.b.internal", AclOperation.CREATE, AclPermissionType.DENY),
        AclBinding(
            ResourceType.BROKER,
            "kafka-cluster",
            ResourcePatternType.LITERAL,
            "User:ANONYMOUS",
            "*",
            AclOperation.CLUSTER_ACTION,
            AclPermissionType.ALLOW,
        ),
    ]
    for future in admin.create_acls(rules).values():
        future.result()
    code, found = run_check(tmp_path, forbidding, target_cluster, "b->a.enabled = true")
    missing = {cluster["alias"]: cluster["missing_permissions"] for cluster in found["clusters"]}
    assert code == 1
    assert missing["b"] == []
    assert "READ on topic 'closed' is not granted." in missing["a"]
    assert not any("'open'" in sentence for sentence in missing["a"])
    assert any("mm2-offsets.b.internal" in sentence for sentence in missing["a"])


def _rule(topic: str, operation: AclOperation, permission: AclPermissionType) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        "User:ANONYMOUS",
        "*",
        operation,
        permission,
    )
