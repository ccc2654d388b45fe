# SPDX-License-Identifier: Apache-2.0
"""Random logs, crashes and moved logs: what the source holds is on the target exactly once.

The lives of a task run between scripted clusters; between them both logs change as retention,
compaction, unclean elections and other writers change them. `scripted_verdict` says what must be.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.mirrors.scripted_invariants import violations
from support.mirrors.scripted_mirror import Crash, ScriptedMirror, mirror
from support.peers.scripted_cluster import DESCRIBE_PRODUCERS

EXAMPLES = int(os.environ.get("MOVED_LOGS_EXAMPLES", "100"))
Step = tuple[str, tuple[Any, ...]]  # a method of Story, and its arguments


@dataclass
class Story:
    """A mirror, and what happens to it step by step."""

    flow: ScriptedMirror
    serials: count[int] = field(default_factory=count)

    def append(self, sizes: list[int]) -> None:
        """Records on the source, in batches of these sizes."""
        for size in sizes:
            self.flow.source_log.append(self._bodies("r", size))

    def _bodies(self, prefix: str, size: int) -> list[bytes]:
        return [b"%s-%d" % (prefix.encode(), next(self.serials)) for _ in range(size)]

    def live(self, crash: Crash | None) -> None:
        """A life that crashes, or ends when all is copied."""
        life = self.flow.run(crash)
        assert not life.is_stuck, f"stuck: {life.troubles}"

    def live_while(self, moves: dict[float, Step]) -> None:
        """A life that ends when all is copied; logs move while it runs."""
        at = {seconds: partial(self.take, *step) for seconds, step in moves.items()}
        life = self.flow.run(at=at)
        assert not life.is_stuck, f"stuck: {life.troubles}"

    def take(self, name: str, arguments: tuple[Any, ...]) -> None:
        """One step."""
        move: Callable[..., None] = getattr(self, name)
        move(*arguments)

    def cut_source(self, back: int, sizes: list[int]) -> None:
        """An unclean election loses the last records; the new leader takes others."""
        log = self.flow.source_log
        log.truncate(max(log.end - back, log.start))
        self.append(sizes)

    def elect_source(self) -> None:
        """Another leader on the source, nothing lost."""
        self.flow.source_log.elect()

    def delete_source(self, back: int) -> None:
        """Retention leaves so many offsets."""
        log = self.flow.source_log
        log.delete_before(max(log.end - back, log.start))

    def compact_source(self, modulus: int) -> None:
        """The cleaner keeps every n-th offset."""
        self.flow.source_log.compact(lambda one: one.offset % modulus == 0)

    def cut_target(self, back: int) -> None:
        """An unclean election on the target."""
        log = self.flow.target_log
        log.truncate(max(log.end - back, log.start))

    def delete_target(self, back: int) -> None:
        """Retention on the target leaves so many offsets."""
        log = self.flow.target_log
        log.delete_before(max(log.end - back, log.start))

    def forget(self) -> None:
        """The target's producer states expire."""
        self.flow.target_log.expire_producers()

    def write_elsewhere(self, size: int) -> None:
        """Another client writes to the remote topic."""
        self.flow.target_log.append(self._bodies("other", size))

    def switch_off(self) -> None:
        """The target no longer offers DescribeProducers."""
        self.flow.target.api_versions.pop(DESCRIBE_PRODUCERS, None)


SIZES = st.lists(st.integers(1, 6), max_size=5)
BACK = st.integers(0, 25)
CRASHES = st.builds(
    Crash,
    produces=st.integers(1, 5),
    is_answered=st.booleans(),
    landing=st.integers(0, 3),
)
MOVES = {
    "append": st.tuples(SIZES),
    "live": st.tuples(st.none() | CRASHES),
    "cut_source": st.tuples(BACK, SIZES),
    "elect_source": st.just(()),
    "delete_source": st.tuples(BACK),
    "compact_source": st.tuples(st.integers(2, 4)),
    "cut_target": st.tuples(BACK),
    "delete_target": st.tuples(BACK),
    "forget": st.just(()),
    "write_elsewhere": st.tuples(st.integers(1, 4)),
    "switch_off": st.just(()),
}


TIMES = st.sampled_from([0.0, 0.3, 1.0, 4.0, 7.0, 11.0])  # positions are stored every 5 s


