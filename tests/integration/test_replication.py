# SPDX-License-Identifier: Apache-2.0
"""What `sparkmirror run --once` copies arrives byte for byte, from where the stored state says."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.devcluster.kafka_tools import KafkaTools
from support.clients.librdkafka import compare_topics, create_topics
from support.measurements import measured
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.waiting import PATIENCE_SECONDS

MANY = 1_000_000


@pytest.mark.thorough
def test_very_many_records_arrive_unchanged(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path: Path,
    unique_topic: Callable[..., str],
    record_property: Callable[[str, object], None],
) -> None:
    """Random records of 1 KB in lz4 over 4 partitions, compared one by one."""
    topic = unique_topic("many")
    create_topics(source_cluster, {topic: 4})
    began = time.monotonic()
    loaded = KafkaTools(source_cluster.bootstrap_servers).load(
        topic,
        records=MANY,
        record_size=1000,
        properties={
            "compression.type": "lz4",
            "batch.size": "131072",
            "linger.ms": "20",
            "acks": "1",
            "buffer.memory": "67108864",
        },
    )
    assert loaded.records == MANY
    measured(f"load: {time.monotonic() - began:.1f} s")
    clusters = {"big": source_cluster, "heap": target_cluster}
    file = mirror_file(
        tmp_path, clusters, "big->heap.enabled = true", f"big->heap.topics = {topic}"
    )
    began = time.monotonic()
    with MirrorProcess(file, "--once") as mirror:
        assert mirror.wait(PATIENCE_SECONDS) == 0
        copied_in = time.monotonic() - began
    measured(f"copy: {copied_in:.1f} s from start to exit, {MANY / copied_in:,.0f} records/s")
    record_property("records_per_second", round(MANY / copied_in))
    began = time.monotonic()
    compared = compare_topics(source_cluster, topic, target_cluster, f"big.{topic}")
    measured(f"compare: {time.monotonic() - began:.1f} s")
    assert compared == MANY
