# SPDX-License-Identifier: Apache-2.0
"""Bad things happen to a running mirror: each is logged, counted and shown, and the rest flows.

All tests share two clusters and, one after the other, two processes with the same flows: `calm` has
the policies' defaults, `bold` the opposite ones, `exact` is exactly-once. What needs a stopped
broker is prepared between the two processes.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation
from typer.testing import CliRunner

from sparkmirror.cli.main import app
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.connectors.dead_letter_replay import DeadLetter, DeadLetters, Replay
from sparkmirror.devcluster.cluster import LocalCluster, start_all
from sparkmirror.state.producer_registry import ProducerRegistry
from support.clients.librdkafka import (
    Record,
    create_topics,
    delete_topic,
    end_offsets,
    numbered,
    produce,
    produce_many,
    read_topic,
    send,
    topic_partitions,
    topics,
)
from support.clusters import log_damage
from support.clusters.topic_histories import UNTIL_FLUSHED_MS
from support.mirrors.faulty_mirror import (
    ALL_FLOWS,
    FLOWS,
    FaultyMirror,
    allow_again,
    await_limit,
    delete_records,
    faulty_clusters,
    forbid,
    running,
    set_config,
)
from support.waiting import PATIENCE_SECONDS, eventually

LARGE = b"large" * 10_000
TOPIC_HEADER = "sparkmirror.topic"  # of a dead letter
HOUR_MS = 3_600_000
WITHIN_AN_HOUR = {"message.timestamp.after.max.ms": str(HOUR_MS)}  # the default since 4.0
ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1)}
HURT = ("gap", "cut", "short", "down", "corrupt")  # while the mirror is down
SINGLE = ("steady", "large", "again", "lost", *HURT)
# Idempotent: otherwise librdkafka changes the order when a broker has just started.
IN_ONE_GO = {"linger_ms": UNTIL_FLUSHED_MS, "enable_idempotence": True}
LIMITED = {"max.message.bytes": "20000"}


def values(cluster: LocalCluster, topic: str) -> list[bytes | None]:
    """What partition 0 of a topic holds."""
    return [record.value for record in read_topic(cluster, topic)[0]]


def both(name: str) -> list[str]:
    """The topics of that name of both flows."""
    return [f"{flow}-{name}" for flow in FLOWS]


def remote(topic: str) -> str:
    """Its name on the target."""
    return f"{topic.partition('-')[0]}.{topic}"


def await_letters(world: FaultyMirror, topic: str, count: int) -> list[Record]:
    """Wait until so many records of a topic are dead letters."""
    flow = topic.partition("-")[0]

    def written() -> list[Record]:
        found = read_topic(world.target, f"mm2-dead-letters.{flow}.internal").get(0, [])
        own = [one for one in found if (TOPIC_HEADER, topic.encode()) in one.headers]
        assert len(own) == count
        return own

    return eventually(written, PATIENCE_SECONDS, f"{count} dead letters of {topic}")


def create_again(cluster: LocalCluster, topic: str) -> None:
    """Create a topic that is being deleted."""
    eventually(lambda: topic not in topics(cluster), PATIENCE_SECONDS, f"{topic} is gone")
    create_topics(cluster, {topic: 1})


def write(cluster: LocalCluster, names: Iterable[str], count: int, *, first: int = 0) -> None:
    """The same records to partition 0 of some topics, in batches of ten."""
    records = [one for _partition, one in numbered(count, first=first)]
    wanted = ((name, 0, one) for name in names for one in records)
    produce_many(cluster, wanted, batch_num_messages=10, **IN_ONE_GO)


@pytest.fixture(scope="module")
def clusters(
    tmp_path_factory: pytest.TempPathFactory, kafka_version: str
) -> Iterator[FaultyMirror]:
    """A mirror in its first life, with topics that were unsound before it started."""
    with faulty_clusters(tmp_path_factory.mktemp("unsound"), kafka_version) as (
        source,
        target,
        file,
    ):
        create_topics(source, {topic: 1 for name in SINGLE for topic in both(name)})
        create_topics(source, {"calm-fewer": 3, "calm-blind": 1, "calm-denied": 1, "calm-open": 1})
        create_topics(source, dict.fromkeys(both("times"), 1), ANY_TIME)
        create_topics(source, {"exact-large": 1, "calm-replay": 1, "exact-replay": 1})
        limited = [*both("large"), "exact-large", "calm-replay", "exact-replay"]
        create_topics(target, dict.fromkeys(map(remote, limited), 1), LIMITED)
        create_topics(target, dict.fromkeys(map(remote, both("times")), 1), WITHIN_AN_HOUR)
        create_topics(target, {remote("calm-fewer"): 1, remote("calm-blind"): 1})
        forbid(target, remote("calm-blind"), AclOperation.READ)
        write(source, [t for t in topics(source) if t.startswith(FLOWS)], 30)
        with running((source, target, file)) as made:
            for topic in both("steady"):
                made.await_end(topic, {0: 30}, PATIENCE_SECONDS)
            yield made


def flows_on(world: FaultyMirror) -> None:
    """Whatever happened, other partitions get their records."""
    for topic in both("steady"):
        before = end_offsets(world.source, topic)[0]
        produce(world.source, topic, numbered(5, first=before))
        world.await_end(topic, {0: before + 5})


# --- in the first life


def test_a_record_too_large_becomes_a_dead_letter(clusters: FaultyMirror) -> None:
    """The others arrive in order; the letter says whence it came, the ledger what is missing."""
    topic = "calm-large"
    clusters.await_end(topic, {0: 30})
    batch = numbered(4, first=30)
    batch.insert(
        2, (0, Record(b"big", LARGE, (("h", b"1"), ("h", None)), batch[2][1].timestamp_ms))
    )
    produce(clusters.source, topic, batch, compression_type="none", **IN_ONE_GO)
    clusters.await_end(topic, {0: 34})
    assert LARGE not in values(clusters.target, remote(topic))
    assert values(clusters.target, remote(topic))[-4:] == [
        one.value for _partition, one in numbered(4, first=30)
    ]
    line = clusters.await_incident("dead-letter", topic)
    assert "offset 32 (1 record)" in line
    assert "MESSAGE_TOO_LARGE" in line
    (entry,) = clusters.await_entries(topic, 1)
    assert (entry.kind, entry.first_offset, entry.policy) == (
        "dead-letter", 32, "dead-letter",
    )  # fmt: skip
    (letter,) = await_letters(clusters, topic, 1)
    told = dict(letter.headers[2:])
    assert (letter.key, letter.value) == (b"big", LARGE)
    assert letter.headers[:2] == (("h", b"1"), ("h", None))
    assert told["sparkmirror.offset"] == b"32"
    assert told["sparkmirror.error"] == b"MESSAGE_TOO_LARGE"
    assert told["sparkmirror.target.topic"] == b"calm.calm-large"


def dead_letters(world: FaultyMirror, verb: str, topic: str, *more: str, code: int = 0) -> str:
    """Run `sparkmirror dead-letters` for a topic and return what it prints."""
    (flow,) = (one for one in ALL_FLOWS if one.startswith(topic.partition("-")[0]))
    command = ["dead-letters", verb, str(world.file), "--flow", flow, "--topic", topic, *more]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == code, done.output
    return done.stdout


def check_registered(world: FaultyMirror, topic: str) -> None:
    """The producers of replayed records are registered for their flow."""
    (settings,) = (
        one
        for one in MirrorConfig.load(world.file).enabled_settings()
        if one.flow.source == topic.partition("-")[0]
    )
    with DeadLetters(settings) as letters:
        letters.read()
        written = {one.producer_id for (tp, _), one in letters.replays.items() if tp.topic == topic}
    with ProducerRegistry(settings.target_admin) as registry:
        registry.refresh()
        found = [registry.producers[one].flow for one in written]
    assert found == [str(settings.flow)] * len(written)
    assert written


@pytest.mark.parametrize("topic", ["calm-replay", "exact-replay"])
def test_a_dead_letter_is_replayed_once_after_its_cause_is_gone(
    clusters: FaultyMirror, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused while the limit is low; then written once, also if a replay dies half-way."""
    if topic.startswith("exact"):
        produce(clusters.source, topic, numbered(30))
    batch = numbered(5, first=30)
    timestamp = batch[0][1].timestamp_ms
    large = [Record(b"big", LARGE + b"%d" % n, (("h", b"1"),), timestamp) for n in range(2)]
    batch[1:1] = [(0, large[0])]
    batch[4:4] = [(0, large[1])]
    produce(clusters.source, topic, batch, compression_type="none", **IN_ONE_GO)
    expected = [one.value for _, one in numbered(35)]

    def arrived() -> bool:
        assert values(clusters.target, remote(topic)) == expected
        return True

    eventually(arrived, PATIENCE_SECONDS, "all but the large ones")
    assert "dead-letters list" in clusters.await_incident("dead-letter", topic)
    listed = json.loads(dead_letters(clusters, "list", topic, "--json"))
    assert [(one["offset"], one["replayed"]) for one in listed] == [(31, None), (34, None)]
    assert all(one["reason"].startswith("MESSAGE_TOO_LARGE") for one in listed)
    raw = tmp_path / "value"
    place = ("--partition", "0", "--offset", "31")
    assert "key: big" in dead_letters(clusters, "show", topic, *place, "--raw", str(raw))
    assert raw.read_bytes() == large[0].value
    refused = dead_letters(clusters, "replay", topic, "--yes", code=1)
    assert refused.count("MESSAGE_TOO_LARGE") == 2
    assert "planned" in dead_letters(clusters, "replay", topic, "--dry-run")

    set_config(clusters.target, remote(topic), "max.message.bytes", "1000000")
    with monkeypatch.context() as patch:
        real = DeadLetters._remember

        def dies(self: DeadLetters, letter: DeadLetter, replay: Replay) -> None:
            if replay.state == "done":
                raise KeyboardInterrupt
            real(self, letter, replay)

        patch.setattr(DeadLetters, "_remember", dies)
        command = ["dead-letters", "replay", str(clusters.file), "--topic", topic, "--yes"]

        def is_written() -> bool:
            CliRunner().invoke(app, command)
            return values(clusters.target, remote(topic))[35:] == [large[0].value]

        eventually(is_written, PATIENCE_SECONDS, "the first one, without a note that it is done")
    first = dead_letters(clusters, "replay", topic, "--yes").splitlines()
    assert [line.rpartition(": ")[2] for line in first] == ["done before", "replayed"]
    check_registered(clusters, topic)
    again = dead_letters(clusters, "replay", topic, "--yes").splitlines()
    assert [line.rpartition(": ")[2] for line in again] == ["done before", "done before"]
    assert read_topic(clusters.target, remote(topic))[0][35:] == large
    produce(clusters.source, topic, numbered(3, first=35))
    expected += [large[0].value, large[1].value, *(one.value for _, one in numbered(3, first=35))]
    eventually(arrived, PATIENCE_SECONDS, "copying continues after them")
    assert f"foreign-writer: {remote(topic)}" not in clusters.log


