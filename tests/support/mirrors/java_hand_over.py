# SPDX-License-Identifier: Apache-2.0
"""One flow that Java MM2 and sparkmirror mirror in turn, while a producer writes.

Both read the same file. The first one is stopped by SIGTERM, then the second one starts. Afterwards
all records are compared; group positions are checked by the records at them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import sparkmirror.client
from support.clients.consumer_groups import commit, committed
from support.clients.librdkafka import (
    Cluster,
    await_copy,
    compare_topics,
    create_topics,
    end_offsets,
    topics,
)
from support.clients.load_generator import Load
from support.clients.offset_translations import PartitionRecords, partition_records
from support.mirrors.java_mirror_maker import JavaMirror
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

PARTITIONS = 2
BEFORE_THE_END = 100  # records of each partition that every program is left to copy
_RATE = 300
ONE_BROKER = tuple(
    f"{name}.replication.factor = 1"
    for name in (
        "offset-syncs.topic",
        "checkpoints.topic",
        "heartbeats.topic",
        "offset.storage",
        "status.storage",
        "config.storage",
    )
)
Offsets = dict[int, int]  # by partition
Program = JavaMirror | MirrorProcess


@dataclass(frozen=True, slots=True)
class SharedFlow:
    """A flow, its topic and its file."""

    source: Cluster
    target: Cluster
    alias: str
    target_alias: str
    topic: str
    file: Path

    @property
    def remote(self) -> str:
        """The topic's name on the target."""
        return f"{self.alias}.{self.topic}"

    def group(self, name: str) -> str:
        """A group that the file asks for."""
        return f"{self.topic}-{name}"

    def load(self) -> Load:
        return Load(self.source, self.topic, per_second=_RATE, partitions=PARTITIONS)

    def copied(self) -> Offsets:
        return end_offsets(self.target, self.remote)

    def await_copied(self, beyond: Mapping[int, int], timeout: float) -> Offsets:
        """Wait until every partition has so many copied records."""

        def far_enough() -> Offsets:
            found = self.copied()
            reached = found and all(found[n] >= offset for n, offset in beyond.items())
            return found if reached else {}

        return eventually(far_enough, timeout, f"{self.remote} reaches {beyond}")

    def commit(self, name: str, offsets: Mapping[int, int]) -> None:
        """A group commits on the source."""
        commit(self.source, self.group(name), self.topic, offsets)

    def on_target(self, name: str) -> Offsets:
        """Return the committed offsets of a group on the target."""
        return committed(self.target, self.group(name), self.remote, PARTITIONS)

    def checkpointed(self, name: str) -> Offsets:
        given = {"bootstrap.servers": self.target.bootstrap_servers}
        group = self.group(name)
        found = sparkmirror.client.translate_offsets(given, self.alias, group, PATIENCE_SECONDS)
        return {tp.partition: one.offset for tp, one in found.get(group, {}).items()}

    def await_synced(self, name: str, timeout: float) -> Offsets:
        """Wait until a group has offsets on the target."""

        def synced() -> Offsets:
            found = self.on_target(name)
            return found if min(found.values()) >= 0 else {}

        return eventually(synced, timeout, f"group {name} is synced")

    def await_moved(self, name: str, before: Mapping[int, int], timeout: float) -> Offsets:
        """Wait until a group has moved on in every partition of the target."""

        def moved() -> Offsets:
            found = self.on_target(name)
            return found if all(found[n] > offset for n, offset in before.items()) else {}

        return eventually(moved, timeout, f"group {name} has moved on from {before}")

    def await_at(self, name: str, offsets: Mapping[int, int], timeout: float) -> None:
        """Wait until a group has these offsets on the target."""

        def there() -> bool:
            assert self.on_target(name) == offsets
            return True

        eventually(there, timeout, f"group {name} stands at {offsets}")

    def records(self) -> tuple[dict[int, PartitionRecords], dict[int, PartitionRecords]]:
        """All records on both sides, by partition."""
        numbers = range(PARTITIONS)
        here = partition_records(self.source, *((self.topic, n) for n in numbers))
        there = partition_records(self.target, *((self.remote, n) for n in numbers))
        return (
            {n: here[self.topic, n] for n in numbers},
            {n: there[self.remote, n] for n in numbers},
        )


@dataclass(frozen=True, slots=True)
class HandOver:
    """The state at the hand-over and the result."""

    sent: int
    compared: int
    handed: Offsets  # how far the first one came
    ended: Offsets  # how far the second one came
    inside: Offsets  # where a group stands in what the first one copied
    further: Offsets  # where another one stands in what the second one copied
    pause_seconds: float  # from the end of the first to the next record


