# SPDX-License-Identifier: Apache-2.0
"""`primary` and `backup`, as MM2's own integration tests set them up.

An axis says what differs from the default: the policy, the directions, how the source is written,
further lines of the file. A pair has aliases, topics and groups that nobody else uses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import TopicPartition as Partition

from sparkmirror.client import MirrorClient
from sparkmirror.formats.mm2_records import Checkpoint, OffsetSync
from sparkmirror.model import TopicPartition
from support.clients.consumer_groups import commit, consumer
from support.clients.librdkafka import (
    Cluster,
    Record,
    admin,
    end_offsets,
    produce,
    read_topic,
    send,
    topic_partitions,
)
from support.clients.offset_translations import PartitionRecords, partition_records
from support.clusters.topic_histories import end_transaction, transactional
from support.data.security_configs import file_lines
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

_A_TRANSACTION = 100
_SERVERS = "bootstrap.servers"
# Replicating heartbeats by their own key would also take those that other tests left here.
_EVERY_FILE = (
    "refresh.topics.interval.seconds = 1",
    "refresh.groups.interval.seconds = 1",
    "sync.topic.configs.interval.seconds = 1",
    "emit.checkpoints.interval.seconds = 1",
    "emit.heartbeats.interval.seconds = 1",
    "sync.topic.acls.enabled = false",
    r"config.properties.exclude = delete\\.retention\\..*",
    "heartbeats.replication.enabled = false",
)


@dataclass(frozen=True, slots=True)
class UpstreamAxis:
    """What a class of tests changes."""

    lines: tuple[str, ...] = ()
    worker_lines: tuple[str, ...] = ()  # for the worker of each cluster
    both_ways: bool = True
    keeps_names: bool = False
    in_transactions: bool = False
    over_tls: bool = False  # to the backup


@dataclass(frozen=True, slots=True)
class AliasedCluster:
    """A cluster by its alias; `keys` are how the mirror reaches it, if not as witnesses do."""

    alias: str
    cluster: Cluster
    keys: Mapping[str, str] = field(default_factory=dict)

    @property
    def bootstrap_servers(self) -> str:
        return self.keys.get(_SERVERS, self.cluster.bootstrap_servers)

    @property
    def security(self) -> dict[str, str]:
        return {key: value for key, value in self.keys.items() if key != _SERVERS}


@dataclass(frozen=True, slots=True)
class FlowDirection:
    """A direction of the mirror."""

    source: AliasedCluster
    target: AliasedCluster

    def __str__(self) -> str:
        return f"{self.source.alias}->{self.target.alias}"


class ClusterPair:
    """The two clusters, what is written to them, and the mirror between them."""

    def __init__(
        self,
        axis: UpstreamAxis,
        primary: Cluster,
        backup: Cluster,
        backup_keys: Mapping[str, str],
        directory: Path,
    ) -> None:
        self.axis = axis
        self.primary = AliasedCluster(unique_name("primary"), primary)
        self.backup = AliasedCluster(unique_name("backup"), backup, backup_keys)
        self.there = FlowDirection(self.primary, self.backup)
        self.back = FlowDirection(self.backup, self.primary)
        self.file = directory / "mm2.properties"
        self._topics = unique_name("test-topic")
        self._groups = unique_name("consumer-group")

    @property
    def ways(self) -> tuple[FlowDirection, ...]:
        """The directions in which records flow."""
        return (self.there, self.back) if self.axis.both_ways else (self.there,)

    def topic(self, name: str) -> str:
        """A topic that the mirror's file asks for."""
        return f"{self._topics}-{name}"

    def group(self, name: str) -> str:
        """A consumer group that the mirror's file asks for."""
        return f"{self._groups}-{name}"

    def remote(self, way: FlowDirection, topic: str) -> str:
        """A topic's name on the target."""
        return topic if self.axis.keeps_names else f"{way.source.alias}.{topic}"

    @contextmanager
    def running(self, *lines: str, ways: Sequence[FlowDirection] = ()) -> Iterator[MirrorProcess]:
        """The mirror, in these directions, with further lines in its file."""
        ways = ways or self.ways
        own = [f"{self._topics}-.*"]
        own += [rf"{site.alias}\\.{own[0]}" for site in (self.primary, self.backup)]
        sites = (self.primary, self.backup)
        mirror_file(
            self.file.parent,
            {site.alias: site for site in sites},
            *(line for site in sites for line in file_lines(site.alias, site.security)),
            *(f"{site.alias}.offset.flush.interval.ms = 1000" for site in sites),
            *(f"{way}.enabled = {str(way in ways).lower()}" for way in (self.there, self.back)),
            f"topics = {', '.join([*own, 'heartbeats'])}",
            f"groups = {self._groups}-.*",
            *_EVERY_FILE,
            *self.axis.lines,
            *(f"{site.alias}.{line}" for site in sites for line in self.axis.worker_lines),
            *lines,
        )
        with MirrorProcess(self.file) as mirror:
            for way in ways:
                mirror.await_log(f"{way}: RUNNING", PATIENCE_SECONDS)
            assert "does nothing for the whole file" not in mirror.log
            yield mirror

    # --- records

    def write(
        self, site: AliasedCluster, topic: str, records: Sequence[tuple[int, Record]]
    ) -> None:
        """Write records, in transactions if that is the axis."""
        if not self.axis.in_transactions:
            produce(site.cluster, topic, records)
            return
        producer = transactional(site.cluster, unique_name("writer"))
        for at in range(0, len(records), _A_TRANSACTION):
            producer.begin_transaction()
            for partition, record in records[at : at + _A_TRANSACTION]:
                send(producer, topic, partition, record)
            end_transaction(producer, commits=True)

    def await_copy(self, way: FlowDirection, topic: str, count: int) -> None:
        """Wait until all records of a topic have arrived, so many, each once and in order."""
        originals = read_topic(way.source.cluster, topic)
        assert sum(map(len, originals.values())) == count
        remote = self.remote(way, topic)

        def copies() -> dict[int, list[Record]]:
            return read_topic(way.target.cluster, remote)

        eventually(
            lambda: sum(map(len, copies().values())) >= count,
            PATIENCE_SECONDS,
            f"{count} records in {remote}",
        )
        assert copies() == originals

    # --- groups

    def commit_at(
        self, site: AliasedCluster, group: str, topic: str, share: float
    ) -> dict[int, int]:
        """Let a group have processed so much of every partition: what it commits."""
        offsets = {
            place[1]: offset_at(records, share)
            for place, records in partition_records(
                site.cluster, *partitions_of(site, topic)
            ).items()
        }
        commit(site.cluster, group, topic, offsets)
        return offsets

    def means_the_same(
        self, way: FlowDirection, topic: str, here: Mapping[int, int], there: Mapping[int, int]
    ) -> bool:
        """Whether positions on both sides lie before the same records, none behind the end."""
        remote = self.remote(way, topic)
        originals = partition_records(way.source.cluster, *((topic, n) for n in here))
        copies = partition_records(way.target.cluster, *((remote, n) for n in here))
        ends = end_offsets(way.target.cluster, remote)
        return here.keys() == there.keys() and all(
            copies[remote, n].at(there[n]) == originals[topic, n].at(offset)
            and 0 <= there[n] <= ends[n]
            for n, offset in here.items()
        )

    def checkpoints(self, way: FlowDirection, group: str, topic: str) -> list[Checkpoint]:
        """All checkpoints that were ever written of a group's positions in a topic, in order."""
        remote = self.remote(way, topic)
        written = read_topic(way.target.cluster, f"{way.source.alias}.checkpoints.internal")
        found = [Checkpoint.from_record(r.key or b"", r.value or b"") for r in written[0]]
        return [c for c in found if c.group == group and c.topic_partition.topic == remote]

    def last_checkpoints(self, way: FlowDirection, group: str, topic: str) -> dict[int, Checkpoint]:
        """The last one of every partition."""
        return {c.topic_partition.partition: c for c in self.checkpoints(way, group, topic)}

    def await_translated(
        self, way: FlowDirection, group: str, topic: str, here: Mapping[int, int]
    ) -> dict[int, int]:
        """Wait until `sparkmirror.client` says where a group may continue, and says it rightly."""
        remote = self.remote(way, topic)

        def translated() -> dict[int, int]:
            found = client.remote_consumer_offsets(group, way.source.alias, PATIENCE_SECONDS)
            offsets = found.get(group, {})
            there = {tp.partition: o.offset for tp, o in offsets.items() if tp.topic == remote}
            assert self.means_the_same(way, topic, here, there), there
            return there

        with MirrorClient.from_file(self.file, way.target.alias) as client:
            return eventually(translated, PATIENCE_SECONDS, f"{group} is translated from {here}")

    def last_syncs(self, way: FlowDirection, topic: str) -> dict[int, OffsetSync]:
        """The newest offset sync of every partition of a topic, from the topic on the source."""
        written = read_topic(way.source.cluster, f"mm2-offset-syncs.{way.target.alias}.internal")
        found = [OffsetSync.from_record(r.key or b"", r.value or b"") for r in written[0]]
        return {s.topic_partition.partition: s for s in found if s.topic_partition.topic == topic}

    def internal_topics(self, site: AliasedCluster) -> set[str]:
        """The names of a cluster's internal topics that belong to this pair."""
        alias = re.compile(rf"\b({self.primary.alias}|{self.backup.alias})\.")
        found = admin(site.cluster).list_topics(timeout=PATIENCE_SECONDS).topics
        return {name for name in found if name.endswith(".internal") and alias.search(name)}