def test_a_record_too_large_is_skipped_if_configured(clusters: FaultyMirror) -> None:
    """No letter, but the ledger knows; small batches around it were never in danger."""
    topic = "bold-large"
    produce(clusters.source, topic, [(0, Record(b"big", LARGE)), *numbered(3, first=30)])
    clusters.await_end(topic, {0: 33})
    assert "offset 30 (1 record)" in clusters.await_incident("skipped-record", topic)
    assert [entry.kind for entry in clusters.await_entries(topic, 1)] == ["skipped-record"]
    assert "mm2-dead-letters.bold.internal" not in topics(clusters.target)


def test_dead_letters_and_transactions_go_together(clusters: FaultyMirror) -> None:
    """What is refused inside a transaction of ours leaves the others of it committed."""
    topic = "exact-large"
    expected = [one.value for _, one in numbered(34)]
    produce(clusters.source, topic, numbered(30))
    produce(clusters.source, topic, [(0, Record(b"big", LARGE)), *numbered(4, first=30)])

    def arrived() -> bool:
        assert values(clusters.target, remote(topic)) == expected
        return True

    eventually(arrived, PATIENCE_SECONDS, "all but the large one are committed, once")
    assert "offset 30 (1 record)" in clusters.await_incident("dead-letter", topic)
    assert [entry.first_offset for entry in clusters.await_entries(topic, 1)] == [30]
    (letter,) = await_letters(clusters, topic, 1)
    assert letter.value == LARGE


