# SPDX-License-Identifier: Apache-2.0
"""Whatever a source log looks like, its records arrive as they were, and only they.

One running flow over a topic for each axis, read back on both sides by clients that are not ours.
Where it matters a topic has a partition for each codec.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import ResourceType

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.formats.primitives import partition_for_key
from support.clients.consumed_records import (
    APPEND_TIME,
    CREATE_TIME,
    ConsumedRecord,
    difference,
    ends,
    partitions_of,
    read_partitions,
)
from support.clients.java_console_consumer import java_lines
from support.clients.librdkafka import (
    Place,
    Record,
    create_topics,
    grow_topic,
    numbered,
    produce,
    produce_many,
)
from support.clients.load_generator import Load
from support.clients.raw_producer import produce_batches
from support.clusters.log_segments import LoggedBatch, log_bytes, logged_batches
from support.clusters.topic_histories import (
    COMPACTED,
    UNTIL_FLUSHED_MS,
    alter_configs,
    await_batches,
    await_markers,
    delete_before,
    speed_up_log_cleaner,
    transactional,
    write_compacted,
    write_part,
    write_transactions,
)
from support.data import record_batches
from support.measurements import measured
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.waiting import PATIENCE_SECONDS, eventually

NOT_YET = (AssertionError, KafkaException)  # a topic or partition that is being made
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
EACH = len(CODECS)
ALIAS = "matrix"
OFFSETS, OFFSETS_PARTITIONS = f"mm2-offsets.{ALIAS}.internal", 25
START = 42  # in the middle of a record batch of a hundred
MEGABYTE = 1 << 20
TINY_PARTITIONS, TINY, TINY_CODECS = 20, 200, 100
WIDE, WIDE_BATCHES = 10_000, 2
GROWING_PER_SECOND = 100
NOW_MS = time.time_ns() // 1_000_000
KEPT_FOREVER = {"retention.ms": "-1"}
APPEND_TIME_TOPIC = {"message.timestamp.type": "LogAppendTime"}

# Topics whose records must be equal in everything, with their numbers of partitions.
EXACT = {
    "shapes": EACH,
    "idempotent": EACH,
    "trimmed": EACH,
    "compacted": EACH,
    "tombstones": 1,
    "transactions": 3,
    "open": 1,
    "large": EACH,
    "tiny": TINY_PARTITIONS,
    "tiny-codecs": EACH,
    "wide": 2,
    "clockless": 1,
    "growing": 4,
}
OTHERS = {"middle": EACH, "append-source": EACH, "append-target": EACH, "append-both": EACH}
EXACT = {f"fidelity-{name}": count for name, count in EXACT.items()}
OTHERS = {f"fidelity-{name}": count for name, count in OTHERS.items()}
HEADER_KEY = "fidelity-header-key"  # no consumer but Java's can show it


def remote(topic: str) -> str:
    """The topic's name on the target."""
    return f"{ALIAS}.{topic}"


@dataclass(frozen=True, slots=True)
class Copied:
    """What both sides hold in the end, and what was seen on the way."""

    source_cluster: LocalCluster
    target_cluster: LocalCluster
    source: dict[Place, list[ConsumedRecord]]
    target: dict[Place, list[ConsumedRecord]]  # by the place on the source
    held_back: list[ConsumedRecord]
    began_ms: int

    def check_equal(self, topic: str, partitions: int) -> int:
        """Fail with the first difference of a topic; how many records it has."""
        differences = {
            index: difference(self.source[topic, index], self.target[topic, index])
            for index in range(partitions)
        }
        assert not any(differences.values()), {i: text for i, text in differences.items() if text}
        return sum(len(self.source[topic, index]) for index in range(partitions))


# --- writing the source


