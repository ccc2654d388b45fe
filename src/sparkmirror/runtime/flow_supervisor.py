# SPDX-License-Identifier: Apache-2.0
"""The pairs of a process: those that it runs, that another one runs, that are on their way out.

A pair's herder lives only while this process owns the pair (`Ownership`). Two threads change a
pair: the main one, which follows the file, and the ownership's own; nothing here makes the main
thread wait, `proceed` looks how far an end has come, and a newer file may change its mind
meanwhile.

    A  A herder is made only while the pair is owned and no other herder of the pair is at work.
    B  The ownership is told that a pair has ended when nothing of its herder writes any more.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from sparkmirror.config.config_changes import ConfigChanges, FlowPart
from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.settings import FlowSettings
from sparkmirror.config.worker_settings import GroupSettings
from sparkmirror.model import Flow
from sparkmirror.policy.loading import FlowPolicy
from sparkmirror.runtime.commands import FlowCommands, RestartCommand, TargetStates, connector_names
from sparkmirror.runtime.herder import Herder
from sparkmirror.spark.flow_status import FlowSnapshot, FlowState, FlowStatus
from sparkmirror.wire.settings import ConnectionSettings

SLOW_SECONDS = 8.0  # what a clean end may take
_LOOK_SECONDS = 0.02
_LEAVE_SECONDS = 2.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FlowSpec:
    """All that a pair is made from."""

    settings: FlowSettings
    policy: FlowPolicy
    group: GroupSettings

    @property
    def flow(self) -> Flow:
        """The two clusters."""
        return self.settings.flow


@dataclass(frozen=True, slots=True)
class OwnershipStatus:
    """How a pair stands before it is owned."""

    state: FlowState
    reason: str


@dataclass(frozen=True, slots=True)
class OwnershipCallbacks:
    """What an ownership calls, from threads of its own."""

    on_acquired: Callable[
        [TargetStates], None
    ]  # also when other target states have come; returns at once
    on_revoked: Callable[[], None]  # returns when the pair has ended
    on_restart: Callable[[RestartCommand], None]


class Ownership(Protocol):
    """Whether this process is the one that runs a pair."""

    @property
    def commands(self) -> FlowCommands:
        """What is asked of the pair's connectors."""

    def start(self) -> None:
        """Begin to ask; the answer comes through the calls that it was made with."""

    def update_connection(self, connection: ConnectionSettings) -> None:
        """Connect with other credentials from now on, without giving the place up."""

    def stop(self, seconds: float) -> bool:
        """End the pair and give the place up, waiting so long; whether that is done."""

    def status(self) -> OwnershipStatus:
        """Why the pair does not run here."""


@dataclass(slots=True)
class SupervisedFlow:
    """One of them; others may look at it, only `FlowSupervisor` changes it."""

    spec: FlowSpec
    idle_status: FlowStatus
    ownership: Ownership = field(init=False)
    is_owned: bool = False
    target_states: TargetStates = field(default_factory=dict)
    herder: Herder | None = None
    stopping_since: float | None = None
    is_releasing: bool = False  # the ownership, too
    successor: FlowSpec | None = None
    is_slow: bool = False

    @property
    def connectors(self) -> tuple[ConnectorClass, ...]:
        """Those that the file asks for."""
        return tuple(connector_names(self.spec.settings))

    def snapshot(self) -> FlowSnapshot:
        """As it stands now."""
        herder = self.herder
        if herder is None:
            found = self.ownership.status()
            return replace(self.idle_status.snapshot(), state=found.state, reason=found.reason)
        now = herder.snapshot()
        if not self.is_slow:
            return now
        return replace(now, problems=(*now.problems, "does not end; nothing copies beside it"))

    def on_herder_stopped(self) -> None:
        """Its herder has ended."""
        if self.herder is not None:
            self.idle_status = self.herder.status.restarted()
        self.herder = None
        self.is_slow = False
        if not self.is_releasing:
            self.stopping_since = None
            self.spec, self.successor = self.successor or self.spec, None


