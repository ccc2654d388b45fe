# SPDX-License-Identifier: Apache-2.0
"""How well offsets are translated, side by side: the offset map, and MM2's offset syncs.

Both mirror the same topics to the same target, each under its own alias, while records are
written. Java's answers are taken from the offset syncs that it really wrote, by its own rule (our
`OffsetSyncStore` keeps the same slots as Java's class), once everything has been copied. Java reads
`read_committed`, as whoever uses transactions sets it, so that both copies hold the same records.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

import pytest

from sparkmirror.devcluster.cluster import LocalCluster, start_all
from sparkmirror.formats.mm2_records import OffsetSync
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.map_topic import MapTopic
from sparkmirror.offsets.offset_map import Fit
from sparkmirror.offsets.offset_sync_store import OffsetSyncStore
from sparkmirror.wire.settings import ConnectionSettings
from support.clients.librdkafka import create_topics, numbered, produce, read_topic
from support.clients.offset_translations import PartitionRecords, partition_records
from support.clusters.topic_histories import (
    delete_before,
    end_transaction,
    speed_up_log_cleaner,
    transactional,
    write_compacted,
    write_part,
)
from support.measurements import measured
from support.mirrors.java_hand_over import ONE_BROKER, stop
from support.mirrors.java_mirror_maker import JavaMirror
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.waiting import eventually

START_SECONDS = 90.0
ASKED = 1_000
EXPIRED = 700
KINDS = ("plain", "transactional", "compacted", "expired")
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "600000",
}
OURS, JAVA = "exact", "java"


@dataclass(frozen=True, slots=True)
class Answers:
    """What one of the two makes of the offsets that were requested."""

    replayed: list[int]  # records before the true position, for each answer
    missing: int = 0  # offsets without an answer
    near_the_end: list[int] = field(default_factory=list)  # of `replayed`, in the last tenth

    @property
    def exact(self) -> int:
        """How many lead to the very record."""
        return self.replayed.count(0)


@dataclass(frozen=True, slots=True)
class Copies:
    """The topics on the source, and both copies of them."""

    source: LocalCluster
    target: LocalCluster
    originals: dict[str, PartitionRecords]
    ours: dict[str, PartitionRecords]
    java: dict[str, PartitionRecords]


def write_transactions(cluster: LocalCluster, topic: str, turns: range) -> None:
    """A gap per commit, some with aborted records in it."""
    producer = transactional(cluster, f"{topic}-{turns.start}")
    for turn in turns:
        producer.begin_transaction()
        write_part(producer, topic, 0, 100 * turn, 1 + turn % 7)
        end_transaction(producer, commits=turn % 5 != 0)


def write_more(cluster: LocalCluster, turn: int) -> None:
    """What is written before the mirrors start, and again while they run."""
    produce(cluster, "plain", numbered(5_000, first=5_000 * turn))
    write_transactions(cluster, "transactional", range(250 * turn, 250 * turn + 250))
    produce(cluster, "expired", numbered(2_000, first=1_000 + 2_000 * turn))


def records(cluster: LocalCluster, prefix: str = "") -> dict[str, PartitionRecords]:
    """All records of the topics, by kind."""
    found = partition_records(cluster, *((f"{prefix}{kind}", 0) for kind in KINDS))
    return {kind: found[f"{prefix}{kind}", 0] for kind in KINDS}


def file_for(directory: Path, alias: str, source: LocalCluster, target: LocalCluster) -> Path:
    """A file for one of the two; with one name for the target they would share the syncs' topic."""
    (directory / alias).mkdir()
    there = f"{alias}-target"
    return mirror_file(
        directory / alias,
        {alias: source, there: target},
        f"{alias}->{there}.enabled = true",
        f"{alias}->{there}.topics = {', '.join(KINDS)}",
        f"{alias}.consumer.isolation.level = read_committed",
        f"{there}.offset.flush.interval.ms = 1000",
        "replication.factor = 1",
        *ONE_BROKER,
    )


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory, kafka_version: str) -> Iterator[Copies]:
    """Two mirrors of four topics, run side by side and stopped cleanly."""
    directory = tmp_path_factory.mktemp("quality")
    source, target = (
        LocalCluster(name, directory / name, version=kafka_version) for name in ("source", "target")
    )
    start_all([source, target])
    try:
        speed_up_log_cleaner(source)
        create_topics(source, dict.fromkeys(("plain", "transactional", "expired"), 1))
        create_topics(source, {"compacted": 1}, COMPACTED)
        write_compacted(source, "compacted", ["lz4"], tombstones=range(0), count=6_000)
        produce(source, "expired", numbered(1_000))
        delete_before(source, "expired", 1, EXPIRED)
        write_more(source, 0)
        with ExitStack() as stack:
            mirrors = [
                stack.enter_context(start(file_for(directory, alias, source, target)))
                for alias, start in ((OURS, MirrorProcess), (JAVA, JavaMirror))
            ]
            await_copies(source, target)
            write_more(source, 1)
            await_copies(source, target)
            for mirror in mirrors:
                stop(mirror)
        originals = records(source)
        ours, java = (records(target, f"{alias}.") for alias in (OURS, JAVA))
        yield Copies(source, target, originals, ours, java)
    finally:
        source.stop()
        target.stop()