def odd_records() -> list[Record]:
    """Missing and empty parts, repeated headers, times that jump; every one a different key."""
    any_bytes = bytes(range(256))
    return [
        Record(None, b"no key", (), 1),
        Record(b"no value", None, (), 2),
        Record(None, None, (), 1_000_000_000_000),
        Record(b"", b"", (), NOW_MS),
        Record(b"", None, (("only", b"headers"),), 3),
        Record(None, b"", (), NOW_MS + 1_800_000),
        Record(b"repeated", b"v", (("h", b"1"), ("h", b"1"), ("h", b"2"), ("g", b""), ("h", b"1"))),
        Record(b"empty", b"v", (("", b""), ("", None), ("null", None), ("empty", b""))),
        Record(
            b"not UTF-8", b"\xff\xfe\x00", (("bytes", b"\xff\xc3\x28"), ("\u00fc\u20ac", any_bytes))
        ),
        Record(any_bytes, any_bytes * 40, tuple((f"h{n % 50}", b"%d" % n) for n in range(300))),
        Record(b"k" * 70_000, b"v" * 300_000, (("long" * 50, b"x" * 50_000),), NOW_MS - 5),
    ]


def write_by_codec(
    cluster: LocalCluster, topics: dict[str, list[Record]], **config: object
) -> None:
    """The same records into partition n of each topic with codec n, in few record batches."""
    for index, codec in enumerate(CODECS):
        records = [(topic, index, one) for topic, many in topics.items() for one in many]
        produce_many(cluster, records, compression_type=codec, linger_ms=UNTIL_FLUSHED_MS, **config)


def hundred(topic: str) -> list[Record]:
    """A record batch's worth of records whose keys tell the topic."""
    return [
        record._replace(key=b"%s-%d" % (topic.encode(), number))
        for number, (_, record) in enumerate(numbered(100))
    ]


def write_large(cluster: LocalCluster, topic: str) -> None:
    """Values of a megabyte that no codec makes smaller, and some that become tiny."""
    noise = random.Random(4).randbytes(MEGABYTE)
    values = [noise, b"\x00" * MEGABYTE, noise[::-1]]
    records = [Record(b"%d" % number, value, (), NOW_MS) for number, value in enumerate(values)]
    for index, codec in enumerate(CODECS):
        produce(
            cluster,
            topic,
            [(index, record) for record in records],
            compression_type=codec,
            message_max_bytes=2 * MEGABYTE,
        )


def tiny_batch(number: int) -> bytes:
    """A record batch of one record."""
    headers = (("number", b"%d" % number),)
    record = record_batches.Record(0, NOW_MS + number, b"%d" % number, b"tiny", headers)
    return bytes(record_batches.encode([record]))


def write_tiny(cluster: LocalCluster) -> None:
    """Thousands of record batches of one record, and some of each codec."""
    batches = map(tiny_batch, range(TINY))
    everywhere = range(TINY_PARTITIONS)
    produce_batches(cluster, "fidelity-tiny", (dict.fromkeys(everywhere, one) for one in batches))
    squeezable = [one._replace(value=b"tiny " * 40) for _, one in numbered(TINY_CODECS)]
    write_by_codec(cluster, {"fidelity-tiny-codecs": squeezable}, batch_num_messages=1)


def write_clockless(cluster: LocalCluster, topic: str) -> None:
    """Records of a producer that gives no time, alone and among others."""
    times = (-1, NOW_MS, -1, 5)
    mixed = [record_batches.Record(n, at, b"%d" % n, b"v") for n, at in enumerate(times)]
    alone = [record_batches.Record(0, -1, b"alone", b"v")]
    produce_batches(cluster, topic, [{0: record_batches.encode(one)} for one in (mixed, alone)])


def odd_header() -> bytes:
    """Two headers; the first one's key is not UTF-8."""
    return b"\x04" + b"\x06\xff\xfe\xc3" + b"\x04\x00\xff" + b"\x02a" + b"\x01"


def write_odd_header(cluster: LocalCluster, topic: str) -> None:
    """A record that client libraries refuse to write."""
    frame = b"\x00\x00\x00" + b"\x06key" + b"\x0avalue" + odd_header()
    batch = record_batches.seal(
        bytes((len(frame) * 2,)) + frame,
        base_offset=0,
        last_offset_delta=0,
        leader_epoch=-1,
        attributes=0,
        times=(NOW_MS, NOW_MS),
        producer=(-1, -1, -1),
        count=1,
    )
    produce_batches(cluster, topic, [{0: batch}])


