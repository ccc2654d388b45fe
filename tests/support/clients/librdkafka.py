# SPDX-License-Identifier: Apache-2.0
"""An independent client (librdkafka) that writes, reads and compares what sparkmirror copies."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from itertools import zip_longest
from typing import NamedTuple, Protocol

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

Place = tuple[str, int]  # topic, partition
_CHUNK = 5_000
_LOOK_SECONDS = 0.1
_ERRORS = 3  # syslog's level; librdkafka remarks on a client that goes quickly
# Not long ago: a topic's retention would delete older records under a test's hands.
_FIRST_TIMESTAMP_MS = time.time_ns() // 1_000_000 - 60_000


class Cluster(Protocol):
    """Anything that can be connected to."""

    @property
    def bootstrap_servers(self) -> str: ...


class Record(NamedTuple):
    """What must come through unchanged."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = -1


def admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": _ERRORS})


def create_topics(
    cluster: Cluster,
    partitions: Mapping[str, int],
    config: Mapping[str, str] | None = None,
) -> None:
    """Create topics and wait until they are served."""
    client = admin(cluster)
    wanted = [
        NewTopic(name, count, replication_factor=1, config=dict(config or {}))
        for name, count in partitions.items()
    ]
    for future in client.create_topics(wanted).values():
        future.result(PATIENCE_SECONDS)
    eventually(
        lambda: _are_served(client, partitions),
        PATIENCE_SECONDS,
        f"{len(partitions)} topics are served",
    )


def grow_topic(cluster: Cluster, topic: str, partitions: int) -> None:
    """Add partitions up to a total."""
    client = admin(cluster)  # futures of a client that is gone never end
    for future in client.create_partitions([NewPartitions(topic, partitions)]).values():
        future.result(PATIENCE_SECONDS)
    eventually(lambda: topics(cluster).get(topic) == partitions, PATIENCE_SECONDS, "it has grown")


def delete_topic(cluster: Cluster, topic: str) -> None:
    client = admin(cluster)
    for future in client.delete_topics([topic]).values():
        future.result(PATIENCE_SECONDS)


def topics(cluster: Cluster) -> dict[str, int]:
    """Every topic with its number of partitions."""
    found = admin(cluster).list_topics(timeout=PATIENCE_SECONDS).topics
    return {name: len(topic.partitions) for name, topic in found.items()}


def _are_served(client: AdminClient, partitions: Mapping[str, int]) -> bool:
    """Whether the leader of every partition has made its log, which it does after naming itself.

    What is written to a partition before that may wait for a minute.
    """
    found = client.list_topics(timeout=PATIENCE_SECONDS).topics
    led = {
        name: sum(1 for one in topic.partitions.values() if one.leader >= 0)
        for name, topic in found.items()
    }
    if not partitions.items() <= led.items():
        return False
    wanted = {
        TopicPartition(name, index): OffsetSpec.latest()
        for name, count in partitions.items()
        for index in range(count)
    }
    answers = client.list_offsets(wanted, request_timeout=PATIENCE_SECONDS)
    return all(one.exception(PATIENCE_SECONDS) is None for one in answers.values())


def topic_partitions(cluster: Cluster, topic: str) -> int:
    """How many partitions a topic has; 0 if it does not exist."""
    return topics(cluster).get(topic, 0)


def produce(
    cluster: Cluster, topic: str, records: Iterable[tuple[int, Record]], **config: object
) -> None:
    """Write records to the partitions given with them and wait for all acknowledgements."""
    produce_many(cluster, ((topic, partition, record) for partition, record in records), **config)


