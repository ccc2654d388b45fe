# SPDX-License-Identifier: Apache-2.0
"""The leader's decision: which member of a group runs which connectors.

Incremental and cooperative, as Connect's own (KIP-415), and pure: members with what they run,
configs and the previous assignment go in; an assignment and the next state come out. Tasks are not
assigned: they run where their connector runs.

    A  A connector is assigned to at most one member, and only after no member runs it.
    B  Connectors stay where they are, unless member counts differ by more than one.
    C  A connector that must move is revoked in one round and assigned in the next one. A member
       that has stopped a revoked connector rejoins at once.
    D  A member with a flow (a process of `sparkmirror run`) shares only with members of the same
       flow: with two aliases of one cluster several flows are in one group.
    E  The connectors of a lost member wait for `max_delay_seconds`; meanwhile nothing else moves.
       A worker with the same URL gets them back at once.

Connect waits until the delay has passed even if the worker returns, and then gives its connectors
to any worker without connectors. It also moves nothing until a worker without connectors joins.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sparkmirror.formats.connect_protocol import CONFIG_MISMATCH, NO_ERROR, WorkerMetadata


@dataclass(frozen=True, slots=True)
class AssignableConnectors:
    """The connectors of the config topic up to an offset, or the flow of a member."""

    config_offset: int
    connectors: tuple[str, ...] = ()
    source_connectors: frozenset[str] = frozenset()  # balanced separately: they copy records
    flow: str | None = None


@dataclass(frozen=True, slots=True)
class Owner:
    """The member that a connector was assigned to, and when others may get it if it is lost."""

    member: str
    url: str
    reassign_at: float | None = None


@dataclass(frozen=True, slots=True)
class PreviousAssignment:
    """The leader's state from its last assignment, and the generation of that."""

    generation: int = -1
    owners: Mapping[str, Owner] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AssignmentDelta:
    """One member's changes: connectors to start and to stop."""

    assigned: tuple[str, ...] = ()
    revoked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupAssignment:
    """The assignment of all members."""

    deltas: Mapping[str, AssignmentDelta]
    config_offset: int
    next_state: PreviousAssignment
    delay_seconds: float = 0.0
    error: int = NO_ERROR

    @property
    def delay_ms(self) -> int:
        """The delay, rounded up."""
        return math.ceil(self.delay_seconds * 1000)


@dataclass(frozen=True, slots=True)
class AssignmentContext:
    """What an assignment depends on besides members and configs."""

    generation: int  # of the assignment
    now: float
    max_delay_seconds: float


def assign(
    members: Mapping[str, WorkerMetadata],
    configured: AssignableConnectors,
    previous: PreviousAssignment,
    context: AssignmentContext,
) -> GroupAssignment:
    """Assign connectors to members; an error for all if the leader has not read all configs."""
    newest = max(member.config_offset for member in members.values())
    if configured.config_offset < newest:
        return _config_mismatch(
            members, newest, PreviousAssignment(context.generation, previous.owners)
        )
    by_flow: dict[str | None, dict[str, WorkerMetadata]] = {}
    for name, member in members.items():
        by_flow.setdefault(member.flow, {})[name] = member
    assignments = [
        _assign_members(
            sharing,
            configured if flow is None else AssignableConnectors(configured.config_offset, (flow,)),
            previous,
            context,
        )
        for flow, sharing in by_flow.items()
    ]
    delays = [one.delay_seconds for one in assignments if one.delay_seconds > 0]
    return GroupAssignment(
        {name: delta for one in assignments for name, delta in one.deltas.items()},
        configured.config_offset,
        PreviousAssignment(
            context.generation,
            {name: owner for one in assignments for name, owner in one.next_state.owners.items()},
        ),
        delay_seconds=min(delays, default=0.0),
    )


def _assign_members(
    members: Mapping[str, WorkerMetadata],
    configured: AssignableConnectors,
    previous: PreviousAssignment,
    context: AssignmentContext,
) -> GroupAssignment:
    """Assign connectors to members that may run the same ones."""
    urls = {name: members[name].url for name in sorted(members)}
    held = {name: members[name].connectors for name in urls}
    tables = (
        _allocation(urls, held, lambda connector: connector in configured.source_connectors),
        _allocation(urls, held, lambda connector: connector not in configured.source_connectors),
    )
    connectors = sorted(configured.connectors)
    for table in tables:
        table.classify(connectors, previous.owners, context)
    is_member_missing = any(table.has_delayed for table in tables)
    heavy, light = tables
    heavy.allocate({}, may_move=not is_member_missing)
    light.allocate(heavy.load(), may_move=not is_member_missing)
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
        PreviousAssignment(context.generation, {**heavy.owners(), **light.owners()}),
        delay_seconds=min(
            min(waits, default=context.now) - context.now,
            context.max_delay_seconds,
        ),
    )


