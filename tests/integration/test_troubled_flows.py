# SPDX-License-Identifier: Apache-2.0
"""One running process with a sound flow and several that cannot work: each says why.

All tests share the process; the sound flow continues throughout.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from sparkmirror.devcluster.cluster import LocalCluster, start_all
from sparkmirror.devcluster.ports import HOST, ReservedPort
from support.clients.librdkafka import (
    admin,
    await_copy,
    compare_topics,
    create_topics,
    end_offsets,
    numbered,
    produce,
    topics,
)
from support.measurements import measured
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import STOP_SECONDS, MirrorProcess
from support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.thorough

TOPIC = "troubled-orders"
FORBIDDEN = "troubled-secrets"
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
NOWHERE = {"advertised.listeners": "PLAINTEXT://127.0.0.1:1"}  # port 1 is never ours


@dataclass(frozen=True, slots=True)
class Address:
    """Where a cluster will be."""

    bootstrap_servers: str


@dataclass(frozen=True, slots=True)
class Troubles:
    """The running process and the cluster that is not up yet."""

    mirror: MirrorProcess
    absent: LocalCluster
    strict: LocalCluster


def forbid_reading(cluster: LocalCluster, topic: str) -> None:
    """Let everybody see the topic and nobody read it."""
    client = admin(cluster)
    rules = [
        AclBinding(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            "User:ANONYMOUS",
            "*",
            operation,
            permission,
        )
        for operation, permission in (
            (AclOperation.READ, AclPermissionType.DENY),
            (AclOperation.DESCRIBE, AclPermissionType.ALLOW),
            (AclOperation.DESCRIBE_CONFIGS, AclPermissionType.ALLOW),
        )
    ]
    for future in client.create_acls(rules).values():
        future.result(PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def troubles(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path_factory: pytest.TempPathFactory,
    kafka_version: str,
) -> Iterator[Troubles]:
    """`sound` works, `absent` is not up, `misled` advertises an address of nobody's.

    `greedy` wants more replicas than there are brokers, `strict` forbids one of its topics.
    """
    directory: Path = tmp_path_factory.mktemp("troubles")
    create_topics(source_cluster, {TOPIC: 2})
    produce(source_cluster, TOPIC, numbered(500, 2))
    with ExitStack() as stack:
        port = ReservedPort()
        port.reserve()
        absent = LocalCluster(
            "absent", directory / "absent", version=kafka_version, ports=[port.number]
        )
        misled = LocalCluster("misled", directory / "misled", version=kafka_version, config=NOWHERE)
        strict = LocalCluster(
            "strict", directory / "strict", version=kafka_version, config=AUTHORIZER
        )
        start_all([misled, strict])
        for cluster in (absent, misled, strict):
            stack.callback(cluster.stop)
        create_topics(strict, {TOPIC: 1, FORBIDDEN: 1})
        for topic in (TOPIC, FORBIDDEN):
            produce(strict, topic, numbered(100))
        forbid_reading(strict, FORBIDDEN)
        stack.callback(port.release)
        file = mirror_file(
            directory,
            {
                "sound": source_cluster,
                "absent": Address(f"{HOST}:{port.number}"),
                "misled": misled,
                "greedy": source_cluster,
                "strict": strict,
                "sink": target_cluster,
            },
            *(
                f"{alias}->sink.enabled = true"
                for alias in ("sound", "absent", "misled", "greedy", "strict")
            ),
            "topics = troubled-.*",
            "greedy->sink.replication.factor = 3",
            # Heartbeats to all those clusters are not the subject here.
            "emit.heartbeats.enabled = false",
        )
        mirror = stack.enter_context(MirrorProcess(file))
        yield Troubles(mirror, absent, strict)
        mirror.show_log()


def test_a_valid_flow_is_not_restarted(
    troubles: Troubles, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    """Its records arrive although four other flows cannot work."""
    await_copy(source_cluster, TOPIC, target_cluster, f"sound.{TOPIC}", PATIENCE_SECONDS)
    assert compare_topics(source_cluster, TOPIC, target_cluster, f"sound.{TOPIC}") == 500
    assert troubles.mirror.is_running


def test_a_cluster_out_of_reach_is_named(troubles: Troubles) -> None:
    """The sentence has the cluster's alias, its address and the key to look at."""
    troubles.mirror.await_log("absent->sink: RETRYING", PATIENCE_SECONDS)
    troubles.mirror.await_log("Cluster 'absent' cannot be reached", PATIENCE_SECONDS)
    troubles.mirror.await_log("absent.bootstrap.servers", PATIENCE_SECONDS)


def test_an_advertised_address_out_of_reach_is_named_as_such(troubles: Troubles) -> None:
    """The bootstrap address answers, the one that the broker gives out does not."""
    troubles.mirror.await_log("misled->sink: RETRYING", PATIENCE_SECONDS)
    line = next(one for one in troubles.mirror.log.splitlines() if "misled->sink: RETRYING" in one)
    assert "127.0.0.1:1;" in line
    assert "advertise" in line


def test_replicas_that_the_cluster_cannot_hold_are_an_error_naming_the_key(
    troubles: Troubles, target_cluster: LocalCluster
) -> None:
    """A replication factor that was set is kept to the letter."""
    troubles.mirror.await_log("greedy->sink: FAILED", PATIENCE_SECONDS)
    line = next(one for one in troubles.mirror.log.splitlines() if "greedy->sink: FAILED" in one)
    assert "replication.factor" in line
    assert "sink" in line
    assert f"greedy.{TOPIC}" not in topics(target_cluster)


def test_a_forbidden_topic_is_named_and_its_neighbour_flows(
    troubles: Troubles, target_cluster: LocalCluster
) -> None:
    """Authorization refused on one topic stops this topic only."""
    strict = troubles.strict
    await_copy(strict, TOPIC, target_cluster, f"strict.{TOPIC}", PATIENCE_SECONDS)
    assert compare_topics(strict, TOPIC, target_cluster, f"strict.{TOPIC}") == 100
    troubles.mirror.await_log(
        f"strict: {FORBIDDEN}-0: TOPIC_AUTHORIZATION_FAILED", PATIENCE_SECONDS
    )
    assert end_offsets(target_cluster, f"strict.{FORBIDDEN}") == {0: 0}


def test_a_cluster_that_comes_up_starts_to_flow(
    troubles: Troubles, target_cluster: LocalCluster
) -> None:
    """Nobody needs to restart anything; the end is clean although two flows never worked."""
    troubles.absent.start()
    create_topics(troubles.absent, {TOPIC: 1})
    produce(troubles.absent, TOPIC, numbered(300))
    await_copy(troubles.absent, TOPIC, target_cluster, f"absent.{TOPIC}", 2 * PATIENCE_SECONDS)
    assert compare_topics(troubles.absent, TOPIC, target_cluster, f"absent.{TOPIC}") == 300
    code, took = troubles.mirror.terminate()
    measured(f"stopped after {took:.1f} s")
    assert code == 0
    assert took < STOP_SECONDS
    assert "Traceback" not in troubles.mirror.log