def write_tombstones(cluster: LocalCluster, topic: str) -> None:
    """Tombstones whose time, by the source's cleaner, has come; it is stopped before it acts."""
    records = [(0, one._replace(value=None)) for _, one in numbered(50)]
    produce(cluster, topic, records, linger_ms=UNTIL_FLUSHED_MS)
    produce(cluster, topic, [(0, Record(b"roll", b"roll"))])
    await_batches(
        cluster, topic, 0, lambda found: found[0].has_delete_horizon, "tombstones have a time to go"
    )
    alter_configs(
        cluster, ResourceType.TOPIC, topic, {"cleanup.policy": "delete", "retention.ms": "-1"}
    )


def store_positions(cluster: LocalCluster, topic: str) -> None:
    """As if Java MM2 had copied the first records of every partition."""
    create_topics(cluster, {OFFSETS: OFFSETS_PARTITIONS}, {"cleanup.policy": "compact"})
    value = b'{"offset":%d}' % (START - 1)
    keys = [
        (
            f'["MirrorSourceConnector",{{"cluster":"{ALIAS}","partition":{index},'
            f'"topic":"{topic}"}}]'
        ).encode()
        for index in range(EACH)
    ]
    positions = [(partition_for_key(key, OFFSETS_PARTITIONS), Record(key, value)) for key in keys]
    produce(cluster, OFFSETS, positions)


def make_topics(source: LocalCluster, target: LocalCluster) -> None:
    """All topics of the source, and those of the target that differ from them."""
    configs = {
        "shapes": KEPT_FOREVER,
        "clockless": KEPT_FOREVER,
        "compacted": COMPACTED | {"delete.retention.ms": "600000"},
        "tombstones": COMPACTED | {"delete.retention.ms": "1000"},
        "large": {"max.message.bytes": str(2 * MEGABYTE)},
        "append-source": APPEND_TIME_TOPIC,
        "append-both": APPEND_TIME_TOPIC,
    }
    everything = EXACT | OTHERS | {"fidelity-growing": 2, HEADER_KEY: 1}
    for name, config in configs.items():
        topic = f"fidelity-{name}"
        create_topics(source, {topic: everything.pop(topic)}, config)
    create_topics(source, everything)
    for name in ("append-target", "append-both"):
        create_topics(target, {remote(f"fidelity-{name}"): EACH}, APPEND_TIME_TOPIC)
    create_topics(
        target,
        {remote("fidelity-tombstones"): 1},
        COMPACTED | {"delete.retention.ms": "600000"},
    )


def write_topics(source: LocalCluster) -> None:
    """Everything that is there before the flow starts, but what is left open."""
    write_tombstones(source, "fidelity-tombstones")
    write_compacted(source, "fidelity-compacted", CODECS, tombstones=range(60, 200, 9))
    hundreds = [f"fidelity-{name}" for name in ("append-source", "append-target", "append-both")]
    hundreds += ["fidelity-trimmed", "fidelity-middle"]
    write_by_codec(source, {topic: hundred(topic) for topic in hundreds})
    shapes = odd_records() + [record for _, record in numbered(200)]
    write_by_codec(source, {"fidelity-shapes": shapes})
    write_by_codec(source, {"fidelity-idempotent": shapes[3:]}, enable_idempotence=True)
    delete_before(source, "fidelity-trimmed", EACH, START)
    write_transactions(source, "fidelity-transactions")
    await_markers(source, "fidelity-transactions")
    write_large(source, "fidelity-large")
    write_tiny(source)
    for index, codec in enumerate(("none", "lz4")):
        produce(
            source,
            "fidelity-wide",
            [(index, record) for _, record in numbered(WIDE_BATCHES * WIDE)],
            compression_type=codec,
            linger_ms=UNTIL_FLUSHED_MS,
            batch_num_messages=WIDE,
            batch_size=2 * MEGABYTE,
            message_max_bytes=2 * MEGABYTE,
        )
    write_clockless(source, "fidelity-clockless")
    write_odd_header(source, HEADER_KEY)


# --- the run


def await_arrival(source: dict[Place, list[ConsumedRecord]], target: LocalCluster) -> None:
    """Wait until the target has as many records as the source, or for long enough.

    What has not come by then fails the tests of its own topic, not all of them.
    """
    expected = {
        (remote(topic), index): len(records) - (START if "middle" in topic else 0)
        for (topic, index), records in source.items()
    }

    def arrived() -> bool:
        found = ends(target, expected)
        assert {place: found[place] for place in expected if found[place] < expected[place]} == {}
        return True

    try:
        eventually(arrived, PATIENCE_SECONDS, "all records arrive", not_yet=NOT_YET)
    except AssertionError as error:
        measured(str(error))


