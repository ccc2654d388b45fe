# SPDX-License-Identifier: Apache-2.0
"""Consumes the target with librdkafka: do records flow, how long were pauses, and when.

It sees what any consumer sees, including errors of a dying leader. Lost and duplicated records are
found later by reading both sides again.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Iterable
from contextlib import closing
from types import TracebackType
from typing import NamedTuple, Self

from confluent_kafka import Consumer, Message, TopicPartition

from chaos.verdict import Stream
from support.clients.librdkafka import Cluster
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS

_CHUNK = 1000
_LOOK_SECONDS = 0.1
_PAUSE_SECONDS = 0.3  # what counts as a pause


class Pause(NamedTuple):
    """A period without a record of one stream (time.monotonic)."""

    began: float
    ended: float
    stream: Stream

    @property
    def seconds(self) -> float:
        return self.ended - self.began


class Observer:
    """Consumes a topic of the target on its own thread."""

    def __init__(self, cluster: Cluster, topic: str, streams: Iterable[Stream]) -> None:
        self._streams = list(streams)
        self._arrived: dict[Stream, float] = {}
        self._newest_ms: dict[Stream, int] = dict.fromkeys(self._streams, 0)
        self._last_number: dict[Stream, int] = dict.fromkeys(self._streams, -1)
        self._samples: dict[int, list[tuple[int, float]]] = {}  # partition -> offset, when
        self.pauses: list[Pause] = []
        self.records = 0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._servers = cluster.bootstrap_servers
        self._topic = topic
        self._again = threading.Event()
        self._is_another = False
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def begin_again(self, *, is_another: bool) -> None:
        """Continue at the end of a truncated log, or at the beginning of a recreated topic."""
        self._is_another = is_another
        self._again.set()

    def _run(self) -> None:
        firsts = dict.fromkeys({partition for _, partition in self._streams}, 0)
        while not self._over.is_set():
            with closing(self._consumer()) as consumer:
                if self._again.is_set():
                    firsts = self._firsts(consumer)
                    self._again.clear()
                consumer.assign([TopicPartition(self._topic, *one) for one in firsts.items()])
                while not self._over.is_set() and not self._again.is_set():
                    chunk = consumer.consume(_CHUNK, _LOOK_SECONDS)
                    good = [message for message in chunk if message.error() is None]
                    with self._lock:
                        self._note(good, time.monotonic())

    def _firsts(self, consumer: Consumer) -> dict[int, int]:
        """Return the next offset of each partition; drops the times of later offsets."""
        firsts = {}
        for partition in {partition for _, partition in self._streams}:
            place = TopicPartition(self._topic, partition)
            _, end = consumer.get_watermark_offsets(place, PATIENCE_SECONDS)
            firsts[partition] = 0 if self._is_another else end
            with self._lock:
                samples = self._samples.setdefault(partition, [])
                del samples[bisect_left(samples, (firsts[partition], 0.0)) :]
        return firsts

    def _consumer(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": unique_name("observer"),
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 50,
                "topic.metadata.refresh.interval.ms": 1000,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,  # brokers die here
            }
        )

    def _note(self, chunk: list[Message], now: float) -> None:
        self.records += len(chunk)
        for message in chunk:
            samples = self._samples.setdefault(message.partition(), [])
            samples.append((message.offset(), now))
            source, number = source_and_number(message)
            stream = source, message.partition()
            self._newest_ms[stream] = max(self._newest_ms[stream], message.timestamp()[1])
            self._last_number[stream] = max(self._last_number[stream], number)
            before = self._arrived.get(stream)
            if before is not None and now - before > _PAUSE_SECONDS:
                self.pauses.append(Pause(before, now, stream))
            self._arrived[stream] = now

    def flows_since(self, wall_seconds: float) -> bool:
        """Whether every stream has a record that was written after that time (time.time)."""
        with self._lock:
            return min(self._newest_ms.values()) > wall_seconds * 1000

    def last_number(self, stream: Stream) -> int:
        """The highest number that has arrived."""
        with self._lock:
            return self._last_number[stream]

    def when(self, partition: int, offset: int) -> float | None:
        """When a target offset was first seen (time.monotonic)."""
        with self._lock:
            samples = self._samples.get(partition, [])
            place = bisect_left(samples, (offset, 0.0))
            return samples[place][1] if offset >= 0 and place < len(samples) else None


def source_and_number(message: Message) -> tuple[str, int]:
    """Return source and number of a record, from its value, such as `us-17...`."""
    source, _, number = (message.value() or b"").decode().rstrip(".").partition("-")
    return source, int(number)
