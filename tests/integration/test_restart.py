# SPDX-License-Identifier: Apache-2.0
"""Starting quickly, stopping cleanly, and going on where the last run stopped."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from sparkmirror.formats.murmur2 import partition_for
from sparkmirror.local.cluster import LocalCluster
from support.figures import measured
from support.load import Load
from support.mirror_file import mirror_file
from support.mirror_process import STOP_SECONDS, MirrorProcess
from support.waiting import eventually
from support.witness import (
    PATIENCE_SECONDS,
    Cluster,
    compare_topics,
    create_topics,
    end_offsets,
    numbered,
    produce,
    read_topic,
    topic_partitions,
)

FIRST_RECORD_SECONDS = 10.0
RUN_SECONDS = 60.0
TOPIC, REMOTE = "restarts", "port.restarts"


def stored_offsets(cluster: Cluster, topic: str) -> dict[bytes, tuple[int, bytes]]:
    """The newest value of every key of an offsets topic, with the partition it is in."""
    return {
        record.key or b"": (partition, record.value or b"")
        for partition, records in read_topic(cluster, topic).items()
        for record in records
    }


def copied(cluster: Cluster) -> int:
    """How many records the remote topic has."""
    return sum(end_offsets(cluster, REMOTE).values())


def check_positions(cluster: Cluster) -> None:
    """Connect's exact key bytes in Java's partition, and values that agree with the target."""
    stored = stored_offsets(cluster, "mm2-offsets.port.internal")
    partitions = topic_partitions(cluster, "mm2-offsets.port.internal")
    for index, end in end_offsets(cluster, REMOTE).items():
        key = (
            b'["MirrorSourceConnector",{"cluster":"port","partition":%d,"topic":"restarts"}]'
            % index
        )
        where, value = stored[key]
        assert where == partition_for(key, partitions)
        # Nothing but these records was ever written: both sides count alike.
        assert value == b'{"offset":%d,"downstream":%d}' % (end - 1, end - 1)
        assert json.loads(value)["offset"] == end - 1


def test_clean_stops_lose_nothing_and_repeat_nothing(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path: Path,
    record_property: pytest.RecordProperty,
) -> None:
    """A record within 10 s; SIGTERM and Ctrl-C under load end within 10 s; each record once."""
    create_topics(source_cluster, {TOPIC: 2})
    produce(source_cluster, TOPIC, numbered(100, 2))
    clusters = {"port": source_cluster, "starboard": target_cluster}
    file = mirror_file(tmp_path, clusters, "port->starboard.enabled = true", f"topics = {TOPIC}")
    with MirrorProcess(file) as mirror:
        eventually(lambda: end_offsets(target_cluster, REMOTE).get(0), RUN_SECONDS, "a record")
        first_record = time.monotonic() - mirror.started
        with Load(source_cluster, TOPIC, per_second=2000, partitions=2) as load:
            eventually(lambda: copied(target_cluster) > 4000, PATIENCE_SECONDS, "records flow")
            code, took = mirror.terminate()
            mirror.await_end_of_all()
    measured(f"first record after {first_record:.1f} s; SIGTERM: exit {code} after {took:.1f} s")
    record_property("first_record_seconds", round(first_record, 1))
    assert code == 0
    assert took < STOP_SECONDS
    check_positions(target_cluster)
    before = copied(target_cluster)
    assert load.sent > 0
    with MirrorProcess(file) as mirror, Load(source_cluster, TOPIC, per_second=2000, partitions=2):
        eventually(lambda: copied(target_cluster) > before + 4000, RUN_SECONDS, "they flow again")
        code, took = mirror.interrupt()
        mirror.await_end_of_all()
    measured(f"SIGINT to the group: exit {code} after {took:.1f} s")
    assert code == 0
    assert took < STOP_SECONDS
    check_positions(target_cluster)
    with MirrorProcess(file, "--once") as mirror:
        assert mirror.wait(RUN_SECONDS) == 0
    check_positions(target_cluster)
    total = compare_topics(source_cluster, TOPIC, target_cluster, REMOTE)
    measured(f"{total} records, each once")
    assert first_record < FIRST_RECORD_SECONDS
