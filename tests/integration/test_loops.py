# SPDX-License-Identifier: Apache-2.0
"""Topics that keep their names between clusters: every record arrives once, and none returns.

That nothing is copied again is shown by markers: a flow reads a partition in order, so when a later
record of a cluster has arrived on the others, everything before it was copied or skipped.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from sparkmirror.cli.main import app
from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.formats.producer_registry import PRODUCERS_TOPIC
from sparkmirror.kafka.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from support.clients.acls import AUTHORIZER, grant, revoke
from support.clients.librdkafka import (
    Record,
    create_topics,
    end_offsets,
    produce,
    read_topic,
    topics,
)
from support.mirrors.java_connect import ConnectTopics
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.mirrors.worker_process import WorkerProcess
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
COMMON = (
    IDENTITY,
    "emit.heartbeats.enabled = false",
    "emit.checkpoints.enabled = false",
    "sync.topic.acls.enabled = false",
    "sync.topic.configs.enabled = false",
    "refresh.topics.interval.seconds = 1",
)
EXACTLY_ONCE = {"default": "disabled", "exactly-once": "enabled"}
PARTITIONS = 2
_numbers = count()


def values(cluster: LocalCluster, topic: str) -> Counter[bytes]:
    """Count each record of a topic."""
    found = read_topic(cluster, topic)
    return Counter(one.value or b"" for records in found.values() for one in records)


def write(cluster: LocalCluster, topic: str, records: int) -> set[bytes]:
    """Produce records with unique values to every partition in turn."""
    made = [b"%d" % next(_numbers) for _ in range(records)]
    produce(
        cluster,
        topic,
        [(at % PARTITIONS, Record(b"key", value)) for at, value in enumerate(made)],
    )
    return set(made)


def await_everywhere(clusters: Sequence[LocalCluster], topic: str, expected: set[bytes]) -> None:
    """Wait until every cluster has these records, and then check that it has each once."""
    for cluster in clusters:
        eventually(
            lambda cluster=cluster: expected <= values(cluster, topic).keys(),
            PATIENCE_SECONDS,
            f"{cluster.name} has all records",
        )


def prove_no_loop(clusters: Sequence[LocalCluster], topic: str, expected: set[bytes]) -> None:
    """Send markers round twice; the second ones show that the copies of the first stay."""
    for _ in range(2):
        for cluster in clusters:
            expected |= write(cluster, topic, PARTITIONS)
        await_everywhere(clusters, topic, expected)
    for cluster in clusters:
        assert values(cluster, topic) == Counter(expected), f"{cluster.name} has copies of copies"


@pytest.mark.parametrize(
    "delivery", ["default", pytest.param("exactly-once", marks=pytest.mark.thorough)]
)
def test_two_clusters_copy_to_each_other_and_nothing_returns(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path, delivery: str
) -> None:
    """200 records stay 200 on both sides."""
    east, west, topic = unique_name("east"), unique_name("west"), unique_name("invoices")
    create_topics(source_cluster, {topic: PARTITIONS})
    expected = write(source_cluster, topic, 200)
    clusters = (source_cluster, target_cluster)
    file = two_way_file(tmp_path, (east, west), clusters, topic, support(delivery))
    with MirrorProcess(file) as mirror:
        await_everywhere(clusters, topic, expected)
        prove_no_loop(clusters, topic, expected)
        assert mirror.terminate()[0] == 0
    here = write(target_cluster, topic, 10)
    # The target's own records are the last ten and its markers; it was the source of the others.
    aliases = unique_name("east"), unique_name("west")
    alone = "heartbeats.replication.enabled = false"  # or those of other tests count
    elsewhere = two_way_file(tmp_path, aliases, clusters, topic, alone)
    assert planned_records(elsewhere) == [len(expected) - 2 * PARTITIONS, 10 + 2 * PARTITIONS]
    expected |= here
    with MirrorProcess(file) as mirror:
        await_everywhere(clusters, topic, expected)
        prove_no_loop(clusters, topic, expected)
        assert mirror.terminate()[0] == 0


@pytest.mark.thorough
def test_each_flow_in_its_own_process_recognizes_the_other(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """Neither file names the other flow. A second life begins with kill -9."""
    east, west, topic = unique_name("east"), unique_name("west"), unique_name("invoices")
    clusters = (source_cluster, target_cluster)
    create_topics(source_cluster, {topic: PARTITIONS})
    expected = write(source_cluster, topic, 200)
    files = [
        two_way_file(tmp_path, (east, west), clusters, topic, flows=(flow,))
        for flow in (f"{east}->{west}", f"{west}->{east}")
    ]
    for _ in range(2):
        with MirrorProcess(files[0]) as there, MirrorProcess(files[1]) as back:
            await_everywhere(clusters, topic, expected)
            prove_no_loop(clusters, topic, expected)
            for one in (there, back):
                one.kill_everything()


@pytest.mark.thorough
@pytest.mark.parametrize("moment", ["topic", "flow", "producer"])
def test_a_kill_during_the_registration_makes_no_loop(tmp_path: Path, moment: str) -> None:
    """The registry is empty, or has the flow, or the producer id whose first batch follows."""
    east, west, topic = unique_name("east"), unique_name("west"), unique_name("invoices")
    with two_clusters(tmp_path) as clusters:
        create_topics(clusters[0], {topic: PARTITIONS})
        expected = write(clusters[0], topic, 200)
        file = two_way_file(tmp_path, (east, west), clusters, topic)
        registered = {"topic": 0, "flow": 1, "producer": 2}[moment]
        for _ in range(2):
            with MirrorProcess(file) as mirror:
                eventually(
                    lambda: (
                        PRODUCERS_TOPIC in topics(clusters[1])
                        and end_offsets(clusters[1], PRODUCERS_TOPIC)[0] >= registered
                    ),
                    PATIENCE_SECONDS,
                    f"the {moment} is registered",
                )
                mirror.kill_everything()
        with MirrorProcess(file):
            await_everywhere(clusters, topic, expected)
            prove_no_loop(clusters, topic, expected)


@pytest.mark.thorough
def test_flows_that_begin_anew_copy_again_but_only_what_was_produced_there(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """Other aliases have no stored positions: the producer ids of the former flows still count."""
    topic = unique_name("invoices")
    clusters = (source_cluster, target_cluster)
    create_topics(source_cluster, {topic: PARTITIONS})
    first = write(source_cluster, topic, 100)
    everything = set(first)
    here: set[bytes] = set()
    for life in range(2):
        aliases = unique_name("east"), unique_name("west")
        file = two_way_file(tmp_path, aliases, clusters, topic)
        with MirrorProcess(file) as mirror:
            await_everywhere(clusters, topic, everything)
            if life:
                break
            here = write(target_cluster, topic, 100)
            everything |= here
            await_everywhere(clusters, topic, everything)
            assert mirror.terminate()[0] == 0
    # Those of the first life, and their copies by the second one.
    with MirrorProcess(file):
        marker = write(source_cluster, topic, PARTITIONS) | write(target_cluster, topic, PARTITIONS)
        await_everywhere(clusters, topic, everything | marker)
        on_source, on_target = (values(one, topic) for one in clusters)
    assert {on_source[one] for one in first} == {1}
    assert {on_target[one] for one in here} == {1}
    assert {on_target[one] for one in first} == {on_source[one] for one in here} == {2}


@pytest.mark.thorough
@pytest.mark.parametrize("delivery", ["default", "exactly-once"])
def test_records_produced_on_both_sides_at_once_arrive_once_whatever_is_killed(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path, delivery: str
) -> None:
    """100,000 on each side, and kill -9 of everything while they are copied."""
    east, west, topic = unique_name("east"), unique_name("west"), unique_name("invoices")
    clusters = (source_cluster, target_cluster)
    for cluster in clusters:
        create_topics(cluster, {topic: PARTITIONS})
    file = two_way_file(tmp_path, (east, west), clusters, topic, support(delivery))
    expected = write(source_cluster, topic, PARTITIONS)
    with MirrorProcess(file) as mirror:
        await_everywhere(clusters, topic, expected)
        with ThreadPoolExecutor(len(clusters)) as threads:
            written = [threads.submit(write, one, topic, 100_000) for one in clusters]
            expected = expected.union(*(one.result() for one in written))
        mirror.kill_everything()
    with MirrorProcess(file):
        await_everywhere(clusters, topic, expected)
        prove_no_loop(clusters, topic, expected)


@pytest.mark.thorough
@pytest.mark.parametrize("delivery", ["default", "exactly-once"])
def test_a_rebuilt_cluster_gets_its_former_records_back(
    target_cluster: LocalCluster, tmp_path: Path, kafka_version: str, delivery: str
) -> None:
    """It has another cluster id: what its former self had written is copied to it."""
    east, west, topic = unique_name("east"), unique_name("west"), unique_name("invoices")
    expected: set[bytes] = set()
    for life in ("first", "second"):
        with LocalCluster(life, tmp_path / life, version=kafka_version) as cluster:
            clusters = (cluster, target_cluster)
            if not expected:
                create_topics(cluster, {topic: PARTITIONS})
                expected = write(cluster, topic, 200)
            lines = ("source.recreated.policy = restart", support(delivery))
            file = two_way_file(tmp_path, (east, west), clusters, topic, *lines)
            with MirrorProcess(file) as mirror:
                await_everywhere(clusters, topic, expected)
                prove_no_loop(clusters, topic, expected)
                assert mirror.terminate()[0] == 0


@pytest.mark.thorough
def test_three_clusters_in_a_mesh_and_in_a_line(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path, kafka_version: str
) -> None:
    """Every record arrives once; in the line over the middle, in the mesh directly."""
    with LocalCluster("third", tmp_path / "third", version=kafka_version) as third:
        clusters = {
            unique_name("a"): source_cluster,
            unique_name("b"): target_cluster,
            unique_name("c"): third,
        }
        a, b, c = clusters
        for pairs in ([(a, b), (b, c)], [(a, b), (b, c), (a, c)]):
            topic = unique_name("invoices")
            create_topics(source_cluster, {topic: PARTITIONS})
            expected = write(source_cluster, topic, 200)
            flows = [f"{x}->{y}" for one in pairs for x, y in (one, one[::-1])]
            file = mirror_file(
                tmp_path,
                clusters,
                *(f"{flow}.enabled = true" for flow in flows),
                f"topics = {topic}",
                *COMMON,
            )
            with MirrorProcess(file) as mirror:
                await_everywhere([*clusters.values()], topic, expected)
                prove_no_loop([*clusters.values()], topic, expected)
                assert mirror.terminate()[0] == 0


@pytest.mark.thorough
def test_a_one_way_chain_forwards_what_was_copied(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path, kafka_version: str
) -> None:
    with LocalCluster("third", tmp_path / "third", version=kafka_version) as third:
        clusters = {
            unique_name("a"): source_cluster,
            unique_name("b"): target_cluster,
            unique_name("c"): third,
        }
        a, b, c = clusters
        topic = unique_name("invoices")
        create_topics(source_cluster, {topic: PARTITIONS})
        expected = write(source_cluster, topic, 200)
        lines = (f"{a}->{b}.enabled = true", f"{b}->{c}.enabled = true", f"topics = {topic}")
        with MirrorProcess(mirror_file(tmp_path, clusters, *lines, *COMMON)):
            await_everywhere((target_cluster, third), topic, expected)
            in_the_middle = write(target_cluster, topic, PARTITIONS)
            await_everywhere((third,), topic, expected | in_the_middle)
            assert values(third, topic) == Counter(expected | in_the_middle)


@pytest.mark.thorough
def test_records_in_transactions_and_in_old_batches_arrive_once(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """Transactional and idempotent producers on both sides, and aborted records."""
    east, west, topic = unique_name("east"), unique_name("west"), unique_name("invoices")
    clusters = (source_cluster, target_cluster)
    create_topics(source_cluster, {topic: PARTITIONS})
    create_topics(target_cluster, {topic: PARTITIONS})
    expected = write(source_cluster, topic, 10)
    file = two_way_file(
        tmp_path,
        (east, west),
        clusters,
        topic,
        "exactly.once.source.support = enabled",
        f"{east}.consumer.isolation.level = read_committed",
        f"{west}.consumer.isolation.level = read_committed",
    )
    with MirrorProcess(file):
        for commits in (True, False, True):
            for cluster in clusters:
                made = write_in_transaction(cluster, topic, commits=commits)
                expected |= made if commits else set()
        await_everywhere(clusters, topic, expected)
        prove_no_loop(clusters, topic, expected)


@pytest.mark.thorough
def test_a_flow_that_may_not_read_the_registry_fails_with_the_remedy(
    target_cluster: LocalCluster, tmp_path: Path, kafka_version: str
) -> None:
    """Before it copies anything, and later. It continues when the right is granted."""
    here, topic = unique_name("here"), unique_name("invoices")
    denied = AclBinding(
        ResourceType.TOPIC,
        PRODUCERS_TOPIC,
        PatternType.LITERAL,
        "User:ANONYMOUS",
        "*",
        Operation.READ,
        Permission.DENY,
    )
    with LocalCluster(
        "guarded", tmp_path / "guarded", version=kafka_version, config=AUTHORIZER
    ) as guarded:
        everything = replace(
            denied,
            resource_type=ResourceType.CLUSTER,
            name="kafka-cluster",
            operation=Operation.ALL,
            permission=Permission.ALLOW,
        )
        grant(guarded, everything)
        create_topics(guarded, {topic: PARTITIONS})
        expected = write(guarded, topic, 10)
        grant(guarded, denied)
        aliases = (here, unique_name("there"))
        flow = "->".join(aliases)
        file = two_way_file(tmp_path, aliases, (guarded, target_cluster), topic, flows=(flow,))
        with MirrorProcess(file) as mirror:
            mirror.await_log(f"{flow}: FAILED", PATIENCE_SECONDS)
            assert "grant READ and WRITE on it" in mirror.log.partition(f"{flow}: FAILED")[2]
            revoke(guarded, denied)
            await_everywhere((target_cluster,), topic, expected)
            grant(guarded, denied)
            eventually(
                lambda: mirror.log.count(f"{flow}: FAILED") > 1, PATIENCE_SECONDS, "it failed again"
            )


@pytest.mark.thorough
def test_nothing_returns_when_a_flow_must_not_read_its_remote_topic(
    target_cluster: LocalCluster, tmp_path: Path, kafka_version: str
) -> None:
    """After a crash it copies some records twice, with a producer id that its task has obtained."""
    topic = unique_name("invoices")
    any_operation = AclBinding(
        ResourceType.TOPIC,
        topic,
        PatternType.LITERAL,
        "User:ANONYMOUS",
        "*",
        Operation.ALL,
        Permission.ALLOW,
    )
    denied = replace(any_operation, operation=Operation.READ, permission=Permission.DENY)
    with LocalCluster(
        "guarded", tmp_path / "guarded", version=kafka_version, config=AUTHORIZER
    ) as guarded:
        clusters = (target_cluster, guarded)
        grant(
            guarded,
            any_operation,
            replace(any_operation, resource_type=ResourceType.CLUSTER, name="kafka-cluster"),
        )
        for cluster in clusters:
            create_topics(cluster, {topic: PARTITIONS})
        file = two_way_file(tmp_path, (unique_name("east"), unique_name("west")), clusters, topic)
        expected = write(target_cluster, topic, 100)
        with MirrorProcess(file) as mirror:
            await_everywhere(clusters, topic, expected)
            mirror.kill_everything()
        grant(guarded, denied)
        expected |= write(target_cluster, topic, 50)
        with MirrorProcess(file) as mirror:
            mirror.await_log("no-read", PATIENCE_SECONDS)
            eventually(
                lambda: sum(end_offsets(guarded, topic).values()) >= len(expected),
                PATIENCE_SECONDS,
                "all records are copied",
            )
            revoke(guarded, denied)
            expected |= write(guarded, topic, PARTITIONS)
            await_everywhere(clusters, topic, expected)
            assert values(target_cluster, topic) == Counter(expected)


@pytest.mark.thorough
def test_a_worker_with_connectors_both_ways_copies_each_record_once(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """The Connect cluster's connectors are the known flows."""
    topic, aliases = unique_name("invoices"), (unique_name("east"), unique_name("west"))
    clusters = (source_cluster, target_cluster)
    create_topics(source_cluster, {topic: PARTITIONS})
    expected = write(source_cluster, topic, 200)
    override = {"connector_client_config_override_policy": "All"}
    with WorkerProcess(
        target_cluster, tmp_path, ConnectTopics(unique_name("worker")), **override
    ) as worker:
        worker.await_health()
        for here, there in ((0, 1), (1, 0)):
            name = unique_name("source")
            config = {
                "connector.class": "MirrorSourceConnector",
                "source.cluster.alias": aliases[here],
                "target.cluster.alias": aliases[there],
                "source.cluster.bootstrap.servers": clusters[here].bootstrap_servers,
                "target.cluster.bootstrap.servers": clusters[there].bootstrap_servers,
                "producer.override.bootstrap.servers": clusters[there].bootstrap_servers,
                "replication.policy.class": IDENTITY.partition(" = ")[2],
                "topics": topic,
                "sync.topic.acls.enabled": "false",
                "refresh.topics.interval.seconds": "1",
            }
            worker.create(name, config)
            worker.await_states(name, "RUNNING", "RUNNING")
        await_everywhere(clusters, topic, expected)
        prove_no_loop(clusters, topic, expected)
        assert worker.process.terminate()[0] == 0


