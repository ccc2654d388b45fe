# SPDX-License-Identifier: Apache-2.0
"""From one Spark job of a flow to the next, positions and sequences are handed over exactly."""

from __future__ import annotations

import re
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from support.clients.librdkafka import await_copy, compare_topics, create_topics
from support.clients.load_generator import Load, observed
from support.measurements import measured
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.thorough

PAUSE_SECONDS = 5.0  # to start a task anew, or to go on to the next epoch


def test_epochs_follow_each_other_without_loss_repetition_or_waiting(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """Two tasks under load, one of which dies late in its epoch: its successor ends with it."""
    alias, topic = unique_name("short"), unique_name("epochs")
    remote = f"{alias}.{topic}"
    create_topics(source_cluster, {topic: 4})
    file = mirror_file(
        tmp_path,
        {alias: source_cluster, "target": target_cluster},
        f"{alias}->target.enabled = true",
        f"{alias}->target.topics = {topic}",
        f"{alias}->target.tasks.max = 2",
        "epoch.seconds = 6",
    )
    with MirrorProcess(file) as mirror:
        with Load(source_cluster, topic, per_second=3000, partitions=4), ExitStack() as stack:
            mirror.await_log(f"{alias}->target: RUNNING", PATIENCE_SECONDS)
            time.sleep(3.5)
            gaps = [stack.enter_context(observed(target_cluster, remote, n)) for n in range(4)]
            time.sleep(1)
            mirror.python_workers()[0].kill()
            mirror.await_log("has a new task: the previous one died", PATIENCE_SECONDS)
            eventually(  # said every ten seconds
                lambda: re.search(r": epoch [3-9],", mirror.log), PATIENCE_SECONDS, "a third epoch"
            )
        await_copy(source_cluster, topic, target_cluster, remote, PATIENCE_SECONDS)
        assert compare_topics(source_cluster, topic, target_cluster, remote) > 3000
        measured(f"longest pauses: {[round(one.longest_seconds, 1) for one in gaps]} s")
        assert all(one.records for one in gaps)
        assert max(one.longest_seconds for one in gaps) < PAUSE_SECONDS
