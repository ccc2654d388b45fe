# SPDX-License-Identifier: Apache-2.0
"""The pairs that run, those on their way out, and what comes after them.

A pair whose settings changed is stopped first and begun anew only when nothing of it copies any
more: two would copy the same topic partitions. Nothing here waits: `proceed` looks how far they
are, and a newer file may change its mind meanwhile. All of it belongs to the main thread, save
`snapshots`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from sparkmirror.config.changes import Changes, Part
from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.herder import Herder
from sparkmirror.model import Flow
from sparkmirror.pipeline.status import FlowSnapshot
from sparkmirror.policy.loading import FlowPolicy

SLOW_SECONDS = 8.0  # what a clean end may take
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PairPlan:
    """All that a pair is made from."""

    settings: FlowSettings
    policy: FlowPolicy


@dataclass(slots=True)
class _Pair:
    herder: Herder
    ending_since: float | None = None
    successor: PairPlan | None = None
    is_slow: bool = False

    def snapshot(self) -> FlowSnapshot:
        now = self.herder.snapshot()
        if not self.is_slow:
            return now
        return replace(now, troubles=(*now.troubles, "does not end; nothing copies beside it"))


class Pairs:
    """The herders of a process by pair."""

    def __init__(self, make: Callable[[PairPlan], Herder], plans: Iterable[PairPlan]) -> None:
        self._make = make
        # Replaced as a whole: scrapes of other threads read it.
        self._pairs = {plan.settings.flow: _Pair(make(plan)) for plan in plans}

    def start(self) -> None:
        """Start all of them."""
        for pair in self._pairs.values():
            pair.herder.start()

    def apply(self, changes: Changes, plans: Mapping[Flow, PairPlan]) -> None:
        """Begin to do what a newer file asks for; `plans` are those that it has."""
        for flow in changes.stopped:
            self._end(flow, None)
        for change in changes.changed:
            plan, pair = plans[change.flow], self._pairs[change.flow]
            is_ending = pair.ending_since is not None
            if change.is_whole or is_ending or not pair.herder.is_settled:
                self._end(change.flow, plan)
            else:
                pair.herder.change(
                    plan.settings,
                    plan.policy,
                    heartbeats=Part.HEARTBEATS in change.parts,
                    checkpoints=Part.CHECKPOINTS in change.parts,
                )
        for flow in changes.started:
            if flow in self._pairs:  # it was stopped a moment ago
                self._end(flow, plans[flow])
            else:
                self._begin(flow, plans[flow])
        listed = [*(flow for flow in plans if flow in self._pairs), *self._pairs]
        self._pairs = {flow: self._pairs[flow] for flow in listed}

    def replan(self, flows: Iterable[Flow]) -> None:
        """End the epochs of flows that may use fewer slots from now on."""
        for flow in flows:
            pair = self._pairs.get(flow)
            if pair is not None and pair.ending_since is None and pair.herder.source is not None:
                _log.info(f"{flow}: planned anew with fewer splits, to make room for others")
                pair.herder.source.replan()

    def _begin(self, flow: Flow, plan: PairPlan) -> None:
        herder = self._make(plan)
        self._pairs = {**self._pairs, flow: _Pair(herder)}
        herder.start()

    def _end(self, flow: Flow, successor: PairPlan | None) -> None:
        pair = self._pairs[flow]
        pair.successor = successor
        if pair.ending_since is None:
            pair.ending_since = time.monotonic()
            pair.herder.stop()

    def proceed(self) -> bool:
        """Begin what was waiting for an end; whether something still is."""
        for flow, pair in list(self._pairs.items()):
            if pair.ending_since is None:
                continue
            if not pair.herder.is_over:
                self._wait_for(flow, pair)
            elif pair.successor is not None:
                self._begin(flow, pair.successor)
            else:
                self._pairs = {f: p for f, p in self._pairs.items() if f != flow}
        return any(pair.ending_since is not None for pair in self._pairs.values())

    def _wait_for(self, flow: Flow, pair: _Pair) -> None:
        waited = time.monotonic() - (pair.ending_since or 0.0)
        if waited > SLOW_SECONDS and not pair.is_slow:
            pair.is_slow = True
            _log.warning(
                f"{flow}: has not ended within {SLOW_SECONDS:.0f} s; it is begun anew or left out "
                "as soon as it has, because two would copy the same topic partitions."
            )

    def snapshots(self) -> list[FlowSnapshot]:
        """Every pair, as it stands now."""
        return [pair.snapshot() for pair in self._pairs.values()]

    def copying(self) -> list[FlowSnapshot]:
        """The same for those that do more than emit heartbeats."""
        return [p.snapshot() for p in self._pairs.values() if p.herder.source is not None]

    def stop(self, seconds: float) -> bool:
        """End every pair; whether all of them wrote their positions in time."""
        deadline = time.monotonic() + seconds
        herders = [pair.herder for pair in self._pairs.values()]
        for herder in herders:
            herder.stop()
        ended = [herder.join(max(0.1, deadline - time.monotonic())) for herder in herders]
        return all(ended)
