# SPDX-License-Identifier: Apache-2.0
"""Kafka's own RemoteClusterUtils and MM2's console formatters, as witnesses for our client.

Each call is one JVM with Connect's jars, which takes some seconds: ask many questions at once.
"""

from __future__ import annotations

import subprocess
from collections import defaultdict
from pathlib import Path

from sparkmirror.client import OffsetAndMetadata, TopicPartition
from sparkmirror.devcluster.jars import DEFAULT_KAFKA, JarSet
from sparkmirror.devcluster.jvm import KafkaJvm
from sparkmirror.devcluster.kafka_tools import CONSOLE_CONSUMER
from support.clients.librdkafka import Cluster

_PROGRAM = Path(__file__).parents[1] / "java" / "RemoteClusters.java"
_FORMATTERS = "org.apache.kafka.connect.mirror.formatters."
_SECONDS = 120.0
_READ_SECONDS = 30.0

Answer = list[list[str]]  # the fields of each line
GroupOffsets = dict[str, dict[TopicPartition, OffsetAndMetadata]]


def run_java_queries(cluster: Cluster, scratch: Path, *questions: str) -> list[Answer]:
    """The answers to questions as `RemoteClusters.java` describes them, in their order."""
    output = _run(scratch, str(_PROGRAM), cluster.bootstrap_servers, *questions)
    answers: list[Answer] = [[] for _ in questions]
    for line in output.splitlines():
        number, *fields = line.split("\t")
        answers[int(number) - 1].append(fields)
    return answers


def names_in(answer: Answer) -> set[str]:
    """An answer that is a set of names."""
    return {name for (name,) in answer}


def offsets_in(answer: Answer) -> GroupOffsets:
    """An answer that is the offsets of groups."""
    found: GroupOffsets = defaultdict(dict)
    for group, topic, partition, offset, metadata in answer:
        place = TopicPartition(topic, int(partition))
        found[group][place] = OffsetAndMetadata(int(offset), metadata)
    return dict(found)


def formatted(
    cluster: Cluster, scratch: Path, topic: str, formatter: str, records: int
) -> list[str]:
    """What the console consumer prints of a topic with one of MM2's formatters."""
    output = _run(
        scratch,
        CONSOLE_CONSUMER,
        f"--bootstrap-server={cluster.bootstrap_servers}",
        f"--topic={topic}",
        f"--formatter={_FORMATTERS}{formatter}",
        "--from-beginning",
        f"--max-messages={records}",
        f"--timeout-ms={round(_READ_SECONDS * 1000)}",
    )
    return output.splitlines()


def _run(scratch: Path, program: str, *arguments: str) -> str:
    jvm = KafkaJvm.of(DEFAULT_KAFKA, heap="256m", artifacts=JarSet.CONNECT)
    logging = scratch / "java-client-logging.properties"
    logging.write_text(jvm.logging_text("error"), encoding="utf-8")
    done = subprocess.run(
        jvm.command(program, *arguments, logging=logging),
        capture_output=True,
        encoding="utf-8",
        timeout=_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
