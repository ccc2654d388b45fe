# SPDX-License-Identifier: Apache-2.0
"""A producer that keeps writing numbered records while a test hurts something, and an observer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from types import TracebackType
from typing import Self

from confluent_kafka import OFFSET_END, Consumer, KafkaError, Message, Producer, TopicPartition

from support.clients.librdkafka import Cluster, Record, end_offsets, send
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

_MOST_OWED_SECONDS = 0.2
_LOOK_SECONDS = 0.1


class Load:
    """Writes records at a steady rate from its own thread; none is lost, none is twice.

    What a machine under stress does not manage in time is not made up for: tests count records.
    Values begin with the load's name and the record's number, which grows. So do keys; with `keys`
    only so many different ones come in turn, for logs that are compacted.
    """

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        *,
        per_second: int,
        partitions: int = 1,
        size: int = 100,
        linger_ms: int = 5,
        name: str = "",
        keys: int = 0,
    ) -> None:
        self._name = name.encode()
        self._keys = keys
        self._topic = topic
        self._per_second = per_second
        self._partitions = partitions
        self._padding = b"." * size
        self._stop = threading.Event()
        self._refused: list[KafkaError] = []
        self._servers = cluster.bootstrap_servers
        self._linger_ms = linger_ms
        self._producer = self._new_producer()
        self._writing = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"load/{topic}", daemon=True)
        self.sent = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        if kind is not None:
            self._producer.purge()  # whoever failed does not wait for a dead broker as well
        left = self._producer.flush(PATIENCE_SECONDS)
        if kind is None:
            assert left == 0
            assert self._refused == []

    def _new_producer(self) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self._servers,
                "enable.idempotence": True,
                "compression.type": "lz4",
                "linger.ms": self._linger_ms,
                "delivery.timeout.ms": round(PATIENCE_SECONDS * 1000),
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,  # a broker that is killed on purpose is not worth a line
            }
        )

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Write nothing in here, once all that was written is acknowledged.

        Afterwards a new producer writes: brokers with another log do not know the sequences of the
        old one.
        """
        with self._writing:
            assert self._producer.flush(PATIENCE_SECONDS) == 0
            yield
            self._producer = self._new_producer()

    def write_now(self, count: int) -> None:
        """Write some records in a pause, and wait until they are acknowledged."""
        for _ in range(count):
            self._write(self.sent)
        assert self._producer.flush(PATIENCE_SECONDS) == 0

    def _run(self) -> None:
        last, owed = time.monotonic(), 0.0
        while not self._stop.wait(0.01):
            if not self._writing.acquire(timeout=_LOOK_SECONDS):
                continue
            try:
                now = time.monotonic()
                owed += min(now - last, _MOST_OWED_SECONDS) * self._per_second
                last = now
                while owed >= 1 and not self._stop.is_set():
                    owed -= 1
                    self._write(self.sent)
            finally:
                self._writing.release()

    def _write(self, number: int) -> None:
        key = number // self._partitions % self._keys if self._keys else number
        record = Record(
            self._name + b"%d" % key,
            self._name + b"%d" % number + self._padding,
            timestamp_ms=time.time_ns() // 1_000_000,
        )
        partition = number % self._partitions
        send(self._producer, self._topic, partition, record, self._delivered)
        self.sent += 1

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._refused.append(error)


def await_more(cluster: Cluster, topic: str, load: Load, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until everything that has been written by now is there."""
    written = load.sent
    eventually(
        lambda: sum(end_offsets(cluster, topic).values()) >= written,
        seconds,
        f"{topic} has {written} records",
    )


class Gaps:
    """How long a topic partition was silent at most while it was observed."""

    longest_seconds: float = 0.0
    records: int = 0


@contextmanager
def observed(cluster: Cluster, topic: str, partition: int = 0) -> Iterator[Gaps]:
    """Watch new records arrive in a partition of a topic."""
    gaps = Gaps()
    stop = threading.Event()
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": unique_name("observer"),
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
            "fetch.wait.max.ms": 10,
        }
    )

    def watch() -> None:
        last = None
        while not stop.is_set():
            message = consumer.poll(0.1)
            now = time.monotonic()
            if message is not None and message.error() is None:
                gaps.records += 1
            if last is not None:
                gaps.longest_seconds = max(gaps.longest_seconds, now - last)
            if message is not None or last is None:
                last = now

    consumer.assign([TopicPartition(topic, partition, OFFSET_END)])
    thread = threading.Thread(target=watch, name=f"observer/{topic}", daemon=True)
    thread.start()
    with closing(consumer):
        try:
            yield gaps
        finally:
            stop.set()
            thread.join()
