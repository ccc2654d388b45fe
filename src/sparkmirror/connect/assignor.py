# SPDX-License-Identifier: Apache-2.0
"""The leader's decision: which worker of a group runs which connectors.

Incremental and cooperative, as Connect's own (KIP-415), and pure: members with what they run,
configs and a memory of the last decision go in, a decision and the next memory come out. Tasks are
no matter of the group: they run where their connector runs.

    A  Whatever is configured is given to at most one member, and only after nobody runs it.
    B  Work stays where it is, unless members have more than one connector more than others.
    C  What must move is revoked in one round and given in the next one: whoever has stopped
       something joins again at once.
    D  A member with a piece of its own (a pair of `sparkmirror run`) shares only with those that
       have the same: aliases of one cluster bring several pairs into one group.
    E  The work of a member that has gone waits for `max_delay_seconds`; meanwhile nothing else
       moves. A worker with the same address gets it back at once.

Connect waits until the delay is over even if the worker is back, and gives the work to any worker
that has none. It also moves nothing before a worker without any work appears.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sparkmirror.formats.connect_protocol import CONFIG_MISMATCH, NO_ERROR, Metadata


@dataclass(frozen=True, slots=True)
class Configured:
    """The connectors that the config topic names up to an offset, or the own piece of a member."""

    offset: int
    connectors: tuple[str, ...] = ()
    heavy: frozenset[str] = frozenset()  # those that copy: shared evenly among each other, too
    piece: str | None = None


@dataclass(frozen=True, slots=True)
class Owner:
    """Who got a connector; `until` is when others may have it, once the owner has gone."""

    member: str
    url: str
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """What the leader has to know of its last decision, and in which generation it was."""

    generation: int = -1
    owners: Mapping[str, Owner] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Share:
    """What one member is told: which connectors to begin, and which to end."""

    given: tuple[str, ...] = ()
    revoked: tuple[str, ...] = ()


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


def decide(
    members: Mapping[str, Metadata],
    configured: Configured,
    memory: Memory,
    circumstances: Circumstances,
) -> Decision:
    """What every member shall begin and end; an error for all if the leader knows old configs."""
    newest = max(member.config_offset for member in members.values())
    if configured.offset < newest:
        return _undecided(members, newest, Memory(circumstances.generation, memory.owners))
    by_piece: dict[str | None, dict[str, Metadata]] = {}
    for name, member in members.items():
        by_piece.setdefault(member.piece, {})[name] = member
    decisions = [
        _share(
            sharing,
            configured if piece is None else Configured(configured.offset, (piece,)),
            memory,
            circumstances,
        )
        for piece, sharing in by_piece.items()
    ]
    delays = [one.delay_seconds for one in decisions if one.delay_seconds > 0]
    return Decision(
        {name: share for one in decisions for name, share in one.shares.items()},
        configured.offset,
        Memory(
            circumstances.generation,
            {name: owner for one in decisions for name, owner in one.memory.owners.items()},
        ),
        delay_seconds=min(delays, default=0.0),
    )


def _share(
    members: Mapping[str, Metadata],
    configured: Configured,
    memory: Memory,
    circumstances: Circumstances,
) -> Decision:
    """The decision about members that may run the same."""
    urls = {name: members[name].url for name in sorted(members)}
    held = {name: members[name].connectors for name in urls}
    tables = (
        _table(urls, held, lambda connector: connector in configured.heavy),
        _table(urls, held, lambda connector: connector not in configured.heavy),
    )
    wanted = sorted(configured.connectors)
    for table in tables:
        table.look(wanted, memory.owners, circumstances)
    is_anybody_missing = any(table.is_waiting for table in tables)
    heavy, light = tables
    heavy.place({}, may_move=not is_anybody_missing)
    light.place(heavy.load(), may_move=not is_anybody_missing)
    waits = [until for table in tables for until in table.deadlines()]
    return Decision(
        {
            name: Share(
                tuple(one for table in tables for one in table.given[name]),
                tuple(one for table in tables for one in table.revoked[name]),
            )
            for name in urls
        },
        configured.offset,
        Memory(circumstances.generation, {**heavy.owners(), **light.owners()}),
        delay_seconds=min(
            min(waits, default=circumstances.now) - circumstances.now,
            circumstances.max_delay_seconds,
        ),
    )


def _table(
    urls: Mapping[str, str], held: Mapping[str, Sequence[str]], is_here: Callable[[str], bool]
) -> _Table:
    return _Table(urls, {name: [*filter(is_here, held[name])] for name in urls}, is_here)


def _undecided(members: Collection[str], offset: int, memory: Memory) -> Decision:
    """Nobody is given anything, and all join again; what was remembered stays remembered."""
    return Decision(dict.fromkeys(members, Share()), offset, memory, error=CONFIG_MISMATCH)


class _Table:
    """Connectors of one kind while a decision about them is made: all lists are by member."""

    def __init__(
        self,
        urls: Mapping[str, str],
        held: Mapping[str, Sequence[str]],
        is_here: Callable[[str], bool],
    ) -> None:
        self._urls = urls
        self._held = held
        self._is_here = is_here
        self._moving = 0  # revoked now, given in the next round
        self._free: list[str] = []
        self._waiting: dict[str, Owner] = {}
        self.kept: dict[str, list[str]] = {name: [] for name in urls}
        self.given: dict[str, list[str]] = {name: [] for name in urls}
        self.revoked: dict[str, list[str]] = {name: [] for name in urls}

    def look(
        self, configured: Collection[str], remembered: Mapping[str, Owner], now: Circumstances
    ) -> None:
        """Find out what is where, what nobody has any more, and what nobody ever had."""
        wanted = [*filter(self._is_here, configured)]
        running = self._keep(wanted)
        for connector in wanted:
            if connector in running:
                continue
            owner = remembered.get(connector)
            if owner is None or owner.member in self._urls:  # never given, stopped, never arrived
                self._free.append(connector)
                continue
            until = now.now + now.max_delay_seconds if owner.until is None else owner.until
            back = next((name for name, url in self._urls.items() if url == owner.url), None)
            if back is not None:
                self.given[back].append(connector)
            elif now.now < until:
                self._waiting[connector] = Owner(owner.member, owner.url, until)
            else:
                self._free.append(connector)

    @property
    def is_waiting(self) -> bool:
        """Whether something waits for its worker to come back."""
        return bool(self._waiting)

    def place(self, others: Mapping[str, int], *, may_move: bool) -> None:
        """Give what is free to those who have least, and take from those who have too much.

        `others` is what members have beside; between equals it decides.
        """
        most = self._targets(others) if may_move else {}
        for name, target in most.items():
            for connector in self.kept[name][max(0, target - len(self.given[name])) :]:
                self.kept[name].remove(connector)
                self.revoked[name].append(connector)
        load = self.load()
        for connector in self._free:
            able = [name for name in self._urls if not most or load[name] < most[name]]
            least = min(able, key=lambda name: (load[name], others.get(name, 0), name))
            self.given[least].append(connector)
            load[least] += 1

    def deadlines(self) -> Iterable[float]:
        """When the waiting ends."""
        return (owner.until for owner in self._waiting.values() if owner.until is not None)

    def owners(self) -> dict[str, Owner]:
        """Who has what after this round."""
        return self._waiting | {
            connector: Owner(name, url)
            for name, url in self._urls.items()
            for connector in (*self.kept[name], *self.given[name])
        }

    def _keep(self, wanted: Collection[str]) -> frozenset[str]:
        """What somebody runs; what nobody wants any more, or two of them run, is revoked."""
        counts = Counter(connector for held in self._held.values() for connector in held)
        known = frozenset(wanted)
        for name, held in self._held.items():
            for connector in held:
                once = counts[connector] == 1 and connector in known
                (self.kept if once else self.revoked)[name].append(connector)
        self._moving = sum(1 for connector in known if counts[connector] > 1)
        return frozenset(counts)

    def load(self) -> dict[str, int]:
        """How many each member has for now."""
        return {name: len(self.kept[name]) + len(self.given[name]) for name in self._urls}

    def _targets(self, others: Mapping[str, int]) -> dict[str, int]:
        """How many each member should have: those with most now get one more than others."""
        load = self.load()
        each, more = divmod(sum(load.values()) + len(self._free) + self._moving, len(load))
        by_load = sorted(load, key=lambda name: (-load[name], others.get(name, 0), name))
        return {name: each + (rank < more) for rank, name in enumerate(by_load)}