def test_a_ring_is_refused_by_check_and_by_run(tmp_path: Path) -> None:
    """A record would have to pass every flow, and nothing tells where it began."""
    ring = ("a->b", "b->c", "c->a")
    nobody = SimpleNamespace(bootstrap_servers="127.0.0.1:1")
    lines = [f"{flow}.enabled = true" for flow in ring]
    file = mirror_file(
        tmp_path, dict.fromkeys("abc", nobody), *lines, "topics = invoices", IDENTITY
    )
    for command in ("check", "run"):
        ran = CliRunner().invoke(app, [command, str(file)])
        assert ran.exit_code != 0
        assert "copy topic 'invoices' around a ring under one name" in ran.output + ran.stderr


def support(delivery: str) -> str:
    """The line for a kind of delivery."""
    return f"exactly.once.source.support = {EXACTLY_ONCE[delivery]}"


def planned_records(file: Path) -> list[int]:
    """How many records `plan` says that each flow copies."""
    ran = CliRunner().invoke(app, ["plan", str(file), "--json"])
    return [one["forecast"]["records"] for one in json.loads(ran.stdout)["flows"]]


def write_in_transaction(cluster: LocalCluster, topic: str, *, commits: bool) -> set[bytes]:
    """Produce records in one transaction, and commit or abort it."""
    made = [b"%d" % next(_numbers) for _ in range(20)]
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": unique_name("app")}
    )
    producer.init_transactions(PATIENCE_SECONDS)
    producer.begin_transaction()
    for at, value in enumerate(made):
        producer.produce(topic, value, b"key", at % PARTITIONS)
    producer.flush(PATIENCE_SECONDS)
    if commits:
        producer.commit_transaction(PATIENCE_SECONDS)
    else:
        producer.abort_transaction(PATIENCE_SECONDS)
    return set(made)


def two_way_file(
    directory: Path,
    aliases: tuple[str, str],
    clusters: Sequence[LocalCluster],
    topic: str,
    *lines: str,
    flows: Sequence[str] = (),
) -> Path:
    """A file with these flows, or those in both directions."""
    here, there = aliases
    directory = directory / unique_name("file")
    directory.mkdir()
    return mirror_file(
        directory,
        dict(zip(aliases, clusters, strict=True)),
        *(f"{flow}.enabled = true" for flow in flows or (f"{here}->{there}", f"{there}->{here}")),
        f"topics = {topic}",
        *COMMON,
        *lines,
    )


@contextmanager
def two_clusters(directory: Path) -> Iterator[tuple[LocalCluster, LocalCluster]]:
    """Two clusters without a registry."""
    with (
        LocalCluster("one", directory / "one") as one,
        LocalCluster("other", directory / "other") as other,
    ):
        yield one, other