def test_timestamps_out_of_range_become_dead_letters(clusters: FaultyMirror) -> None:
    """The broker names the records; those between them arrive."""
    topic = "calm-times"
    clusters.await_end(topic, {0: 30})
    late = int(time.time() * 1000) + 3 * HOUR_MS
    batch = [
        (partition, one._replace(timestamp_ms=late) if number in {1, 2, 4} else one)
        for number, (partition, one) in enumerate(numbered(6, first=30))
    ]
    produce(clusters.source, topic, batch, **IN_ONE_GO)
    clusters.await_end(topic, {0: 33})
    assert values(clusters.target, remote(topic))[-3:] == [batch[n][1].value for n in (0, 3, 5)]
    line = clusters.await_incident("dead-letter", topic)
    assert "INVALID_TIMESTAMP" in line
    offsets = [
        (entry.first_offset, entry.last_offset) for entry in clusters.await_entries(topic, 2)
    ]
    assert sorted(offsets) == [(31, 32), (34, 34)]

    letters = await_letters(clusters, topic, 3)
    assert [one.value for one in letters] == [batch[n][1].value for n in (1, 2, 4)]
    assert {dict(one.headers)["sparkmirror.timestamp"] for one in letters} == {b"%d" % late}


def test_a_value_that_fits_nowhere_is_its_size_and_hash(clusters: FaultyMirror) -> None:
    """Somebody lowered the limit of the dead-letter topic itself."""
    topic, letters = "calm-large", "mm2-dead-letters.calm.internal"
    clusters.await_end(topic, {0: 34})
    set_config(clusters.target, letters, "max.message.bytes", "30000")
    await_limit(clusters.target, letters, len(LARGE))
    produce(clusters.source, topic, [(0, Record(b"huge", LARGE)), *numbered(2, first=50)])
    clusters.await_end(topic, {0: 36})
    found = await_letters(clusters, topic, 2)[-1]
    expected = {"bytes": len(LARGE), "sha256": hashlib.sha256(LARGE).hexdigest()}
    assert found.key == b"huge"
    assert json.loads(found.value or b"") == expected
    assert dict(found.headers)["sparkmirror.value.sha256"] == expected["sha256"].encode()