@pytest.fixture(scope="module")
def copied(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Copied]:
    """Odd logs, one flow, a transaction that is committed late and partitions that are added."""
    source, target = source_cluster, target_cluster
    took = {}
    began = time.monotonic()
    speed_up_log_cleaner(source)
    speed_up_log_cleaner(target)
    make_topics(source, target)
    write_topics(source)
    store_positions(target, "fidelity-middle")
    produce(source, "fidelity-open", numbered(10))
    late = transactional(source, "fidelity-late", transaction_timeout_ms=600_000)
    late.begin_transaction()
    write_part(late, "fidelity-open", 0, 10)
    produce(source, "fidelity-open", numbered(10, first=20))
    everything = EXACT | OTHERS
    took["write"] = time.monotonic() - began
    file = mirror_file(
        tmp_path_factory.mktemp("fidelity"),
        {ALIAS: source, "copy": target},
        f"{ALIAS}->copy.enabled = true",
        "topics = fidelity-.*",
        # The target's own cleaner would take part in the comparison.
        "config.properties.exclude = cleanup.policy, segment.ms, delete.retention.ms, "
        "message.timestamp.type",
    )
    with MirrorProcess(file) as mirror:
        began_ms = time.time_ns() // 1_000_000
        began = time.monotonic()
        before = read_partitions(source, partitions_of(everything | {"fidelity-growing": 2}))
        await_arrival(before, target)
        took["copy"] = time.monotonic() - began
        began = time.monotonic()
        with Load(source, "fidelity-growing", per_second=GROWING_PER_SECOND, partitions=2):
            grow_topic(source, "fidelity-growing", 4)
            eventually(
                lambda: len(ends(source, partitions_of({"fidelity-growing": 4}))) == 4,
                PATIENCE_SECONDS,
                "the source topic has grown",
                not_yet=NOT_YET,
            )
            with Load(source, "fidelity-growing", per_second=GROWING_PER_SECOND, partitions=4):
                eventually(
                    lambda: (
                        min(ends(target, partitions_of({remote("fidelity-growing"): 4})).values())
                        > 0
                    ),
                    PATIENCE_SECONDS,
                    "records of the new partitions arrive",
                    not_yet=NOT_YET,
                )
        held_back = read_partitions(target, [(remote("fidelity-open"), 0)])[
            remote("fidelity-open"), 0
        ]
        late.commit_transaction(PATIENCE_SECONDS)
        await_markers(source, "fidelity-open")
        changed = {"fidelity-growing": 4, "fidelity-open": 1}
        originals = before | read_partitions(source, partitions_of(changed))
        await_arrival(originals, target)
        took["grow"] = time.monotonic() - began
        code, _seconds = mirror.interrupt()
        assert code == 0
        began = time.monotonic()
        arrived = read_partitions(
            target, partitions_of({remote(t): n for t, n in everything.items()})
        )
        took["read"] = time.monotonic() - began
        measured(", ".join(f"{what} {seconds:.1f} s" for what, seconds in took.items()))
        copies = {(t.removeprefix(f"{ALIAS}."), n): found for (t, n), found in arrived.items()}
        yield Copied(source, target, originals, copies, held_back, began_ms)
        mirror.show_log()


# --- what arrived


@pytest.mark.parametrize(("topic", "partitions"), EXACT.items())
def test_records_arrive_as_they_were(copied: Copied, topic: str, partitions: int) -> None:
    """Key, value, headers, timestamp, its type, order and partition."""
    records = copied.check_equal(topic, partitions)
    measured(f"{topic}: {records} records in {partitions} partitions")
    assert records > 0


def source_log(copied: Copied, topic: str, partition: int = 0) -> list[LoggedBatch]:
    """What the source's broker has on disk."""
    return logged_batches(copied.source_cluster, topic, partition)


def target_log(copied: Copied, topic: str, partition: int = 0) -> list[LoggedBatch]:
    """What the target's broker has on disk."""
    return logged_batches(copied.target_cluster, remote(topic), partition)


