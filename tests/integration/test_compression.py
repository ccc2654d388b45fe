# SPDX-License-Identifier: Apache-2.0
"""`compression.type`: whatever codec the source has, the target gets the one that was requested."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.model import Flow
from support.clients.librdkafka import compare_topics, numbered, produce
from support.clusters.log_segments import logged_batches
from support.clusters.topic_histories import UNTIL_FLUSHED_MS
from support.mirrors.copy_tasks import TaskFlow
from support.mirrors.mirror_file import mirror_file

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS, TINY = 300, 40


class RecodingFlow(TaskFlow):
    """A partition for each codec, and tasks whose producer settings come from an MM2 file."""

    def __init__(
        self, source: LocalCluster, target: LocalCluster, directory: Path, wanted: str
    ) -> None:
        super().__init__(source, target, partitions=len(CODECS))
        file = mirror_file(
            directory,
            {"a": source, "b": target},
            "a->b.enabled = true",
            f"a->b.producer.override.compression.type = {wanted}",
        )
        self._settings = MirrorConfig.load(file).flow_settings(Flow("a", "b"))

    @property
    def changes(self) -> Mapping[str, object]:
        """How the file wants records to be written."""
        return {"produce": self._settings.produce}

    def write(self) -> None:
        """Batches of many records, then some of one record."""
        for partition, codec in enumerate(CODECS):
            for first, count, most in ((0, RECORDS, 10_000), (RECORDS, TINY, 1)):
                produce(
                    self.source,
                    self.topic,
                    [(partition, record) for _, record in numbered(count, first=first)],
                    compression_type=codec,
                    linger_ms=UNTIL_FLUSHED_MS,
                    batch_num_messages=most,
                )
            found = {batch.codec for batch in logged_batches(self.source, self.topic, partition)}
            assert found >= {partition}


@pytest.mark.parametrize("wanted", ["none", "zstd"])
def test_every_batch_gets_the_configured_codec(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path, wanted: str
) -> None:
    """Read on both sides by another client, the records are the same."""
    flow = RecodingFlow(source_cluster, target_cluster, tmp_path, wanted)
    flow.write()

    flow.finish()

    copied = compare_topics(flow.source, flow.topic, flow.target, flow.remote)
    assert copied == len(CODECS) * (RECORDS + TINY)
    for partition in range(len(CODECS)):
        codecs = {batch.codec for batch in logged_batches(flow.target, flow.remote, partition)}
        assert codecs == {CODECS.index(wanted)}
