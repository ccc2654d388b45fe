# SPDX-License-Identifier: Apache-2.0
"""The offset sync store keeps the slots that MM2 keeps, and never translates too far."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.formats.mm2_records import OffsetSync
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.offset_sync_store import SLOTS, OffsetSyncStore

TP = TopicPartition("topic1", 2)
LARGEST = (1 << 63) - 1


class Recorder:
    """A store that is checked after every sync; upstream and downstream are equal."""

    def __init__(self, *, must_read_to_end: bool, is_done: bool = False) -> None:
        self.store = OffsetSyncStore(must_read_to_end)
        if is_done:
            self.store.start_translation()

    def see(self, upstream: int, downstream: int | None = None) -> int:
        """Take a sync, check the invariants, and tell how many distinct syncs went away."""
        before = set(map(id, self.store.syncs(TP)))
        sync = OffsetSync(TP, upstream, upstream if downstream is None else downstream)
        kept = self.store.syncs(TP)  # alive, so that no id is used twice
        self.store.add(sync)
        assert self.store.syncs(TP)[0] is sync  # A
        check_spacing(self.store.syncs(TP))
        del kept
        return len(before - set(map(id, self.store.syncs(TP))))

    def see_all(self, upstreams: Iterable[int]) -> None:
        """Take many."""
        for upstream in upstreams:
            self.see(upstream)

    def translate(self, upstream: int) -> int | None:
        """The store's answer."""
        return self.store.translate(TP, upstream)

    def runs(self) -> list[tuple[int, int]]:
        """The first slot and the upstream offset of each run of one sync."""
        slots = self.store.syncs(TP)
        return [
            (i, sync.upstream_offset)
            for i, sync in enumerate(slots)
            if i == 0 or slots[i - 1] is not sync
        ]


def check_spacing(slots: tuple[OffsetSync, ...]) -> None:
    """Invariants B and C for all pairs of slots, sums without overflow.

    In two runs of equal offsets the last newer and the first older slot are the strictest pair.
    """
    upstreams = [sync.upstream_offset for sync in slots]
    borders = [i for i in range(SLOTS - 1) if upstreams[i] != upstreams[i + 1]]
    for i in borders:
        for j in (border + 1 for border in borders if border >= i):
            distance = upstreams[i] - upstreams[j]
            assert distance <= 2**j - 2**i, f"B between {i} and {j}"
            assert distance >= 2 ** max(i - 2, 0), f"C between {i} and {j}"


def test_offsets_are_translated_at_and_behind_the_newest_sync() -> None:
    """At a sync its offset, after it one more, before all of them -1; a rewind starts over."""
    recorder = Recorder(must_read_to_end=True, is_done=True)
    recorder.see(100, 200)
    assert recorder.translate(150) == 201
    recorder.see(150, 251)
    assert recorder.translate(150) == 251
    assert recorder.translate(5) == -1
    recorder.see(200, 10)  # downstream went back
    assert recorder.translate(200) == 10
    recorder.see(20, 20)  # upstream went back
    assert recorder.translate(20) == 20


def test_nothing_is_translated_before_the_first_read_is_done() -> None:
    """None until `done`, the true answers afterwards."""
    recorder = Recorder(must_read_to_end=True)
    assert recorder.translate(0) is None
    recorder.see(100, 200)
    assert [recorder.translate(offset) for offset in (0, 100, 200)] == [None] * 3
    recorder.store.start_translation()
    assert [recorder.translate(offset) for offset in (0, 100, 200)] == [-1, 200, 201]


def test_a_partition_without_syncs_has_no_translation() -> None:
    """None, and not -1: nothing is known, rather than too old."""
    recorder = Recorder(must_read_to_end=True, is_done=True)
    assert [recorder.translate(0), recorder.store.syncs(TP)] == [None, ()]
    recorder.see(7)
    assert recorder.store.translate(TopicPartition("topic1", 3), 7) is None