def await_copies(source: LocalCluster, target: LocalCluster) -> None:
    """Wait until both copies hold the source's records, in order."""

    def copied() -> bool:
        originals = {kind: one.values for kind, one in records(source).items()}
        for alias in (OURS, JAVA):
            found = {kind: one.values for kind, one in records(target, f"{alias}.").items()}
            assert {k: len(v) for k, v in found.items()} == {
                k: len(v) for k, v in originals.items()
            }
            assert found == originals
        return True

    eventually(copied, START_SECONDS, "both have copied everything", not_yet=(AssertionError,))


def ask_ours(copies: Copies, kind: str, asked: list[int]) -> Answers:
    """The offset map's answers; all of them must call themselves exact."""
    here, there = copies.originals[kind], copies.ours[kind]
    connection = ConnectionSettings("target", (copies.target.bootstrap_servers,), "test")
    replayed = []
    with closing(ClusterClient(connection)) as client:
        offsets = MapTopic(client, f"mm2-offset-map.{OURS}.internal")
        offsets.refresh()
        for offset in asked:
            found = offsets.to_target(TopicPartition(kind, 0), offset)
            assert found is not None
            assert found.fit is Fit.EXACT
            assert there.at(found.offset) == here.at(offset)
            replayed.append(here.rank(offset) - there.rank(found.offset))
    return Answers(replayed)


def ask_java(copies: Copies, kind: str, asked: list[int]) -> Answers:
    """What Java's store of offset syncs answers."""
    here, there = copies.originals[kind], copies.java[kind]
    store = OffsetSyncStore(must_read_to_end=False)
    for record in read_topic(copies.source, f"mm2-offset-syncs.{JAVA}-target.internal")[0]:
        store.add(OffsetSync.from_record(record.key or b"", record.value or b""))
    store.start_translation()
    found = [(offset, store.translate(TopicPartition(kind, 0), offset)) for offset in asked]
    answers = [(offset, answer) for offset, answer in found if answer is not None and answer >= 0]
    replayed = [here.rank(offset) - there.rank(answer) for offset, answer in answers]
    tenth = len(here.offsets) // 10
    near_the_end = [
        again
        for (offset, _), again in zip(answers, replayed, strict=True)
        if here.rank(offset) >= len(here.offsets) - tenth
    ]
    return Answers(replayed, len(asked) - len(answers), near_the_end)


def test_ours_is_exact_and_javas_never_skips(copies: Copies) -> None:
    """A thousand committed offsets of each topic, from the first record to the end."""
    measured(
        f"{'topic':<15}{'records':>8}{'ours':>12}{'MM2':>12}{'again, mean':>13}{'max':>7}"
        f"{'none':>6}{'mean in the last tenth':>24}"
    )
    for kind in KINDS:
        here = copies.originals[kind]
        chance = random.Random(kind)
        asked = chance.choices(range(here.offsets[0], here.offsets[-1] + 2), k=ASKED)
        ours, java = ask_ours(copies, kind, asked), ask_java(copies, kind, asked)
        measured(
            f"{kind:<15}{len(here.offsets):>8}{f'{ours.exact}/{ASKED}':>12}"
            f"{f'{java.exact}/{ASKED}':>12}{mean(java.replayed):>13.1f}{max(java.replayed):>7}"
            f"{java.missing:>6}{mean(java.near_the_end):>24.1f}"
        )
        assert ours.exact == ASKED
        assert min(java.replayed) >= 0