def produce_many(
    cluster: Cluster, records: Iterable[tuple[str, int, Record]], **config: object
) -> None:
    """Write records to the topics and partitions given with them."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 5}
    producer = Producer(settings | {key.replace("_", "."): value for key, value in config.items()})
    refused: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            refused.append(error)

    # librdkafka asks for topics one by one as they are used; of hundreds it forgets some for 30 s.
    producer.list_topics(timeout=PATIENCE_SECONDS)
    for topic, partition, record in records:
        send(producer, topic, partition, record, delivered)
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert refused == []


def send(
    producer: Producer, topic: str, partition: int, record: Record, delivered: object = None
) -> None:
    """Hand one record to a producer, waiting while its queue is full."""
    while True:
        try:
            producer.produce(
                topic,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
                partition=partition,
                timestamp=max(record.timestamp_ms, 0),
                on_delivery=delivered,
            )
        except BufferError:
            producer.poll(0.1)
        else:
            producer.poll(0)
            return


def numbered(count: int, partitions: int = 1, *, first: int = 0) -> list[tuple[int, Record]]:
    """Records that can be distinguished, spread over partitions."""
    return [
        (
            number % partitions,
            Record(
                b"key-%d" % number,
                b"value-%d" % number,
                (("number", b"%d" % number),),
                _FIRST_TIMESTAMP_MS + number,
            ),
        )
        for number in range(first, first + count)
    ]


def end_offsets(cluster: Cluster, topic: str) -> dict[int, int]:
    """The end offset of every partition, open transactions included; empty without the topic."""
    client = admin(cluster)

    def ask() -> tuple[dict[int, int]]:
        found = client.list_topics(topic, timeout=PATIENCE_SECONDS).topics[topic].partitions
        wanted = {TopicPartition(topic, index): OffsetSpec.latest() for index in found}
        if not wanted:
            return ({},)
        answers = client.list_offsets(
            wanted,
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=PATIENCE_SECONDS,
        )
        ends = {tp: future.result(PATIENCE_SECONDS) for tp, future in answers.items()}
        return ({tp.partition: end.offset for tp, end in ends.items()},)

    # A topic that is being made has no leader for a moment, and neither has one whose broker died.
    [ends] = eventually(ask, PATIENCE_SECONDS, f"ends of {topic}", not_yet=(KafkaException,))
    return ends


def messages(cluster: Cluster, places: Iterable[Place]) -> Iterator[list[Message]]:
    """What partitions hold from the beginning to the present end, committed, in order each."""
    unfinished = set(places)
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": unique_name("witness"),
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "check.crcs": True,
            "fetch.wait.max.ms": 10,
            "queued.max.messages.kbytes": 32_768,
            "fetch.queue.backoff.ms": 5,  # by default a full queue means a second's pause
            "log_level": _ERRORS,
        }
    )
    with closing(consumer):
        consumer.list_topics(timeout=PATIENCE_SECONDS)  # as in produce_many
        consumer.assign([TopicPartition(topic, index, 0) for topic, index in unfinished])
        deadline = time.monotonic() + PATIENCE_SECONDS
        while unfinished:
            assert time.monotonic() < deadline, f"no more of {min(unfinished)} could be read"
            # Waits for the whole chunk: the end of the log must not cost the whole patience.
            chunk = consumer.consume(_CHUNK, timeout=_LOOK_SECONDS)
            signals = [message for message in chunk if message.error() is not None]
            for message in signals:
                if message.error().code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(message.error())
                unfinished.discard((message.topic(), message.partition()))
            if chunk:
                deadline = time.monotonic() + PATIENCE_SECONDS
            yield [one for one in chunk if one.error() is None] if signals else chunk


def record_of(message: Message) -> Record:
    """What matters of a message."""
    return Record(
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
        message.timestamp()[1],
    )


def read_topics(cluster: Cluster, names: Mapping[str, int]) -> dict[Place, list[Record]]:
    """All committed records of topics, given with their number of partitions."""
    places = [(name, index) for name, partitions in names.items() for index in range(partitions)]
    found: dict[Place, list[Record]] = {place: [] for place in places}
    for chunk in messages(cluster, places):
        for message in chunk:
            found[message.topic(), message.partition()].append(record_of(message))
    return found


def read_topic(cluster: Cluster, topic: str) -> dict[int, list[Record]]:
    """All committed records of a topic, by partition."""
    found = read_topics(cluster, {topic: topic_partitions(cluster, topic)})
    return {index: records for (_, index), records in found.items()}


def compare_topics(source: Cluster, source_topic: str, target: Cluster, target_topic: str) -> int:
    """Compare record by record (key, value, headers, timestamp, order); how many there are.

    Both sides are read at the same time, so that a topic need not fit into memory.
    """
    partitions = topic_partitions(source, source_topic)
    assert topic_partitions(target, target_topic) == partitions
    compared = 0
    for partition in range(partitions):
        sides = (
            messages(source, [(source_topic, partition)]),
            messages(target, [(target_topic, partition)]),
        )
        waiting: tuple[list[Record], list[Record]] = ([], [])
        for chunks in zip_longest(*sides, fillvalue=()):
            for queue, chunk in zip(waiting, chunks, strict=True):
                queue.extend(map(record_of, chunk))
            common = min(len(queue) for queue in waiting)
            originals, copies = (queue[:common] for queue in waiting)
            assert originals == copies, _difference(originals, copies)
            for queue in waiting:
                del queue[:common]
            compared += common
        assert waiting == ([], []), f"{target_topic}-{partition}: the lengths differ"
    return compared


def await_copy(
    source: Cluster, source_topic: str, target: Cluster, target_topic: str, timeout: float
) -> None:
    """Wait until the target's end offsets equal the source's (topics without holes or markers)."""

    def arrived() -> bool:
        here, there = end_offsets(source, source_topic), end_offsets(target, target_topic)
        assert there == here
        return True

    eventually(arrived, timeout, f"all of {source_topic} is in {target_topic}")


def duplicates(original: list[Record], copy: list[Record]) -> int:
    """How many records of a copy are repetitions; fails if one is missing or out of order."""
    first_seen = list(dict.fromkeys(copy))
    assert len(set(original)) == len(original), "the originals must be distinguishable"
    assert first_seen == original, _difference(original, first_seen)
    return len(copy) - len(original)


def _difference(original: list[Record], copy: list[Record]) -> str:
    missing = set(original) - set(copy)
    if missing:
        return f"{len(missing)} of {len(original)} records are missing, one is {min(missing)}"
    for index, (one, other) in enumerate(zip(original, copy, strict=False)):
        if one != other:
            return f"record {index} should be {one}, not {other}"
    return f"{len(copy) - len(original)} records too many"
