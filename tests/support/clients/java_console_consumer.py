# SPDX-License-Identifier: Apache-2.0
"""Kafka's own console consumer as a second witness: it is stricter about codecs than librdkafka."""

from __future__ import annotations

import subprocess

from sparkmirror.devcluster.kafka_tools import CONSOLE_CONSUMER, KafkaTools
from support.clients.librdkafka import Cluster
from support.waiting import PATIENCE_SECONDS

_PRINTED = ("timestamp", "partition", "headers", "key", "value")


def java_lines(cluster: Cluster, topics: str, records: int, group: str = "") -> list[str]:
    """What Java prints of the first records of all topics that match a pattern, sorted.

    A line is timestamp type and time, partition, headers, key, value, with tabs between. If a
    group is named, it commits where it stands on every partition, as Java does at the end.
    """
    command = KafkaTools(cluster.bootstrap_servers).command(
        CONSOLE_CONSUMER,
        f"--include={topics}",
        "--from-beginning",
        "--isolation-level=read_committed",
        f"--max-messages={records}",
        f"--timeout-ms={round(PATIENCE_SECONDS * 500)}",
        *([f"--group={group}"] if group else []),
        *(f"--formatter-property=print.{name}=true" for name in _PRINTED),
    )
    done = subprocess.run(
        command,
        capture_output=True,
        encoding="utf-8",
        errors="backslashreplace",  # values are printed as they are
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.splitlines())
