# SPDX-License-Identifier: Apache-2.0
"""The leader's decision: which worker of a group runs which connectors and tasks.

Incremental and cooperative, as Connect's own (KIP-415), and pure: members with what they run,
configs and a memory of the last decision go in, a decision and the next memory come out.

    A  Whatever is configured is given to at most one member, and only after nobody runs it.
    B  Work stays where it is, unless members have more than one piece more than others.
    C  What must move is revoked in one round and given in the next one: whoever has stopped
       something joins again at once.
    D  The work of a member that has gone waits for `max_delay_seconds`; meanwhile nothing else
       moves. A worker with the same address gets it back at once.

Connect waits until the delay is over even if the worker is back, and gives the work to any worker
that has none. It also moves nothing before a worker without any work appears.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

from sparkmirror.formats.connect_protocol import (
    CONFIG_MISMATCH,
    NO_ERROR,
    NOTHING,
    Metadata,
    TaskId,
    Work,
)

T = TypeVar("T", bound=Hashable)


class Placement(Enum):
    """Where the tasks of a connector run."""

    SPREAD = "spread"  # anywhere, as in Connect
    TOGETHER = "together"  # where their connector is


@dataclass(frozen=True, slots=True)
class Configured:
    """What the config topic says up to an offset: connectors, and how many tasks each has."""

    offset: int
    connectors: Mapping[str, int]

    @property
    def tasks(self) -> list[TaskId]:
        """All tasks."""
        return [
            TaskId(name, task) for name in self.connectors for task in range(self.connectors[name])
        ]


@dataclass(frozen=True, slots=True)
class Owner:
    """Who got something; `until` is when others may have it, once the owner has gone."""

    member: str
    url: str
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """What the leader has to know of its last decision, and in which generation it was."""

    generation: int = -1
    connectors: Mapping[str, Owner] = field(default_factory=dict)
    tasks: Mapping[TaskId, Owner] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Share:
    """What one member is told: what to begin, and what to end."""

    work: Work = NOTHING
    revoked: Work = NOTHING


@dataclass(frozen=True, slots=True)
class Decision:
    """What every member is told."""

    shares: Mapping[str, Share]
    config_offset: int
    memory: Memory
    delay_seconds: float = 0.0
    error: int = NO_ERROR

    @property
    def delay_ms(self) -> int:
        """The delay, not a moment shorter."""
        return math.ceil(self.delay_seconds * 1000)


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a decision depends on beside members and configs."""

    generation: int  # the one that the decision is for
    now: float
    max_delay_seconds: float
    placement: Placement = Placement.SPREAD


def decide(
    members: Mapping[str, Metadata],
    configured: Configured,
    memory: Memory,
    circumstances: Circumstances,
) -> Decision:
    """What every member shall begin and end; an error for all if the leader knows old configs."""
    newest = max(member.config_offset for member in members.values())
    if configured.offset < newest:
        return undecided(members, newest, circumstances.generation, memory)
    urls = {name: members[name].url for name in sorted(members)}
    held = {name: members[name].work for name in urls}
    connectors = _Pool(urls, {name: work.connectors for name, work in held.items()})
    tasks = _Pool(urls, {name: work.tasks for name, work in held.items()})
    together = circumstances.placement is Placement.TOGETHER
    # The largest first, so that those with many tasks do not meet.
    wanted = sorted(configured.connectors, key=lambda name: (-configured.connectors[name], name))
    connectors.look(wanted, memory.connectors, circumstances)
    if together:
        connectors.place({name: len(held[name].tasks) for name in urls}, may_move=True)
        _follow(tasks, configured.tasks, connectors)
    else:
        tasks.look(configured.tasks, memory.tasks, circumstances)
        nobody_missing = not connectors.waiting and not tasks.waiting
        connectors.place(tasks.load(), may_move=nobody_missing)
        tasks.place(connectors.load(), may_move=nobody_missing)
    waits = [*connectors.deadlines(), *tasks.deadlines()]
    return Decision(
        {
            name: Share(
                Work(tuple(connectors.given[name]), tuple(tasks.given[name])),
                Work(tuple(connectors.revoked[name]), tuple(tasks.revoked[name])),
            )
            for name in urls
        },
        configured.offset,
        Memory(circumstances.generation, connectors.memory(), {} if together else tasks.memory()),
        delay_seconds=min(
            min(waits, default=circumstances.now) - circumstances.now,
            circumstances.max_delay_seconds,
        ),
    )


