# SPDX-License-Identifier: Apache-2.0
"""Clusters of different Kafka versions and one mirror with a flow for every direction.

`old` and `twin` run the version that a case is about, `new` runs the default one. Every direction
has a flow with the defaults and one with exactly-once, under aliases of their own.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sparkmirror.devcluster.cluster import LocalCluster, start_all
from sparkmirror.devcluster.jars import DEFAULT_KAFKA
from support.clients.librdkafka import create_topics, duplicates, end_offsets, read_topic
from support.clients.load_generator import Load
from support.clusters.memory_disk import keep_in_memory
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.waiting import PATIENCE_SECONDS, eventually

PARTITIONS = 2
RECORDS_A_SECOND = 200
DEFAULT, ONCE = "default", "once"
TOPICS = ("flow", "kills", "groups")
# Brokers before Kafka 3.6 do not know it.
_NEW_CONFIG = {"message.timestamp.before.max.ms": "31536000000"}
_LINES = (
    "emit.heartbeats.enabled = false",  # of every pair of the aliases; flows switch it on
    "emit.checkpoints.enabled = false",
    "emit.heartbeats.interval.seconds = 1",
    "emit.checkpoints.interval.seconds = 1",
    "sync.group.offsets.interval.seconds = 1",
    "refresh.groups.interval.seconds = 1",
    "refresh.topics.interval.seconds = 1",
    "sync.topic.configs.interval.seconds = 1",
    "sync.topic.acls.enabled = false",
)


@dataclass(frozen=True, slots=True)
class Direction:
    """From which of the clusters to which."""

    source: str
    target: str

    def topic(self, mode: str, name: str) -> str:
        """A topic on the source that only the flow of this direction and mode copies."""
        return f"{mode}-{self.source}-{self.target}-{name}"

    def remote(self, mode: str, name: str) -> str:
        """The copy of such a topic."""
        return f"{alias(mode, self.source)}.{self.topic(mode, name)}"

    def flow(self, mode: str) -> str:
        """The name of the flow."""
        return f"{alias(mode, self.source)}->{alias(mode, self.target)}"


THERE, BACK, SAME = Direction("old", "new"), Direction("new", "old"), Direction("old", "twin")


@dataclass(frozen=True, slots=True)
class Case:
    """A version and the directions that are tried with it."""

    version: str
    directions: tuple[Direction, ...]

    def version_of(self, site: str) -> str:
        """The Kafka version of a cluster."""
        return DEFAULT_KAFKA if site == "new" else self.version

    def title(self, direction: Direction) -> str:
        """The direction by its versions."""
        return f"{self.version_of(direction.source)} -> {self.version_of(direction.target)}"


def alias(mode: str, site: str) -> str:
    """What the mirror's file calls a cluster."""
    return site if mode == DEFAULT else f"{mode}-{site}"


