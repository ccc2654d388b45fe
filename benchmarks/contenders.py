# SPDX-License-Identifier: Apache-2.0
"""The contenders: each is a command that reads an MM2 file and runs until SIGTERM."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from benchmarks.process_tree import ProcessTree
from sparkmirror.devcluster.jars import DEFAULT_KAFKA, JarSet
from sparkmirror.devcluster.jvm import KafkaJvm
from support.mirrors.mirror_process import command

_STOP_SECONDS = 30.0
_JAVA_MAIN = "org.apache.kafka.connect.mirror.MirrorMaker"
_JAVA_HEAP = "2g"
_JAVA_OPTIONS = (  # these and the heap as Kafka's own start scripts have them
    "-Xms256M",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
# What may be on the way to a reader, on a line with TCP's windows: as much as its receive buffer
# takes, if the broker's `socket.send.buffer.bytes` was opened as Kafka advises for long lines.
# Java's consumer asks for 64 KiB; where it is left to Linux it grows to half of 6 MiB, mostly.
_JAVA_WINDOW = 65_536
_OWN_WINDOW = 3 << 20
_ONE_BROKER = tuple(
    f"{name}.replication.factor = 1"
    for name in (
        "offset-syncs.topic",
        "checkpoints.topic",
        "heartbeats.topic",
        "offset.storage",
        "status.storage",
        "config.storage",
    )
)


@dataclass(frozen=True, slots=True)
class Contender:
    """A name, its users' lines for the file, and the command."""

    name: str
    start: Callable[[Path], list[str]]
    lines: Callable[[str, int], tuple[str, ...]]  # from the source's alias and partitions
    environment: Mapping[str, str] = field(default_factory=dict)
    window: int = _OWN_WINDOW  # of its connections to the source

    @contextmanager
    def running(self, file: Path) -> Iterator[ProcessTree]:
        """Run the command in its own process group; ends it with SIGTERM, then SIGKILL."""
        with file.with_suffix(".log").open("ab") as log:
            process = subprocess.Popen(
                self.start(file),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(sys.path),
                    **self.environment,
                },
            )
        tree = ProcessTree(process.pid)
        everyone = [psutil.Process(process.pid)]
        try:
            yield tree
            everyone += everyone[0].children(recursive=True)
            process.send_signal(signal.SIGTERM)
            process.wait(_STOP_SECONDS)
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                everyone += everyone[0].children(recursive=True)
            for one in everyone:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()
            process.wait(_STOP_SECONDS)


def _java(file: Path) -> list[str]:
    jvm = KafkaJvm.of(
        DEFAULT_KAFKA, heap=_JAVA_HEAP, options=_JAVA_OPTIONS, artifacts=JarSet.CONNECT
    )
    logging = file.with_suffix(".logging.properties")
    logging.write_text(jvm.logging_text("warn"), encoding="utf-8")
    return jvm.command(_JAVA_MAIN, str(file), logging=logging)


def _as_they_come(_alias: str, _partitions: int) -> tuple[str, ...]:
    return ("replication.factor = 1", *_ONE_BROKER)


def tuned_lines(alias: str, partitions: int) -> tuple[str, ...]:
    """Return typical tuning: one task per partition, large batches, large fetches."""
    return (
        *_as_they_come(alias, partitions),
        f"tasks.max = {min(partitions, 8)}",
        "target.producer.batch.size = 524288",
        "target.producer.linger.ms = 50",
        "target.producer.compression.type = lz4",
        "target.producer.buffer.memory = 134217728",
        "target.producer.max.request.size = 4194304",
        f"{alias}.consumer.fetch.max.bytes = 52428800",
        f"{alias}.consumer.max.partition.fetch.bytes = 10485760",
        f"{alias}.consumer.max.poll.records = 20000",
    )


OURS = Contender("sparkmirror", lambda file: [command(), "run", str(file)], _as_they_come)
JAVA = Contender("MM2, defaults", _java, _as_they_come, window=_JAVA_WINDOW)
TUNED = Contender("MM2, tuned", _java, tuned_lines, window=_JAVA_WINDOW)
TUNED_FOR_DISTANCE = Contender(
    "MM2, tuned, receive.buffer.bytes -1",
    _java,
    lambda alias, partitions: (
        *tuned_lines(alias, partitions),
        f"{alias}.consumer.receive.buffer.bytes = -1",
    ),
)
CEILING = Contender(
    "copy loop without Spark",
    lambda file: [sys.executable, "-m", "benchmarks.ceiling", str(file)],
    _as_they_come,
)


def in_plain_text(contender: Contender) -> Contender:
    """Return the same contender without TLS."""
    return replace(contender, name=f"{contender.name}, plain text")


def from_version(contender: Contender, version: str) -> Contender:
    """The same with a source of another Kafka version."""
    return replace(contender, name=f"{contender.name}, from Kafka {version}")


def ours_with_tasks(tasks: int) -> Contender:
    """Sparkmirror with a larger `tasks.max`."""
    return Contender(
        f"sparkmirror, tasks.max {tasks}",
        OURS.start,
        lambda alias, partitions: (*_as_they_come(alias, partitions), f"tasks.max = {tasks}"),
    )


def once_with_tasks(name: str, tasks: int, *spark: str) -> Contender:
    """A bounded run of sparkmirror with these lines about Spark."""
    return Contender(
        name,
        lambda file: [command(), "run", str(file), "--once"],
        lambda alias, partitions: (
            *_as_they_come(alias, partitions),
            f"tasks.max = {tasks}",
            *spark,
        ),
    )
