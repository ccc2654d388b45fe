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

from sparkmirror.formats.connect_protocol import CONFIG_MISMATCH, NO_ERROR, WorkerMetadata


@dataclass(frozen=True, slots=True)
class AssignableConnectors:
    """The connectors that the config topic names up to an offset, or the own piece of a member."""

    config_offset: int
    connectors: tuple[str, ...] = ()
    source_connectors: frozenset[str] = (
        frozenset()
    )  # those that copy: shared evenly among each other, too
    flow: str | None = None


@dataclass(frozen=True, slots=True)
class Owner:
    """Who got a connector; `until` is when others may have it, once the owner has gone."""

    member: str
    url: str
    reassign_at: float | None = None


@dataclass(frozen=True, slots=True)
class PreviousAssignment:
    """What the leader has to know of its last decision, and in which generation it was."""

    generation: int = -1
    owners: Mapping[str, Owner] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AssignmentDelta:
    """What one member is told: which connectors to begin, and which to end."""

    assigned: tuple[str, ...] = ()
    revoked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupAssignment:
    """What every member is told."""

    deltas: Mapping[str, AssignmentDelta]
    config_offset: int
    next_state: PreviousAssignment
    delay_seconds: float = 0.0
    error: int = NO_ERROR

    @property
    def delay_ms(self) -> int:
        """The delay, not a moment shorter."""
        return math.ceil(self.delay_seconds * 1000)


@dataclass(frozen=True, slots=True)
class AssignmentContext:
    """What a decision depends on beside members and configs."""

    generation: int  # the one that the decision is for
    now: float
    max_delay_seconds: float


def assign(
    members: Mapping[str, WorkerMetadata],
    configured: AssignableConnectors,
    memory: PreviousAssignment,
    circumstances: AssignmentContext,
) -> GroupAssignment:
    """What every member shall begin and end; an error for all if the leader knows old configs."""
    newest = max(member.config_offset for member in members.values())
    if configured.config_offset < newest:
        return _config_mismatch(
            members, newest, PreviousAssignment(circumstances.generation, memory.owners)
        )
    by_piece: dict[str | None, dict[str, WorkerMetadata]] = {}
    for name, member in members.items():
        by_piece.setdefault(member.flow, {})[name] = member
    decisions = [
        _assign_members(
            sharing,
            configured
            if piece is None
            else AssignableConnectors(configured.config_offset, (piece,)),
            memory,
            circumstances,
        )
        for piece, sharing in by_piece.items()
    ]
    delays = [one.delay_seconds for one in decisions if one.delay_seconds > 0]
    return GroupAssignment(
        {name: share for one in decisions for name, share in one.deltas.items()},
        configured.config_offset,
        PreviousAssignment(
            circumstances.generation,
            {name: owner for one in decisions for name, owner in one.next_state.owners.items()},
        ),
        delay_seconds=min(delays, default=0.0),
    )


def _assign_members(
    members: Mapping[str, WorkerMetadata],
    configured: AssignableConnectors,
    memory: PreviousAssignment,
    circumstances: AssignmentContext,
) -> GroupAssignment:
    """The decision about members that may run the same."""
    urls = {name: members[name].url for name in sorted(members)}
    held = {name: members[name].connectors for name in urls}
    tables = (
        _allocation(urls, held, lambda connector: connector in configured.source_connectors),
        _allocation(urls, held, lambda connector: connector not in configured.source_connectors),
    )
    wanted = sorted(configured.connectors)
    for table in tables:
        table.classify(wanted, memory.owners, circumstances)
    is_anybody_missing = any(table.has_delayed for table in tables)
    heavy, light = tables
    heavy.allocate({}, may_move=not is_anybody_missing)
    light.allocate(heavy.load(), may_move=not is_anybody_missing)
    waits = [until for table in tables for until in table.delay_ends()]
    return GroupAssignment(
        {
            name: AssignmentDelta(
                tuple(one for table in tables for one in table.assigned[name]),
                tuple(one for table in tables for one in table.revoked[name]),
            )
            for name in urls
        },
        configured.config_offset,
        PreviousAssignment(circumstances.generation, {**heavy.owners(), **light.owners()}),
        delay_seconds=min(
            min(waits, default=circumstances.now) - circumstances.now,
            circumstances.max_delay_seconds,
        ),
    )


