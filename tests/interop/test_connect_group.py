# SPDX-License-Identifier: Apache-2.0
"""A worker of Java's Connect and one of ours with the same group: one kind works, one waits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from support.mirrors.group_members import ConfigTopic, GroupMember, group_settings
from support.mirrors.java_connect import ConnectTopics, JavaConnect, heartbeat_config
from support.waiting import eventually

PATIENCE_SECONDS = 60.0
NAME = "beat"
REFUSAL = "Uncaught exception in herder work thread, exiting"
# Looking once a second, and a join; these brokers wait for nobody else in a group that was empty.
TAKE_OVER_SECONDS = 5.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, kafka_version: str) -> Iterator[LocalCluster]:
    """One broker, which is all that heartbeats need."""
    directory = tmp_path_factory.mktemp("group")
    with LocalCluster("connect", directory, version=kafka_version) as started:
        yield started


def test_java_and_ours_are_never_in_one_group(cluster: LocalCluster, tmp_path: Path) -> None:
    """Ours waits while Java's is there and then has its place; Java's is refused while ours is."""
    topics = ConnectTopics("taken")
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    settings = group_settings(topics.group, session_timeout_ms=6_000, heartbeat_interval_ms=500)
    with JavaConnect(cluster, folders[0], topics) as java:
        java.create(NAME, heartbeat_config(cluster))
        java.await_states(NAME, "RUNNING", "RUNNING")
        with GroupMember(cluster.bootstrap_servers, settings, ConfigTopic([NAME])) as ours:
            trouble = eventually(lambda: ours.member.problem, PATIENCE_SECONDS, "it says why")
            assert f"use group '{topics.group}' on cluster 'connect'" in trouble
            time.sleep(2.5)  # it tries again, and Java's worker does not notice
            assert (ours.member.is_member, ours.events) == (False, [])
            java.await_states(NAME, "RUNNING", "RUNNING")
            java.stop()
            stopped = time.monotonic()
            eventually(
                lambda: ours.member.is_leader and ours.connectors == {NAME},
                PATIENCE_SECONDS,
                "ours has taken over",
            )
            took = time.monotonic() - stopped
            print(f"taken over {took:.1f} s after Java's worker had ended")
            assert took < TAKE_OVER_SECONDS
            assert ours.member.problem is None
            generation, events = ours.member.generation, list(ours.events)
            second = JavaConnect(cluster, folders[1], topics)
            with ExitStack() as stack:
                stack.push(second)
                second.begin()
                eventually(
                    lambda: REFUSAL in second.log_file.read_text(encoding="utf-8"),
                    PATIENCE_SECONDS,
                    "Java's worker is refused, and says that it exits",
                )
            assert (ours.member.is_leader, ours.member.generation) == (True, generation)
            assert ours.events == events