def shared_flow(
    directory: Path,
    source: Cluster,
    target: Cluster,
    *lines: str,
    target_alias: str = "target",
) -> SharedFlow:
    """Create a topic and a file; groups are synced every second."""
    alias, topic = unique_name("relay"), unique_name("orders")
    create_topics(source, {topic: PARTITIONS})
    flow = f"{alias}->{target_alias}"
    file = mirror_file(
        directory,
        {alias: source, target_alias: target},
        f"{flow}.enabled = true",
        f"{flow}.topics = {topic}.*",
        f"{flow}.groups = {topic}-.*",
        f"{flow}.emit.checkpoints.interval.seconds = 1",
        f"{flow}.refresh.groups.interval.seconds = 1",
        f"{flow}.sync.group.offsets.enabled = true",
        f"{flow}.sync.group.offsets.interval.seconds = 1",
        f"{target_alias}.offset.flush.interval.ms = 1000",
        "replication.factor = 1",
        *ONE_BROKER,
        *(line.replace("FLOW", flow).replace("ALIAS", alias) for line in lines),
    )
    return SharedFlow(source, target, alias, target_alias, topic, file)


def java_hands_over(one: SharedFlow) -> HandOver:
    """Start Java, then sparkmirror."""
    return _hand_over(one, JavaMirror, MirrorProcess)


def sparkmirror_hands_over(one: SharedFlow, before_stop: Callable[[], object]) -> HandOver:
    """Start sparkmirror, then Java."""
    return _hand_over(one, MirrorProcess, JavaMirror, before_stop)


def _hand_over(
    one: SharedFlow,
    first: type[Program],
    second: type[Program],
    before_stop: Callable[[], object] = lambda: None,
) -> HandOver:
    with ExitStack() as stack:
        with one.load() as load:
            one.commit("moves", {0: 20, 1: 30})
            with first(one.file) as mirror:
                one.await_copied(dict.fromkeys(range(PARTITIONS), BEFORE_THE_END), PATIENCE_SECONDS)
                before = one.await_synced("moves", PATIENCE_SECONDS)
                before_stop()
                stop(mirror)
            handed, stopped = one.copied(), time.monotonic()
            inside = {n: offset // 2 for n, offset in handed.items()}
            one.commit("inside", inside)
            mirror = stack.enter_context(second(one.file))
            one.await_copied({n: offset + 1 for n, offset in handed.items()}, PATIENCE_SECONDS)
            pause_seconds = time.monotonic() - stopped
            enough = {n: offset + BEFORE_THE_END for n, offset in handed.items()}
            further = {n: offset - 7 for n, offset in one.await_copied(enough, 30.0).items()}
            one.commit("further", further)
            one.commit("moves", further)
            one.await_synced("inside", PATIENCE_SECONDS)
            if second is MirrorProcess:
                # Both sides count alike: the copy began at the source's beginning.
                one.await_at("further", further, PATIENCE_SECONDS)
                one.await_at("moves", further, PATIENCE_SECONDS)
            else:
                one.await_synced("further", PATIENCE_SECONDS)
                one.await_moved("moves", before, PATIENCE_SECONDS)
        await_copy(one.source, one.topic, one.target, one.remote, PATIENCE_SECONDS)
        stop(mirror)
    compared = compare_topics(one.source, one.topic, one.target, one.remote)
    return HandOver(load.sent, compared, handed, one.copied(), inside, further, pause_seconds)


def stop(mirror: Program) -> None:
    if isinstance(mirror, JavaMirror):
        mirror.stop()
        return
    code, _ = mirror.terminate()
    assert code == 0
    mirror.await_end_of_all()


def check_records(found: HandOver) -> None:
    """Check that nothing is lost or duplicated, and both have copied a part."""
    assert found.compared == found.sent
    for index, handed in found.handed.items():
        assert BEFORE_THE_END <= handed <= found.ended[index] - BEFORE_THE_END


def check_exact(one: SharedFlow, name: str, offsets: Mapping[int, int]) -> None:
    """Check that a group continues on the target with the same record as on the source."""
    here, there = one.records()
    stands = one.on_target(name)
    for index, offset in offsets.items():
        assert there[index].at(stands[index]) == here[index].at(offset) is not None
    assert one.checkpointed(name) == stands


def check_no_skip(one: SharedFlow, name: str, offsets: Mapping[int, int]) -> dict[int, int]:
    """Check that a group is at or before its true position; returns the records it repeats."""
    here, there = one.records()
    stands = one.on_target(name)
    again = {}
    for index, offset in offsets.items():
        true = here[index].rank(offset)
        assert stands[index] >= 0
        again[index] = true - there[index].rank(stands[index])
        assert again[index] >= 0, f"{name} would miss {-again[index]} records of partition {index}"
    assert one.checkpointed(name) == stands
    return again


def mirrored_internals(one: SharedFlow) -> set[str]:
    """Topics that look like a mirrored internal one, on either side."""
    names = topics(one.source).keys() | topics(one.target).keys()
    aliases = (f"{one.alias}.", f"{one.target_alias}.")
    return {name for name in names if name.startswith(tuple(f"{alias}mm2" for alias in aliases))}
