# SPDX-License-Identifier: Apache-2.0
"""docs/failover.md, step by step, with its own file and commands: nothing twice or skipped."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sparkmirror.local.cluster import LocalCluster
from support.groups import commit, committed, consumer
from support.mirror_process import MirrorProcess
from support.names import unique_name
from support.waiting import eventually
from support.witness import create_topics, numbered, produce, topic_partitions

DOCUMENT = Path(__file__).parents[2] / "docs" / "failover.md"
SECONDS = 90.0
BEFORE, MEANWHILE = 100, 40


def blocks(heading: str, language: str) -> list[str]:
    """The blocks of one language under a heading."""
    section = DOCUMENT.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
    assert found, heading
    return found


class Walk:
    """The document with names that no other test uses, in a directory of its own."""

    def __init__(self, directory: Path, source: LocalCluster, target: LocalCluster) -> None:
        self.primary, self.backup = unique_name("primary"), unique_name("backup")
        self.topic, self.group = unique_name("orders"), unique_name("billing")
        self.source, self.target = source, target
        self._directory = directory
        text = self._names(blocks("Prepare", "properties")[0])
        text = text.replace(f"{self.primary}-1:9092", source.bootstrap_servers)
        self.file = directory / "mm2.properties"
        self.file.write_text(text.replace(f"{self.backup}-1:9092", target.bootstrap_servers))

    def _names(self, text: str) -> str:
        for word, name in (
            ("primary", self.primary),
            ("backup", self.backup),
            ("orders", self.topic),
            ("billing", self.group),
        ):
            text = re.sub(rf"\b{word}\b", name, text)
        return text

    def shell(self, heading: str) -> list[str]:
        """What the commands under a heading print, one after the other."""
        path = f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"
        return [
            self._run(shlex.split(self._names(line)), {**os.environ, "PATH": path})
            for block in blocks(heading, "sh")
            for line in block.splitlines()
        ]

    def python(self, heading: str) -> str:
        """What the program under a heading prints."""
        program = self._names(blocks(heading, "python")[0])
        return self._run([sys.executable, "-c", program], dict(os.environ))

    def _run(self, command: list[str], environment: dict[str, str]) -> str:
        done = subprocess.run(
            command,
            cwd=self._directory,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def process(self, cluster: LocalCluster, topics: list[str], count: int) -> list[bytes]:
        """The keys of so many records, and of whatever else comes within a second."""
        keys: list[bytes] = []
        with closing(consumer(cluster, self.group)) as member:
            member.subscribe(topics)
            deadline = time.monotonic() + SECONDS
            while len(keys) < count and time.monotonic() < deadline:
                keys += [m.key() for m in member.consume(count - len(keys), timeout=1.0)]
            keys += [m.key() for m in member.consume(1, timeout=1.0)]
            member.commit(asynchronous=False)
        return keys


@pytest.fixture
def walk(
    tmp_path: Path, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> Iterator[Walk]:
    """A mirror in both directions, some records copied."""
    walk = Walk(tmp_path, source_cluster, target_cluster)
    for cluster in (source_cluster, target_cluster):
        create_topics(cluster, {walk.topic: 1})
    produce(source_cluster, walk.topic, numbered(BEFORE))
    with MirrorProcess(walk.file):
        eventually(
            lambda: (
                topic_partitions(target_cluster, f"{walk.primary}.{walk.topic}")
                and topic_partitions(source_cluster, f"{walk.backup}.{walk.topic}")
            ),
            SECONDS,
            "both directions are there",
        )
        yield walk


def test_a_group_moves_and_comes_back(walk: Walk) -> None:
    """Some records processed on each side in turn; together all of them, each once."""
    remote, returned = f"{walk.primary}.{walk.topic}", f"{walk.backup}.{walk.topic}"
    commit(walk.source, walk.group, walk.topic, {0: 30})
    eventually(
        lambda: committed(walk.target, walk.group, remote, 1) == {0: 30},
        SECONDS,
        "the group is synced",
    )
    table, listed, reach, translated = walk.shell("Prepare")
    assert f"{walk.group}\t{walk.topic}-0\t30\t{remote}-0\t30\tsynced" in table
    assert [one["state"] for one in json.loads(listed)] == ["synced"]
    assert f"{walk.topic}-0" in reach
    assert translated == "10\texact\n"

    commit(walk.source, walk.group, walk.topic, {0: 60})
    (said,) = walk.shell("Move a group while both clusters are well")
    assert f"{walk.topic}-0 at 60 -> {remote}-0 at 60" in said
    assert walk.python("The primary is lost").count("60") >= 1
    first = walk.process(walk.target, [remote], 25)
    assert len(first) >= 25  # from 60 on, on the backup
    produce(walk.target, walk.topic, numbered(MEANWHILE, first=1_000))
    second = walk.process(walk.target, [remote, walk.topic], BEFORE - 60 - len(first) + 10)

    _state, said = walk.shell("Come back")
    assert "is parked" in said
    third = walk.process(
        walk.source, [walk.topic, returned], BEFORE - 60 + MEANWHILE - len(first) - len(second)
    )
    expected = [record.key for _, record in numbered(BEFORE)[60:]]
    expected += [record.key for _, record in numbered(MEANWHILE, first=1_000)]
    assert sorted([*first, *second, *third]) == sorted(expected)
