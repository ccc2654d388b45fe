# SPDX-License-Identifier: Apache-2.0
"""Decisions of a leader: over any history of a group, and in the cases that people know."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.connect.assignor import (
    Circumstances,
    Configured,
    Decision,
    Memory,
    Placement,
    decide,
)
from sparkmirror.formats.connect_protocol import (
    CONFIG_MISMATCH,
    NOTHING,
    Assignment,
    Metadata,
    TaskId,
    Work,
)

DELAY = 300.0
Piece = str | TaskId


@dataclass
class Group:
    """Members that do what they are told, and a clock that others move."""

    configured: dict[str, int] = field(default_factory=dict)
    placement: Placement = Placement.SPREAD
    delay: float = DELAY
    now: float = 1000.0
    generation: int = 0
    works: dict[str, Work] = field(default_factory=dict)
    urls: dict[str, str] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    begun: list[tuple[str, Piece]] = field(default_factory=list)
    _ids: itertools.count[int] = field(default_factory=itertools.count)

    def add(self, url: str, work: Work = NOTHING) -> str:
        """A worker joins under a new name."""
        name = f"{url}-{next(self._ids)}"
        self.urls[name] = url
        self.works[name] = work
        return name

    def remove(self, name: str) -> Work:
        """A worker is gone, with its work."""
        del self.urls[name]
        return self.works.pop(name)

    def round(self) -> Decision:
        """One generation; whatever is told is done, and nothing runs twice at any time."""
        self.generation += 1
        members = {
            name: Metadata(self.urls[name], 5, Assignment("l", "u", 5, work) if work else None)
            for name, work in self.works.items()
        }
        decision = decide(
            members,
            Configured(5, self.configured),
            self.memory,
            Circumstances(self.generation, self.now, self.delay, self.placement),
        )
        self.memory = decision.memory
        for name, share in decision.shares.items():
            for piece in pieces(share.work):
                assert not any(piece in pieces(work) for work in self.works.values()), piece
                self.begun.append((name, piece))
        for name, share in decision.shares.items():
            assert pieces(share.revoked) <= pieces(self.works[name])
            self.works[name] = self.works[name].minus(share.revoked).plus(share.work)
        return decision

    def settle(self) -> int:
        """Rounds until nothing is revoked any more, as members that stop work join again."""
        for count in range(1, 10):
            decision = self.round()
            if not any(share.revoked for share in decision.shares.values()):
                return count
        raise AssertionError("The group does not come to rest")

    @property
    def owners(self) -> dict[Piece, str]:
        """Who runs what."""
        return {piece: name for name, work in self.works.items() for piece in pieces(work)}

    def check(self) -> None:
        """All that is configured runs exactly once, and nobody has two more than another one."""
        counts = Counter(piece for work in self.works.values() for piece in pieces(work))
        wanted = all_pieces(self.configured)
        assert counts == Counter(wanted)
        loads = [len(work.connectors) for work in self.works.values()]
        assert max(loads) - min(loads) <= 1
        if self.placement is Placement.SPREAD:
            loads = [len(work.tasks) for work in self.works.values()]
            assert max(loads) - min(loads) <= 1
        else:
            owners = self.owners
            for piece, name in owners.items():
                if isinstance(piece, TaskId):
                    assert owners[piece.connector] == name


def pieces(work: Work) -> set[Piece]:
    """Connectors and tasks."""
    return {*work.connectors, *work.tasks}


def all_pieces(configured: Mapping[str, int]) -> set[Piece]:
    """All that is to run."""
    return {*configured, *Configured(0, configured).tasks}


configs = st.dictionaries(st.sampled_from("abcdefghij"), st.integers(0, 6), max_size=8)
placements = st.sampled_from(Placement)


@given(st.integers(1, 6), configs, placements)
def test_everything_is_given_once_and_evenly(
    workers: int, configured: dict[str, int], placement: Placement
) -> None:
    """To workers that have nothing, in one round."""
    group = Group(configured, placement)
    for number in range(workers):
        group.add(f"w{number}")
    assert group.settle() == 1
    group.check()


@given(st.integers(1, 5), configs, configs, st.integers(0, 3), placements)
def test_work_moves_only_to_even_out(
    workers: int,
    configured: dict[str, int],
    changed: dict[str, int],
    more: int,
    placement: Placement,
) -> None:
    """Workers and connectors come and go: two rounds or three, and no move that was not needed."""
    group = Group(configured, placement)
    for number in range(workers):
        group.add(f"w{number}")
    group.settle()
    before = group.owners
    group.configured = changed
    for number in range(more):
        group.add(f"new{number}")
    group.begun.clear()
    assert group.settle() <= 3
    group.check()
    if placement is Placement.SPREAD:
        for kind in (str, TaskId):
            stay = {p: n for p, n in before.items() if p in group.owners and isinstance(p, kind)}
            moved = sum(1 for piece, name in stay.items() if group.owners[piece] != name)
            assert moved <= fewest_moves(stay, group, kind)
    begun = Counter(piece for _, piece in group.begun)
    assert not begun or max(begun.values()) == 1  # nothing moves twice


def fewest_moves(stay: Mapping[Piece, str], group: Group, kind: type) -> int:
    """How many pieces members have beyond an even share; who has most gets the larger ones."""
    total = sum(1 for piece in group.owners if isinstance(piece, kind))
    loads = sorted((list(stay.values()).count(name) for name in group.urls), reverse=True)
    each, more = divmod(total, len(loads))
    return sum(max(0, load - each - (rank < more)) for rank, load in enumerate(loads))


@given(st.data(), configs, placements)
def test_any_history_ends_well(
    data: st.DataObject, configured: dict[str, int], placement: Placement
) -> None:
    """Whoever comes, goes, forgets or returns: never two at once, and in the end all runs."""
    group = Group(configured, placement)
    group.add("w0")
    for step in range(data.draw(st.integers(1, 12))):
        match data.draw(st.sampled_from(["come", "go", "forget", "change", "wait", "leader"])):
            case "come":
                group.add(f"w{data.draw(st.integers(0, 3))}")
            case "go" if len(group.urls) > 1:
                group.remove(data.draw(st.sampled_from(sorted(group.urls))))
            case "forget":  # a worker whose assignment got lost
                group.works[data.draw(st.sampled_from(sorted(group.urls)))] = NOTHING
            case "change":
                group.configured = data.draw(configs)
            case "wait":
                group.now += data.draw(st.floats(0, 2 * DELAY))
            case "leader":
                group.memory = Memory()
        decision = group.round()
        assert decision.delay_seconds <= DELAY, step
    group.now += 2 * DELAY
    group.settle()
    group.now += 2 * DELAY
    group.settle()
    group.check()


def three_workers(placement: Placement = Placement.SPREAD) -> tuple[Group, list[str]]:
    """With three connectors of two tasks each."""
    group = Group({"a": 2, "b": 2, "c": 2}, placement)
    names = [group.add(f"w{number}") for number in range(3)]
    group.settle()
    return group, names


@pytest.mark.parametrize("placement", Placement)
def test_the_work_of_a_lost_worker_waits(placement: Placement) -> None:
    """Nobody takes it before the delay is over; then the others share it."""
    group, names = three_workers(placement)
    gone = group.remove(names[0])
    assert len(pieces(gone)) == 3
    assert group.round().delay_ms == DELAY * 1000
    group.now += DELAY / 2
    assert group.round().delay_ms == DELAY * 500
    assert not pieces(gone) & group.owners.keys()
    group.now += DELAY / 2
    assert group.round().delay_ms == 0
    group.settle()
    group.check()


@pytest.mark.parametrize("placement", Placement)
def test_a_worker_that_comes_back_in_time_gets_its_work_back(placement: Placement) -> None:
    """At once, and nothing of the others moves."""
    group, names = three_workers(placement)
    others = {name: group.works[name] for name in names[1:]}
    gone = group.remove(names[0])
    group.round()
    group.now += DELAY / 2
    back = group.add("w0")
    assert group.round().delay_ms == 0
    assert pieces(group.works[back]) == pieces(gone)
    assert {name: group.works[name] for name in names[1:]} == others


def test_a_strange_worker_does_not_get_what_another_one_lost() -> None:
    """It waits like all others, and nothing moves meanwhile."""
    group, names = three_workers()
    gone = group.remove(names[0])
    stranger = group.add("w9")
    decision = group.round()
    assert (decision.delay_ms, group.works[stranger]) == (DELAY * 1000, NOTHING)
    assert not any(share.revoked for share in decision.shares.values())
    group.now += DELAY
    group.settle()
    assert pieces(group.works[stranger]) == pieces(gone)


def test_without_a_delay_lost_work_is_given_at_once() -> None:
    """As `scheduled.rebalance.max.delay.ms=0` says."""
    group, names = three_workers()
    group.delay = 0.0
    group.remove(names[0])
    assert group.round().delay_ms == 0
    group.settle()
    group.check()


def test_what_was_revoked_is_given_in_the_next_round() -> None:
    """Never in the same one: whoever has it may still be running it."""
    group = Group({"a": 0, "b": 0})
    first, second = group.add("w0"), group.add("w1", NOTHING)
    group.remove(second)
    group.settle()
    assert set(group.works[first].connectors) == {"a", "b"}
    newcomer = group.add("w2")
    decision = group.round()
    assert decision.shares[first].revoked == Work(("b",))
    assert decision.shares[newcomer].work == NOTHING
    assert group.round().shares[newcomer].work == Work(("b",))


def test_what_two_members_run_is_taken_from_both() -> None:
    """Somebody did not notice its end: only after both have stopped it is given again."""
    group = Group({"a": 1})
    twice = Work(("a",), (TaskId("a", 0),))
    names = [group.add("w0", twice), group.add("w1", twice)]
    decision = group.round()
    assert [decision.shares[name].revoked for name in names] == [twice, twice]
    assert [decision.shares[name].work for name in names] == [NOTHING, NOTHING]
    group.settle()
    group.check()


def test_what_is_configured_no_more_is_revoked_even_while_somebody_is_missing() -> None:
    """A connector that was deleted must not run on for five minutes."""
    group, names = three_workers()
    group.remove(names[0])
    group.configured = {}
    decision = group.round()
    assert decision.delay_ms == 0
    assert all(work == NOTHING for work in group.works.values())


def test_a_leader_that_lags_behind_decides_nothing() -> None:
    """All are told so, and nobody's work changes; what is known of lost workers stays known."""
    memory = Memory(3)
    decision = decide(
        {"a": Metadata("w0", 5), "b": Metadata("w1", 7)},
        Configured(5, {"c": 1}),
        memory,
        Circumstances(4, 0.0, DELAY),
    )
    assert (decision.error, decision.config_offset) == (CONFIG_MISMATCH, 7)
    assert all(not share.work and not share.revoked for share in decision.shares.values())
    assert decision.memory == Memory(4)


def test_connectors_with_many_tasks_do_not_meet() -> None:
    """Together with their tasks, the largest are placed first."""
    group = Group({"s1": 4, "h1": 1, "s2": 4, "h2": 1}, Placement.TOGETHER)
    for number in range(2):
        group.add(f"w{number}")
    group.settle()
    assert [len(work.tasks) for work in group.works.values()] == [5, 5]


def test_the_tasks_of_a_spread_group_are_gathered() -> None:
    """As after a Java leader: tasks move to their connectors, those of a missing one stay."""
    group = Group({"a": 2, "b": 2}, Placement.TOGETHER)
    group.add("w0", Work(("a",), (TaskId("b", 0), TaskId("a", 0))))
    group.add("w1", Work(("b",), (TaskId("a", 1), TaskId("b", 1))))
    group.settle()
    group.check()
