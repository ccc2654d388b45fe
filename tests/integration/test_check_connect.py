# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror check --connect` against real brokers: reachable, badly advertised, forbidding."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from typer.testing import CliRunner

from sparkmirror.cli.check import check
from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.devcluster.ports import HOST
from support.clients.acls import AUTHORIZER
from support.clients.librdkafka import Cluster, admin, create_topics, topics
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

# Port 1 is never ours: what a broker inside a container advertises looks like this from outside.
NOBODY = 1

app = typer.Typer()
app.command()(check)


@dataclass(frozen=True, slots=True)
class Address:
    """One of a cluster's addresses."""

    bootstrap_servers: str


@pytest.fixture(scope="module")
def odd_cluster(
    tmp_path_factory: pytest.TempPathFactory, kafka_version: str
) -> Iterator[LocalCluster]:
    """A cluster that can forbid things, and advertises an address of nobody on one listener."""
    directory = tmp_path_factory.mktemp("odd")
    with LocalCluster(
        "odd", directory, version=kafka_version, config=AUTHORIZER, proxy_ports=[NOBODY]
    ) as cluster:
        yield cluster


def run_check(directory: Path, source: Cluster, target: Cluster, *lines: str) -> tuple[int, Any]:
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
    before = topics(target_cluster)
    code, found = run_check(tmp_path, source_cluster, target_cluster)
    assert code == 0
    assert [cluster["alias"] for cluster in found["clusters"]] == ["a", "b"]
    for cluster, running in zip(found["clusters"], (source_cluster, target_cluster), strict=True):
        assert cluster["ok"]
        assert cluster["security"] == "PLAINTEXT"
        assert cluster["missingPermissions"] == []
        addresses = {broker["address"] for broker in cluster["brokers"]}
        assert addresses == set(running.bootstrap_servers.split(","))
        assert all(broker["version"] for broker in cluster["brokers"])
    assert topics(target_cluster) == before


def test_topics_that_match_nothing_are_warned_of(
    tmp_path: Path, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    """With the nearest name; the exit code stays 0."""
    topic = unique_name("payments")
    create_topics(source_cluster, {topic: 1})
    code, found = run_check(
        tmp_path, source_cluster, target_cluster, f"a->b.topics = {topic}, {topic}x"
    )
    assert code == 0
    (notice,) = [one for one in found["notices"] if one["key"] == "topics"]
    assert notice["level"] == "warning"
    assert notice["where"] == "line 5"
    assert notice["message"] == (
        f"a->b: '{topic}x' in topics matches no topic of cluster 'a'. "
        f"The nearest name is '{topic}'."
    )


def test_an_unreachable_advertised_address_is_in_the_error(
    tmp_path: Path, source_cluster: LocalCluster, odd_cluster: LocalCluster
) -> None:
    """The bootstrap address answers, the broker's own does not; the other cluster is fine."""
    misled = odd_cluster.brokers[0].proxied_listener
    assert misled is not None
    code, found = run_check(tmp_path, source_cluster, Address(f"{HOST}:{misled.port}"))
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
    tmp_path: Path, target_cluster: LocalCluster, odd_cluster: LocalCluster
) -> None:
    """Reading a topic and creating the positions topic are forbidden; the rest is allowed."""
    create_topics(odd_cluster, {"closed": 1, "open": 1})
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
    client = admin(odd_cluster)  # futures of a client that is gone never end
    for future in client.create_acls(rules).values():
        future.result(PATIENCE_SECONDS)

    def told() -> tuple[int, dict[str, list[str]]]:
        code, found = run_check(tmp_path, odd_cluster, target_cluster, "b->a.enabled = true")
        missing = {one["alias"]: one["missingPermissions"] for one in found["clusters"]}
        assert "READ on topic 'closed' is not granted." in missing["a"]
        assert any("mm2-offsets.b.internal" in sentence for sentence in missing["a"])
        return code, missing

    code, missing = eventually(told, PATIENCE_SECONDS, "the rules hold, and are told")
    assert code == 1
    assert missing["b"] == []
    assert not any("'open'" in sentence for sentence in missing["a"])


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
