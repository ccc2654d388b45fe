# SPDX-License-Identifier: Apache-2.0
"""Two clusters with a mirror that tests damage, and its output.

The flows of one process share both clusters: `calm` has the default policies, `bold` the opposite
ones, `exact` the defaults and exactly-once. Topics belong to a flow by their prefix.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)

from sparkmirror.devcluster.cluster import LocalCluster, start_all
from sparkmirror.devcluster.ports import HOST, ReservedPort
from sparkmirror.state.ledger import LedgerEntry, read_ledger
from sparkmirror.wire.settings import ConnectionSettings
from support.clients.librdkafka import admin, end_offsets
from support.clients.prometheus import sample, scrape
from support.clusters.memory_disk import keep_in_memory
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.waiting import PATIENCE_SECONDS, eventually

FLOWS = ("calm", "bold")
ALL_FLOWS = ("calm->sink", "bold->sink", "exact->vault")
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
NOT_YET = (AssertionError, OSError)  # a busy process may answer a scrape too late
BOLD = {
    "gap": "stop",
    "source.recreated": "restart",
    "source.truncated": "stop",
    "target.recreated": "restart",
    "target.truncated": "stop",
    "corrupt.batch": "skip",
    "refused.record": "skip",
}


@dataclass(slots=True)
class FaultyMirror:
    """The clusters, the file, and the process that runs at the moment."""

    source: LocalCluster
    target: LocalCluster
    file: Path
    port: ReservedPort
    mirror: MirrorProcess
    past_logs: list[str] = field(default_factory=list)

    @property
    def log(self) -> str:
        """What all processes so far have printed."""
        return "".join([*self.past_logs, self.mirror.log])

    def stop(self) -> None:
        code, _seconds = self.mirror.terminate()
        assert code == 0
        self.past_logs.append(self.mirror.log)
        self.mirror.kill_everything()  # and whoever watched over it

    def start(self) -> None:
        """Start, and wait until both flows run."""
        self.mirror = MirrorProcess(self.file)
        for flow in ALL_FLOWS:
            self.mirror.await_log(f"{flow}: RUNNING", PATIENCE_SECONDS)

    # --- what it says

    def entries(self, topic: str) -> list[LedgerEntry]:
        """What the ledger says about a topic at the moment."""
        alias = topic.partition("-")[0]
        connection = ConnectionSettings("sink", (self.target.bootstrap_servers,), "ledger-test")
        found = read_ledger(connection, f"mm2-ledger.{alias}.internal").entries
        return [one for one in found if one.topic == topic]

    def await_entries(self, topic: str, count: int) -> list[LedgerEntry]:
        """Wait until the ledger has so many entries about a topic."""

        def written() -> list[LedgerEntry]:
            found = self.entries(topic)
            assert len(found) == count, found
            return found

        return eventually(written, PATIENCE_SECONDS, f"the ledger has {count} of {topic}")

    def count(self, kind: str, topic: str, partition: int = 0) -> float:
        """The counter of incidents of the present process."""
        labels = {"topic": topic, "partition": str(partition), "kind": kind}
        alias = topic.partition("-")[0].partition(".")[0]
        (flow,) = (one for one in ALL_FLOWS if one.startswith(alias))
        name = sample("sparkmirror_incidents_total", flow=flow, **labels)
        return scrape(HOST, self.port.number).get(name, 0.0)

    def await_quarantined(self, flow: str) -> None:
        """Wait until a partition of a flow is quarantined."""
        name = sample("sparkmirror_quarantined_partitions", flow=f"{flow}->sink")
        eventually(
            lambda: scrape(HOST, self.port.number)[name] >= 1,
            PATIENCE_SECONDS,
            f"a partition of {flow} is quarantined",
            not_yet=NOT_YET,
        )

    def await_incident(self, kind: str, topic: str, partition: int = 0) -> str:
        """Wait for the counter and the log line; the line."""
        begins = f": {kind}: {topic}-{partition}: "
        eventually(
            lambda: self.count(kind, topic, partition) >= 1 and begins in self.mirror.log,
            PATIENCE_SECONDS,
            f"{kind} of {topic}-{partition} is counted and logged",
            not_yet=NOT_YET,
        )
        return next(line for line in self.mirror.log.splitlines() if begins in line)

    def await_end(
        self, topic: str, ends: dict[int, int], timeout: float = PATIENCE_SECONDS
    ) -> None:
        """Wait until a remote topic has so many records."""
        flow = topic.partition("-")[0]

        def arrived() -> bool:
            assert end_offsets(self.target, f"{flow}.{topic}") == ends
            return True

        eventually(arrived, timeout, f"{flow}.{topic} ends at {ends}")


@contextmanager
def faulty_clusters(
    directory: Path, version: str
) -> Iterator[tuple[LocalCluster, LocalCluster, Path]]:
    """The two clusters, and the file that names them as three."""
    source = LocalCluster("source", directory / "source", version=version)
    target = LocalCluster("target", directory / "target", version=version, config=AUTHORIZER)
    folders = [folder for cluster in (source, target) for folder in keep_in_memory(cluster)]
    try:
        start_all([source, target])
        file = mirror_file(
            directory,
            {"calm": source, "bold": source, "exact": source, "sink": target, "vault": target},
            *(f"{flow}.enabled = true" for flow in ALL_FLOWS),
            *(f"{flow}.topics = {flow.partition('-')[0]}-.*" for flow in ALL_FLOWS),
            "vault.exactly.once.source.support = enabled",
            *(f"bold->sink.{name}.policy = {policy}" for name, policy in BOLD.items()),
            "open.transaction.warning.ms = 2000",
            "refresh.topics.interval.seconds = 1",
            # No pause of a busy machine ends them: incidents are counted exactly.
            *(f"{alias}.session.timeout.ms = 60000" for alias in ("sink", "vault")),
            "emit.heartbeats.enabled = false",
            "emit.checkpoints.enabled = false",
            # Tests set limits on remote topics, which would be taken back.
            "sync.topic.configs.enabled = false",
        )
        yield source, target, file
    finally:
        source.stop()
        target.stop()
        for folder in folders:
            shutil.rmtree(folder)


@contextmanager
def running(clusters: tuple[LocalCluster, LocalCluster, Path]) -> Iterator[FaultyMirror]:
    """A mirror between the clusters that serves its figures."""
    source, target, file = clusters
    port = ReservedPort()
    port.reserve()
    port.prepare_bind()
    with file.open("a", encoding="utf-8") as lines:
        lines.write(f"metrics.port = {port.number}\n")
    made = FaultyMirror(source, target, file, port, MirrorProcess(file))
    try:
        for flow in ALL_FLOWS:
            made.mirror.await_log(f"{flow}: RUNNING", PATIENCE_SECONDS)
        yield made
    finally:
        made.mirror.kill_everything()
        made.mirror.show_log()
        port.release()


def forbid(cluster: LocalCluster, topic: str, operation: AclOperation) -> None:
    """Deny one operation on a topic to all users, and wait until the broker applies it."""
    others = [
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER,
    ]
    rules = [
        AclBinding(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            "User:ANONYMOUS",
            "*",
            one,
            AclPermissionType.DENY if one is operation else AclPermissionType.ALLOW,
        )
        for one in others
    ]
    client = admin(cluster)
    for future in client.create_acls(rules).values():
        future.result(PATIENCE_SECONDS)

    def allowed() -> set[AclOperation]:
        asked = client.describe_topics(TopicCollection([topic]), include_authorized_operations=True)
        return set(asked[topic].result(PATIENCE_SECONDS).authorized_operations)

    eventually(
        lambda: allowed() == set(others) - {operation},
        PATIENCE_SECONDS,
        f"{operation} on {topic} is forbidden",
    )


def allow_again(cluster: LocalCluster, topic: str) -> None:
    """Remove every rule about a topic."""
    client = admin(cluster)
    rules = AclBindingFilter(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    for future in client.delete_acls([rules]).values():
        future.result(PATIENCE_SECONDS)


def await_limit(cluster: LocalCluster, topic: str, size: int) -> None:
    """Wait until the broker rejects records of this size; the config takes effect with a delay."""
    refused: list[bool] = []

    def answered(error: KafkaError | None, _message: Message) -> None:
        refused.append(error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE)

    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})

    def is_refused() -> bool:
        producer.produce(topic, value=b"." * size, partition=0, on_delivery=answered)
        assert producer.flush(PATIENCE_SECONDS) == 0
        return refused[-1]

    eventually(is_refused, PATIENCE_SECONDS, f"{topic} takes no records of {size} bytes")


def set_config(cluster: LocalCluster, topic: str, name: str, value: str) -> None:
    """Change one config of a topic; it takes effect with a delay."""
    change = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    client = admin(cluster)
    for future in client.incremental_alter_configs([resource]).values():
        future.result(PATIENCE_SECONDS)


def delete_records(cluster: LocalCluster, topic: str, before: int) -> None:
    client = admin(cluster)
    for future in client.delete_records([TopicPartition(topic, 0, before)]).values():
        future.result(PATIENCE_SECONDS)
