# SPDX-License-Identifier: Apache-2.0
"""One `sparkmirror run --once` over topics whose logs are odd: holes, markers, stored positions.

Its file is one as people have them: blanks after commas, references into another file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import ConfigResource, ResourceType

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.formats.primitives import partition_for_key
from support.clients.librdkafka import (
    Cluster,
    Record,
    admin,
    compare_topics,
    create_topics,
    end_offsets,
    numbered,
    produce,
    read_topic,
    send,
    topics,
)
from support.clusters.topic_histories import (
    UNTIL_FLUSHED_MS,
    await_markers,
    speed_up_log_cleaner,
    transactional,
)
from support.mirrors.mirror_process import MirrorProcess
from support.waiting import PATIENCE_SECONDS, eventually

OFFSETS, OFFSETS_PARTITIONS = "mm2-offsets.tape.internal", 25
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "600000",
}
LISTED = ("listed-one", "listed-two")
CONFIGURED = {"retention.ms": "86400000", "max.message.bytes": "777777"}


@dataclass(frozen=True, slots=True)
class BoundedRun:
    """What the run under test left."""

    exit_code: int
    source: LocalCluster
    target: LocalCluster


def position_key(topic: str, partition: int = 0) -> bytes:
    """The key under which Connect keeps a source partition's offset."""
    text = (
        f'["MirrorSourceConnector",{{"cluster":"tape","partition":{partition},"topic":"{topic}"}}]'
    )
    return text.encode()


def write_holes(cluster: Cluster, topic: str) -> None:
    """Every third record has its own key; of the others only the last of each key stays."""
    speed_up_log_cleaner(cluster)
    records = [
        (0, record._replace(key=record.key if number % 3 == 0 else b"%d" % (number % 7)))
        for number, (_, record) in enumerate(numbered(600))
    ]
    # Some of those left are tombstones, whose batches the cleaner marks with a delete horizon.
    records = [
        (0, one._replace(value=None)) if n % 30 == 0 else (0, one)
        for n, (_, one) in enumerate(records)
    ]
    for first in range(0, 600, 100):
        chunk = records[first : first + 100]
        produce(cluster, topic, chunk, compression_type="lz4", linger_ms=UNTIL_FLUSHED_MS)
    # A much later record starts a new segment: the active one is never cleaned.
    produce(cluster, topic, [(0, Record(b"roll", b"roll"))])
    left = 200 + 7 + 1
    eventually(
        lambda: len(read_topic(cluster, topic)[0]) == left, PATIENCE_SECONDS, "the log is cleaned"
    )


def write_transactions(cluster: Cluster, topic: str) -> Producer:
    """Ten committed records, then ten in a transaction that is left open."""
    producer = transactional(cluster, topic)
    for first in (0, 10):
        producer.begin_transaction()
        for partition, record in numbered(10, first=first):
            send(producer, topic, partition, record)
        producer.flush(PATIENCE_SECONDS)
        if first == 0:
            producer.commit_transaction(PATIENCE_SECONDS)
    return producer


def write_file(directory: Path, source: Cluster, target: Cluster) -> Path:
    """MM2's own provider reads the addresses; topics are a pattern and names."""
    access = directory / "access.properties"
    access.write_text(
        f"SRC_BROKERS={source.bootstrap_servers}\nTGT_BROKERS={target.bootstrap_servers}\n"
    )
    file = directory / "mm2.properties"
    file.write_text(
        "config.providers=file\n"
        "config.providers.file.class="
        "org.apache.kafka.common.config.provider.FileConfigProvider\n"
        "clusters=tape, vault\n"
        f"tape.bootstrap.servers=${{file:{access}:SRC_BROKERS}}\n"
        f"vault.bootstrap.servers=${{file:{access}:TGT_BROKERS}}\n"
        "# enable and configure individual replication flows\n"
        "tape->vault.enabled=true\n"
        f"tape->vault.topics=bounded-.*, {', '.join(LISTED)}\n"
        "replication.factor=1\n"
        "sync.topic.acls.enabled=false\n"
        "emit.heartbeats.interval.seconds=5\n"
    )
    return file


