# SPDX-License-Identifier: Apache-2.0
"""A flow that does everything, with exactly the rights that docs/security.md lists.

The broker's own audit log is the witness: nothing was refused, and nothing was granted in vain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from support.clients.acls import grant
from support.clients.consumer_groups import commit, committed
from support.clients.librdkafka import (
    Record,
    admin,
    create_topics,
    delete_topic,
    end_offsets,
    grow_topic,
    numbered,
    produce,
    topics,
)
from support.clusters.acl_audit import AuthorizerAudit, documented_acls
from support.clusters.secure_cluster import MASTER, SecureCluster, secure_cluster
from support.data.security_configs import Keys, file_lines, login, property_text, reached, trusting
from support.mirrors.java_connect import ConnectTopics
from support.mirrors.mirror_process import MirrorProcess
from support.mirrors.worker_process import WorkerProcess
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.thorough

SOURCE, TARGET = "near", "far"
TOO_LARGE = 1_500_000
SUPPORT = {"default": "disabled", "exactly-once": "enabled"}
READER, WRITER = "reader", "writer"
CLIENTS = ("", "producer.")  # as Connect wants it
NOT_OF_A_CONNECTOR = (
    "config sync",
    "deleted topics",
    "positions",
    "one process",
    "the same",
    "orders over REST",
    "Connect's third topic",
    "group sync, flows both ways",
    "incidents",
    "ACL sync",
    "exactly-once",
)
THERE, BACK = f"{SOURCE}->{TARGET}", f"{TARGET}->{SOURCE}"
EVERYTHING = (
    f"{THERE}.enabled = true",
    f"{BACK}.enabled = true",
    f"{BACK}.emit.heartbeats.enabled = false",
    f"{BACK}.emit.checkpoints.enabled = false",
    f"{BACK}.sync.group.offsets.enabled = false",
    f"{BACK}.sync.topic.acls.enabled = false",
    f"{TARGET}.offset.flush.interval.ms = 1000",
    f"{SOURCE}.offset.flush.interval.ms = 1000",
    "heartbeats.replication.enabled = false",
    "emit.heartbeats.interval.seconds = 1",
    "emit.checkpoints.interval.seconds = 1",
    "sync.group.offsets.enabled = true",
    "sync.group.offsets.interval.seconds = 1",
    "refresh.topics.interval.seconds = 1",
    "sync.topic.configs.interval.seconds = 1",
    "sync.topic.acls.interval.seconds = 1",
    "sync.acls.scope = all",
    "sync.acls.removals.enabled = true",
    "sync.topic.deletions.enabled = true",
    "sync.topic.deletions.grace.seconds = 5",
    r"config.properties.exclude = max\\.message\\.bytes",  # what is too large there is not here
    "replication.factor = 1",
)


@pytest.fixture
def secure(tmp_path: Path, kafka_version: str) -> Iterator[SecureCluster]:
    """A broker whose ACLs and internal topics are this test's."""
    (tmp_path / "rights").mkdir()
    with secure_cluster(tmp_path / "rights", version=kafka_version) as started:
        yield started