def test_a_refused_principal_is_reported_and_flows_when_allowed(clusters: FaultyMirror) -> None:
    """WRITE is taken away and given back."""
    topic = "calm-denied"
    clusters.await_end(topic, {0: 30})
    forbid(clusters.target, remote(topic), AclOperation.WRITE)
    produce(clusters.source, topic, numbered(5, first=30))
    assert "TOPIC_AUTHORIZATION_FAILED" in clusters.await_incident("refused", topic)
    clusters.mirror.await_log(
        f"sink: {remote(topic)}-0: TOPIC_AUTHORIZATION_FAILED", PATIENCE_SECONDS
    )
    clusters.await_quarantined("calm")
    flows_on(clusters)
    allow_again(clusters.target, remote(topic))
    clusters.await_end(topic, {0: 35})
    assert clusters.entries(topic) == []


def test_a_target_that_may_not_be_read_is_reported(clusters: FaultyMirror) -> None:
    """Records flow, at least once, and one line says so."""
    clusters.await_end("calm-blind", {0: 30})
    line = clusters.await_incident("no-read", "calm-blind")
    assert "grant READ on the remote topics" in line
    assert clusters.entries("calm-blind") == []


def test_an_open_transaction_is_named_with_its_producer(clusters: FaultyMirror) -> None:
    """Everything behind it waits; when it ends, everything flows and the trouble is over."""
    topic = "calm-open"
    clusters.await_end(topic, {0: 30})
    producer = Producer(
        {
            "bootstrap.servers": clusters.source.bootstrap_servers,
            "transactional.id": topic,
            "transaction.timeout.ms": 600_000,
        }
    )
    producer.init_transactions()
    producer.begin_transaction()
    send(producer, topic, 0, Record(b"k", b"in the transaction"))
    assert producer.flush(PATIENCE_SECONDS) == 0
    produce(clusters.source, topic, numbered(3, first=30))
    line = clusters.await_incident("open-transaction", topic)
    assert "started it at offset 30" in line
    assert "producer id" in line
    clusters.mirror.await_log(f"calm: {topic}-0: OPEN_TRANSACTION", PATIENCE_SECONDS)
    assert end_offsets(clusters.target, remote(topic)) == {0: 30}
    flows_on(clusters)
    producer.commit_transaction()
    clusters.await_end(topic, {0: 34})
    assert clusters.entries(topic) == []


