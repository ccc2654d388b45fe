# SPDX-License-Identifier: Apache-2.0
"""The leader's assignment: over any history of a group, and in known cases."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.formats.connect_protocol import CONFIG_MISMATCH, Assignment, WorkerMetadata
from sparkmirror.group.assignor import (
    AssignableConnectors,
    AssignmentContext,
    GroupAssignment,
    PreviousAssignment,
    assign,
)

DELAY = 300.0


@dataclass
class Group:
    """Members that do what they are assigned, and a manual clock."""

    configured: tuple[str, ...] = ()
    heavy: frozenset[str] = frozenset()
    delay: float = DELAY
    now: float = 1000.0
    generation: int = 0
    works: dict[str, tuple[str, ...]] = field(default_factory=dict)
    urls: dict[str, str] = field(default_factory=dict)
    pieces: dict[str, str] = field(default_factory=dict)
    memory: PreviousAssignment = field(default_factory=PreviousAssignment)
    begun: list[str] = field(default_factory=list)
    _ids: itertools.count[int] = field(default_factory=itertools.count)

    def add(self, url: str, *work: str) -> str:
        """A worker joins under a new name."""
        name = f"{url}-{next(self._ids)}"
        self.urls[name] = url
        self.works[name] = work
        return name

    def remove(self, name: str) -> tuple[str, ...]:
        """A worker is gone, with its work."""
        del self.urls[name]
        return self.works.pop(name)

    def round(self) -> GroupAssignment:
        """One generation; whatever is told is done, and nothing runs twice at any time."""
        self.generation += 1
        members = {
            name: WorkerMetadata(
                self.urls[name],
                5,
                Assignment("l", "u", 5, work) if work else None,
                self.pieces.get(name),
            )
            for name, work in self.works.items()
        }
        decision = assign(
            members,
            AssignableConnectors(5, self.configured, self.heavy),
            self.memory,
            AssignmentContext(self.generation, self.now, self.delay),
        )
        self.memory = decision.next_state
        for share in decision.deltas.values():
            for connector in share.assigned:
                assert not any(connector in work for work in self.works.values()), connector
                self.begun.append(connector)
        for name, share in decision.deltas.items():
            assert set(share.revoked) <= set(self.works[name])
            kept = tuple(one for one in self.works[name] if one not in share.revoked)
            self.works[name] = kept + share.assigned
        return decision

    def settle(self) -> int:
        """Rounds until nothing is revoked any more, as members that stop work join again."""
        for count in range(1, 10):
            decision = self.round()
            if not any(share.revoked for share in decision.deltas.values()):
                return count
        raise AssertionError("The group does not come to rest")

    @property
    def owners(self) -> dict[str, str]:
        """Who runs what."""
        return {connector: name for name, work in self.works.items() for connector in work}

    def check(self) -> None:
        """All that is configured runs exactly once, and nobody has two more than another one."""
        counts = Counter(connector for work in self.works.values() for connector in work)
        assert counts == Counter(self.configured)
        loads = [len(work) for work in self.works.values()]
        assert max(loads) - min(loads) <= 1


configs = st.lists(st.sampled_from("abcdefghij"), unique=True).map(tuple)


@given(st.integers(1, 6), configs)
def test_everything_is_given_once_and_evenly(workers: int, configured: tuple[str, ...]) -> None:
    """To workers without connectors, in one round."""
    group = Group(configured)
    for number in range(workers):
        group.add(f"w{number}")
    assert group.settle() == 1
    group.check()


@given(st.integers(1, 5), configs, configs, st.integers(0, 3))
def test_work_moves_only_to_even_out(
    workers: int, configured: tuple[str, ...], changed: tuple[str, ...], more: int
) -> None:
    """Workers and connectors are added and removed: two or three rounds, no unnecessary move."""
    group = Group(configured)
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
    stay = {connector: name for connector, name in before.items() if connector in changed}
    moved = sum(1 for connector, name in stay.items() if group.owners[connector] != name)
    assert moved <= fewest_moves(stay, group)
    assert len(set(group.begun)) == len(group.begun)  # nothing moves twice


def fewest_moves(stay: Mapping[str, str], group: Group) -> int:
    """How many members have beyond an even share; who has most gets the larger ones."""
    loads = sorted((list(stay.values()).count(name) for name in group.urls), reverse=True)
    each, more = divmod(len(group.owners), len(loads))
    return sum(max(0, load - each - (rank < more)) for rank, load in enumerate(loads))


@given(st.data(), configs)
def test_any_history_ends_well(data: st.DataObject, configured: tuple[str, ...]) -> None:
    """Never two owners at once, and in the end everything runs."""
    group = Group(configured)
    group.add("w0")
    for step in range(data.draw(st.integers(1, 12))):
        match data.draw(st.sampled_from(["come", "go", "forget", "change", "wait", "leader"])):
            case "come":
                group.add(f"w{data.draw(st.integers(0, 3))}")
            case "go" if len(group.urls) > 1:
                group.remove(data.draw(st.sampled_from(sorted(group.urls))))
            case "forget":  # a worker whose assignment got lost
                group.works[data.draw(st.sampled_from(sorted(group.urls)))] = ()
            case "change":
                group.configured = data.draw(configs)
            case "wait":
                group.now += data.draw(st.floats(0, 2 * DELAY))
            case "leader":
                group.memory = PreviousAssignment()
        decision = group.round()
        assert decision.delay_seconds <= DELAY, step
    group.now += 2 * DELAY
    group.settle()
    group.now += 2 * DELAY
    group.settle()
    group.check()


def three_workers() -> tuple[Group, list[str]]:
    """With two connectors each."""
    group = Group(tuple("abcdef"))
    names = [group.add(f"w{number}") for number in range(3)]
    group.settle()
    return group, names


def test_the_work_of_a_lost_worker_waits() -> None:
    """Until the delay ends; then the others share it."""
    group, names = three_workers()
    gone = group.remove(names[0])
    assert len(gone) == 2
    assert group.round().delay_ms == DELAY * 1000
    group.now += DELAY / 2
    assert group.round().delay_ms == DELAY * 500
    assert not set(gone) & group.owners.keys()
    group.now += DELAY / 2
    assert group.round().delay_ms == 0
    group.settle()
    group.check()


def test_a_worker_that_comes_back_in_time_gets_its_work_back() -> None:
    """At once, and nothing else moves."""
    group, names = three_workers()
    others = {name: group.works[name] for name in names[1:]}
    gone = group.remove(names[0])
    group.round()
    group.now += DELAY / 2
    back = group.add("w0")
    assert group.round().delay_ms == 0
    assert group.works[back] == gone
    assert {name: group.works[name] for name in names[1:]} == others


def test_a_strange_worker_does_not_get_what_another_one_lost() -> None:
    """Nothing moves meanwhile."""
    group, names = three_workers()
    gone = group.remove(names[0])
    stranger = group.add("w9")
    decision = group.round()
    assert (decision.delay_ms, group.works[stranger]) == (DELAY * 1000, ())
    assert not any(share.revoked for share in decision.deltas.values())
    group.now += DELAY
    group.settle()
    assert set(group.works[stranger]) == set(gone)


def test_without_a_delay_lost_work_is_given_at_once() -> None:
    """With `scheduled.rebalance.max.delay.ms=0`; other connectors are not moved."""
    group, names = three_workers()
    group.delay = 0.0
    gone = group.remove(names[0])
    before = group.owners
    decision = group.round()
    assert decision.delay_ms == 0
    assert not any(share.revoked for share in decision.deltas.values())
    assert before.items() <= group.owners.items()
    assert set(gone) <= group.owners.keys()
    group.check()


def test_what_was_revoked_is_given_in_the_next_round() -> None:
    """Never in the same one: its owner may still run it."""
    group = Group(("a", "b"))
    first = group.add("w0")
    group.settle()
    assert group.works[first] == ("a", "b")
    newcomer = group.add("w2")
    decision = group.round()
    assert decision.deltas[first].revoked == ("b",)
    assert decision.deltas[newcomer].assigned == ()
    assert group.round().deltas[newcomer].assigned == ("b",)


def test_what_two_members_run_is_taken_from_both() -> None:
    """It is assigned again only after both have stopped it."""
    group = Group(("a",))
    names = [group.add("w0", "a"), group.add("w1", "a")]
    decision = group.round()
    assert [decision.deltas[name].revoked for name in names] == [("a",), ("a",)]
    assert [decision.deltas[name].assigned for name in names] == [(), ()]
    group.settle()
    group.check()


def test_a_removed_connector_is_revoked_while_a_member_is_missing() -> None:
    """A deleted connector must not run for five more minutes."""
    group, names = three_workers()
    group.remove(names[0])
    group.configured = ()
    decision = group.round()
    assert decision.delay_ms == 0
    assert all(work == () for work in group.works.values())


def test_a_leader_that_lags_behind_decides_nothing() -> None:
    """All get an error, and nothing changes; lost workers are remembered."""
    group, names = three_workers()
    group.remove(names[0])
    decision = assign(
        {"a": WorkerMetadata("w0", 5), "b": WorkerMetadata("w1", 7)},
        AssignableConnectors(5, ("c",)),
        group.memory,
        AssignmentContext(4, 0.0, DELAY),
    )
    assert (decision.error, decision.config_offset) == (CONFIG_MISMATCH, 7)
    assert all(not share.assigned and not share.revoked for share in decision.deltas.values())
    assert decision.next_state == PreviousAssignment(4, group.memory.owners)
    assert decision.next_state.owners


def test_those_that_copy_are_shared_evenly_too() -> None:
    """Not two of them on one worker while another one only emits heartbeats."""
    heavy = frozenset({"a-copies", "b-copies", "c-copies"})
    group = Group(
        configured=("a-copies", "a-beats", "b-beats", "b-copies", "c-copies"), heavy=heavy
    )
    first = group.add("x")
    group.round()
    assert set(group.works[first]) == {*group.configured}
    group.add("y")
    for _ in range(3):
        group.round()
    copying = sorted(len(heavy & set(work)) for work in group.works.values())
    assert copying == [1, 2]
    assert sorted(map(len, group.works.values())) == [2, 3]


processes = st.lists(st.sampled_from("pqr"), min_size=1, max_size=6)


@given(processes, processes, st.integers(0, 5))
def test_flows_of_one_group_run_where_they_are_configured(
    first: list[str], more: list[str], lost: int
) -> None:
    """Aliases of one cluster: each flow runs once, on a member that has it."""
    group = Group(delay=0.0)

    def join(piece: str) -> str:
        name = group.add("process")  # all in one process, or in several: that must not matter
        group.pieces[name] = piece
        return name

    names = [join(piece) for piece in first]
    group.settle()
    before = group.owners
    assert {piece: group.pieces[name] for piece, name in before.items()} == {p: p for p in first}
    for piece in more:
        join(piece)
    group.settle()
    assert before.items() <= group.owners.items()
    gone = names[lost % len(names)]
    group.remove(gone)
    group.settle()
    left = {group.pieces[name] for name in group.urls}
    assert {piece: group.pieces[name] for piece, name in group.owners.items()} == {
        piece: piece for piece in left
    }


def test_flows_that_wait_for_a_lost_process_do_not_delay_others() -> None:
    """The delay applies to the lost flow; a new flow starts at once."""
    group = Group()
    for url, piece in (("one", "p"), ("two", "p"), ("three", "q")):
        group.pieces[group.add(url)] = piece
    group.settle()
    group.remove(group.owners["p"])
    newcomer = group.add("four")
    group.pieces[newcomer] = "r"
    decision = group.round()
    assert decision.delay_seconds == DELAY
    assert set(group.owners) == {"q", "r"}
    group.now += DELAY
    assert group.round().delay_seconds == 0
    assert set(group.owners) == {"p", "q", "r"}