@pytest.mark.parametrize("delivery", ["default", "exactly-once"])
def test_the_documented_rights_are_enough_and_all_needed(
    secure: SecureCluster, tmp_path: Path, delivery: str
) -> None:
    """Copies, grows, syncs configs, groups and ACLs, pauses, deletes, and starts again.

    A flow comes back, with rights to everything, whose copies the group reads as well.
    """
    prefix, group = unique_name("orders"), unique_name("app")
    copied = [f"{prefix}-{what}" for what in ("kept", "large", "gone", "theirs")]
    orders, large, gone, theirs = copied
    create_topics(secure, {orders: 2, gone: 1, theirs: 1})
    create_topics(secure, {large: 1}, {"max.message.bytes": str(2 * TOO_LARGE)})
    produce(secure, orders, numbered(100, 2))
    produce(secure, gone, numbered(1))
    produce(secure, theirs, numbered(50))
    produce(secure, large, [(0, Record(None, bytes(TOO_LARGE)))], message_max_bytes=2 * TOO_LARGE)
    commit(secure, group, orders, {0: 20, 1: 30})
    granted = set()
    without = ("exactly-once",) if delivery == "default" else ()
    for topic in copied:
        names = {
            "A": SOURCE,
            "B": TARGET,
            "<topic>": topic,
            "<group>": group,
            "<original>": theirs,
        }
        granted |= documented_acls("source", READER, names)
        granted |= documented_acls("target", WRITER, names, without)
    grant(secure, *granted)
    audit = AuthorizerAudit(secure)

    lines = (
        f"{THERE}.topics = {prefix}-.*",
        f"{BACK}.topics = {theirs}",
        f"groups = {group}",
        f"{TARGET}.exactly.once.source.support = {SUPPORT[delivery]}",
    )
    with mirror(secure, tmp_path, *lines) as running:
        await_copy_of(secure, orders, {0: 50, 1: 50})
        await_copy_of(secure, theirs, {0: 50}, alias=TARGET)
        commit(secure, group, f"{TARGET}.{theirs}", {0: 40})
        eventually(
            lambda: committed(secure, group, f"{SOURCE}.{orders}", 2) == {0: 20, 1: 30},
            PATIENCE_SECONDS,
            "the group is where it was",
        )
        eventually(
            lambda: committed(secure, group, theirs, 1) == {0: 40},
            PATIENCE_SECONDS,
            "also in what came from there",
        )
        for topic in ("mm2-ledger", "mm2-dead-letters"):
            name = f"{topic}.{SOURCE}.internal"
            eventually(
                lambda name=name: sum(end_offsets(secure, name).values()), PATIENCE_SECONDS, name
            )
        pause_and_resume(running)
        grow_topic(secure, orders, 3)
        keep_for_a_day(secure, orders)
        eventually(
            lambda: (
                topics(secure).get(f"{SOURCE}.{orders}") == 3
                and retention(secure, f"{SOURCE}.{orders}") == "86400000"
            ),
            PATIENCE_SECONDS,
            "it was grown and changed",
        )
        delete_topic(secure, gone)
        eventually(
            lambda: f"{SOURCE}.{gone}" not in topics(secure), PATIENCE_SECONDS, "it was deleted"
        )
        assert running.terminate()[0] == 0
    produce(secure, orders, numbered(90, 3))
    with mirror(secure, tmp_path, *lines) as running:
        go_on(secure, orders, group)
        assert running.terminate()[0] == 0

    harmless = not_needed(SOURCE, orders) | not_needed(TARGET, theirs)
    assert [audit.denied(user) - harmless for user in (READER, WRITER)] == [set(), set()]
    first_to_come = {
        f"allow User:{WRITER} CREATE from * on topic '{topic}' (literal)"
        for topic in ("heartbeats", "mm2-producers.internal")
    }
    assert set(map(str, audit.unused(granted))) <= first_to_come  # of the two flows


def test_the_documented_rights_of_a_worker_are_enough_and_all_needed(
    secure: SecureCluster, tmp_path: Path
) -> None:
    """An exactly-once worker with two connectors, that comes twice."""
    topic, group, workers = unique_name("orders"), unique_name("app"), unique_name("workers")
    create_topics(secure, {topic: 1})
    places = ConnectTopics(workers)
    names = {
        "A": "here",
        "B": "there",
        "<topic>": topic,
        "<group>": group,
        "<group.id>": workers,
        "<config.storage.topic>": places.configs,
        "<offset.storage.topic>": places.offsets,
        "<status.storage.topic>": places.statuses,
    }
    own = documented_acls("cluster of a Connect worker", WRITER, names)
    connectors = documented_acls("source", READER, names, ("flows both ways", "ACL sync"))
    connectors |= documented_acls("target", WRITER, names, NOT_OF_A_CONNECTOR)
    grant(secure, *own, *connectors)
    audit = AuthorizerAudit(secure)
    reader: Keys = {
        **reached(secure, "TLSLOGIN"),
        **trusting(tmp_path, "PEM", secure.authority),
        **login("SCRAM-SHA-512", READER),
    }
    writer: Keys = {**reached(secure, "LOGIN"), **login("SCRAM-SHA-256", WRITER)}
    clients = {f"{prefix}{key}": value for prefix in CLIENTS for key, value in writer.items()}
    lines = {key: property_text(value) for key, value in clients.items()}
    for copied, kind in ((50, "Source"), (100, "Checkpoint")):
        produce(secure, topic, numbered(50))
        commit(secure, group, topic, {0: 20})
        with WorkerProcess(
            secure, tmp_path, places, **{**lines, "exactly.once.source.support": "enabled"}
        ) as worker:
            worker.await_health()
            config = {
                "connector.class": f"Mirror{kind}Connector",
                "source.cluster.alias": "here",
                "target.cluster.alias": "there",
                **{f"source.cluster.{key}": value for key, value in reader.items()},
                **{f"target.cluster.{key}": value for key, value in writer.items()},
                **{f"producer.override.{key}": value for key, value in writer.items()},
                "topics": topic,
                "groups": group,
                "sync.group.offsets.enabled": "true",
                "sync.group.offsets.interval.seconds": "1",
                "emit.checkpoints.interval.seconds": "1",
                "refresh.topics.interval.seconds": "1",
                "refresh.groups.interval.seconds": "1",
                "heartbeats.replication.enabled": "false",
                "sync.topic.acls.enabled": "false",
                "replication.factor": "1",
            }
            worker.create(kind, config)
            worker.await_states(kind, "RUNNING", "RUNNING")
            await_copy_of(secure, topic, {0: copied}, alias="here")
            if kind == "Checkpoint":
                eventually(
                    lambda: committed(secure, group, f"here.{topic}", 1) == {0: 20},
                    PATIENCE_SECONDS,
                    "the group is where it was",
                )
            assert worker.process.terminate()[0] == 0
    harmless = not_needed("here", topic) | {
        "DESCRIBE Topic mm2-offset-map.there.internal (Metadata)"  # no flow comes back
    }
    assert [audit.denied(user) - harmless for user in (READER, WRITER)] == [set(), set()]
    assert set(map(str, audit.unused(own))) == set()


