# SPDX-License-Identifier: Apache-2.0
"""Thousands of groups in one round, and positions taken over from an old mirror's group."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.connectors.group_sync import GroupSync
from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.kafka.descriptions import CommittedOffset
from sparkmirror.kafka.groups import GroupAdmin
from sparkmirror.model import Flow, TopicPartition
from sparkmirror.offsets.group_positions import GroupPositionState
from sparkmirror.policy.loading import load_policy
from support.clients.consumer_groups import commit
from support.clients.librdkafka import create_topics, numbered, produce, read_topic
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS

GROUPS, PARTITIONS = 2_000, 10
ROUND_SECONDS = 5.0


@pytest.mark.thorough
def test_two_thousand_groups_are_moved_in_one_round(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """Read, translated, checkpointed and set on the target, in less than five seconds."""
    alias, topic = unique_name("many"), unique_name("wide")
    create_topics(source_cluster, {topic: PARTITIONS})
    produce(source_cluster, topic, numbered(1_000, PARTITIONS))
    file = mirror_file(
        tmp_path,
        {alias: source_cluster, "target": target_cluster},
        f"{alias}->target.enabled = true",
        f"{alias}->target.topics = {topic}",
        f"{alias}->target.groups = {alias}-.*",
    )
    with MirrorProcess(file, "--once") as mirror:
        assert mirror.wait(PATIENCE_SECONDS) == 0
    settings = MirrorConfig.load(file).flow_settings(Flow(alias, "target"))
    names = [f"{alias}-{number}" for number in range(GROUPS)]
    with GroupAdmin(settings.source_admin) as admin:
        refused = admin.commit_offsets(
            {
                name: {
                    TopicPartition(topic, n): CommittedOffset(number % 100)
                    for n in range(PARTITIONS)
                }
                for number, name in enumerate(names)
            }
        )
        assert not any(refused.values())
    with GroupSync(settings, load_policy(settings.policy, settings.flow)) as rounds:
        rounds.checkpoints.refresh()
        began = time.monotonic()
        groups = rounds.selected_groups()
        found = rounds.plan(groups, syncs_groups=True)
        looked = time.monotonic()
        rounds.write_checkpoints(found.checkpoints)
        done = rounds.commit_offsets(found)
        took = time.monotonic() - began
        print(f"\n{len(groups)} groups: looked {looked - began:.2f} s, in all {took:.2f} s")
        assert sorted(groups) == sorted(names)
        assert len(found.checkpoints) == GROUPS * PARTITIONS
        assert {one.state for one in done.positions} == {GroupPositionState.SYNCED}
        assert took < ROUND_SECONDS
        again = rounds.plan(groups, syncs_groups=True)
        assert (again.checkpoints, again.writes) == ([], {})
    with GroupAdmin(settings.target_admin) as admin:
        there = admin.committed_offsets([names[0], names[123]]).found
    assert {one.offset for one in there[names[123]].values()} == {23}


@pytest.mark.thorough
def test_an_old_mirrors_group_shows_where_to_begin(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """What MirrorMaker 1 had copied is not copied again; a partition it never read is whole."""
    alias, topic, group = unique_name("old"), unique_name("moved"), unique_name("mm1")
    create_topics(source_cluster, {topic: 3})
    produce(source_cluster, topic, numbered(300, 3))
    commit(source_cluster, group, topic, {0: 60, 1: 100})
    file = mirror_file(
        tmp_path,
        {alias: source_cluster, "target": target_cluster},
        f"{alias}->target.enabled = true",
        f"{alias}->target.topics = {topic}",
        f"{alias}->target.initial.offsets.group = {group}",
    )
    with MirrorProcess(file, "--once") as mirror:
        assert mirror.wait(PATIENCE_SECONDS) == 0
    original, copy = (
        read_topic(source_cluster, topic),
        read_topic(target_cluster, f"{alias}.{topic}"),
    )
    assert {n: len(records) for n, records in copy.items()} == {0: 40, 1: 0, 2: 100}
    assert copy[0] == original[0][60:]
    assert copy[2] == original[2]