def test_of_the_syncs_at_the_start_only_the_newest_is_trusted() -> None:
    """Without checkpoints nothing before the last sync of the first read is translated."""
    recorder = Recorder(must_read_to_end=True)
    recorder.see_all(range(0, 1001, 10))
    assert recorder.runs() == [(0, 1000)]
    recorder.store.start_translation()
    recorder.see_all(range(1010, 10_001, 10))
    assert recorder.runs() == [
        (0, 10_000),
        (5, 9990),
        (6, 9970),
        (7, 9940),
        (8, 9880),
        (9, 9640),
        (10, 9160),
        (11, 8680),
        (12, 6760),
        (13, 4840),
        (14, 1000),
    ]
    assert [recorder.translate(offset) for offset in (999, 1000, 1001)] == [-1, 1000, 1001]
    check_rewind(recorder)


def test_with_checkpoints_the_syncs_at_the_start_are_kept() -> None:
    """What was there at the start is used if it need not be read to the end first."""
    recorder = Recorder(must_read_to_end=False)
    recorder.see_all(range(0, 1001, 10))
    first = [(0, 1000), (5, 990), (6, 960), (7, 900), (8, 840), (9, 720), (10, 480), (11, 0)]
    assert recorder.runs() == first
    assert recorder.translate(480) is None
    recorder.store.start_translation()
    assert recorder.translate(480) == 480
    recorder.see_all(range(1000, 10_001, 10))
    assert recorder.runs() == [
        (0, 10_000),
        (5, 9990),
        (6, 9960),
        (7, 9900),
        (8, 9840),
        (9, 9600),
        (10, 9120),
        (11, 8640),
        (12, 7680),
        (13, 3840),
        (14, 0),
    ]
    check_rewind(recorder)


def check_rewind(recorder: Recorder) -> None:
    """A source that went back forgets everything before."""
    recorder.see(1500, 11_000)
    assert recorder.runs() == [(0, 1500)]
    assert [recorder.translate(offset) for offset in (1499, 1500, 2000)] == [-1, 11_000, 11_001]


@pytest.mark.parametrize(
    ("upstreams", "runs"),
    [
        ((100, 200, 300), [(0, 300), (8, 200), (9, 100)]),
        ((175, 275, 375, 475), [(0, 475), (8, 375), (9, 175)]),
    ],
)
def test_few_syncs_lie_where_mm2_puts_them(
    upstreams: tuple[int, ...], runs: list[tuple[int, int]]
) -> None:
    """Two short reference vectors; the second one drops a sync."""
    recorder = Recorder(must_read_to_end=False)
    recorder.see_all(upstreams)
    assert recorder.runs() == runs


@pytest.mark.parametrize("step", [1, 2, 3, 7, 16, 100, 1023, 1024, 1 << 20, 1 << 40, 1 << 53])
def test_evenly_spaced_syncs_push_out_one_at_most(step: int) -> None:
    """Whatever the step, a sync costs no more than one other; the first is never lost."""
    check_evictions([100 + step * count for count in range(501)], most=1)


@pytest.mark.parametrize("bits", range(1, 40, 3))
def test_randomly_spaced_syncs_push_out_few(bits: int) -> None:
    """Gaps of up to n bits cost at most n + 2 syncs at once."""
    seeded = random.Random(bits)
    upstreams = [100]
    for _ in range(500):
        upstreams.append(upstreams[-1] + seeded.randrange(1 << bits))
    check_evictions(upstreams, most=bits + 2)


def test_syncs_that_were_dropped_cost_two_at_most() -> None:
    """Gaps of 100 or 200, as when some syncs are not written."""
    seeded = random.Random(200)
    upstreams = [100]
    for _ in range(1000):
        upstreams.append(upstreams[-1] + seeded.choice((100, 200)))
    check_evictions(upstreams, most=2)


def check_evictions(upstreams: list[int], most: int) -> None:
    """No sync pushes out more than `most`; newest at 0, first at 63."""
    recorder = Recorder(must_read_to_end=True, is_done=True)
    for upstream in upstreams:
        assert recorder.see(upstream) <= most
        slots = recorder.store.syncs(TP)
        ends = (slots[0].upstream_offset, slots[-1].upstream_offset)
        assert ends == (upstream, upstreams[0])


def test_offsets_near_the_largest_wrap_as_in_java() -> None:
    """Limits that overflow count as satisfied for B and as missed for C."""
    recorder = Recorder(must_read_to_end=False, is_done=True)
    recorder.see_all([LARGEST - 200, LARGEST - 100, LARGEST])
    assert recorder.runs() == [(0, LARGEST), (8, LARGEST - 100), (9, LARGEST - 200)]
    assert recorder.translate(LARGEST - 150) == LARGEST - 199