@pytest.mark.parametrize(
    "name",
    [
        "shapes",
        "idempotent",
        "trimmed",
        "compacted",
        "large",
        "tiny-codecs",
        "middle",
        "append-source",
    ],
)
def test_the_codec_stays_what_it_was(copied: Copied, name: str) -> None:
    """Record batches that pass as they are, and reframed ones alike."""
    topic = f"fidelity-{name}"
    for index, codec in enumerate(CODECS):
        before = {batch.codec for batch in source_log(copied, topic, index) if batch.count}
        assert index in before
        assert {batch.codec for batch in target_log(copied, topic, index)} == before, codec


def test_batches_say_their_newest_time(copied: Copied) -> None:
    """Searching by time and retention go by the header: it must not lie about the records."""
    for name in ("shapes", "trimmed", "compacted", "middle", "append-source", "clockless"):
        for index in range((EXACT | OTHERS)[f"fidelity-{name}"]):
            for batch in target_log(copied, f"fidelity-{name}", index):
                records = record_batches.decode(batch.raw, any_snappy=True)
                assert batch.max_timestamp == max(one.timestamp for one in records), name


def test_a_start_in_the_middle_of_a_batch_copies_the_rest(copied: Copied) -> None:
    """Positions stored at 41: the copy begins with record 42, for every codec."""
    topic = "fidelity-middle"
    for index in range(EACH):
        assert any(
            one.base_offset < START <= one.last_offset for one in source_log(copied, topic, index)
        )
        originals = copied.source[topic, index][START:]
        assert difference(originals, copied.target[topic, index]) == ""


def test_a_log_that_begins_in_the_middle_of_a_batch_is_copied_from_there(copied: Copied) -> None:
    """Deleted records that are still in their record batch stay away."""
    for index in range(EACH):
        assert source_log(copied, "fidelity-trimmed", index)[0].base_offset < START
        keys = [record.key for record in copied.target["fidelity-trimmed", index]]
        assert keys == [b"fidelity-trimmed-%d" % number for number in range(START, 100)]


def test_compaction_leaves_no_trace(copied: Copied) -> None:
    """Holes, empty record batches and delete horizons of the source are not on the target."""
    topic = "fidelity-compacted"
    for index in range(EACH):
        before, after = source_log(copied, topic, index), target_log(copied, topic, index)
        assert any(batch.has_holes and batch.count for batch in before)
        assert any(batch.count == 0 for batch in before)
        assert any(batch.has_delete_horizon for batch in before)
        assert not any(batch.has_holes or batch.has_delete_horizon for batch in after)
        assert any(record.value is None for record in copied.target[topic, index])


def test_tombstones_stay_as_long_as_the_target_says(copied: Copied) -> None:
    """By the source's clock they could go at once; the target's cleaner gives them 10 minutes."""
    topic = "fidelity-tombstones"
    # The first timestamp of a batch with a delete horizon is that horizon.
    by_the_source = source_log(copied, topic)[0].base_timestamp
    assert by_the_source < time.time() * 1000
    produce(copied.target_cluster, remote(topic), [(0, Record(b"roll again", b"roll"))])

    def cleaned(batches: list[LoggedBatch]) -> bool:
        """The cleaner has set its own time, or taken tombstones away.

        While it puts a segment in place of another one, the files hold the last segment only.
        """
        is_whole = batches[0].base_offset == 0
        is_less = sum(batch.count for batch in batches) < 52
        return is_whole and (batches[0].has_delete_horizon or is_less)

    after = await_batches(copied.target_cluster, remote(topic), 0, cleaned, "the target is cleaned")
    assert sum(batch.count for batch in after) == 52
    assert after[0].base_timestamp > by_the_source + 500_000


def test_append_times_of_the_source_become_create_times(copied: Copied) -> None:
    """A consumer of the target sees the time that one of the source sees."""
    topic = "fidelity-append-source"
    for index in range(EACH):
        originals = copied.source[topic, index]
        assert {record.timestamp_type for record in originals} == {APPEND_TIME}
        expected = [record._replace(timestamp_type=CREATE_TIME) for record in originals]
        assert difference(expected, copied.target[topic, index]) == ""


