# SPDX-License-Identifier: Apache-2.0
"""The driver is killed again and again under load; each time both sides hold the same records.

Two kinds of kill in turn: only the driver, so that its task notices it while the next run
has already begun, and everything at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sparkmirror.devcluster.cluster import LocalCluster, start_all
from support.clients.consumed_records import difference, ends, partitions_of, read_partitions
from support.clients.librdkafka import Place, create_topics
from support.clients.load_generator import Load
from support.measurements import measured
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.unique_names import unique_name
from support.waiting import eventually

KILLS = 10
PARTITIONS = 4
PER_SECOND = 2_000
FLOWS_SECONDS = 90.0
SETTLED_SECONDS = 60.0


class Sides:
    """A topic and its copy."""

    def __init__(self, source: LocalCluster, target: LocalCluster, alias: str, topic: str) -> None:
        self.source, self.target = source, target
        self.topic, self.remote = topic, f"{alias}.{topic}"
        self.here = partitions_of({topic: PARTITIONS})
        self.there = partitions_of({self.remote: PARTITIONS})

    def copied(self) -> int:
        """How many records the target has."""
        return sum(ends(self.target, self.there).values())

    def await_more(self, records: int) -> None:
        """Wait until so many further records have arrived."""
        before = self.copied()
        eventually(
            lambda: self.copied() >= before + records, FLOWS_SECONDS, f"{records} more records"
        )

    def settle(self) -> tuple[int, int]:
        """Wait until the target has at least what the source has, and holds still; both counts."""
        written = sum(ends(self.source, self.here).values())
        seen = [0]

        def holds_still() -> bool:
            seen.append(self.copied())
            return seen[-1] >= written and seen[-1] == seen[-2]

        eventually(holds_still, SETTLED_SECONDS, f"{written} records have arrived")
        return written, self.copied()

    def differences(self) -> dict[Place, str]:
        """The first difference of each partition that has one."""
        originals = read_partitions(self.source, self.here)
        copies = read_partitions(self.target, self.there)
        found = {
            place: difference(originals[place], copies[self.remote, place[1]])
            for place in originals
        }
        return {place: text for place, text in found.items() if text}


@pytest.fixture
def clusters(tmp_path: Path, kafka_version: str) -> Iterator[tuple[LocalCluster, LocalCluster]]:
    """A source and a target."""
    found = [
        LocalCluster(name, tmp_path / name, version=kafka_version) for name in ("source", "target")
    ]
    start_all(found)
    yield found[0], found[1]
    for cluster in found:
        cluster.stop()


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_killing_the_driver_again_and_again_leaves_every_record_once(
    clusters: tuple[LocalCluster, LocalCluster], tmp_path: Path
) -> None:
    """After each kill and restart the target's record count is the source's."""
    source_cluster, target_cluster = clusters
    alias, topic = unique_name("mortal"), unique_name("kills")
    sides = Sides(source_cluster, target_cluster, alias, topic)
    create_topics(source_cluster, {topic: PARTITIONS})
    file = mirror_file(
        tmp_path,
        {alias: source_cluster, "target": target_cluster},
        f"{alias}->target.enabled = true",
        f"{alias}->target.topics = {topic}",
        f"{alias}->target.tasks.max = 2",
    )
    counts = []
    with ExitStack() as stack:
        mirror = stack.enter_context(MirrorProcess(file))
        mirror.await_log(f"{alias}->target: RUNNING", FLOWS_SECONDS)
        for kill in range(1, 1 + KILLS):
            with Load(source_cluster, topic, per_second=PER_SECOND, partitions=PARTITIONS):
                sides.await_more(2 * PER_SECOND)
                began, is_driver_only = time.monotonic(), kill % 2 == 1
                if is_driver_only:
                    mirror.kill_driver()
                else:
                    mirror.kill_everything()
                mirror = stack.enter_context(MirrorProcess(file))
                sides.await_more(2 * PER_SECOND)
                pause = time.monotonic() - began
            counts.append(sides.settle())
            measured(
                f"kill {kill} of {'the driver' if is_driver_only else 'everything'}: "
                f"{counts[-1][0]} records on the source, {counts[-1][1]} on the target, "
                f"flowing again after {pause:.1f} s"
            )
        assert mirror.terminate()[0] == 0
    assert sides.differences() == {}
    assert [here for here, _ in counts] == [there for _, there in counts]
