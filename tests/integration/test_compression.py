# SPDX-License-Identifier: Apache-2.0
"""`compression.type`: whatever codec the source has, the target gets the one that was asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.local.cluster import LocalCluster
from support.log_files import logged_batches
from support.mirror_file import mirror_file
from support.mirror_process import MirrorProcess
from support.witness import compare_topics, create_topics, numbered, produce

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RUN_SECONDS = 60.0
RECORDS, TINY = 300, 40


def write(cluster: LocalCluster, topic: str) -> None:
    """A partition for each codec: batches of many records, then some of one record."""
    create_topics(cluster, {topic: len(CODECS)})
    for partition, codec in enumerate(CODECS):
        for first, count, most in ((0, RECORDS, 10_000), (RECORDS, TINY, 1)):
            produce(
                cluster,
                topic,
                [(partition, record) for _, record in numbered(count, first=first)],
                compression_type=codec,
                linger_ms=200 if most > 1 else 0,
                batch_num_messages=most,
            )
        assert {batch.codec for batch in logged_batches(cluster, topic, partition)} >= {partition}


@pytest.mark.parametrize("wanted", ["none", pytest.param("zstd", marks=pytest.mark.thorough)])
def test_every_batch_gets_the_codec_that_was_asked_for(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path, wanted: str
) -> None:
    """Read on both sides by another client, the records are the same."""
    topic, alias = f"recoded-{wanted}", f"recoder-{wanted}"
    write(source_cluster, topic)
    file = mirror_file(
        tmp_path,
        {alias: source_cluster, "recoded": target_cluster},
        f"{alias}->recoded.enabled = true",
        f"topics = {topic}",
        f"{alias}->recoded.producer.override.compression.type = {wanted}",
    )

    with MirrorProcess(file, "--once") as mirror:
        assert mirror.wait(RUN_SECONDS) == 0

    remote = f"{alias}.{topic}"
    copied = compare_topics(source_cluster, topic, target_cluster, remote)
    assert copied == len(CODECS) * (RECORDS + TINY)
    for partition in range(len(CODECS)):
        codecs = {batch.codec for batch in logged_batches(target_cluster, remote, partition)}
        assert codecs == {CODECS.index(wanted)}