def _allocation(
    urls: Mapping[str, str], held: Mapping[str, Sequence[str]], is_here: Callable[[str], bool]
) -> _Allocation:
    return _Allocation(urls, {name: [*filter(is_here, held[name])] for name in urls}, is_here)


def _config_mismatch(
    members: Collection[str], offset: int, memory: PreviousAssignment
) -> GroupAssignment:
    """Nobody is given anything, and all join again; what was remembered stays remembered."""
    return GroupAssignment(
        dict.fromkeys(members, AssignmentDelta()), offset, memory, error=CONFIG_MISMATCH
    )


class _Allocation:
    """Connectors of one kind while a decision about them is made: all lists are by member."""

    def __init__(
        self,
        urls: Mapping[str, str],
        held: Mapping[str, Sequence[str]],
        is_here: Callable[[str], bool],
    ) -> None:
        self._urls = urls
        self._running = held
        self._is_here = is_here
        self._moving = 0  # revoked now, given in the next round
        self._unassigned: list[str] = []
        self._delayed: dict[str, Owner] = {}
        self.kept: dict[str, list[str]] = {name: [] for name in urls}
        self.assigned: dict[str, list[str]] = {name: [] for name in urls}
        self.revoked: dict[str, list[str]] = {name: [] for name in urls}

    def classify(
        self, configured: Collection[str], remembered: Mapping[str, Owner], now: AssignmentContext
    ) -> None:
        """Find out what is where, what nobody has any more, and what nobody ever had."""
        wanted = [*filter(self._is_here, configured)]
        running = self._retain(wanted)
        for connector in wanted:
            if connector in running:
                continue
            owner = remembered.get(connector)
            if owner is None or owner.member in self._urls:  # never given, stopped, never arrived
                self._unassigned.append(connector)
                continue
            until = (
                now.now + now.max_delay_seconds if owner.reassign_at is None else owner.reassign_at
            )
            back = next((name for name, url in self._urls.items() if url == owner.url), None)
            if back is not None:
                self.assigned[back].append(connector)
            elif now.now < until:
                self._delayed[connector] = Owner(owner.member, owner.url, until)
            else:
                self._unassigned.append(connector)

    @property
    def has_delayed(self) -> bool:
        """Whether something waits for its worker to come back."""
        return bool(self._delayed)

    def allocate(self, others: Mapping[str, int], *, may_move: bool) -> None:
        """Give what is free to those who have least, and take from those who have too much.

        `others` is what members have beside; between equals it decides.
        """
        most = self._target_counts(others) if may_move else {}
        for name, target in most.items():
            for connector in self.kept[name][max(0, target - len(self.assigned[name])) :]:
                self.kept[name].remove(connector)
                self.revoked[name].append(connector)
        load = self.load()
        for connector in self._unassigned:
            able = [name for name in self._urls if not most or load[name] < most[name]]
            least = min(able, key=lambda name: (load[name], others.get(name, 0), name))
            self.assigned[least].append(connector)
            load[least] += 1

    def delay_ends(self) -> Iterable[float]:
        """When the waiting ends."""
        return (
            owner.reassign_at for owner in self._delayed.values() if owner.reassign_at is not None
        )

    def owners(self) -> dict[str, Owner]:
        """Who has what after this round."""
        return self._delayed | {
            connector: Owner(name, url)
            for name, url in self._urls.items()
            for connector in (*self.kept[name], *self.assigned[name])
        }

    def _retain(self, wanted: Collection[str]) -> frozenset[str]:
        """What somebody runs; what nobody wants any more, or two of them run, is revoked."""
        counts = Counter(connector for held in self._running.values() for connector in held)
        known = frozenset(wanted)
        for name, held in self._running.items():
            for connector in held:
                once = counts[connector] == 1 and connector in known
                (self.kept if once else self.revoked)[name].append(connector)
        self._moving = sum(1 for connector in known if counts[connector] > 1)
        return frozenset(counts)

    def load(self) -> dict[str, int]:
        """How many each member has for now."""
        return {name: len(self.kept[name]) + len(self.assigned[name]) for name in self._urls}

    def _target_counts(self, others: Mapping[str, int]) -> dict[str, int]:
        """How many each member should have: those with most now get one more than others."""
        load = self.load()
        each, more = divmod(sum(load.values()) + len(self._unassigned) + self._moving, len(load))
        by_load = sorted(load, key=lambda name: (-load[name], others.get(name, 0), name))
        return {name: each + (rank < more) for rank, name in enumerate(by_load)}