def test_a_sync_too_far_back_for_the_last_slot_is_forgotten() -> None:
    """Slots 62 and 63 are 2^62 apart at most; whatever lies farther back is not kept."""
    recorder = Recorder(must_read_to_end=False, is_done=True)
    recorder.see_all([0, 1 << 62])
    assert recorder.runs() == [(0, 1 << 62), (63, 0)]
    farther = Recorder(must_read_to_end=False, is_done=True)
    farther.see_all([0, (1 << 62) + 1])
    assert farther.runs() == [(0, (1 << 62) + 1)]


def test_the_nearest_sync_is_the_one_that_a_translation_stands_on() -> None:
    """So that a caller can ignore it."""
    found = Recorder(must_read_to_end=False, is_done=True)
    assert found.store.nearest(TP, 100) is None
    found.see_all([100, 200, 300])
    assert found.store.nearest(TP, 99) is None
    assert found.store.nearest(TP, 100) == OffsetSync(TP, 100, 100)
    assert found.store.nearest(TP, 299) == OffsetSync(TP, 200, 200)
    assert found.translate(299) == 201


def test_a_repeated_sync_replaces_only_the_newest() -> None:
    """A record that was copied twice is translated to its later copy; the slots behind stay."""
    recorder = Recorder(must_read_to_end=False, is_done=True)
    recorder.see_all([100, 200])
    recorder.see(200, 250)
    assert [recorder.translate(offset) for offset in (150, 200, 201)] == [101, 250, 251]
    assert recorder.runs() == [(0, 200), (1, 200), (8, 100)]


def test_a_growing_table_may_translate_an_offset_to_less() -> None:
    """Syncs between get lost, so the same offset may later have a coarser answer."""
    recorder = Recorder(must_read_to_end=False, is_done=True)
    seen = []
    for upstream in range(40):
        recorder.see(upstream)
        if upstream >= 6:
            seen.append(recorder.translate(6))
    assert seen[0] == 6
    assert min(answer for answer in seen if answer is not None) < 6


@given(
    gaps=st.lists(
        st.tuples(st.integers(1, 300), st.integers(1, 3), st.booleans()), min_size=1, max_size=120
    ),
    started=st.integers(0, 120),
    must_read_to_end=st.booleans(),
)
def test_a_translation_is_never_past_the_true_position(
    gaps: list[tuple[int, int, bool]], started: int, must_read_to_end: bool
) -> None:
    """No record that the group has not read lies before the offset it is given on the target.

    The source has holes, the target has records between, some records are synced.
    """
    recorder = Recorder(must_read_to_end=must_read_to_end)
    upstreams, downstreams = [], []
    upstream = downstream = 0
    for count, (hole, between, is_synced) in enumerate(gaps):
        if count == started:
            recorder.store.start_translation()
        upstream += hole
        downstream += between
        upstreams.append(upstream)
        downstreams.append(downstream)
        if is_synced:
            recorder.see(upstream, downstream)
    recorder.store.start_translation()
    downstreams.append(downstream + 1)  # the end of the log
    answers = [recorder.translate(offset) for offset in range(upstream + 2)]
    for offset, answer in enumerate(answers):
        if answer is not None:
            assert answer <= downstreams[bisect_left(upstreams, offset)]


@given(
    syncs=st.lists(st.integers(0, LARGEST) | st.integers(0, 5000), min_size=1, max_size=60),
    asked=st.lists(st.integers(0, LARGEST) | st.integers(0, 5000), min_size=2, max_size=20),
    rewinds=st.booleans(),
)
def test_a_fixed_table_translates_in_order(
    syncs: list[int], asked: list[int], rewinds: bool
) -> None:
    """Of two offsets the larger one is never translated to less; downstream offsets grow."""
    store = OffsetSyncStore(must_read_to_end=False)
    for downstream, upstream in enumerate(syncs if rewinds else sorted(syncs)):
        store.add(OffsetSync(TP, upstream, downstream))
    store.start_translation()
    answers = [store.translate(TP, offset) for offset in sorted(asked)]
    assert [a for a in answers if a is not None] == answers
    assert sorted(answers, key=lambda a: -2 if a is None else a) == answers
    assert len(store.syncs(TP)) == SLOTS
