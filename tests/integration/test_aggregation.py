# SPDX-License-Identifier: Apache-2.0
"""Regional clusters into a central one, topics keeping their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from support.clients.librdkafka import create_topics, numbered, produce, read_topic, topics
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.waiting import PATIENCE_SECONDS

COUNT = 20_000
SECOND = 1_000_000  # where the numbers of the second region begin


@pytest.mark.thorough
def test_two_sources_fill_one_topic_each_in_its_own_order(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path, kafka_version: str
) -> None:
    """With the identity policy both streams are complete and each is in order."""
    with LocalCluster("uk", tmp_path / "uk", version=kafka_version) as second_cluster:
        for cluster, first in ((source_cluster, 0), (second_cluster, SECOND)):
            create_topics(cluster, {"logs-merged": 2})
            records = numbered(COUNT, 2, first=first)
            produce(cluster, "logs-merged", records, compression_type="lz4", batch_size=16_384)
        file = mirror_file(
            tmp_path,
            {"us": source_cluster, "uk": second_cluster, "hub": target_cluster},
            "us->hub.enabled = true",
            "uk->hub.enabled = true",
            "topics = logs-.*",
            "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
            # Otherwise this file's heartbeats would go to the cluster that all tests share.
            "emit.heartbeats.enabled = false",
        )
        with MirrorProcess(file, "--once") as mirror:
            assert mirror.wait(PATIENCE_SECONDS) == 0
        merged = read_topic(target_cluster, "logs-merged")
        us, uk = (
            read_topic(cluster, "logs-merged") for cluster in (source_cluster, second_cluster)
        )
    assert {"us.logs-merged", "uk.logs-merged"} & topics(target_cluster).keys() == set()
    for index, records in merged.items():
        from_us = [record for record in records if int(record.headers[0][1] or b"") < SECOND]
        from_uk = [record for record in records if int(record.headers[0][1] or b"") >= SECOND]
        assert from_us == us[index]
        assert from_uk == uk[index]
    assert sum(len(records) for records in merged.values()) == 2 * COUNT
