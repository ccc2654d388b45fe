# SPDX-License-Identifier: Apache-2.0
"""The pairs of a process: those that it runs, that another one runs, that are on their way out.

Every pair has a gate, and its herder lives only while the gate is open. Two threads change a pair:
the main one, which follows the file, and the gate's own; nothing here makes the main thread wait,
`proceed` looks how far an end has come, and a newer file may change its mind meanwhile.

    A  A herder is made only while the gate is open and no other herder of the pair is at work.
    B  The gate is told that a pair has ended when nothing of its herder writes any more.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from sparkmirror.config.changes import Changes, Part
from sparkmirror.config.connector_classes import ConnectorClass
from sparkmirror.config.settings import ConnectionSettings, FlowSettings
from sparkmirror.config.worker_settings import GroupSettings
from sparkmirror.connectors.herder import Herder
from sparkmirror.model import Flow
from sparkmirror.pipeline.status import FlowSnapshot, FlowState, FlowStatus
from sparkmirror.policy.loading import FlowPolicy
from sparkmirror.state.pair_orders import PairOrders, Restart, Wishes, connector_names

SLOW_SECONDS = 8.0  # what a clean end may take
_LOOK_SECONDS = 0.02
_LEAVE_SECONDS = 2.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PairPlan:
    """All that a pair is made from."""

    settings: FlowSettings
    policy: FlowPolicy
    group: GroupSettings

    @property
    def flow(self) -> Flow:
        """The two clusters."""
        return self.settings.flow


@dataclass(frozen=True, slots=True)
class Standing:
    """How a pair stands before its gate opens."""

    state: FlowState
    reason: str


@dataclass(frozen=True, slots=True)
class GateCalls:
    """What a gate calls, from threads of its own."""

    opened: Callable[[Wishes], None]  # also when other wishes have come; returns at once
    closed: Callable[[], None]  # returns when the pair has ended
    restart: Callable[[Restart], None]


class Gate(Protocol):
    """Whether this process is the one that runs a pair."""

    @property
    def orders(self) -> PairOrders:
        """What is asked of the pair's connectors."""

    def start(self) -> None:
        """Begin to ask; the answer comes through the calls that the gate was made with."""

    def renew(self, connection: ConnectionSettings) -> None:
        """Connect with other credentials from now on, without giving the place up."""

    def stop(self, seconds: float) -> bool:
        """End the pair and give the place up, waiting so long; whether that is done."""

    def standing(self) -> Standing:
        """Why the pair does not run here."""


@dataclass(slots=True)
class Pair:
    """One of them; others may look at it, only `Pairs` changes it."""

    plan: PairPlan
    idle: FlowStatus
    gate: Gate = field(init=False)
    is_open: bool = False
    wishes: Wishes = field(default_factory=dict)
    herder: Herder | None = None
    ending_since: float | None = None
    is_leaving: bool = False  # the gate, too
    successor: PairPlan | None = None
    is_slow: bool = False

    @property
    def connectors(self) -> tuple[ConnectorClass, ...]:
        """Those that the file asks for."""
        return tuple(connector_names(self.plan.settings))

    def snapshot(self) -> FlowSnapshot:
        """As it stands now."""
        herder = self.herder
        if herder is None:
            found = self.gate.standing()
            return replace(self.idle.snapshot(), state=found.state, reason=found.reason)
        now = herder.snapshot()
        if not self.is_slow:
            return now
        return replace(now, troubles=(*now.troubles, "does not end; nothing copies beside it"))

    def forget_herder(self) -> None:
        """Its herder has ended."""
        if self.herder is not None:
            self.idle = self.herder.status.successor()
        self.herder = None
        self.is_slow = False
        if not self.is_leaving:
            self.ending_since = None
            self.plan, self.successor = self.successor or self.plan, None


