# SPDX-License-Identifier: Apache-2.0
"""From one Spark job of a flow to the next, positions and sequences are handed over exactly."""

from __future__ import annotations

import re
from pathlib import Path

from sparkmirror.local.cluster import LocalCluster
from support.load import Load
from support.mirror_file import mirror_file
from support.mirror_process import MirrorProcess
from support.names import unique_name
from support.waiting import eventually
from support.witness import await_copy, compare_topics, create_topics

SECONDS = 60
EPOCHS = 3  # the log names the epoch every ten seconds


def test_epochs_follow_each_other_under_load_without_loss_or_repetition(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """Two splits, epochs of two seconds, records all the while: both sides are equal."""
    alias, topic = unique_name("short"), unique_name("epochs")
    create_topics(source_cluster, {topic: 4})
    file = mirror_file(
        tmp_path,
        {alias: source_cluster, "target": target_cluster},
        f"{alias}->target.enabled = true",
        f"{alias}->target.topics = {topic}",
        f"{alias}->target.tasks.max = 2",
        "epoch.seconds = 2",
    )
    with MirrorProcess(file) as mirror:

        def epoch() -> int:
            return max(map(int, re.findall(r": epoch (\d+),", mirror.log)), default=0)

        with Load(source_cluster, topic, per_second=3000, partitions=4):
            eventually(lambda: epoch() >= EPOCHS, SECONDS, f"epoch {EPOCHS} has begun")
        await_copy(source_cluster, topic, target_cluster, f"{alias}.{topic}", SECONDS)
        assert compare_topics(source_cluster, topic, target_cluster, f"{alias}.{topic}") > 3000