class FlowSupervisor:
    """The pairs of a process by flow."""

    def __init__(
        self,
        make: Callable[[FlowSpec, TargetStates], Herder],
        make_ownership: Callable[[FlowSpec, OwnershipCallbacks], Ownership],
        plans: Iterable[FlowSpec],
    ) -> None:
        self._make = make
        self._make_ownership = make_ownership
        self._lock = threading.RLock()
        self._is_closing = False
        # Replaced as a whole: scrapes of other threads read it.
        self._pairs = {plan.flow: self._pair(plan) for plan in plans}

    def _pair(self, plan: FlowSpec, idle: FlowStatus | None = None) -> SupervisedFlow:
        pair = SupervisedFlow(plan, idle or FlowStatus(str(plan.flow)))
        calls = OwnershipCallbacks(
            lambda target_states: self._on_acquired(pair, target_states),
            lambda: self._on_revoked(pair),
            lambda restart: self._on_restart(pair, restart),
        )
        pair.ownership = self._make_ownership(plan, calls)
        return pair

    def start(self) -> None:
        """Start all of them."""
        for pair in self._pairs.values():
            pair.ownership.start()

    # --- the ownership's threads

    def _on_acquired(self, pair: SupervisedFlow, target_states: TargetStates) -> None:
        with self._lock:
            differing = frozenset(pair.target_states.keys() ^ target_states.keys())
            pair.is_owned, pair.target_states = True, target_states
            if pair.herder is None:
                self._start(pair)
            elif differing:
                self._restart_connectors(pair, differing)

    def _on_restart(self, pair: SupervisedFlow, restart: RestartCommand) -> None:
        with self._lock:
            if pair.herder is None or restart.kind in pair.target_states:
                return
            if restart.only_failed and not has_failed(restart.kind, pair.herder):
                return
            _log.info(f"{pair.spec.flow}: {restart.kind.value} is begun anew, as was asked for")
            self._restart_connectors(pair, frozenset({restart.kind}))

    def _restart_connectors(self, pair: SupervisedFlow, kinds: frozenset[ConnectorClass]) -> None:
        """Begin connectors anew, or leave them out, as the target states say; under the lock."""
        if pair.stopping_since is not None or pair.herder is None:
            return  # whatever begins next heeds the target states
        if ConnectorClass.SOURCE in kinds or not pair.herder.is_settled:
            self._stop_flow(pair, pair.spec)
            return
        pair.herder.restart_connectors(
            pair.spec.settings,
            pair.spec.policy,
            heartbeats=ConnectorClass.HEARTBEAT in kinds,
            checkpoints=ConnectorClass.CHECKPOINT in kinds,
            target_states=pair.target_states,
        )

    def _on_revoked(self, pair: SupervisedFlow) -> None:
        with self._lock:
            pair.is_owned = False
            herder = pair.herder
            if herder is not None:
                pair.stopping_since = pair.stopping_since or time.monotonic()
                herder.stop()
        while herder is not None and not herder.is_idle:
            self._warn_if_slow(pair)
            time.sleep(_LOOK_SECONDS)
        with self._lock:
            if pair.herder is herder:
                pair.on_herder_stopped()

    def _start(self, pair: SupervisedFlow) -> None:
        """Under the lock."""
        if pair.is_owned and pair.herder is None and not (pair.is_releasing or self._is_closing):
            pair.herder = self._make(pair.spec, pair.target_states)
            pair.herder.start()

    # --- the main thread

    def apply(self, changes: ConfigChanges, plans: Mapping[Flow, FlowSpec]) -> None:
        """Begin to do what a newer file asks for; `plans` are those that it has."""
        with self._lock:
            for flow in changes.stopped:
                self._release(self._pairs[flow], None)
            for change in changes.changed:
                self._change(self._pairs[change.flow], plans[change.flow], change.parts)
            for flow in changes.started:
                if flow in self._pairs:  # it was stopped a moment ago
                    self._pairs[flow].successor = plans[flow]
                else:
                    self._pairs = {**self._pairs, flow: self._pair(plans[flow])}
                    self._pairs[flow].ownership.start()
            listed = [*(flow for flow in plans if flow in self._pairs), *self._pairs]
            self._pairs = {flow: self._pairs[flow] for flow in listed}

    def _change(self, pair: SupervisedFlow, plan: FlowSpec, parts: frozenset[FlowPart]) -> None:
        if self._needs_new_ownership(pair, plan):
            self._release(pair, plan)
            return
        pair.ownership.update_connection(plan.settings.target_admin)
        if pair.herder is None:
            pair.spec = plan
        elif FlowPart.ALL in parts or pair.stopping_since is not None or not pair.herder.is_settled:
            self._stop_flow(pair, plan)
        else:
            pair.spec = plan
            pair.herder.restart_connectors(
                plan.settings,
                plan.policy,
                heartbeats=FlowPart.HEARTBEATS in parts,
                checkpoints=FlowPart.CHECKPOINTS in parts,
                target_states=pair.target_states,
            )

    def _needs_new_ownership(self, pair: SupervisedFlow, plan: FlowSpec) -> bool:
        """Whether the pair must be asked for anew, elsewhere or as somebody else.

        Who has it keeps it with other credentials: the old ones may not be good for a farewell.
        """
        old, new = pair.spec.settings.target_admin, plan.settings.target_admin
        if pair.is_owned:
            old = replace(old, security=new.security)
        return pair.is_releasing or (pair.spec.group, old) != (plan.group, new)

    def _stop_flow(self, pair: SupervisedFlow, successor: FlowSpec | None) -> None:
        pair.successor = successor
        if pair.stopping_since is None:
            pair.stopping_since = time.monotonic()
            if pair.herder is not None:
                pair.herder.stop()

    def _release(self, pair: SupervisedFlow, successor: FlowSpec | None) -> None:
        pair.is_releasing = True
        self._stop_flow(pair, successor)
        pair.ownership.stop(0.0)

    def replan(self, flows: Iterable[Flow]) -> None:
        """End the epochs of flows that may use fewer slots from now on."""
        for flow in flows:
            pair = self._pairs.get(flow)
            source = pair.herder.source if pair is not None and pair.herder is not None else None
            if pair is not None and source is not None and pair.stopping_since is None:
                _log.info(f"{flow}: planned anew with fewer splits, to make room for others")
                source.replan()

    def advance(self) -> bool:
        """Begin what was waiting for an end; whether something still is."""
        for flow, pair in list(self._pairs.items()):
            with self._lock:
                if pair.is_releasing:
                    self._advance_releasing(flow, pair)
                elif pair.stopping_since is not None:
                    self._advance_stopping(pair)
        return any(pair.stopping_since is not None for pair in self._pairs.values())

    def _advance_stopping(self, pair: SupervisedFlow) -> None:
        if pair.herder is not None and not pair.herder.is_finished:
            self._warn_if_slow(pair)
            return
        pair.on_herder_stopped()
        self._start(pair)

    def _advance_releasing(self, flow: Flow, pair: SupervisedFlow) -> None:
        if not pair.ownership.stop(0.0):
            self._warn_if_slow(pair)
            return
        self._pairs = {f: p for f, p in self._pairs.items() if p is not pair}
        if pair.successor is not None:
            self._pairs = {**self._pairs, flow: self._pair(pair.successor, pair.idle_status)}
            self._pairs[flow].ownership.start()

    def _warn_if_slow(self, pair: SupervisedFlow) -> None:
        waited = time.monotonic() - (pair.stopping_since or time.monotonic())
        if waited > SLOW_SECONDS and not pair.is_slow:
            pair.is_slow = True
            _log.warning(
                f"{pair.spec.flow}: has not ended within {SLOW_SECONDS:.0f} s; it is begun anew "
                "or left out as soon as it has, because two would copy the same topic partitions."
            )

    def pairs(self) -> list[SupervisedFlow]:
        """All of them, to look at."""
        return [*self._pairs.values()]

    def snapshots(self) -> list[FlowSnapshot]:
        """Every pair, as it stands now."""
        return [pair.snapshot() for pair in self._pairs.values()]

    def copying_snapshots(self) -> list[FlowSnapshot]:
        """The same for those that do more than emit heartbeats."""
        return [p.snapshot() for p in self._pairs.values() if p.spec.settings.enabled]

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
            pair.ownership.stop(0.0)
        leave_by = time.monotonic() + _LEAVE_SECONDS
        for pair in pairs:
            pair.ownership.stop(max(0.0, leave_by - time.monotonic()))
        return all(ended)


def has_failed(kind: ConnectorClass, herder: Herder) -> bool:
    """Whether a connector of a pair needs a person."""
    if kind is ConnectorClass.CHECKPOINT:
        one = herder.checkpoint
        return one is not None and bool(one.failure or one.permanent_errors)
    if kind is ConnectorClass.HEARTBEAT:
        return herder.heartbeat is not None and herder.heartbeat.status.error is not None
    now = herder.snapshot()
    return now.state is FlowState.FAILED or now.quarantined > 0
