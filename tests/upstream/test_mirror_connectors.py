# SPDX-License-Identifier: Apache-2.0
"""The scenarios of MM2's own integration tests, each on every axis; named as they are there.

Where MM2 asks for less than `offset.lag.max` records twice, these ask for the very record. Those
that need nothing special in the file share a running mirror. `make upstream` runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import ClassVar

import pytest
from confluent_kafka.admin import ResourceType

from sparkmirror.client import MirrorClient
from sparkmirror.devcluster.cluster import LocalCluster
from support.clients.consumer_groups import commit, committed, consumer
from support.clients.java_console_consumer import java_lines
from support.clients.librdkafka import (
    Cluster,
    Record,
    create_topics,
    end_offsets,
    numbered,
    read_topic,
    topics,
)
from support.clients.offset_translations import partition_records
from support.clusters.secure_cluster import secure_cluster
from support.clusters.topic_histories import alter_configs, set_configs
from support.data.security_configs import Keys, tls
from support.mirrors.mirror_process import STOP_SECONDS
from support.mirrors.upstream_pair import (
    ClusterPair,
    FlowDirection,
    UpstreamAxis,
    are_monotonic,
    consume_from,
)
from support.waiting import PATIENCE_SECONDS, eventually

PARTITIONS = 10
RECORDS = 100
MANY = 10_000
LAG = 10
EDITED = ("delete.retention.ms", "retention.bytes")
CONNECT_TOPICS = ("offsets", "status", "configs")
SYNCED = ("sync.group.offsets.enabled = true", "sync.group.offsets.interval.seconds = 1")
PairMaker = Callable[[], ClusterPair]


@pytest.fixture(scope="class")
def backup(
    request: pytest.FixtureRequest,
    kafka_version: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Cluster, Keys]]:
    """The backup, and how a mirror reaches it if not as everybody does."""
    axis: UpstreamAxis = request.cls.axis
    if axis.over_tls:
        folder = tmp_path_factory.mktemp("backup")
        with secure_cluster(folder, version=kafka_version) as guarded:
            yield guarded, tls(guarded, folder)
    else:
        yield request.getfixturevalue("target_cluster"), {}


@pytest.fixture(scope="class")
def new_pair(
    request: pytest.FixtureRequest,
    source_cluster: LocalCluster,
    backup: tuple[Cluster, Keys],
    tmp_path_factory: pytest.TempPathFactory,
) -> PairMaker:
    """Pairs of this axis that do not run yet."""
    axis: UpstreamAxis = request.cls.axis
    return lambda: ClusterPair(
        axis, source_cluster, *backup, directory=tmp_path_factory.mktemp("pair")
    )


@pytest.fixture
def pair(new_pair: PairMaker) -> ClusterPair:
    """A pair for one test."""
    return new_pair()


@pytest.fixture(scope="class")
def shared(new_pair: PairMaker) -> Iterator[ClusterPair]:
    """A running pair; a topic on each side was there and had records before it ran."""
    pair = new_pair()
    for way in pair.ways:
        config = {"cleanup.policy": "compact"} if way is pair.there else {}
        create_topics(way.source.cluster, {pair.topic("1"): PARTITIONS}, config)
        pair.write(way.source, pair.topic("1"), numbered(RECORDS, PARTITIONS))
    with pair.running() as mirror:
        yield pair
        mirror.show_log()


class Scenarios:
    """What holds on every axis; a class for an axis names it, and that is all."""

    axis: ClassVar[UpstreamAxis]

    # --- with a mirror of their own

    def test_one_way_replication_with_auto_offset_sync(self, pair: ClusterPair) -> None:
        """A group finds itself on the backup where it was, also in a topic that comes later."""
        self.follow_group(pair, lag=LAG)

    def test_one_way_replication_with_frequent_offset_syncs(self, pair: ClusterPair) -> None:
        """The same when every record may have an offset sync; the newest is of the last record."""
        self.follow_group(pair, lag=0)

    def follow_group(self, pair: ClusterPair, *, lag: int) -> None:
        """A group moves with its offsets, twice, and is sent nothing again."""
        way, group = pair.there, pair.group("synced")
        first, later = pair.topic("1"), pair.topic("2")
        create_topics(way.source.cluster, {first: PARTITIONS})
        pair.write(way.source, first, numbered(RECORDS, PARTITIONS))
        here = pair.commit_at(way.source, group, first, 1.0)
        with pair.running(*SYNCED, f"offset.lag.max = {lag}", ways=[way]):
            self.await_synced(pair, group, first, here)
            news = numbered(RECORDS, PARTITIONS, first=RECORDS)
            pair.write(way.source, first, news)
            assert self.received(pair, group, first, RECORDS) == sorted(
                record.value or b"" for _, record in news
            )
            create_topics(way.source.cluster, {later: PARTITIONS})
            pair.write(way.source, later, numbered(RECORDS, PARTITIONS))
            here = pair.commit_at(way.source, group, later, 0.7)
            self.await_synced(pair, group, later, here)
            pair.await_copy(way, first, 2 * RECORDS)
            pair.await_copy(way, later, RECORDS)
            if lag == 0:
                self.await_last_syncs(pair, first)
        for topic in (first, later):
            assert are_monotonic(pair.checkpoints(way, group, topic))
        if not pair.axis.keeps_names:
            assert pair.remote(pair.back, first) not in topics(way.source.cluster)

    @staticmethod
    def await_last_syncs(pair: ClusterPair, topic: str) -> None:
        """Wait until the newest offset sync of every partition is that of its last record."""
        remote = pair.remote(pair.there, topic)
        copies = partition_records(pair.backup.cluster, *((remote, n) for n in range(PARTITIONS)))
        last = {n: records.offsets[-1] for (_, n), records in copies.items()}

        def are_there() -> bool:
            syncs = pair.last_syncs(pair.there, topic)
            assert {n: one.downstream_offset for n, one in syncs.items()} == last
            return True

        eventually(are_there, PATIENCE_SECONDS, "the last records are synced")

    @staticmethod
    def await_synced(pair: ClusterPair, group: str, topic: str, here: dict[int, int]) -> None:
        """Wait until a group stands on the backup before the record it stands before here."""
        way, remote = pair.there, pair.remote(pair.there, topic)

        def is_synced() -> bool:
            there = committed(way.target.cluster, group, remote, PARTITIONS)
            assert pair.means_the_same(way, topic, here, there), there
            return True

        eventually(is_synced, PATIENCE_SECONDS, f"{group} is synced in {remote}")

    @staticmethod
    def received(pair: ClusterPair, group: str, topic: str, count: int) -> list[bytes]:
        """What a member of the group gets on the backup, as many records as it should."""
        with closing(consumer(pair.backup.cluster, group)) as member:
            member.subscribe([pair.remote(pair.there, topic)])
            messages = member.consume(count, timeout=PATIENCE_SECONDS)
            member.commit(asynchronous=False)
        return sorted(message.value() or b"" for message in messages)

    def test_replication_without_offset_sync_will_not_create_offset_syncs_topic(
        self, pair: ClusterPair
    ) -> None:
        """Records flow; there are no offset syncs, and without them no checkpoints."""
        topic = pair.topic("1")
        for way in pair.ways:
            create_topics(way.source.cluster, {topic: PARTITIONS})
            pair.write(way.source, topic, numbered(RECORDS, PARTITIONS))
        with pair.running("emit.offset-syncs.enabled = false"):
            for way in pair.ways:
                pair.await_copy(way, topic, RECORDS)
            found = pair.internal_topics(pair.primary) | pair.internal_topics(pair.backup)
        assert any(name.startswith("mm2-offsets.") for name in found)
        assert [n for n in found if "offset-syncs" in n or "checkpoints" in n] == []

    def test_offset_syncs_topics_on_target(self, pair: ClusterPair) -> None:
        """With their location set to the target, checkpoints flow and nothing is on the source."""
        way, topic, group = pair.there, pair.topic("1"), pair.group("located")
        create_topics(way.source.cluster, {topic: PARTITIONS})
        pair.write(way.source, topic, numbered(RECORDS, PARTITIONS))
        with pair.running("offset-syncs.topic.location = target", ways=[way]):
            pair.await_copy(way, topic, RECORDS)
            here = pair.commit_at(way.source, group, topic, 0.5)
            self.await_checkpoints(pair, way, group, topic, here)
            syncs = f"mm2-offset-syncs.{way.source.alias}.internal"
            eventually(
                lambda: end_offsets(way.target.cluster, syncs).get(0, 0) > 0,
                PATIENCE_SECONDS,
                "offset syncs are written",
            )
            assert [n for n in pair.internal_topics(pair.primary) if "offset-syncs" in n] == []

    def test_restart_replication(self, pair: ClusterPair) -> None:
        """Groups stay synced past a restart, checkpoints never go back, no record comes twice."""
        way, topic, group = pair.there, pair.topic("1"), pair.group("restarted")
        create_topics(way.source.cluster, {topic: PARTITIONS})
        for turn in range(2):
            records = numbered(RECORDS, PARTITIONS, first=turn * RECORDS)
            pair.write(way.source, topic, records)
            here = pair.commit_at(way.source, group, topic, 0.8)
            with pair.running(*SYNCED, ways=[way]) as mirror:
                self.await_synced(pair, group, topic, here)
                here = pair.commit_at(way.source, group, topic, 1.0)
                self.await_synced(pair, group, topic, here)
                code, seconds = mirror.terminate()
            assert code == 0
            assert seconds < STOP_SECONDS
            pair.await_copy(way, topic, (turn + 1) * RECORDS)
        assert are_monotonic(pair.checkpoints(way, group, topic))

    def test_replicate_from_latest(self, pair: ClusterPair) -> None:
        """With `latest` only what is written after the start is mirrored."""
        way, topic = pair.there, pair.topic("1")
        create_topics(way.source.cluster, {topic: PARTITIONS})
        pair.write(way.source, topic, numbered(RECORDS, PARTITIONS))
        news = numbered(RECORDS, PARTITIONS, first=RECORDS)
        reset = f"{way.source.alias}.consumer.auto.offset.reset = latest"
        with pair.running(reset, ways=[way]):
            pair.write(way.source, topic, news)

            def found() -> dict[int, list[Record]]:
                return read_topic(way.target.cluster, pair.remote(way, topic))

            eventually(
                lambda: sum(map(len, found().values())) >= RECORDS, PATIENCE_SECONDS, "news arrive"
            )
            assert found() == {
                n: [record for at, record in news if at == n] for n in range(PARTITIONS)
            }

    # --- with the mirror that they share

    def test_replication(self, shared: ClusterPair) -> None:
        """Records, configs, heartbeats and groups arrive on the other side, in every direction."""
        topic = shared.topic("1")
        for way in shared.ways:
            shared.await_copy(way, topic, RECORDS)
            names = topics(way.target.cluster).keys()
            assert {f"mm2-{one}.{way.source.alias}.internal" for one in CONNECT_TOPICS} <= names
            assert f"mm2-offset-syncs.{way.target.alias}.internal" in topics(way.source.cluster)
            self.check_heartbeats(shared, way)
            self.check_fail_over(shared, way, topic)
        remote = shared.remote(shared.there, topic)
        assert set_configs(shared.backup.cluster, remote)["cleanup.policy"] == "compact"
        self.check_later_topics(shared)

    @staticmethod
    def check_heartbeats(pair: ClusterPair, way: FlowDirection) -> None:
        """Both sides have them, and the client knows by them who is upstream."""
        mirrored = f"{way.source.alias}.heartbeats"
        with MirrorClient.from_file(pair.file, way.target.alias) as client:
            eventually(
                lambda: {"heartbeats", mirrored} <= client.heartbeat_topics(),
                PATIENCE_SECONDS,
                "heartbeats are mirrored",
            )
            assert way.source.alias in client.upstream_clusters()
            assert client.replication_hops(way.source.alias) == 1
            assert f"{way.source.alias}.checkpoints.internal" in client.checkpoint_topics()
        eventually(
            lambda: all(end_offsets(way.target.cluster, n)[0] for n in ("heartbeats", mirrored)),
            PATIENCE_SECONDS,
            "both have records",
        )

    @staticmethod
    def check_fail_over(pair: ClusterPair, way: FlowDirection, topic: str) -> None:
        """A group that has half of the records continues with the other half."""
        group, remote = pair.group("1"), pair.remote(way, topic)
        for share in (0.2, 0.5):
            here = pair.commit_at(way.source, group, topic, share)
            there = pair.await_translated(way, group, topic, here)
        assert all(offset > 0 for offset in there.values())
        left = {
            value.partition(b"=")[2]
            for place, records in partition_records(
                way.source.cluster, *((topic, n) for n in here)
            ).items()
            for value in records.values[-records.between(here[place[1]], records.offsets[-1] + 1) :]
        }
        assert len(left) == RECORDS // 2
        assert consume_from(way.target, remote, there, len(left)) == sorted(left)
        assert are_monotonic(pair.checkpoints(way, group, topic))

    @staticmethod
    def check_later_topics(pair: ClusterPair) -> None:
        """Topics that come while it runs are mirrored, without the configs that are excluded."""
        for name, way in zip(("2", "3"), pair.ways, strict=False):
            topic = pair.topic(name)
            config = {"delete.retention.ms": "2000", "retention.bytes": "1000000"}
            create_topics(way.source.cluster, {topic: 1}, config)
            pair.write(way.source, topic, numbered(RECORDS))
            pair.await_copy(way, topic, RECORDS)
            found = set_configs(way.target.cluster, pair.remote(way, topic))
            assert found["retention.bytes"] == "1000000"
            assert "delete.retention.ms" not in found

    def test_no_checkpoints_if_no_records_are_mirrored(self, shared: ClusterPair) -> None:
        """A commit in an empty topic makes no checkpoint until a record has come through."""
        way, group = shared.there, shared.group("no-checkpoints")
        full, empty = shared.topic("checkpoints"), shared.topic("no-checkpoints")
        create_topics(way.source.cluster, {full: 1, empty: 1})
        shared.write(way.source, full, numbered(RECORDS))
        commit(way.source.cluster, group, empty, {0: 0})
        # The second one is surely from a round that saw both commits.
        for share in (0.3, 0.6):
            here = shared.commit_at(way.source, group, full, share)
            self.await_checkpoints(shared, way, group, full, here)
        assert shared.remote(way, empty) in topics(way.target.cluster)
        assert shared.checkpoints(way, group, empty) == []
        shared.write(way.source, empty, numbered(RECORDS))
        self.await_checkpoints(shared, way, group, empty, {0: 0})

    @staticmethod
    def await_checkpoints(
        pair: ClusterPair, way: FlowDirection, group: str, topic: str, here: dict[int, int]
    ) -> dict[int, int]:
        """Wait for checkpoints of these offsets that mean the same records: where they lie."""

        def written() -> dict[int, int]:
            last = pair.last_checkpoints(way, group, topic)
            assert {n: one.upstream_offset for n, one in last.items()} == here
            there = {n: one.downstream_offset for n, one in last.items()}
            assert pair.means_the_same(way, topic, here, there), there
            return there

        return eventually(written, PATIENCE_SECONDS, f"checkpoints of {group} at {here}")

    def test_offset_translation_behind_replication_flow(self, shared: ClusterPair) -> None:
        """A group far behind what was mirrored: checkpoints follow it forwards and backwards."""
        way, topic, group = shared.there, shared.topic("behind"), shared.group("behind")
        create_topics(way.source.cluster, {topic: PARTITIONS})
        shared.write(way.source, topic, numbered(MANY, PARTITIONS))
        shared.await_copy(way, topic, MANY)
        found = [
            self.await_checkpoints(
                shared, way, group, topic, shared.commit_at(way.source, group, topic, share)
            )
            for share in (0.5, 0.9, 0.1)
        ]
        for partition in range(PARTITIONS):
            half, most, little = (offsets[partition] for offsets in found)
            assert little < half < most

    def test_sync_topic_configs(self, shared: ClusterPair) -> None:
        """What is changed on the backup goes back, unless it is excluded."""
        way, topic = shared.there, shared.topic("with-configs")
        remote = shared.remote(way, topic)
        create_topics(
            way.source.cluster,
            {topic: 1},
            {"delete.retention.ms": "1000", "retention.bytes": "1000"},
        )
        self.await_configs(shared, remote, {"retention.bytes": "1000"})
        edited = {"delete.retention.ms": "2000", "retention.bytes": "2000"}
        alter_configs(way.target.cluster, ResourceType.TOPIC, remote, edited)
        self.await_configs(
            shared, remote, {"delete.retention.ms": "2000", "retention.bytes": "1000"}
        )

    def test_replicate_target_default(self, shared: ClusterPair) -> None:
        """What is unset on the primary has the backup's own default again."""
        way, topic = shared.there, shared.topic("with-defaults")
        remote = shared.remote(way, topic)
        create_topics(
            way.source.cluster,
            {topic: 1},
            {"delete.retention.ms": "1000", "retention.bytes": "1000"},
        )
        self.await_configs(shared, remote, {"retention.bytes": "1000"})
        edited = {"delete.retention.ms": "2000"}
        alter_configs(way.target.cluster, ResourceType.TOPIC, remote, edited)
        unset = {"delete.retention.ms": None, "retention.bytes": None}
        alter_configs(way.source.cluster, ResourceType.TOPIC, topic, unset)
        self.await_configs(shared, remote, {"delete.retention.ms": "2000"})

    def test_replicate_source_default(self, pair: ClusterPair) -> None:
        """With use.defaults.from=source the primary's defaults are set on the backup, too."""
        way, topic = pair.there, pair.topic("with-defaults")
        remote = pair.remote(way, topic)
        create_topics(way.source.cluster, {topic: 1}, {"delete.retention.ms": "1000"})
        with pair.running(f"{way}.use.defaults.from = source", ways=[way]):
            edited = {"delete.retention.ms": "2000", "retention.bytes": "2000"}
            eventually(
                lambda: remote in topics(way.target.cluster), PATIENCE_SECONDS, f"{remote} is there"
            )
            alter_configs(way.target.cluster, ResourceType.TOPIC, remote, edited)
            eventually(
                lambda: (
                    (found := set_configs(way.target.cluster, remote))["delete.retention.ms"]
                    == "2000"
                    and found["retention.bytes"] == "-1"
                ),
                PATIENCE_SECONDS,
                "the primary's default is back",
                not_yet=(KeyError,),
            )

    @staticmethod
    def await_configs(pair: ClusterPair, remote: str, expected: dict[str, str]) -> None:
        """Wait until a topic of the backup has exactly these of the two configs of its own."""
        cluster = pair.backup.cluster

        def own() -> dict[str, str]:
            found = set_configs(cluster, remote) if remote in topics(cluster) else {}
            return {name: found[name] for name in EDITED if name in found}

        eventually(lambda: own() == expected, PATIENCE_SECONDS, f"{remote} has {expected}")

    def test_replication_with_empty_partition(self, shared: ClusterPair) -> None:
        """A Java consumer that read the copy stands at 0 where nothing was ever written."""
        way, topic, group = shared.there, shared.topic("empty"), shared.group("empty")
        remote, empty = shared.remote(way, topic), PARTITIONS - 1
        create_topics(way.source.cluster, {topic: PARTITIONS})
        shared.write(way.source, topic, numbered(RECORDS, empty))
        shared.await_copy(way, topic, RECORDS)
        for cluster, name in ((way.source.cluster, topic), (way.target.cluster, remote)):
            assert len(java_lines(cluster, name, RECORDS, group)) == RECORDS
            stands = committed(cluster, group, name, PARTITIONS)
            assert stands.pop(empty) == 0
            assert all(offset > 0 for offset in stands.values())


class TestDefaultPolicy(Scenarios):
    """Both directions, remote topics named after their source."""

    axis = UpstreamAxis()


class TestIdentityPolicy(Scenarios):
    """One way, topics keep their names."""

    axis = UpstreamAxis(
        ("replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy",),
        both_ways=False,
        keeps_names=True,
    )


class TestTransactionalSource(Scenarios):
    """The source is written in transactions, whose markers leave gaps in its offsets."""

    axis = UpstreamAxis(in_transactions=True)


class TestExactlyOnce(Scenarios):
    """The mirror writes in transactions, whose markers leave gaps in the target's offsets."""

    axis = UpstreamAxis(worker_lines=("exactly.once.source.support = enabled",))


class TestSsl(Scenarios):
    """The backup is reached over TLS."""

    axis = UpstreamAxis(over_tls=True)