def undecided(
    members: Collection[str], offset: int, generation: int, memory: Memory | None = None
) -> Decision:
    """Nobody is given anything, and all join again; what was remembered stays remembered."""
    kept = memory or Memory()
    return Decision(
        dict.fromkeys(members, Share()),
        offset,
        Memory(generation, kept.connectors, kept.tasks),
        error=CONFIG_MISMATCH,
    )


class _Pool(Generic[T]):
    """Pieces of work of one kind while a decision about them is made."""

    def __init__(self, urls: Mapping[str, str], held: Mapping[str, Sequence[T]]) -> None:
        self._urls = urls
        self._held = held
        self._moving = 0  # revoked now, given in the next round
        self.kept: dict[str, list[T]] = {name: [] for name in urls}
        self.given: dict[str, list[T]] = {name: [] for name in urls}
        self.revoked: dict[str, list[T]] = {name: [] for name in urls}
        self.free: list[T] = []
        self.waiting: dict[T, Owner] = {}

    def look(
        self, wanted: Collection[T], remembered: Mapping[T, Owner], now: Circumstances
    ) -> None:
        """Find out what is where, what nobody has any more, and what nobody ever had."""
        running = self.keep(wanted)
        for item in wanted:
            if item in running:
                continue
            owner = remembered.get(item)
            if owner is None or owner.member in self._urls:  # never given, stopped, never arrived
                self.free.append(item)
                continue
            until = now.now + now.max_delay_seconds if owner.until is None else owner.until
            back = next((name for name, url in self._urls.items() if url == owner.url), None)
            if back is not None:
                self.given[back].append(item)
            elif now.now < until:
                self.waiting[item] = Owner(owner.member, owner.url, until)
            else:
                self.free.append(item)

    def place(self, other_load: Mapping[str, int], *, may_move: bool) -> None:
        """Give what is free to those who have least, and take from those who have too much."""
        most = self._targets() if may_move and not self.waiting else {}
        for name, target in most.items():
            for item in self.kept[name][max(0, target - len(self.given[name])) :]:
                self.kept[name].remove(item)
                self.revoked[name].append(item)
        load = self.load()
        for item in self.free:
            able = [name for name in self._urls if not most or load[name] < most[name]]
            least = min(able, key=lambda name: (load[name], other_load[name], name))
            self.given[least].append(item)
            load[least] += 1

    def load(self) -> dict[str, int]:
        """How many pieces each member has for now."""
        return {name: len(self.kept[name]) + len(self.given[name]) for name in self._urls}

    def deadlines(self) -> Iterable[float]:
        """When the waiting ends."""
        return (owner.until for owner in self.waiting.values() if owner.until is not None)

    def memory(self) -> dict[T, Owner]:
        """Who has what after this round."""
        return self.waiting | {
            item: Owner(name, self._urls[name]) for item, name in self.owners().items()
        }

    def keep(self, wanted: Collection[T]) -> frozenset[T]:
        """What somebody runs; what nobody wants any more, or two of them run, is revoked."""
        counts = Counter(item for items in self._held.values() for item in items)
        known = frozenset(wanted)
        for name, items in self._held.items():
            for item in items:
                once = counts[item] == 1 and item in known
                (self.kept if once else self.revoked)[name].append(item)
        self._moving = sum(1 for item in known if counts[item] > 1)
        return frozenset(counts)

    def _targets(self) -> dict[str, int]:
        """How many pieces each member should have: those with most now get one more than others."""
        load = self.load()
        each, more = divmod(sum(load.values()) + len(self.free) + self._moving, len(load))
        by_load = sorted(load, key=lambda name: (-load[name], name))
        return {name: each + (rank < more) for rank, name in enumerate(by_load)}

    def owners(self) -> dict[T, str]:
        """Who runs what after this round."""
        return {item: name for name in self._urls for item in (*self.kept[name], *self.given[name])}


def _follow(tasks: _Pool[TaskId], wanted: Collection[TaskId], connectors: _Pool[str]) -> None:
    """Tasks go where their connectors are; while a connector waits for its worker, they stay."""
    running = tasks.keep(wanted)
    owners = connectors.owners()
    for name, items in tasks.kept.items():
        astray = [
            item
            for item in items
            if owners.get(item.connector) != name and item.connector not in connectors.waiting
        ]
        for item in astray:
            items.remove(item)
            tasks.revoked[name].append(item)
    for item in wanted:
        owner = owners.get(item.connector)
        if item not in running and owner is not None:
            tasks.given[owner].append(item)
