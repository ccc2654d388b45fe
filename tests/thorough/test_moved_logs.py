# SPDX-License-Identifier: Apache-2.0
"""The mirror is killed under load, and a log moves before the mirror starts again.

Both sides are read with librdkafka. Records that the source still holds must be on the target once
and in order; the ledger must name exactly the records that only one side has, or neither.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path

import pytest

from chaos.evidence import BatchLine, batch_lines
from sparkmirror.devcluster.cluster import LocalCluster, start_all
from sparkmirror.devcluster.kafka_tools import KafkaTools
from support.clients.consumed_records import ConsumedRecord, ends, partitions_of, read_partitions
from support.clients.librdkafka import Place, create_topics, numbered, produce
from support.clients.load_generator import Load
from support.clusters.log_damage import truncate
from support.clusters.log_restore import copy_data, delete_before, restore_data, stored_positions
from support.measurements import measured
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess, command
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

PARTITIONS = 2
STORED = 20_000  # records whose position is stored, by a run that ends in order
BEHIND = 20_000  # records behind that position
LOADED = 10_000  # records copied while more are written
PER_SECOND = 4_000
GROWN = 10_000  # records past the old end
NEVER_FLUSHED_MS = 600_000
SOON_FLUSHED_MS = 200
CONTROL = 0x20  # an attribute of record batches
EXACTLY_ONCE = ("target.exactly.once.source.support = enabled",)
Entry = tuple[str, int, int, int, int]  # kind, partition, first offset, last offset, records


@pytest.fixture(scope="module")
def clusters(
    tmp_path_factory: pytest.TempPathFactory, kafka_version: str
) -> Iterator[tuple[LocalCluster, LocalCluster]]:
    """A source whose log is moved, and a target."""
    directory = tmp_path_factory.mktemp("moved")
    found = [
        LocalCluster(name, directory / name, version=kafka_version) for name in ("source", "target")
    ]
    start_all(found)
    yield found[0], found[1]
    for cluster in found:
        cluster.stop()


@dataclass(frozen=True, slots=True)
class Sides:
    """A topic and its copy, and the file of the flow between them."""

    source: LocalCluster
    target: LocalCluster
    alias: str
    topic: str
    directory: Path
    lines: tuple[str, ...] = ()

    @property
    def here(self) -> list[Place]:
        """The partitions on the source."""
        return partitions_of({self.topic: PARTITIONS})

    def copied(self) -> dict[int, int]:
        """The end offset of each partition on the target."""
        there = partitions_of({f"{self.alias}.{self.topic}": PARTITIONS})
        return {place[1]: end for place, end in ends(self.target, there).items()}

    def file(self, flush_ms: int = SOON_FLUSHED_MS) -> Path:
        """The properties file; `flush_ms` says how soon positions are stored."""
        flow = f"{self.alias}->target"
        return mirror_file(
            self.directory,
            {self.alias: self.source, "target": self.target},
            f"{flow}.enabled = true",
            f"{flow}.topics = {self.topic}",
            f"{flow}.heartbeats.replication.enabled = false",
            "emit.heartbeats.enabled = false",
            f"{flow}.tasks.max = {PARTITIONS}",
            f"target.offset.flush.interval.ms = {flush_ms}",
            *self.lines,
        )

    def write(self, count: int, first: int) -> None:
        """Write records that no other call writes."""
        produce(self.source, self.topic, numbered(count, PARTITIONS, first=first))

    def copy_all(self) -> str:
        """Copy up to the present end; what the mirror logged."""
        with MirrorProcess(self.file(), "--once") as mirror:
            assert mirror.wait(PATIENCE_SECONDS) == 0, mirror.log
            return mirror.log

    def kill_under_load(self, flush_ms: int) -> None:
        """Let the mirror copy what is there and some of a load, and kill all of it."""
        with MirrorProcess(self.file(flush_ms)) as mirror:
            self.await_copied(STORED + BEHIND)
            with Load(self.source, self.topic, per_second=PER_SECOND, partitions=PARTITIONS):
                self.await_copied(STORED + BEHIND + LOADED)
                mirror.kill_everything()

    def await_copied(self, count: int) -> None:
        """Wait until the target holds so many records."""
        eventually(
            lambda: min(self.copied().values()) >= count // PARTITIONS,
            PATIENCE_SECONDS,
            f"{count} records are copied",
        )

    def await_stored(self, count: int) -> None:
        """Wait until the positions of so many records are stored, so no transaction is open."""
        last = count // PARTITIONS - 1
        eventually(
            lambda: stored_positions(self.target, self.alias) == dict.fromkeys(self.here, last),
            PATIENCE_SECONDS,
            f"the positions of {count} records are stored",
        )

    def read(self) -> tuple[dict[int, list[ConsumedRecord]], dict[int, list[ConsumedRecord]]]:
        """What both sides hold, by partition."""
        originals = read_partitions(self.source, self.here)
        remote = f"{self.alias}.{self.topic}"
        copies = read_partitions(self.target, partitions_of({remote: PARTITIONS}))
        return (
            {index: records for (_, index), records in originals.items()},
            {index: records for (_, index), records in copies.items()},
        )

    def ledger(self) -> list[Entry]:
        """What `sparkmirror ledger` lists."""
        done = subprocess.run(
            [command(), "ledger", str(self.file()), "--json"],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=True,
        )
        return sorted(
            (one["kind"], one["partition"], one["firstOffset"], one["lastOffset"], one["records"])
            for one in json.loads(done.stdout)
        )


def killed(clusters: tuple[LocalCluster, LocalCluster], tmp_path: Path, *lines: str) -> Sides:
    """A flow with positions stored for its first records, and as many records behind them."""
    topic = unique_name("moved")
    create_topics(clusters[0], {topic: PARTITIONS})
    sides = Sides(*clusters, unique_name("origin"), topic, tmp_path, lines)
    sides.write(STORED, first=0)
    sides.copy_all()
    sides.write(BEHIND, first=STORED)
    return sides


def check_copies(sides: Sides) -> dict[int, int]:
    """Lost 0, twice 0, order kept; how many records of each partition only the target has."""
    originals, copies = sides.read()
    wrong, only_there = {}, {}
    for index, here in originals.items():
        held, there = set(here), copies[index]
        first_copies = dict.fromkeys(there)
        lost, twice = len(held - first_copies.keys()), len(there) - len(first_copies)
        only_there[index] = len(first_copies.keys() - held)
        out_of_order = [one for one in first_copies if one in held] != [
            one for one in here if one in first_copies
        ]
        if lost or twice or out_of_order:
            wrong[index] = f"lost {lost} of {len(here)}, twice {twice}, disorder {out_of_order}"
    measured(
        f"{sum(map(len, originals.values()))} records on the source, "
        f"{sum(map(len, copies.values()))} on the target, wrong: {wrong or 'none'}"
    )
    assert wrong == {}
    return only_there


@pytest.mark.parametrize(
    ("flush_ms", "lines"),
    [
        pytest.param(NEVER_FLUSHED_MS, (), id="position before the cut"),
        pytest.param(SOON_FLUSHED_MS, (), id="position behind the cut"),
        pytest.param(SOON_FLUSHED_MS, EXACTLY_ONCE, id="exactly-once"),
    ],
)
def test_a_source_that_lost_its_tail_and_grew_again_arrives_once(
    clusters: tuple[LocalCluster, LocalCluster],
    tmp_path: Path,
    flush_ms: int,
    lines: tuple[str, ...],
) -> None:
    """The ledger names the range that only the target holds, and nothing else."""
    sides = killed(clusters, tmp_path, *lines)
    source = sides.source
    cut = dict(ends(source, sides.here))
    copy = tmp_path / "older"
    copy_data(source, copy)
    sides.kill_under_load(flush_ms)
    stored = stored_positions(sides.target, sides.alias)
    old_end = ends(source, sides.here)
    assert all(
        (stored[place] < cut[place]) == (flush_ms == NEVER_FLUSHED_MS) for place in sides.here
    ), f"stored {stored}, cut {cut}"
    restore_data(source, copy, sides.here)
    shutil.rmtree(copy)
    assert ends(source, sides.here) == cut
    lost = sum(old_end.values()) - sum(cut.values())
    sides.write(lost + GROWN, first=200_000)
    measured(f"stored {sorted(stored.values())}, cut {sorted(cut.values())}, lost {lost}")

    log = sides.copy_all()
    ledger = sides.ledger()
    measured(f"ledger: {ledger}")
    only_there = check_copies(sides)
    assert ledger == [
        ("source-truncated", index, cut[sides.topic, index],
         cut[sides.topic, index] + count - 1, count)
        for index, count in sorted(only_there.items())
        if count
    ]  # fmt: skip
    assert "duplicates are possible" not in log


@pytest.mark.parametrize("lines", [(), EXACTLY_ONCE], ids=["default", "exactly-once"])
@pytest.mark.parametrize("regrown", [LOADED, LOADED // 2], ids=["as long as before", "shorter"])
def test_a_bounded_run_notices_that_the_source_was_cut_while_nothing_ran(
    clusters: tuple[LocalCluster, LocalCluster],
    tmp_path: Path,
    regrown: int,
    lines: tuple[str, ...],
) -> None:
    """No record lies behind the stored position; only the leader epoch or the end tells."""
    sides = killed(clusters, tmp_path, *lines)
    cut = dict(ends(sides.source, sides.here))
    copy = tmp_path / "older"
    copy_data(sides.source, copy)
    sides.write(LOADED, first=100_000)
    sides.copy_all()
    restore_data(sides.source, copy, sides.here)
    shutil.rmtree(copy)
    sides.write(regrown, first=200_000)

    sides.copy_all()
    assert check_copies(sides) == dict.fromkeys(range(PARTITIONS), LOADED // PARTITIONS)
    assert sides.ledger() == [
        ("source-truncated", index, cut[sides.topic, index],
         cut[sides.topic, index] + LOADED // PARTITIONS - 1, LOADED // PARTITIONS)
        for index in range(PARTITIONS)
    ]  # fmt: skip


@pytest.mark.parametrize("share", [0.5, 1.5], ids=["before the copied end", "past the copied end"])
def test_records_deleted_past_the_stored_position_are_a_gap_only_if_never_copied(
    clusters: tuple[LocalCluster, LocalCluster], tmp_path: Path, share: float
) -> None:
    """The gap entry names only records that neither side holds."""
    sides = killed(clusters, tmp_path)
    sides.kill_under_load(NEVER_FLUSHED_MS)
    sides.write(STORED, first=200_000)
    stored, copied = stored_positions(sides.target, sides.alias), sides.copied()
    firsts = {
        place: stored[place] + round((copied[place[1]] - stored[place]) * share)
        for place in sides.here
    }
    source_ends = ends(sides.source, sides.here)
    assert all(stored[place] + 1 < firsts[place] < source_ends[place] for place in sides.here)
    delete_before(sides.source, firsts)
    measured(f"stored {stored}, copied {copied}, deleted before {firsts}, ends {source_ends}")

    log = sides.copy_all()
    ledger = sides.ledger()
    measured(f"ledger: {ledger}")
    check_copies(sides)
    assert ledger == [
        ("gap", index, copied[index], first - 1, first - copied[index])
        for (_, index), first in sorted(firsts.items())
        if first > copied[index]
    ]
    assert "duplicates are possible" not in log


@pytest.mark.parametrize("moment", ["after a kill", "while running"])
def test_what_the_target_lost_of_an_exactly_once_flow_is_copied_again(
    clusters: tuple[LocalCluster, LocalCluster], tmp_path: Path, moment: str
) -> None:
    """Committed records are gone, their positions are not; the ledger names them exactly."""
    sides = killed(clusters, tmp_path, *EXACTLY_ONCE)
    if moment == "after a kill":
        sides.kill_under_load(SOON_FLUSHED_MS)
        kept = truncate_target(sides, is_marker=True)
        sides.copy_all()
    else:
        with MirrorProcess(sides.file()) as mirror:
            sides.await_stored(STORED + BEHIND)
            kept = truncate_target(sides, is_marker=True)
            # More than was lost: the log grows past its old end before anybody is asked.
            sides.write(STORED, first=200_000)
            mirror.await_log("target-truncated", PATIENCE_SECONDS)
            sides.await_copied(STORED * 2 + BEHIND)
            mirror.terminate()
        sides.copy_all()
    ledger = sides.ledger()
    measured(f"kept {kept}, ledger: {ledger}")
    assert set(check_copies(sides).values()) == {0}
    assert [(kind, index, first) for kind, index, first, _, _ in ledger] == [
        ("target-truncated", index, count) for index, count in sorted(kept.items())
    ]
    assert all(records == last + 1 - first for _, _, first, last, records in ledger)


def test_a_target_cut_within_a_transaction_waits_until_that_is_aborted(
    clusters: tuple[LocalCluster, LocalCluster], tmp_path: Path
) -> None:
    """Whoever ends it decides about its records; until then nothing is written behind them."""
    sides = killed(clusters, tmp_path, *EXACTLY_ONCE)
    sides.copy_all()
    kept = truncate_target(sides, is_marker=False)
    with MirrorProcess(sides.file()) as mirror:
        mirror.await_log("abort the transaction that starts at offset", PATIENCE_SECONDS)
        before = sides.copied()
        sides.write(STORED, first=200_000)
        found = re.findall(rf"target: ({sides.alias}\S+)-(\d) was truncated within .* offset (\d+)",
                           mirror.log)  # fmt: skip
        assert {int(partition) for _, partition, _ in found} == set(kept)
        assert sides.copied() == before
        for topic, partition, offset in set(found):
            abort(sides.target, topic, partition, offset)
    sides.copy_all()
    assert set(check_copies(sides).values()) == {0}
    assert [(kind, index) for kind, index, *_ in sides.ledger()] == [
        ("target-truncated", index) for index in range(PARTITIONS)
    ]


def truncate_target(sides: Sides, *, is_marker: bool) -> dict[int, int]:
    """Cut the copies off, behind a transaction or within one; the records that are left."""
    topic, target = f"{sides.alias}.{sides.topic}", sides.target
    target.stop()
    left = {}
    for index in range(PARTITIONS):
        (broker,) = target.brokers
        lines = list(batch_lines(broker.data / f"{topic}-{index}"))
        wanted = [
            line for line, following in pairwise(lines)
            if _is_control(line) == is_marker and (is_marker or not _is_control(following))
        ]  # fmt: skip
        last = wanted[len(wanted) * 3 // 4]
        truncate(broker.data, topic, index, last.base_offset + last.records)
        left[index] = sum(
            line.records
            for line in lines
            if line.base_offset <= last.base_offset and not _is_control(line)
        )
    target.start()
    measured(f"the target is left with {left}")
    return left


def abort(cluster: LocalCluster, topic: str, partition: str, offset: str) -> None:
    """End a transaction that no coordinator knows."""
    tool = KafkaTools(cluster.bootstrap_servers).command(
        "org.apache.kafka.tools.TransactionsCommand",
        "abort",
        f"--topic={topic}",
        f"--partition={partition}",
        f"--start-offset={offset}",
    )
    subprocess.run(tool, check=True, timeout=PATIENCE_SECONDS)


def _is_control(line: BatchLine) -> bool:
    return bool(line.attributes & CONTROL)


def test_the_check_sees_lost_and_repeated_records(
    clusters: tuple[LocalCluster, LocalCluster], tmp_path: Path
) -> None:
    """A copy with one record less and one twice is refused."""
    topic = unique_name("moved")
    sides = Sides(*clusters, unique_name("origin"), topic, tmp_path)
    create_topics(sides.source, {topic: PARTITIONS})
    create_topics(sides.target, {f"{sides.alias}.{topic}": PARTITIONS})
    sides.write(20, first=0)
    records = numbered(20, PARTITIONS)
    produce(sides.target, f"{sides.alias}.{topic}", [*islice(records, 18), records[3]])
    with pytest.raises(AssertionError, match=r"lost 1 of 10, twice 1"):
        check_copies(sides)
