# SPDX-License-Identifier: Apache-2.0
"""The offset map against a brute-force model: translation is exact after any task history."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sparkmirror.errors import WireError
from sparkmirror.formats.map_chunk import ChunkKey, MapChunk, MappedRun
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.map_builder import RUNS_PER_CHUNK, MapBuilder
from sparkmirror.offsets.offset_map import Fit, OffsetMap, Translation

TP = TopicPartition("orders", 3)


@dataclass
class Bench:
    """Tasks that copy records one after the other, the log they write, and a reader of it."""

    position: int = 0
    downstream: int = 0  # the next target offset
    true: dict[int, int] = field(default_factory=dict)  # source offset -> target offset
    log: dict[int, bytes] = field(default_factory=dict)  # place -> value
    keys: dict[int, int] = field(default_factory=dict)  # place -> first offset
    map: OffsetMap = field(default_factory=OffsetMap)
    stored: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        self.builder = MapBuilder(self.position, self.downstream)

    def copy(self, length: int, source_gap: int, target_gap: int) -> None:
        """Copy records after offsets without records on either side."""
        source, target = self.position + source_gap, self.downstream + target_gap
        self.builder.add(source, target, length)
        for n in range(length):
            self.true[source + n] = target + n
        self.position, self.downstream = source + length, target + length

    def skip(self, length: int) -> None:
        """Skip transaction markers: only the position moves."""
        self.position += length

    def flush(self) -> None:
        """Write the map, then the position."""
        for chunk in self.builder.drain(self.position, self.downstream):
            self._write(chunk)
        self.stored = self.position, self.downstream

    def die_after_the_map(self) -> None:
        """The map is written, the position is not; the successor finds all by comparing."""
        for chunk in self.builder.drain(self.position, self.downstream):
            self._write(chunk)
        self.die()

    def die(self) -> None:
        """The successor starts at the resume point and finds what was copied since."""
        first, target_first = self.stored
        self.builder = MapBuilder(first, target_first)
        for source, target in sorted(self.true.items()):
            if source >= first:
                self.builder.add(source, target, 1)

    def hand_over(self) -> None:
        """A clean end: the successor continues the open chunk."""
        self.flush()
        self.builder = MapBuilder.resume(self.builder.open_chunk(self.position, self.downstream))

    def lose_target(self, records: int) -> None:
        """The target lost its last records: they are copied again, after its end."""
        kept = sorted(self.true)[: max(len(self.true) - records, 0)]
        lost = sorted(self.true)[len(kept) :]
        if not kept or not lost:
            return
        self.true = {source: self.true[source] for source in kept}
        self.position, self.downstream = kept[-1] + 1, self.true[kept[-1]] + 1
        self.stored = min(self.stored, (self.position, self.downstream))
        self.builder.start_chunk(self.position, self.downstream)
        for source in lost:
            self.copy(1, source - self.position, 0)

    def _write(self, chunk: MapChunk) -> None:
        place = len(self.log)
        self.log[place] = chunk.value()
        self.keys[place] = chunk.first
        self.map.add_chunk(
            chunk.first, chunk.target_first, place, chunk.runs[0].source if chunk.runs else None
        )
        self.check_invariants()

    def check_invariants(self) -> None:
        """A and B."""
        assert all(a < b for a, b in pairwise(self.map._firsts))
        ends = [*zip(self.map._targets, self.map._records, strict=True)]
        assert all(a < b or (a == b and record < 0) for (a, record), (b, _) in pairwise(ends))

    def load(self, first: int, place: int) -> MapChunk:
        """A chunk out of the log."""
        assert self.keys[place] == first
        return MapChunk.from_value(first, self.log[place])

    def to_target(self, offset: int) -> Translation | None:
        return self.map.to_target(offset, self.load)

    def to_source(self, offset: int) -> Translation | None:
        return self.map.to_source(offset, self.load)

    def reread(self) -> None:
        """Another reader, of a topic that was compacted: the last value of every key."""
        last = {first: place for place, first in self.keys.items()}
        self.map = OffsetMap()
        for place in sorted(last.values()):
            chunk = self.load(self.keys[place], place)
            self.map.add_chunk(
                chunk.first, chunk.target_first, place, chunk.runs[0].source if chunk.runs else None
            )

    def check(self) -> None:
        """Check that every mirrored record is found both ways; between them, the next one."""
        self.check_invariants()
        sources = sorted(self.true)
        if not sources:
            assert self.to_target(0) is None
            return
        following = None
        for offset in range(self.position, sources[0] - 1, -1):
            following = self.true.get(offset, following)
            answer = self.to_target(offset)
            assert answer is not None
            assert answer.fit is Fit.EXACT
            assert answer.offset == (self.downstream if following is None else following)
        for source, target in self.true.items():
            assert self.to_source(target) == Translation(source, Fit.EXACT)
        assert self.to_target(self.position + 5) == Translation(self.downstream, Fit.AFTER)
        assert self.to_source(self.downstream + 5) == Translation(self.position, Fit.AFTER)


STEPS = st.one_of(
    st.tuples(st.just("copy"), st.integers(1, 40), st.integers(0, 3), st.integers(0, 3)),
    st.tuples(st.just("skip"), st.integers(1, 3)),
    st.tuples(st.sampled_from(["flush", "die", "die_after_the_map", "hand_over", "reread"])),
    st.tuples(st.just("lose_target"), st.integers(1, 60)),
)


@given(st.lists(STEPS, max_size=60), st.integers(0, 500), st.integers(0, 500))
@example(  # a chunk that is replaced by one behind it leaves a hole without records
    [
        ("copy", 1, 0, 0),
        ("flush",),
        ("skip", 1),
        ("die",),
        ("flush",),
        ("copy", 1, 0, 0),
        ("die_after_the_map",),
    ],
    0,
    0,
)
@settings(max_examples=100, deadline=None)
def test_every_mirrored_record_is_found_whatever_the_tasks_did(
    steps: list[tuple[str, int]], position: int, downstream: int
) -> None:
    """Gaps on both sides, crashes at any point, restarts, lost records, compaction."""
    bench = Bench(position, downstream, stored=(position, downstream))
    for name, *arguments in steps:
        getattr(bench, name)(*arguments)
    bench.flush()
    bench.check()
    bench.reread()
    bench.check()


@pytest.mark.parametrize("seed", range(4))
def test_chunks_are_cut_when_they_are_full(seed: int) -> None:
    """A gap per commit: many runs, several chunks, all exact."""
    bench, rng = Bench(), random.Random(seed)
    for number in range(RUNS_PER_CHUNK + 250 * seed):
        bench.copy(rng.randint(1, 3), rng.randint(0, 2), rng.randint(0, 2))
        if number % 50 == 0:
            bench.flush()
    bench.flush()
    bench.check()
    for place, first in bench.keys.items():
        assert len(bench.load(first, place).runs) <= RUNS_PER_CHUNK


def test_a_topic_without_gaps_is_one_run_however_long() -> None:
    """And its record stays small."""
    bench = Bench()
    for _ in range(10_000):
        bench.builder.add(bench.position, bench.downstream, 100)
        bench.position += 100
        bench.downstream += 100
    bench.flush()
    (value,) = bench.log.values()
    assert len(value) < 36
    assert bench.to_target(777_777) == Translation(777_777, Fit.EXACT)


def test_a_transaction_marker_per_commit_takes_three_bytes() -> None:
    """The documented size."""
    bench = Bench()
    for _ in range(RUNS_PER_CHUNK):
        bench.copy(100, 1, 0)
    bench.flush()
    assert len(bench.log[0]) == 26 + 3 * RUNS_PER_CHUNK


def test_two_writers_by_turns_take_three_bytes_a_record_up_to_the_limit() -> None:
    """As with flows in both directions: every other record is of the other writer."""
    bench = Bench()
    for _ in range(40 * RUNS_PER_CHUNK):
        bench.copy(1, 1, 1)
    bench.flush()
    assert len(bench.map) == 40
    assert sum(map(len, bench.log.values())) < 40 * (3 * RUNS_PER_CHUNK + 30)
    assert len(bench.map.oldest_beyond(10)) == 30
    assert bench.to_target(78 * RUNS_PER_CHUNK + 1) == Translation(
        78 * RUNS_PER_CHUNK + 1, Fit.EXACT
    )


def test_an_offset_before_the_map_is_translated_as_before() -> None:
    """Copying started in the middle of the topic."""
    bench = Bench(1000, 0, stored=(1000, 0))
    bench.copy(10, 0, 0)
    bench.flush()
    assert bench.to_target(999) == Translation(0, Fit.BEFORE)
    assert bench.to_target(1000) == Translation(0, Fit.EXACT)


def test_nothing_mirrored_is_no_answer() -> None:
    """Not even if a chunk covers source offsets."""
    bench = Bench()
    assert bench.to_target(0) is None
    bench.skip(5)
    bench.flush()
    assert bench.to_target(0) is None
    assert bench.to_source(0) is None


def test_a_recreated_target_topic_gets_a_new_map() -> None:
    """Its first offset is lower than in the earlier chunks."""
    bench = Bench()
    bench.copy(100, 0, 0)
    bench.flush()
    bench.true.clear()
    bench.downstream = 0
    bench.builder = MapBuilder(bench.position, 0)
    bench.copy(50, 0, 0)
    bench.flush()
    assert bench.to_target(120) == Translation(20, Fit.EXACT)
    assert bench.to_target(99) == Translation(0, Fit.BEFORE)


def test_a_recreated_remote_topic_with_records_of_another_producer() -> None:
    """The old map seems to fit below the new one: never a position after the true one."""
    bench = Bench()
    bench.copy(1_000, 0, 0)
    bench.flush()
    bench.true.clear()
    bench.builder, bench.downstream = MapBuilder(1_000, 10), 10
    bench.copy(50, 0, 0)
    bench.flush()
    for offset in range(1_000):
        found = bench.to_target(offset)
        assert found is not None
        assert found.offset <= 10
    assert bench.to_target(1_020) == Translation(30, Fit.EXACT)


def test_behind_the_marker_of_our_own_transaction_is_the_end() -> None:
    """A consumer that has read everything is there."""
    bench = Bench()
    bench.copy(10, 0, 0)
    for chunk in bench.builder.drain(10, 11):
        bench._write(chunk)
    assert bench.to_source(11) == Translation(10, Fit.EXACT)
    assert bench.to_source(12) == Translation(10, Fit.AFTER)


def test_a_hole_is_answered_with_what_is_known_before_it() -> None:
    """A chunk that was never written; never a position after the true one."""
    bench = Bench()
    bench.copy(10, 0, 0)
    bench.flush()
    bench.copy(10, 0, 0)  # its chunk is lost
    bench.builder = MapBuilder(20, 20)
    bench.copy(10, 0, 0)
    bench.flush()
    assert bench.to_target(5) == Translation(5, Fit.EXACT)
    assert bench.to_target(15) == Translation(10, Fit.NEAR)
    assert bench.to_target(25) == Translation(25, Fit.EXACT)
    assert bench.to_source(15) == Translation(10, Fit.NEAR)
    assert bench.map.hole(15, bench.load) == (10, 20)


def test_records_whose_place_is_unknown_leave_a_hole() -> None:
    """A broker that recognises a duplicate may not know its offset."""
    bench = Bench()
    bench.copy(10, 0, 0)
    bench.builder.leave_hole(10, 15)
    bench.position = bench.downstream = 15
    bench.copy(5, 0, 0)
    bench.flush()
    assert bench.to_target(9) == Translation(9, Fit.EXACT)
    assert bench.to_target(12) == Translation(10, Fit.NEAR)
    assert bench.to_target(15) == Translation(15, Fit.EXACT)
    assert bench.to_source(12) == Translation(10, Fit.NEAR)
    assert bench.to_source(15) == Translation(15, Fit.EXACT)


def test_chunks_the_source_has_outlived_and_the_oldest_above_a_cap_are_named() -> None:
    offsets = OffsetMap()
    for number in range(5):
        offsets.add_chunk(number * 10, number * 10, number, number * 10)
    assert offsets.chunks_before(0) == []
    assert offsets.chunks_before(9) == []
    assert offsets.chunks_before(25) == [0, 10]
    assert offsets.oldest_beyond(3) == [0, 10]
    assert offsets.oldest_beyond(9) == []
    offsets.remove_chunk(0)
    offsets.remove_chunk(99)
    assert offsets.firsts == [10, 20, 30, 40]


def test_a_rewind_names_what_it_makes_invalid() -> None:
    """They must be deleted, or they would become valid again once the new ones are deleted."""
    offsets = OffsetMap()
    for number in range(4):
        offsets.add_chunk(number * 10, number * 10, number, number * 10)
    assert offsets.add_chunk(10, 10, 4, 10) == [20, 30]
    assert offsets.add_chunk(15, 0, 5, 15) == [10, 0]
    assert offsets.firsts == [15]


def test_a_chunk_is_read_as_it_was_written() -> None:
    """Key and value."""
    chunk = MapChunk(7, 900, 400, 1_101, (MappedRun(9, 900, 130), MappedRun(140, 1_100, 1)))
    key = ChunkKey(TP, 7)
    assert ChunkKey.unpack(key.pack()) == key
    assert MapChunk.from_value(7, chunk.value()) == chunk
    assert chunk.value()[26:].hex() == "0200" + "8201" + "0146" + "01"


@pytest.mark.parametrize(
    "value", ["", "0001", "0000" + "00" * 24 + "01", "0000" + "00" * 24 + "80", "0000" + "00" * 9]
)
def test_a_corrupt_chunk_is_refused(value: str) -> None:
    with pytest.raises(WireError):
        MapChunk.from_value(0, bytes.fromhex(value))


def test_what_no_chunk_can_hold_is_refused() -> None:
    """Runs ascend on both sides."""
    with pytest.raises(WireError, match="negative"):
        MapChunk(10, 0, 20, 1, (MappedRun(5, 0, 1),)).value()
    with pytest.raises(WireError, match="too large"):
        MapChunk.from_value(0, bytes(2) + bytes(24) + b"\xff" * 11)