@pytest.fixture(scope="module")
def bounded_run(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[BoundedRun]:
    """Topics made odd beforehand, then one run."""
    source, target = source_cluster, target_cluster
    create_topics(
        source,
        {
            "bounded-empty": 2,
            "bounded-middle": 1,
            "bounded-aborted": 1,
            "bounded-open": 1,
            "not-wanted": 1,
        },
    )
    create_topics(source, {"bounded-holes": 1}, COMPACTED)
    create_topics(source, {"bounded-configured": 3}, CONFIGURED)
    create_topics(source, dict.fromkeys(LISTED, 2))
    create_topics(target, {OFFSETS: OFFSETS_PARTITIONS}, {"cleanup.policy": "compact"})
    produce(source, "bounded-configured", numbered(30, 3))
    produce(source, "not-wanted", numbered(3))
    # One batch of a hundred records, of which Java MM2 has copied the first 42.
    one_go = {"compression_type": "zstd", "linger_ms": UNTIL_FLUSHED_MS}
    produce(source, "bounded-middle", numbered(100), **one_go)
    key = position_key("bounded-middle")
    record = Record(key, b'{"offset":41}')
    produce(target, OFFSETS, [(partition_for_key(key, OFFSETS_PARTITIONS), record)])
    write_holes(source, "bounded-holes")
    aborted = write_transactions(source, "bounded-aborted")
    aborted.abort_transaction(PATIENCE_SECONDS)
    await_markers(source, "bounded-aborted")
    still_open = write_transactions(source, "bounded-open")
    for topic in LISTED:
        produce(source, topic, numbered(10, 2))
    file = write_file(tmp_path_factory.mktemp("bounded"), source, target)
    with MirrorProcess(file, "--once") as mirror:
        yield BoundedRun(mirror.wait(PATIENCE_SECONDS), source, target)
        still_open.abort_transaction(PATIENCE_SECONDS)
        mirror.show_log()


def stored(run: BoundedRun, topic: str) -> list[bytes | None]:
    """Every value that the offsets topic has for a topic's partition 0, oldest first."""
    key = position_key(topic)
    where = partition_for_key(key, OFFSETS_PARTITIONS)
    return [one.value for one in read_topic(run.target, OFFSETS)[where] if one.key == key]


def test_it_ends_by_itself_with_success(bounded_run: BoundedRun) -> None:
    """Also with an empty topic, markers at the end, and a transaction that nobody ends."""
    assert bounded_run.exit_code == 0


@pytest.mark.parametrize("topic", LISTED)
def test_a_file_with_references_and_blanks_runs(bounded_run: BoundedRun, topic: str) -> None:
    """What it lists behind a comma and a blank arrives, between the clusters it refers to."""
    run = bounded_run
    assert compare_topics(run.source, topic, run.target, f"tape.{topic}") == 10


def test_an_empty_topic_is_made_and_stays_empty(bounded_run: BoundedRun) -> None:
    """Nothing to copy is nothing to wait for."""
    assert end_offsets(bounded_run.target, "tape.bounded-empty") == {0: 0, 1: 0}


def test_topics_that_do_not_match_stay_away(bounded_run: BoundedRun) -> None:
    """Only what the filter names is made on the target."""
    assert "tape.not-wanted" not in topics(bounded_run.target)


def pair(value: bytes | None) -> tuple[int, int]:
    """The two offsets of a stored position that has everything exact resume needs."""
    fields = json.loads(value or b"")
    assert {"producer", "epoch", "sequence", "sourceTopic", "targetTopic"} < fields.keys()
    return fields["offset"], fields["downstream"]


def test_an_offset_in_javas_form_is_continued_in_the_middle_of_a_batch(
    bounded_run: BoundedRun,
) -> None:
    """After {"offset":41} the copy begins with record 42, and the position is kept in our form."""
    expected = [record for _, record in numbered(58, first=42)]
    assert read_topic(bounded_run.target, "tape.bounded-middle") == {0: expected}
    assert pair(stored(bounded_run, "bounded-middle")[-1]) == (99, 57)


def test_what_compaction_left_arrives_in_order(bounded_run: BoundedRun) -> None:
    """Offset holes close up; tombstones and their times stay."""
    run = bounded_run
    assert compare_topics(run.source, "bounded-holes", run.target, "tape.bounded-holes") == 208
    assert end_offsets(run.target, "tape.bounded-holes") == {0: 208}
    assert pair(stored(run, "bounded-holes")[-1]) == (600, 207)


def test_aborted_records_and_markers_are_left_out(bounded_run: BoundedRun) -> None:
    """The position nevertheless moves past them."""
    expected = [record for _, record in numbered(10)]
    assert read_topic(bounded_run.target, "tape.bounded-aborted") == {0: expected}
    # Ten records, a marker, ten aborted records, a marker.
    assert pair(stored(bounded_run, "bounded-aborted")[-1]) == (21, 9)


def test_an_open_transaction_is_not_waited_for(bounded_run: BoundedRun) -> None:
    """A bounded run ends at the last stable offset."""
    expected = [record for _, record in numbered(10)]
    assert read_topic(bounded_run.target, "tape.bounded-open") == {0: expected}


def test_topics_are_made_with_the_partitions_and_configs_of_the_source(
    bounded_run: BoundedRun,
) -> None:
    """Non-default configs come along."""
    assert topics(bounded_run.target)["tape.bounded-configured"] == 3
    resource = ConfigResource(ResourceType.TOPIC, "tape.bounded-configured")
    client = admin(bounded_run.target)
    [future] = client.describe_configs([resource]).values()
    found = {name: entry.value for name, entry in future.result(PATIENCE_SECONDS).items()}
    assert {name: found[name] for name in CONFIGURED} == CONFIGURED
