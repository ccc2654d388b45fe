# SPDX-License-Identifier: Apache-2.0
"""Follows the end of every partition of a topic: rates over time, and the longest stall of one."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from support.clients.librdkafka import Cluster, admin
from support.waiting import PATIENCE_SECONDS

_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Stall:
    """For how long a partition got no record, and since when, in seconds from the start."""

    seconds: float
    partition: int
    since: float

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s without a record, partition {self.partition}"


class PartitionProgress:
    """Looks twice a second, from `with` to its end."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int) -> None:
        self._admin = admin(cluster)
        self._topic = topic
        self._wanted = {
            TopicPartition(topic, index): OffsetSpec.latest() for index in range(partitions)
        }
        self._began = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"progress/{topic}", daemon=True)
        self.looks: list[tuple[float, dict[int, int]]] = []
        self.events: list[tuple[float, str]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_SECONDS)

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    def mark(self, event: str) -> float:
        """Note an event; returns its time."""
        now = self.now
        self.events.append((now, event))
        print(f"{now:6.1f} s  {event}")
        return now

    def has_every_partition_moved(self, since: float) -> bool:
        """Whether each partition has got a record after the first look after this moment."""
        later = [ends for at, ends in self.looks if at > since]
        return bool(later) and all(later[-1][p] > later[0][p] for p in later[0])

    def longest_stall(self, since: float, until: float) -> Stall:
        """Return the longest time that a partition got nothing, between two moments."""
        worst = Stall(0.0, -1, since)
        for partition in range(len(self._wanted)):
            moved = [since]
            for (_, before), (at, after) in pairwise(self.looks):
                if since < at <= until and after[partition] > before[partition]:
                    moved.append(at)
            for before, after in pairwise([*moved, until]):
                if after - before > worst.seconds:
                    worst = Stall(after - before, partition, before)
        return worst

    def plot(self, file: Path, title: str) -> None:
        """Draw the records per second of each partition, with the events."""
        from matplotlib.figure import Figure  # noqa: PLC0415 - for this only

        figure = Figure(figsize=(12, 7))
        axes = figure.subplots()
        for partition in range(len(self._wanted)):
            times, rates = [], []
            for (begin, before), (end, after) in zip(self.looks, self.looks[4:], strict=False):
                times.append(end)
                rates.append((after[partition] - before[partition]) / (end - begin))
            axes.plot(times, rates, label=f"partition {partition}", linewidth=0.9)
        for at, event in self.events:
            axes.axvline(at, color="black", linestyle=":", linewidth=0.8)
            axes.text(
                at,
                1.0,
                f" {event}",
                rotation=90,
                va="top",
                fontsize=7,
                transform=axes.get_xaxis_transform(),
            )
        axes.set(title=title, xlabel="seconds", ylabel="records per second")
        axes.set_yscale("symlog", linthresh=10)
        axes.set_ylim(bottom=0)
        if self.events:
            axes.set_xlim(left=self.events[0][0] - _LOOK_SECONDS)  # not the start
        axes.legend(fontsize=7, ncols=2, loc="lower left")
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=120, bbox_inches="tight")

    def _run(self) -> None:
        while not self._stop.wait(_LOOK_SECONDS):
            try:
                answers = self._admin.list_offsets(
                    self._wanted,
                    isolation_level=IsolationLevel.READ_UNCOMMITTED,
                    request_timeout=PATIENCE_SECONDS,
                )
                ends = {tp.partition: one.result().offset for tp, one in answers.items()}
            except KafkaException:
                continue  # the topic is not there yet
            self.looks.append((self.now, ends))