def test_a_stranger_on_a_remote_topic_is_reported(clusters: FaultyMirror) -> None:
    """Its records stay among the copies, and the copies continue."""
    topic = "calm-denied"
    before = end_offsets(clusters.target, remote(topic))[0]
    produce(clusters.target, remote(topic), numbered(2, first=900), enable_idempotence=True)
    produce(clusters.source, topic, numbered(2, first=70))
    clusters.await_end(topic, {0: before + 4})
    assert "producer id" in clusters.await_incident("foreign-writer", remote(topic))


@pytest.fixture(scope="module")
def upheaval(clusters: FaultyMirror) -> FaultyMirror:
    """Topics are deleted on both sides, at the same time; those of the source are made again."""
    for topic in [*both("again"), *both("lost")]:
        clusters.await_end(topic, {0: 30})
    for topic in both("lost"):
        delete_topic(clusters.target, remote(topic))
    for topic in both("again"):
        delete_topic(clusters.source, topic)
    for topic in both("again"):
        create_again(clusters.source, topic)
        produce(clusters.source, topic, numbered(7))
    return clusters


def test_a_recreated_source_topic_stops_by_default(upheaval: FaultyMirror) -> None:
    """Its old copies stay as they are; the others flow."""
    topic = "calm-again"
    assert "source.recreated.policy=stop" in upheaval.await_incident("source-recreated", topic)
    upheaval.mirror.await_log(f"calm: {topic}-0: TOPIC_RECREATED", PATIENCE_SECONDS)
    flows_on(upheaval)
    assert end_offsets(upheaval.target, remote(topic)) == {0: 30}
    assert upheaval.entries(topic) == []


def test_a_recreated_source_topic_restarts_if_configured(upheaval: FaultyMirror) -> None:
    """The new records stand behind the old ones, and the ledger says so."""
    topic = "bold-again"
    upheaval.await_end(topic, {0: 37})
    upheaval.await_incident("source-recreated", topic)
    assert values(upheaval.target, remote(topic))[-7:] == [one.value for _, one in numbered(7)]
    assert [entry.kind for entry in upheaval.await_entries(topic, 1)] == ["source-recreated"]