def _allocation(
    urls: Mapping[str, str], held: Mapping[str, Sequence[str]], is_here: Callable[[str], bool]
) -> _Allocation:
    return _Allocation(urls, {name: [*filter(is_here, held[name])] for name in urls}, is_here)


def _config_mismatch(
    members: Collection[str], offset: int, previous: PreviousAssignment
) -> GroupAssignment:
    """Assign nothing; all members rejoin. Keeps the previous owners."""
    return GroupAssignment(
        dict.fromkeys(members, AssignmentDelta()), offset, previous, error=CONFIG_MISMATCH
    )


class _Allocation:
    """The allocation of one kind of connectors; all lists are by member."""

    def __init__(
        self,
        urls: Mapping[str, str],
        held: Mapping[str, Sequence[str]],
        is_here: Callable[[str], bool],
    ) -> None:
        self._urls = urls
        self._running = held
        self._is_here = is_here
        self._moving = 0  # revoked now, assigned in the next round
        self._unassigned: list[str] = []
        self._delayed: dict[str, Owner] = {}
        self.kept: dict[str, list[str]] = {name: [] for name in urls}
        self.assigned: dict[str, list[str]] = {name: [] for name in urls}
        self.revoked: dict[str, list[str]] = {name: [] for name in urls}

    def classify(
        self, configured: Collection[str], remembered: Mapping[str, Owner], now: AssignmentContext
    ) -> None:
        """Sort connectors into running, delayed (owner is lost) and unassigned ones."""
        selected = [*filter(self._is_here, configured)]
        running = self._retain(selected)
        for connector in selected:
            if connector in running:
                continue
            owner = remembered.get(connector)
            if owner is None or owner.member in self._urls:  # never assigned, or stopped
                self._unassigned.append(connector)
                continue
            until = (
                now.now + now.max_delay_seconds if owner.reassign_at is None else owner.reassign_at
            )
            returned = next((name for name, url in self._urls.items() if url == owner.url), None)
            if returned is not None:
                self.assigned[returned].append(connector)
            elif now.now < until:
                self._delayed[connector] = Owner(owner.member, owner.url, until)
            else:
                self._unassigned.append(connector)

    @property
    def has_delayed(self) -> bool:
        """Whether a connector waits for its worker to return."""
        return bool(self._delayed)

    def allocate(self, others: Mapping[str, int], *, may_move: bool) -> None:
        """Assign free connectors to the least loaded members, and revoke from overloaded ones.

        `others` is the members' other load; it decides between equals.
        """
        max_counts = self._target_counts(others) if may_move else {}
        for name, target in max_counts.items():
            for connector in self.kept[name][max(0, target - len(self.assigned[name])) :]:
                self.kept[name].remove(connector)
                self.revoked[name].append(connector)
        load = self.load()
        for connector in self._unassigned:
            able = [name for name in self._urls if not max_counts or load[name] < max_counts[name]]
            least = min(able, key=lambda name: (load[name], others.get(name, 0), name))
            self.assigned[least].append(connector)
            load[least] += 1

    def delay_ends(self) -> Iterable[float]:
        """When the delays end."""
        return (
            owner.reassign_at for owner in self._delayed.values() if owner.reassign_at is not None
        )

    def owners(self) -> dict[str, Owner]:
        """The owner of each connector after this round."""
        return self._delayed | {
            connector: Owner(name, url)
            for name, url in self._urls.items()
            for connector in (*self.kept[name], *self.assigned[name])
        }

    def _retain(self, configured: Collection[str]) -> frozenset[str]:
        """Return what runs; revoke what is not configured any more or runs twice."""
        counts = Counter(connector for held in self._running.values() for connector in held)
        known = frozenset(configured)
        for name, held in self._running.items():
            for connector in held:
                once = counts[connector] == 1 and connector in known
                (self.kept if once else self.revoked)[name].append(connector)
        self._moving = sum(1 for connector in known if counts[connector] > 1)
        return frozenset(counts)

    def load(self) -> dict[str, int]:
        """The number of connectors of each member."""
        return {name: len(self.kept[name]) + len(self.assigned[name]) for name in self._urls}

    def _target_counts(self, others: Mapping[str, int]) -> dict[str, int]:
        """The target number for each member; those with the highest load get the remainder."""
        load = self.load()
        each, more = divmod(sum(load.values()) + len(self._unassigned) + self._moving, len(load))
        by_load = sorted(load, key=lambda name: (-load[name], others.get(name, 0), name))
        return {name: each + (rank < more) for rank, name in enumerate(by_load)}
