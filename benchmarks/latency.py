# SPDX-License-Identifier: Apache-2.0
"""Measures latency from the call of a producer to the poll of a consumer."""

from __future__ import annotations

import struct
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from benchmarks.catch_up import Ends, insist, running
from benchmarks.contenders import Contender
from sparkmirror.devcluster.cluster import LocalCluster
from support.clients.librdkafka import Cluster, create_topics
from support.unique_names import unique_name

_SENT = struct.Struct(">Q")
_PADDING = bytes(92)
_PATIENCE_SECONDS = 120.0
_WARM_UP_SECONDS = 5.0
_EPOCH_SECONDS = 30  # the default is 300: changes of epoch fall into the time that is measured
PARTITIONS = 4


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles in milliseconds."""

    p50: float
    p95: float
    p99: float
    longest: float
    records: int
    cpu_share: float  # of a core, of the whole process tree


class _Writer:
    """Writes timestamped records at a steady rate until it is stopped."""

    def __init__(self, cluster: Cluster, topic: str, per_second: int) -> None:
        self._producer = Producer(
            {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0, "acks": "1"}
        )
        self._topic = topic
        self._per_second = per_second
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.flush(_PATIENCE_SECONDS)

    def _run(self) -> None:
        began, sent = time.monotonic(), 0
        pause = min(0.01, 1 / self._per_second)
        while not self._stop.wait(pause):
            due = int((time.monotonic() - began) * self._per_second)
            while sent < due:
                value = _SENT.pack(time.time_ns()) + _PADDING
                self._producer.produce(self._topic, value, partition=sent % PARTITIONS)
                sent += 1
            self._producer.poll(0)


def latency(
    contender: Contender,
    clusters: tuple[Cluster, LocalCluster],
    directory: Path,
    *,
    per_second: int,
    seconds: float,
) -> Latency:
    """Measure for this many seconds after a warm-up."""
    source, target = clusters
    topic = unique_name("latency")
    create_topics(source, {topic: PARTITIONS})
    epochs = f"epoch.seconds = {_EPOCH_SECONDS}"
    with running(contender, {topic: PARTITIONS}, clusters, directory, epochs) as (tree, alias):
        writer = _Writer(source, topic, per_second)
        try:
            remote = f"{alias}.{topic}"
            ends = Ends(target, {remote: PARTITIONS})
            deadline = time.monotonic() + _PATIENCE_SECONDS
            while len(ends.filled()) < PARTITIONS:
                insist(contender, tree, directory)
                if time.monotonic() > deadline:
                    message = f"{contender.name}: nothing arrived in {remote}"
                    raise TimeoutError(message)
                time.sleep(0.2)
            consumer = Consumer(
                {
                    "bootstrap.servers": target.bootstrap_servers,
                    "group.id": unique_name("latency"),
                    "enable.auto.commit": False,
                    "fetch.queue.backoff.ms": 5,
                }
            )
            with closing(consumer):
                consumer.assign(
                    [TopicPartition(remote, i, ends.filled()[remote, i]) for i in range(PARTITIONS)]
                )
                _collect(consumer, _WARM_UP_SECONDS)
                before, began = tree.cpu_seconds(), time.monotonic()
                found = sorted(_collect(consumer, seconds))
                share = (tree.cpu_seconds() - before) / (time.monotonic() - began)
        finally:
            writer.stop()
    if len(found) < per_second * seconds * 0.9:
        message = f"{contender.name}: only {len(found)} records in {seconds:g} s"
        raise RuntimeError(message)
    return Latency(
        *(found[int(len(found) * part)] for part in (0.5, 0.95, 0.99)),
        found[-1],
        len(found),
        share,
    )


def _collect(consumer: Consumer, seconds: float) -> list[float]:
    found: list[float] = []
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for message in consumer.consume(100, timeout=0.001):
            error = message.error()
            if error is not None:
                raise KafkaException(error)
            [sent] = _SENT.unpack_from(message.value() or b"")
            found.append((time.time_ns() - sent) / 1e6)
    return found