def test_a_deleted_remote_topic_is_made_again(upheaval: FaultyMirror) -> None:
    """Copying continues with the next record, or from the beginning, by policy."""
    for topic in both("lost"):
        upheaval.await_incident("target-recreated", topic)
        produce(upheaval.source, topic, numbered(5, first=30))
    upheaval.await_end("calm-lost", {0: 5})
    upheaval.await_end("bold-lost", {0: 35})
    for topic in both("lost"):
        assert [entry.kind for entry in upheaval.await_entries(topic, 1)] == ["target-recreated"]


def test_a_remote_topic_with_fewer_partitions_is_grown(clusters: FaultyMirror) -> None:
    """It was there with one partition before the flow began."""
    eventually(
        lambda: topic_partitions(clusters.target, remote("calm-fewer")) == 3,
        PATIENCE_SECONDS,
        "the remote topic has grown",
    )
    clusters.await_end("calm-fewer", {0: 30, 1: 0, 2: 0})


# --- in the second life


def hurt(source: LocalCluster, target: LocalCluster) -> None:
    """Damage and shorten the logs of brokers that are stopped meanwhile."""
    source.stop()
    target.stop()
    for topic in both("corrupt"):
        assert log_damage.corrupt(source.brokers[0].data, topic, 0, 45) == (40, 49)
    for topic in both("cut"):
        assert log_damage.truncate(source.brokers[0].data, topic, 0, 20) == 20
    for topic in both("short"):
        assert log_damage.truncate(target.brokers[0].data, remote(topic), 0, 30) == 30
    start_all([source, target])


@pytest.fixture(scope="module")
def second_life(clusters: FaultyMirror) -> FaultyMirror:
    """The brokers were stopped and their logs hurt while the mirror was down."""
    source = clusters.source
    for topic in [topic for name in HURT for topic in both(name)]:
        clusters.await_end(topic, {0: 30})
    for topic in both("short"):  # a record batch of its own on the target
        produce(source, topic, numbered(10, first=30))
        clusters.await_end(topic, {0: 40})
    clusters.stop()
    write(source, [*both("gap"), *both("corrupt")], 30, first=30)
    for topic in both("gap"):
        delete_records(source, topic, 45)
    for topic in both("down"):
        delete_topic(source, topic)
        create_again(source, topic)
        produce(source, topic, numbered(4))
    hurt(source, clusters.target)
    write(source, both("cut"), 20, first=100)
    clusters.start()
    clusters.await_end("calm-corrupt", {0: 40}, PATIENCE_SECONDS)
    return clusters


def test_records_that_retention_deleted_are_a_gap(second_life: FaultyMirror) -> None:
    """Copying continues at the earliest record left, and the ledger says which are missing."""
    topic = "calm-gap"
    second_life.await_end(topic, {0: 45})
    line = second_life.await_incident("gap", topic)
    assert "offsets 30 to 44 (15 records)" in line
    (entry,) = second_life.await_entries(topic, 1)
    assert (entry.kind, entry.first_offset, entry.last_offset, entry.records) == (
        "gap", 30, 44, 15,
    )  # fmt: skip


def test_a_gap_stops_the_partition_if_configured(second_life: FaultyMirror) -> None:
    """Nothing is copied past it until somebody decides."""
    topic = "bold-gap"
    assert "gap.policy=stop" in second_life.await_incident("gap", topic)
    second_life.mirror.await_log(f"bold: {topic}-0: GAP", PATIENCE_SECONDS)
    flows_on(second_life)
    assert end_offsets(second_life.target, remote(topic)) == {0: 30}
    assert second_life.entries(topic) == []


def test_a_corrupt_batch_is_not_copied(second_life: FaultyMirror) -> None:
    """What is before it arrives, the partition waits and says so."""
    topic = "calm-corrupt"
    second_life.await_end(topic, {0: 40})
    line = second_life.await_incident("corrupt-batch", topic)
    assert "corrupt.batch.policy=stop" in line
    second_life.mirror.await_log(f"calm: {topic}-0: CORRUPT_SOURCE_BATCH", PATIENCE_SECONDS)
    flows_on(second_life)
    assert end_offsets(second_life.target, remote(topic)) == {0: 40}
    assert second_life.entries(topic) == []


