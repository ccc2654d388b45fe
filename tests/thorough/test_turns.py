# SPDX-License-Identifier: Apache-2.0
"""More flows than task slots: the flows take turns, and none is left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from support.clients.librdkafka import await_copy, create_topics, numbered, produce
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.usefixtures("is_thorough")


def test_three_flows_with_one_slot_take_turns(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """Spark's fair scheduler breaks ties by name: the last flow would never run."""
    sources = [unique_name(f"s{number}") for number in range(3)]
    target, topic = unique_name("target"), unique_name("turns")
    create_topics(source_cluster, {topic: 1})
    produce(source_cluster, topic, numbered(100))
    file = mirror_file(
        tmp_path,
        {**dict.fromkeys(sources, source_cluster), target: target_cluster},
        *(f"{one}->{target}.enabled = true" for one in sources),
        f"topics = {topic}",
        "emit.heartbeats.enabled = false",
        "emit.checkpoints.enabled = false",
        "spark.master = local[1]",
    )
    with MirrorProcess(file) as running:
        for one in sources:
            await_copy(source_cluster, topic, target_cluster, f"{one}.{topic}", PATIENCE_SECONDS)
        running.show_log()