class MirroredVersions:
    """The clusters of a case and the running mirror; a test that ends it starts the next."""

    def __init__(self, case: Case, clusters: dict[str, LocalCluster], directory: Path) -> None:
        self.case = case
        self.clusters = clusters
        self._stack = ExitStack()
        self._file = mirror_file(directory, self._by_alias(), *self._lines())
        self.mirror = self.start()

    def start(self) -> MirrorProcess:
        """Run the command, until all flows run."""
        self.mirror = self._stack.enter_context(MirrorProcess(self._file))
        for direction in self.case.directions:
            for mode in (DEFAULT, ONCE):
                self.mirror.await_log(f"{direction.flow(mode)}: RUNNING", PATIENCE_SECONDS)
        return self.mirror

    def close(self) -> None:
        """End the command; its log is shown with a failure."""
        self.mirror.show_log()
        self._stack.close()

    def sides(self, direction: Direction) -> tuple[LocalCluster, LocalCluster]:
        return self.clusters[direction.source], self.clusters[direction.target]

    @contextmanager
    def load(self) -> Iterator[None]:
        """Records keep coming into a topic of every flow."""
        with ExitStack() as stack:
            for direction in self.case.directions:
                for mode in (DEFAULT, ONCE):
                    one = Load(
                        self.clusters[direction.source],
                        direction.topic(mode, "kills"),
                        per_second=RECORDS_A_SECOND,
                        partitions=PARTITIONS,
                        linger_ms=50,
                    )
                    stack.enter_context(one)
            yield

    def await_more(self, seconds: int) -> None:
        """Wait until every flow has copied some seconds' worth of the load."""
        wanted = {
            (direction.target, direction.remote(mode, "kills"))
            for direction in self.case.directions
            for mode in (DEFAULT, ONCE)
        }
        ends = {place: self._copied(*place) + seconds * RECORDS_A_SECOND for place in wanted}
        for place, end in ends.items():
            eventually(
                lambda place=place, end=end: self._copied(*place) > end,
                PATIENCE_SECONDS,
                f"{place[1]} flows",
            )

    def _copied(self, site: str, remote: str) -> int:
        return sum(end_offsets(self.clusters[site], remote).values())

    def repeated(self, direction: Direction, mode: str, name: str) -> int:
        """Wait for the last record, make sure that none is missing; how many came twice."""
        source, target = self.sides(direction)
        originals = read_topic(source, direction.topic(mode, name))
        remote = direction.remote(mode, name)
        last = {partition: records[-1] for partition, records in originals.items()}

        def arrived() -> bool:
            copies = read_topic(target, remote)
            return all(record in copies[partition][-1:] for partition, record in last.items())

        eventually(arrived, PATIENCE_SECONDS, f"the last records of {remote} arrive")
        copies = read_topic(target, remote)
        return sum(duplicates(originals[index], copies[index]) for index in originals)

    def _by_alias(self) -> dict[str, LocalCluster]:
        return {
            alias(mode, site): cluster
            for mode in (DEFAULT, ONCE)
            for site, cluster in self.clusters.items()
        }

    def _lines(self) -> list[str]:
        lines = [*_LINES]
        for direction in self.case.directions:
            for mode in (DEFAULT, ONCE):
                flow, target = direction.flow(mode), alias(mode, direction.target)
                lines += [
                    f"{flow}.enabled = true",
                    f"{flow}.topics = {direction.topic(mode, '.*')}, heartbeats",
                    f"{target}.offset.flush.interval.ms = 1000",
                ]
                if mode == DEFAULT:
                    lines += [
                        f"{flow}.emit.heartbeats.enabled = true",
                        f"{flow}.emit.checkpoints.enabled = true",
                        f"{flow}.sync.group.offsets.enabled = true",
                        f"{flow}.groups = {direction.topic(mode, 'group')}",
                    ]
                else:
                    lines += [
                        f"{flow}.exactly.once.support = required",
                        f"{target}.exactly.once.source.support = enabled",
                    ]
        return lines


@contextmanager
def mirrored_versions(case: Case, directory: Path) -> Iterator[MirroredVersions]:
    """Start the clusters of a case with their topics, and the mirror."""
    sites = dict.fromkeys(
        site for direction in case.directions for site in (direction.source, direction.target)
    )
    clusters = {
        site: LocalCluster(site, directory / site, version=case.version_of(site)) for site in sites
    }
    folders = [folder for cluster in clusters.values() for folder in keep_in_memory(cluster)]
    try:
        start_all(clusters.values())
        for direction in case.directions:
            names = [direction.topic(mode, name) for mode in (DEFAULT, ONCE) for name in TOPICS]
            source = clusters[direction.source]
            create_topics(source, dict.fromkeys(names, PARTITIONS))
            configs = _NEW_CONFIG if direction.source == "new" else None
            create_topics(source, {direction.topic(DEFAULT, "configs"): PARTITIONS}, configs)
        mirrored = MirroredVersions(case, clusters, directory)
        try:
            yield mirrored
        finally:
            mirrored.close()
    finally:
        for cluster in clusters.values():
            cluster.kill()
            cluster.stop()
        for folder in folders:
            shutil.rmtree(folder)