def step(*names: str) -> st.SearchStrategy[Step]:
    """One of these moves."""
    return st.sampled_from(names).flatmap(lambda name: st.tuples(st.just(name), MOVES[name]))


def plans(*moves: st.SearchStrategy[Step]) -> st.SearchStrategy[list[Step]]:
    """Any order of moves, with many lives and records between."""
    return st.lists(st.one_of(*moves, step("append", "live"), step("live")), min_size=2, max_size=9)


WHILE_DOWN = step(*(name for name in MOVES if name not in ("append", "live")))
WHILE_RUNNING = st.dictionaries(
    TIMES,
    step(*(name for name in MOVES if name not in ("live", "switch_off"))),
    min_size=1,
    max_size=3,
).map(lambda moves: ("live_while", (moves,)))


def check(plan: list[Step], *, is_small: bool) -> None:
    """Run a plan, then one clean life, and compare with the model."""
    with mirror() as flow:
        if is_small:
            flow.small_batches()
        story = Story(flow)
        story.append([4, 1, 5, 5])
        for name, arguments in plan:
            story.take(name, arguments)
        story.append([2])
        story.live(None)
        found = violations(flow)
        if any(_may_repeat(name, arguments) for name, arguments in plan):
            found = [one for one in found if not one.startswith("twice")]
        assert not found, found


def _may_repeat(name: str, arguments: tuple[object, ...]) -> bool:
    """Whether the target may forget the producer while a task writes.

    Then it takes what the task sends next, which comes again behind what was lost.
    """
    return name == "live_while" and any(move == "cut_target" for move, _ in arguments[0].values())


@settings(max_examples=EXAMPLES)
@given(plan=plans(), is_small=st.booleans())
def test_copy_is_exact_when_only_the_mirror_dies(plan: list[Step], is_small: bool) -> None:
    """Crashes at any produce request, acknowledged or not."""
    check(plan, is_small=is_small)


DIES = ("live", (Crash(produces=1, is_answered=True),))
DIES_LATE = ("live", (Crash(produces=4, landing=3),))
DIES_EARLY = ("live", (Crash(produces=2, landing=3),))
ENDS = ("live", (None,))


@example(plan=[DIES, ENDS, ("cut_source", (25, [5, 6]))], is_small=False)
@example(plan=[DIES_LATE, ("cut_source", (9, [5]))], is_small=True)
@example(plan=[ENDS, ("append", ([5, 5],)), DIES_EARLY, ("cut_source", (8, [5]))], is_small=True)
@example(plan=[DIES, ("delete_source", (0,))], is_small=False)
@example(plan=[DIES_LATE, ("append", ([5],)), ("delete_source", (19,))], is_small=True)
@example(plan=[DIES, ("compact_source", (4,))], is_small=False)
@example(plan=[DIES_LATE, ("compact_source", (3,))], is_small=True)
@example(plan=[ENDS, ("switch_off", ()), ("cut_target", (9,))], is_small=False)
@example(plan=[ENDS, ("cut_target", (8,)), ("append", ([4, 6],)), DIES], is_small=False)
@example(plan=[ENDS, ("elect_source", ()), ("append", ([6, 2, 6],)), DIES_EARLY], is_small=True)
@settings(max_examples=EXAMPLES)
@given(plan=plans(WHILE_DOWN), is_small=st.booleans())
def test_copy_is_exact_when_logs_move_while_the_mirror_is_down(
    plan: list[Step], is_small: bool
) -> None:
    """Both logs change between lives in every way that a real one does."""
    check(plan, is_small=is_small)


CUT_TWICE = {4.0: ("cut_source", (9, [])), 11.0: ("cut_source", (20, [3, 4, 5]))}
TARGET_EMPTIED = {1.0: ("cut_target", (25,)), 7.0: ("append", ([1, 2, 6],))}


@example(plan=[("live_while", (CUT_TWICE,))], is_small=False)
@example(plan=[("live_while", (TARGET_EMPTIED,))], is_small=False)
@settings(max_examples=EXAMPLES)
@given(plan=plans(WHILE_DOWN, WHILE_RUNNING), is_small=st.booleans())
def test_copy_is_exact_when_logs_move_while_the_mirror_runs(
    plan: list[Step], is_small: bool
) -> None:
    """The same changes, at any time of a life."""
    check(plan, is_small=is_small)
