# SPDX-License-Identifier: Apache-2.0
"""docs/failover.md, step by step, with its own file and commands: nothing twice or skipped."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparkmirror.cli.main import app
from sparkmirror.client import MirrorClient
from sparkmirror.devcluster.cluster import LocalCluster
from support.clients.consumer_groups import commit, committed, process
from support.clients.librdkafka import create_topics, end_offsets, numbered, produce
from support.mirrors.mirror_process import MirrorProcess
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

DOCUMENT = Path(__file__).parents[2] / "docs" / "failover.md"
BEFORE, MEANWHILE = 100, 40
# The document's file has the defaults, which are longer; how long that takes is not the subject.
QUICKLY = """
emit.checkpoints.interval.seconds = 1
sync.group.offsets.interval.seconds = 1
refresh.groups.interval.seconds = 1
offset.flush.interval.ms = 1000
"""


def blocks(heading: str, language: str) -> list[str]:
    """The blocks of one language under a heading."""
    section = DOCUMENT.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
    assert found, heading
    return found


class Walk:
    """The document with names that no other test uses, in its own directory."""

    def __init__(self, directory: Path, source: LocalCluster, target: LocalCluster) -> None:
        self.primary, self.backup = unique_name("primary"), unique_name("backup")
        self.topic, self.group = unique_name("orders"), unique_name("billing")
        self.source, self.target = source, target
        self._directory = directory
        text = self._names(blocks("Prepare", "properties")[0])
        text = text.replace(f"{self.primary}-1:9092", source.bootstrap_servers)
        self.file = directory / "mm2.properties"
        text = text.replace(f"{self.backup}-1:9092", target.bootstrap_servers)
        self.file.write_text(text + QUICKLY)

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
        return [self._run(one, {**os.environ, "PATH": path}) for one in self._commands(heading)]

    def look(self, heading: str) -> list[str]:
        """The same in this process, for commands that only look."""
        printed = []
        for name, *words in self._commands(heading):
            assert name == "sparkmirror"
            with contextlib.chdir(self._directory):
                done = CliRunner().invoke(app, words)
            assert done.exit_code == 0, f"{words}: {done.output}"
            printed.append(done.stdout)
        return printed

    def _commands(self, heading: str) -> list[list[str]]:
        lines = [line for block in blocks(heading, "sh") for line in block.splitlines()]
        return [shlex.split(self._names(line)) for line in lines]

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
            timeout=PATIENCE_SECONDS,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture
def walk(
    tmp_path: Path, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> Iterator[Walk]:
    """A mirror in both directions, some records copied."""
    walk = Walk(tmp_path, source_cluster, target_cluster)
    for cluster in (source_cluster, target_cluster):
        create_topics(cluster, {walk.topic: 1})
    produce(source_cluster, walk.topic, numbered(BEFORE))
    with MirrorProcess(walk.file) as mirror:
        for flow in (f"{walk.primary}->{walk.backup}", f"{walk.backup}->{walk.primary}"):
            mirror.await_log(f"{flow}: RUNNING", PATIENCE_SECONDS)
        yield walk


def await_count(cluster: LocalCluster, topic: str, count: int) -> None:
    """Wait until a topic has so many records."""
    eventually(
        lambda: sum(end_offsets(cluster, topic).values()) >= count,
        PATIENCE_SECONDS,
        f"{topic} has {count} records",
    )


def await_checkpoint(walk: Walk, topic: str, offset: int) -> None:
    """Wait until the group's position is in a checkpoint on the backup."""
    with MirrorClient.from_file(walk.file, walk.backup) as client:

        def offsets() -> dict[str, int]:
            found = client.remote_consumer_offsets(walk.group, walk.primary, PATIENCE_SECONDS)
            return {tp.topic: one.offset for tp, one in found.get(walk.group, {}).items()}

        eventually(
            lambda: offsets() == {topic: offset}, PATIENCE_SECONDS, "the checkpoint is there"
        )


def test_a_group_moves_and_comes_back(walk: Walk) -> None:
    """Some records processed on each side in turn; together all of them, each once."""
    remote, returned = f"{walk.primary}.{walk.topic}", f"{walk.backup}.{walk.topic}"
    commit(walk.source, walk.group, walk.topic, {0: 30})
    eventually(
        lambda: committed(walk.target, walk.group, remote, 1) == {0: 30},
        PATIENCE_SECONDS,
        "the group is synced",
    )
    table, listed, reach, translated = walk.look("Prepare")
    assert f"{walk.group}\t{walk.topic}-0\t30\t{remote}-0\t30\tsynced" in table
    assert [one["state"] for one in json.loads(listed)] == ["synced"]
    assert f"{walk.topic}-0" in reach
    assert translated == "10\texact\n"

    commit(walk.source, walk.group, walk.topic, {0: 60})
    (said,) = walk.shell("Move a group while both clusters are well")
    assert f"{walk.topic}-0 at 60 -> {remote}-0 at 60" in said
    await_checkpoint(walk, remote, 60)
    assert "offset=60" in walk.python("The primary is lost")
    first = process(walk.target, walk.group, [remote], 25)  # from 60 on, on the backup
    produce(walk.target, walk.topic, numbered(MEANWHILE, first=1_000))
    second = process(walk.target, walk.group, [remote, walk.topic], 25)

    _state, said = walk.shell("Come back")
    assert "is parked" in said
    await_count(walk.source, returned, MEANWHILE)
    third = process(walk.source, walk.group, [walk.topic, returned])
    expected = [record.key for _, record in numbered(BEFORE)[60:]]
    expected += [record.key for _, record in numbered(MEANWHILE, first=1_000)]
    assert sorted([*first, *second, *third]) == sorted(expected)
