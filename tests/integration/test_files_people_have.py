# SPDX-License-Identifier: Apache-2.0
"""Files as people have them run unchanged: blanks after commas, references into other files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sparkmirror.local.cluster import LocalCluster
from sparkmirror.local.tools import KafkaTools
from support.mirror_process import MirrorProcess
from support.names import unique_name

SECONDS = 60


def test_a_file_with_references_and_blanks_runs(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    unique_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    """Addresses from a properties file, two topics in a list with a blank, MM2's own provider."""
    alias = unique_name("src")
    topics = [unique_topic("one"), unique_topic("two")]
    tools = KafkaTools(source_cluster.bootstrap_servers)
    for topic in topics:
        tools.create_topic(topic, partitions=2)
        tools.produce(topic, [f"{topic} {number}" for number in range(10)])
    access = tmp_path / "access.properties"
    access.write_text(
        f"SRC_BROKERS={source_cluster.bootstrap_servers}\n"
        f"TGT_BROKERS={target_cluster.bootstrap_servers}\n"
    )
    file = tmp_path / "mm2.properties"
    file.write_text(
        "config.providers=file\n"
        "config.providers.file.class="
        "org.apache.kafka.common.config.provider.FileConfigProvider\n"
        f"clusters={alias}, target\n"
        f"{alias}.bootstrap.servers=${{file:{access}:SRC_BROKERS}}\n"
        f"target.bootstrap.servers=${{file:{access}:TGT_BROKERS}}\n"
        "# enable and configure individual replication flows\n"
        f"{alias}->target.enabled=true\n"
        f"{alias}->target.topics={topics[0]}, {topics[1]}\n"
        "replication.factor=1\n"
        "sync.topic.acls.enabled=false\n"
        "emit.heartbeats.interval.seconds=5\n"
    )
    with MirrorProcess(file, "--once") as mirror:
        assert mirror.wait(SECONDS) == 0, mirror.log
    remote = KafkaTools(target_cluster.bootstrap_servers)
    for topic in topics:
        copied = remote.consume(f"{alias}.{topic}", records=10, timeout_seconds=20)
        assert sorted(copied) == sorted(f"{topic} {number}" for number in range(10))
