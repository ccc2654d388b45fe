# SPDX-License-Identifier: Apache-2.0
"""Flows over every protocol and mechanism, between listeners of one real, guarded broker.

Source and target are the same broker, reached by different aliases: the rights of a flow are told
apart by its users, and one start is enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.mirror_process import MirrorProcess
from support.names import unique_name
from support.secure_clients import WAYS, file_lines
from support.secure_cluster import STORE_PASSWORD, USERS, SecureCluster, secure_cluster
from support.witness import await_copy, compare_topics, create_topics, numbered, produce

FLOW_SECONDS = 60.0
PROVIDER = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
QUIET = (
    "emit.heartbeats.enabled = false",
    "emit.checkpoints.enabled = false",
    "sync.topic.acls.enabled = false",
    "replication.factor = 1",
    "config.providers = directory",
    f"config.providers.directory.class = {PROVIDER}",
)


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory, kafka_version: str) -> Iterator[SecureCluster]:
    """One broker for all."""
    with secure_cluster(tmp_path_factory.mktemp("secure"), version=kafka_version) as started:
        yield started


def clusters(secure: SecureCluster, folder: Path, *aliases: str) -> list[str]:
    """The lines about some ways to reach the broker."""
    lines = [f"clusters = {', '.join(aliases)}"]
    for alias in aliases:
        (folder / alias).mkdir()
        lines += file_lines(alias, WAYS[alias](secure, folder / alias))
    return lines


def test_records_flow_over_every_protocol_and_mechanism(
    secure: SecureCluster, tmp_path: Path, *, is_thorough: bool
) -> None:
    """One file with all of them: each flow copies its topic, and no secret is in the log.

    The long version has each of them on both sides of a flow.
    """
    aliases = list(WAYS)
    routes = list(zip(aliases, [*aliases[1:], aliases[0]], strict=True))
    if not is_thorough:
        routes = routes[::2]
    topics = {source: unique_name(source) for source, _ in routes}
    create_topics(secure, dict.fromkeys(topics.values(), 1))
    for topic in topics.values():
        produce(secure, topic, numbered(50))
    lines = [*clusters(secure, tmp_path, *aliases), *QUIET]
    for source, target in routes:
        lines += [f"{source}->{target}.enabled = true"]
        lines += [f"{source}->{target}.topics = {topics[source]}"]
    file = tmp_path / "mm2.properties"
    file.write_text("\n".join([*lines, ""]), encoding="utf-8")
    with MirrorProcess(file) as mirror:
        for source, topic in topics.items():
            await_copy(secure, topic, secure, f"{source}.{topic}", FLOW_SECONDS)
            assert compare_topics(secure, topic, secure, f"{source}.{topic}") == 50
        assert mirror.terminate()[0] == 0
        found = [one for one in (*USERS.values(), STORE_PASSWORD) if one in mirror.log]
        assert found == []
        assert "PRIVATE KEY" not in mirror.log