@pytest.mark.parametrize("name", ["append-target", "append-both"])
def test_a_target_that_stamps_itself_does_so(copied: Copied, name: str) -> None:
    """Everything but the time comes through."""
    topic = f"fidelity-{name}"
    for index in range(EACH):
        copies = copied.target[topic, index]
        expected = [
            original._replace(timestamp_type=APPEND_TIME, timestamp_ms=copy.timestamp_ms)
            for original, copy in zip(copied.source[topic, index], copies, strict=True)
        ]
        assert difference(expected, copies) == ""
        assert min(record.timestamp_ms for record in copies) >= copied.began_ms


def test_only_committed_records_arrive(copied: Copied) -> None:
    """Markers and aborted records of the source's log leave no trace in the target's."""
    topic = "fidelity-transactions"
    for index in range(EXACT[topic]):
        before, after = source_log(copied, topic, index), target_log(copied, topic, index)
        assert any(batch.is_control for batch in before)
        assert not any(batch.is_control or batch.is_transactional for batch in after)
        assert after[-1].last_offset + 1 == len(copied.source[topic, index])
    written = sum(batch.count for batch in source_log(copied, topic, 1) if not batch.is_control)
    assert (written, len(copied.target[topic, 1])) == (100, 50)
    # Four turns: 10 records of 2 producers 3 times and 10 more, half of them committed; 15 plain.
    assert len(copied.target[topic, 2]) == 30 + 40 + 0 + 70 + 4 * 15


def test_an_open_transaction_holds_back_what_follows_it(copied: Copied) -> None:
    """Until it is committed; then it arrives in its place."""
    topic = "fidelity-open"
    assert difference(copied.source[topic, 0][:10], copied.held_back) == ""
    assert [record.key for record in copied.target[topic, 0]] == [b"key-%d" % n for n in range(30)]


def test_tiny_batches_were_tiny_and_are_joined(copied: Copied) -> None:
    """Thousands of record batches of one record become few; so do compressed ones."""
    for topic, partitions, written in (
        ("fidelity-tiny", TINY_PARTITIONS, TINY_PARTITIONS * TINY),
        ("fidelity-tiny-codecs", EACH, EACH * TINY_CODECS),
    ):
        tiny = [one for n in range(partitions) for one in source_log(copied, topic, n)]
        joined = [one for n in range(partitions) for one in target_log(copied, topic, n)]
        assert {batch.count for batch in tiny} == {1}
        assert len(tiny) == written
        measured(f"{topic}: {written} record batches became {len(joined)}")
        assert len(joined) < written / 10


def test_wide_batches_were_wide_and_stay_so(copied: Copied) -> None:
    """Record batches of 10,000 records pass as they are."""
    for index in range(EXACT["fidelity-wide"]):
        for log in (source_log, target_log):
            assert [batch.count for batch in log(copied, "fidelity-wide", index)] == [
                WIDE
            ] * WIDE_BATCHES


def test_a_header_key_that_is_not_utf8_comes_through(copied: Copied) -> None:
    """Client libraries cannot show it: its bytes are in the target's log."""
    assert odd_header() in log_bytes(copied.target_cluster, remote(HEADER_KEY))


def java_line(partition: int, record: ConsumedRecord) -> str:
    """How Java's console consumer prints a record."""
    headers = ",".join(f"{name}:{(value or b'null').decode()}" for name, value in record.headers)
    parts = [(part if part is not None else b"null").decode() for part in record[:2]]
    return "\t".join(
        [
            f"CreateTime:{record.timestamp_ms}",
            f"Partition:{partition}",
            headers or "NO_HEADERS",
            *parts,
        ]
    )


def test_java_reads_what_the_source_holds(copied: Copied) -> None:
    """All codecs, cut again because of holes, a trimmed log or append times; the odd header."""
    names = [f"fidelity-{name}" for name in ("compacted", "trimmed", "append-source")]
    expected = sorted(
        java_line(place[1], record)
        for place in partitions_of(dict.fromkeys(names, EACH))
        for record in copied.source[place]
    )
    pattern = "|".join([*names, HEADER_KEY])
    found = java_lines(copied.target_cluster, f"{ALIAS}[.]({pattern})", len(expected) + 1)
    [odd] = [line for line in found if line.endswith("\tkey\tvalue")]
    assert odd.startswith(f"CreateTime:{NOW_MS}\tPartition:0\t")
    assert [line for line in found if line != odd] == expected