class Pairs:
    """The pairs of a process by flow."""

    def __init__(
        self,
        make: Callable[[PairPlan, Wishes], Herder],
        make_gate: Callable[[PairPlan, GateCalls], Gate],
        plans: Iterable[PairPlan],
    ) -> None:
        self._make = make
        self._make_gate = make_gate
        self._lock = threading.RLock()
        self._is_closing = False
        # Replaced as a whole: scrapes of other threads read it.
        self._pairs = {plan.flow: self._pair(plan) for plan in plans}

    def _pair(self, plan: PairPlan, idle: FlowStatus | None = None) -> Pair:
        pair = Pair(plan, idle or FlowStatus(str(plan.flow)))
        calls = GateCalls(
            lambda wishes: self._opened(pair, wishes),
            lambda: self._closed(pair),
            lambda restart: self._restart(pair, restart),
        )
        pair.gate = self._make_gate(plan, calls)
        return pair

    def start(self) -> None:
        """Start all of them."""
        for pair in self._pairs.values():
            pair.gate.start()

    # --- the gate's threads

    def _opened(self, pair: Pair, wishes: Wishes) -> None:
        with self._lock:
            differing = frozenset(pair.wishes.keys() ^ wishes.keys())
            pair.is_open, pair.wishes = True, wishes
            if pair.herder is None:
                self._begin(pair)
            elif differing:
                self._renew(pair, differing)

    def _restart(self, pair: Pair, restart: Restart) -> None:
        with self._lock:
            if pair.herder is None or restart.kind in pair.wishes:
                return
            if restart.only_failed and not has_failed(restart.kind, pair.herder):
                return
            _log.info(f"{pair.plan.flow}: {restart.kind.value} is begun anew, as was asked for")
            self._renew(pair, frozenset({restart.kind}))

    def _renew(self, pair: Pair, kinds: frozenset[ConnectorClass]) -> None:
        """Begin connectors anew, or leave them out, as the wishes say; under the lock."""
        if pair.ending_since is not None or pair.herder is None:
            return  # whatever begins next heeds the wishes
        if ConnectorClass.SOURCE in kinds or not pair.herder.is_settled:
            self._end(pair, pair.plan)
            return
        pair.herder.change(
            pair.plan.settings,
            pair.plan.policy,
            heartbeats=ConnectorClass.HEARTBEAT in kinds,
            checkpoints=ConnectorClass.CHECKPOINT in kinds,
            wishes=pair.wishes,
        )

    def _closed(self, pair: Pair) -> None:
        with self._lock:
            pair.is_open = False
            herder = pair.herder
            if herder is not None:
                pair.ending_since = pair.ending_since or time.monotonic()
                herder.stop()
        while herder is not None and not herder.is_at_rest:
            self._wait_for(pair)
            time.sleep(_LOOK_SECONDS)
        with self._lock:
            if pair.herder is herder:
                pair.forget_herder()

    def _begin(self, pair: Pair) -> None:
        """Under the lock."""
        if pair.is_open and pair.herder is None and not (pair.is_leaving or self._is_closing):
            pair.herder = self._make(pair.plan, pair.wishes)
            pair.herder.start()

    # --- the main thread

    def apply(self, changes: Changes, plans: Mapping[Flow, PairPlan]) -> None:
        """Begin to do what a newer file asks for; `plans` are those that it has."""
        with self._lock:
            for flow in changes.stopped:
                self._leave(self._pairs[flow], None)
            for change in changes.changed:
                self._change(self._pairs[change.flow], plans[change.flow], change.parts)
            for flow in changes.started:
                if flow in self._pairs:  # it was stopped a moment ago
                    self._pairs[flow].successor = plans[flow]
                else:
                    self._pairs = {**self._pairs, flow: self._pair(plans[flow])}
                    self._pairs[flow].gate.start()
            listed = [*(flow for flow in plans if flow in self._pairs), *self._pairs]
            self._pairs = {flow: self._pairs[flow] for flow in listed}

    def _change(self, pair: Pair, plan: PairPlan, parts: frozenset[Part]) -> None:
        if self._must_move(pair, plan):
            self._leave(pair, plan)
            return
        pair.gate.renew(plan.settings.target_admin)
        if pair.herder is None:
            pair.plan = plan
        elif Part.ALL in parts or pair.ending_since is not None or not pair.herder.is_settled:
            self._end(pair, plan)
        else:
            pair.plan = plan
            pair.herder.change(
                plan.settings,
                plan.policy,
                heartbeats=Part.HEARTBEATS in parts,
                checkpoints=Part.CHECKPOINTS in parts,
                wishes=pair.wishes,
            )

    def _must_move(self, pair: Pair, plan: PairPlan) -> bool:
        """Whether the pair must be asked for anew, elsewhere or as somebody else.

        Who has it keeps it with other credentials: the old ones may not be good for a farewell.
        """
        old, new = pair.plan.settings.target_admin, plan.settings.target_admin
        if pair.is_open:
            old = replace(old, security=new.security)
        return pair.is_leaving or (pair.plan.group, old) != (plan.group, new)

    def _end(self, pair: Pair, successor: PairPlan | None) -> None:
        pair.successor = successor
        if pair.ending_since is None:
            pair.ending_since = time.monotonic()
            if pair.herder is not None:
                pair.herder.stop()

    def _leave(self, pair: Pair, successor: PairPlan | None) -> None:
        pair.is_leaving = True
        self._end(pair, successor)
        pair.gate.stop(0.0)

    def replan(self, flows: Iterable[Flow]) -> None:
        """End the epochs of flows that may use fewer slots from now on."""
        for flow in flows:
            pair = self._pairs.get(flow)
            source = pair.herder.source if pair is not None and pair.herder is not None else None
            if pair is not None and source is not None and pair.ending_since is None:
                _log.info(f"{flow}: planned anew with fewer splits, to make room for others")
                source.replan()

    def proceed(self) -> bool:
        """Begin what was waiting for an end; whether something still is."""
        for flow, pair in list(self._pairs.items()):
            with self._lock:
                if pair.is_leaving:
                    self._let_go(flow, pair)
                elif pair.ending_since is not None:
                    self._look(pair)
        return any(pair.ending_since is not None for pair in self._pairs.values())

    def _look(self, pair: Pair) -> None:
        if pair.herder is not None and not pair.herder.is_over:
            self._wait_for(pair)
            return
        pair.forget_herder()
        self._begin(pair)

    def _let_go(self, flow: Flow, pair: Pair) -> None:
        if not pair.gate.stop(0.0):
            self._wait_for(pair)
            return
        self._pairs = {f: p for f, p in self._pairs.items() if p is not pair}
        if pair.successor is not None:
            self._pairs = {**self._pairs, flow: self._pair(pair.successor, pair.idle)}
            self._pairs[flow].gate.start()

    def _wait_for(self, pair: Pair) -> None:
        waited = time.monotonic() - (pair.ending_since or time.monotonic())
        if waited > SLOW_SECONDS and not pair.is_slow:
            pair.is_slow = True
            _log.warning(
                f"{pair.plan.flow}: has not ended within {SLOW_SECONDS:.0f} s; it is begun anew "
                "or left out as soon as it has, because two would copy the same topic partitions."
            )

    def pairs(self) -> list[Pair]:
        """All of them, to look at."""
        return [*self._pairs.values()]

    def snapshots(self) -> list[FlowSnapshot]:
        """Every pair, as it stands now."""
        return [pair.snapshot() for pair in self._pairs.values()]

    def copying(self) -> list[FlowSnapshot]:
        """The same for those that do more than emit heartbeats."""
        return [p.snapshot() for p in self._pairs.values() if p.plan.settings.enabled]

    def stop(self, seconds: float) -> bool:
        """End every pair; whether all of them wrote their positions in time."""
        deadline = time.monotonic() + seconds
        with self._lock:
            self._is_closing = True
            pairs = [*self._pairs.values()]
            herders = [pair.herder for pair in pairs if pair.herder is not None]
            for herder in herders:
                herder.stop()
        ended = [herder.join(max(0.1, deadline - time.monotonic())) for herder in herders]
        for pair in pairs:
            pair.gate.stop(0.0)
        leave_by = time.monotonic() + _LEAVE_SECONDS
        for pair in pairs:
            pair.gate.stop(max(0.0, leave_by - time.monotonic()))
        return all(ended)


def has_failed(kind: ConnectorClass, herder: Herder) -> bool:
    """Whether a connector of a pair needs a person."""
    if kind is ConnectorClass.CHECKPOINT:
        one = herder.checkpoint
        return one is not None and bool(one.failure or one.refusals)
    if kind is ConnectorClass.HEARTBEAT:
        return herder.heartbeat is not None and herder.heartbeat.status.error is not None
    now = herder.snapshot()
    return now.state is FlowState.FAILED or now.quarantined > 0