def partitions_of(site: AliasedCluster, topic: str) -> list[tuple[str, int]]:
    """The partitions of a topic."""
    return [(topic, n) for n in range(topic_partitions(site.cluster, topic))]


def offset_at(records: PartitionRecords, share: float) -> int:
    """The offset behind so much of a partition; behind its last record, where a consumer stands."""
    count = round(share * len(records.offsets))
    if count < len(records.offsets):
        return records.offsets[count]
    return records.offsets[-1] + 1 if records.offsets else 0


def are_monotonic(checkpoints: Sequence[Checkpoint]) -> bool:
    """Whether no partition ever went back on the target."""
    last: dict[TopicPartition, int] = {}
    for one in checkpoints:
        if one.downstream_offset < last.get(one.topic_partition, 0):
            return False
        last[one.topic_partition] = one.downstream_offset
    return bool(checkpoints)


def consume_from(
    site: AliasedCluster, topic: str, offsets: Mapping[int, int], count: int
) -> list[bytes]:
    """The values of the next records from given positions on."""
    with_positions = [Partition(topic, n, offset) for n, offset in offsets.items()]
    member = consumer(site.cluster, unique_name("reader"))
    try:
        member.assign(with_positions)
        messages = member.consume(count, timeout=PATIENCE_SECONDS)
    finally:
        member.close()
    return sorted(message.value() or b"" for message in messages)