def go_on(secure: SecureCluster, topic: str, group: str) -> None:
    """Wait until a flow that has come again copies, and moves the group."""
    eventually(
        lambda: end_offsets(secure, f"{SOURCE}.{topic}").get(2, 0) >= 30,
        PATIENCE_SECONDS,
        "the new partition is copied",
    )
    commit(secure, group, topic, {0: 70, 1: 70, 2: 10})
    eventually(
        lambda: committed(secure, group, f"{SOURCE}.{topic}", 3).get(2) == 10,
        PATIENCE_SECONDS,
        "the group has moved",
    )


def not_needed(source: str, topic: str) -> set[str]:
    """Rights that are checked and denied on purpose.

    Both sides are one broker: a group's positions in originals and copies are on both.
    """
    return {
        f"DESCRIBE Topic {topic} (OffsetFetch)",
        f"DESCRIBE Topic {source}.{topic} (OffsetFetch)",
    }


@contextmanager
def mirror(secure: SecureCluster, folder: Path, *more: str) -> Iterator[MirrorProcess]:
    """The flow, its source read and its target written by different users.

    A flow's own clients come before its clusters'.
    """
    near: Keys = {**reached(secure, "LOGIN"), **login("SCRAM-SHA-512")}
    far: Keys = {
        **reached(secure, "TLSLOGIN"),
        **trusting(folder, "PEM", secure.authority),
        **login("PLAIN", WRITER),
    }
    file = folder / "mm2.properties"
    lines = [
        f"clusters = {SOURCE}, {TARGET}",
        *file_lines(SOURCE, near),
        *file_lines(TARGET, far),
        *EVERYTHING,
        *more,
    ]
    for role in ("consumer", "producer", "admin"):
        lines += file_lines(f"{THERE}.source.{role}", login("SCRAM-SHA-512", READER))
        lines += file_lines(f"{BACK}.source.{role}", login("PLAIN", MASTER))
    file.write_text("\n".join([*lines, ""]), encoding="utf-8")
    with MirrorProcess(file) as running:
        running.await_log(f"{THERE}: RUNNING", PATIENCE_SECONDS)
        yield running


def await_copy_of(
    secure: SecureCluster, topic: str, counts: dict[int, int], alias: str = SOURCE
) -> None:
    """Wait until so many records are there, whatever the markers."""
    eventually(
        lambda: (
            (ends := end_offsets(secure, f"{alias}.{topic}")).keys() == counts.keys()
            and all(ends[index] >= count for index, count in counts.items())
        ),
        PATIENCE_SECONDS,
        f"all of {topic} is there",
    )


def pause_and_resume(running: MirrorProcess) -> None:
    """Over REST, which writes to the config topic."""
    [root] = re.findall(r"advertised as (http://\S+?)/?$", running.log, re.MULTILINE)
    for verb in ("pause", "resume"):
        connector = f"{root}/connectors/{quote(THERE)}.MirrorHeartbeatConnector"
        request = Request(f"{connector}/{verb}", method="PUT")  # noqa: S310 - our own server
        with urlopen(request, timeout=PATIENCE_SECONDS) as answer:  # noqa: S310
            assert answer.status == 202


def keep_for_a_day(secure: SecureCluster, topic: str) -> None:
    """Change a config."""
    entry = ConfigEntry("retention.ms", "86400000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    client = admin(secure)  # futures of a client that is gone never end
    for future in client.incremental_alter_configs([resource]).values():
        future.result(PATIENCE_SECONDS)


def retention(secure: SecureCluster, topic: str) -> str:
    """A topic's config."""
    client = admin(secure)
    asked = client.describe_configs([ConfigResource(ResourceType.TOPIC, topic)])
    [found] = [future.result(PATIENCE_SECONDS) for future in asked.values()]
    return str(found["retention.ms"].value)