def test_a_corrupt_batch_is_skipped_if_configured(second_life: FaultyMirror) -> None:
    """What is behind it arrives, and the ledger says what is missing."""
    topic = "bold-corrupt"
    second_life.await_end(topic, {0: 50})
    assert "offsets 40 to 49 (10 records)" in second_life.await_incident("corrupt-batch", topic)
    expected = [one.value for _, one in [*numbered(40), *numbered(10, first=50)]]
    assert values(second_life.target, remote(topic)) == expected
    (entry,) = second_life.await_entries(topic, 1)
    assert (entry.kind, entry.first_offset, entry.last_offset) == ("corrupt-batch", 40, 49)


def test_a_source_that_was_cut_off_continues_where_it_differs(second_life: FaultyMirror) -> None:
    """The target keeps what the source lost, followed by what was written in its place."""
    topic = "calm-cut"
    second_life.await_end(topic, {0: 50})
    line = second_life.await_incident("source-truncated", topic)
    assert "offsets 20 to 29 (10 records)" in line
    copies = values(second_life.target, remote(topic))
    assert copies[:30] == [one.value for _, one in numbered(30)]
    assert copies[30:] == [one.value for _, one in numbered(20, first=100)]
    assert copies[:20] + copies[30:] == values(second_life.source, topic)
    assert [entry.kind for entry in second_life.await_entries(topic, 1)] == ["source-truncated"]


def test_a_source_that_was_cut_off_stops_if_configured(second_life: FaultyMirror) -> None:
    """Nothing of what was written in its place is copied."""
    topic = "bold-cut"
    assert "source.truncated.policy=stop" in second_life.await_incident("source-truncated", topic)
    second_life.mirror.await_log(f"bold: {topic}-0: SOURCE_TRUNCATED", PATIENCE_SECONDS)
    flows_on(second_life)
    assert end_offsets(second_life.target, remote(topic)) == {0: 30}


def test_what_the_target_lost_is_copied_again(second_life: FaultyMirror) -> None:
    """Every record once, in order, although the target had forgotten some of them."""
    topic = "calm-short"
    second_life.await_incident("target-truncated", topic)
    produce(second_life.source, topic, numbered(5, first=40))
    second_life.await_end(topic, {0: 45})
    expected = [one.value for _, one in numbered(45)]
    assert values(second_life.target, remote(topic)) == expected
    assert [entry.kind for entry in second_life.await_entries(topic, 1)] == ["target-truncated"]


def test_a_target_that_lost_records_stops_if_configured(second_life: FaultyMirror) -> None:
    """Nothing is written behind what is left."""
    topic = "bold-short"
    assert "target.truncated.policy=stop" in second_life.await_incident("target-truncated", topic)
    second_life.mirror.await_log(f"sink: {remote(topic)}-0: TARGET_TRUNCATED", PATIENCE_SECONDS)
    assert end_offsets(second_life.target, remote(topic)) == {0: 30}


def test_a_topic_recreated_while_the_mirror_was_down_is_noticed(second_life: FaultyMirror) -> None:
    """By its id, although the stored offset looks plausible."""
    assert "policy=stop" in second_life.await_incident("source-recreated", "calm-down")
    assert end_offsets(second_life.target, remote("calm-down")) == {0: 30}
    second_life.await_end("bold-down", {0: 34})
    second_life.await_incident("source-recreated", "bold-down")


def test_everything_else_has_flowed_all_the_time(second_life: FaultyMirror) -> None:
    """No record of the sound topics is missing, twice or out of order."""
    flows_on(second_life)
    for topic in both("steady"):
        here, there = values(second_life.source, topic), values(second_life.target, remote(topic))
        assert here == there
    assert "Traceback" not in second_life.log
    second_life.stop()
