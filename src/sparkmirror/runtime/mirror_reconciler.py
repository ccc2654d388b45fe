# SPDX-License-Identifier: Apache-2.0
"""Desired states of the connectors of `run`: from the file, flow ownership and commands.

A flow has three connectors. They run while this process owns the flow and its target states have
been read; otherwise they are on standby. The main thread applies reloads, the supervisor's polls.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from sparkmirror.config.config_changes import ParsedRun, connector_identity
from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.settings import FlowSettings
from sparkmirror.config.worker_settings import GroupSettings
from sparkmirror.connectors.connector_states import ConnectorState, ReportedState, source_state
from sparkmirror.connectors.desired_state import (
    ConnectorSpec,
    DesiredConnector,
    DesiredConnectors,
    DesiredState,
    InstanceView,
    Restart,
)
from sparkmirror.errors import join_sentences
from sparkmirror.formats.connect_config_records import TargetState
from sparkmirror.formats.connect_status_records import RunState
from sparkmirror.model import Flow
from sparkmirror.runtime.commands import FlowCommands, connector_names
from sparkmirror.runtime.ownership import FlowOwnership, OwnershipStatus
from sparkmirror.spark.flow_status import (
    FlowSnapshot,
    FlowState,
    FlowStatus,
    with_unreachable_clusters,
    without_consequences,
)
from sparkmirror.system.log_scope import LogScope, log_scope

_IDLE = {
    TargetState.PAUSED: (DesiredState.PAUSED, RunState.PAUSED),
    TargetState.STOPPED: (DesiredState.STOPPED, RunState.STOPPED),
}
_SLOW = "the previous instance has not ended; its successor waits"


@dataclass(slots=True)
class MirrorFlow:
    """One flow. Any thread may read it; only `MirrorReconciler` changes it."""

    settings: FlowSettings
    group: GroupSettings
    ownership: FlowOwnership
    commands: FlowCommands
    is_bounded: bool = False
    is_leaving: bool = False  # the group
    successor: tuple[FlowSettings, GroupSettings] | None = None  # replaces it after it has left
    specs: Mapping[ConnectorClass, ConnectorSpec] = field(init=False)

    def __post_init__(self) -> None:
        self.use(self.settings)

    def use(self, settings: FlowSettings) -> None:
        """Use other settings and rebuild the specs."""
        self.settings = settings
        self.specs = {
            kind: ConnectorSpec(
                kind,
                str(settings.flow),
                connector_identity(kind, settings),
                settings,
                with_storage_topics=True,
                is_bounded=self.is_bounded,
            )
            for kind in connector_names(settings)
        }

    @property
    def flow(self) -> Flow:
        return self.settings.flow

    @property
    def connectors(self) -> tuple[ConnectorClass, ...]:
        """The connectors that the file enables."""
        return tuple(self.specs)

    @property
    def is_ready(self) -> bool:
        """Whether the connectors may run here: owned, and their target states are known."""
        is_ours = self.ownership.is_owner and not self.is_leaving
        return is_ours and self.commands.target_states is not None

    def desired_connectors(self) -> dict[str, DesiredConnector]:
        if self.is_leaving and self.successor is None:
            return {}
        return {
            connector_name(self.flow, kind): DesiredConnector(self._desired(kind), spec)
            for kind, spec in self.specs.items()
        }

    def _desired(self, kind: ConnectorClass) -> DesiredState:
        if not self.is_ready:
            return DesiredState.STANDBY
        state = (self.commands.target_states or {}).get(kind, TargetState.STARTED)
        return DesiredState.RUNNING if state is TargetState.STARTED else _IDLE[state][0]

    def restarts(self) -> list[Restart]:
        return [
            Restart(connector_name(self.flow, one.kind), only_failed=one.only_failed)
            for one in self.commands.take_restarts()
        ]

    # --- reported state

    def state(self, kind: ConnectorClass, instances: Mapping[str, InstanceView]) -> ConnectorState:
        """Return the state of one connector, as the REST API shows it."""
        view = instances.get(connector_name(self.flow, kind))
        is_here = view is not None and (view.is_active or view.desired is not DesiredState.STANDBY)
        if view is not None and is_here:
            return self._with_paused_tasks(kind, view)
        target_state = (self.commands.target_states or {}).get(kind)
        if target_state is not None:
            return ConnectorState(ReportedState(_IDLE[target_state][1]))
        now = source_state(self.snapshot(instances), ())
        is_lost = view is not None and now.connector.state is RunState.RUNNING
        return replace(now, tasks=view.state.tasks) if view is not None and is_lost else now

    def _with_paused_tasks(self, kind: ConnectorClass, view: InstanceView) -> ConnectorState:
        """Add the tasks that a connector will have, if it was paused before the process started."""
        state = view.state
        if state.connector.state is not RunState.PAUSED or state.tasks:
            return state
        is_source = kind is ConnectorClass.SOURCE
        most = self.settings.source.tasks_max
        tasks = range(min(view.snapshot.partitions, most) if is_source else 1)
        return replace(state, tasks={task: ReportedState(RunState.PAUSED) for task in tasks})

    def snapshot(self, instances: Mapping[str, InstanceView]) -> FlowSnapshot:
        """Return the state of the flow, summarized over its connectors."""
        views = {
            kind: view
            for kind in ConnectorClass
            if (view := instances.get(connector_name(self.flow, kind))) is not None
        }
        kind = ConnectorClass.SOURCE if self.settings.enabled else ConnectorClass.HEARTBEAT
        first = views.get(kind)
        now = FlowStatus(str(self.flow)).snapshot() if first is None else first.snapshot
        if not self.is_ready and not any(view.is_active for view in views.values()):
            status = self._status()
            return with_unreachable_clusters(replace(now, state=status.state, reason=status.reason))
        desired = None if first is None else first.desired
        is_between = now.state is FlowState.STOPPED  # the end of one instance and the next
        has_ended = is_between or (first is not None and not first.is_active)
        if (has_ended and desired in _IDLE_TARGETS) or kind not in self.specs:
            is_stopped = desired is DesiredState.STOPPED
            state = FlowState.STOPPED if is_stopped else FlowState.PAUSED
            now = replace(now, state=state, reason=self._idle_reason())
        elif now.state is FlowState.STANDBY or (is_between and desired is DesiredState.RUNNING):
            now = with_unreachable_clusters(replace(now, state=FlowState.STARTING))
        elif now.state is FlowState.RUNNING:
            parts = (now.reason, "" if self.settings.enabled else "heartbeats only")
            now = replace(now, reason=join_sentences((*parts, self._idle_reason())))
        return _merged(now, first, views)

    def _status(self) -> OwnershipStatus:
        status = self.ownership.status()
        if self.ownership.is_owner and self.commands.problem:
            return OwnershipStatus(FlowState.RETRYING, self.commands.problem)
        return status

    def _idle_reason(self) -> str:
        states = self.commands.target_states or {}
        return ", ".join(f"{kind.value} is {state.lower()}" for kind, state in states.items())


_IDLE_TARGETS = (DesiredState.PAUSED, DesiredState.STOPPED)


def connector_name(flow: Flow, kind: ConnectorClass) -> str:
    """Return the name in the REST API: MM2's own names are the same for every flow."""
    return f"{flow}.{kind.value}"


def _merged(
    now: FlowSnapshot, first: InstanceView | None, views: Mapping[ConnectorClass, InstanceView]
) -> FlowSnapshot:
    """Add the problems of the other connectors of a flow, without duplicates."""
    problems = [*now.problems]
    flow_problems = [*now.flow_problems]
    for view in views.values():
        other = view.snapshot
        if view is not first:
            failed = other.state in (FlowState.RETRYING, FlowState.FAILED)
            problems += [other.reason] if failed and other.reason != now.reason else []
            problems += other.problems
            flow_problems += other.flow_problems
        problems += [f"heartbeats: {view.heartbeat_error}"] if view.heartbeat_error else []
    if any(view.is_slow for view in views.values()):
        problems.append(_SLOW)
    checkpoint = views.get(ConnectorClass.CHECKPOINT)
    return replace(
        now,
        problems=without_consequences(problems, now.unreachable),
        flow_problems=without_consequences(flow_problems, now.unreachable),
        group_positions=checkpoint.group_positions if checkpoint is not None else {},
    )


class MirrorReconciler:
    """The flows of the file, and the desired states of their connectors."""

    def __init__(
        self,
        parsed_run: ParsedRun,
        make_ownership: Callable[[FlowSettings, GroupSettings], FlowOwnership],
        make_commands: Callable[[FlowSettings], FlowCommands],
        *,
        is_bounded: bool = False,
    ) -> None:
        self._make_ownership = make_ownership
        self._make_commands = make_commands
        self._is_bounded = is_bounded
        self._lock = threading.Lock()
        # Replaced as a whole: any thread may read it.
        self._flows = {
            flow: self._make(one.settings, parsed_run.groups[flow])
            for flow, one in parsed_run.flows.items()
        }

    def _make(self, settings: FlowSettings, group: GroupSettings) -> MirrorFlow:
        ownership, commands = self._make_ownership(settings, group), self._make_commands(settings)
        return MirrorFlow(settings, group, ownership, commands, self._is_bounded)

    def start(self) -> None:
        """Join all groups."""
        for one in self._flows.values():
            _start(one)

    def flows(self) -> list[MirrorFlow]:
        """Return the flows in the file's order, then those that leave."""
        return [*self._flows.values()]

    # --- the main thread

    def apply(self, parsed_run: ParsedRun) -> None:
        """Apply a newer file. Returns at once."""
        with self._lock:
            flows = dict(self._flows)
            for flow in flows.keys() - parsed_run.flows.keys():
                _leave(flows[flow], None)
            for flow, parsed in parsed_run.flows.items():
                settings, group = parsed.settings, parsed_run.groups[flow]
                if flow not in flows:
                    flows[flow] = self._make(settings, group)
                    _start(flows[flow])
                elif _needs_new_ownership(flows[flow], settings, group):
                    _leave(flows[flow], (settings, group))
                else:
                    _change(flows[flow], settings)
            self._flows = {flow: flows[flow] for flow in (*parsed_run.flows, *flows)}

    def stop(self, seconds: float) -> None:
        """Leave all groups; wait at most `seconds`."""
        flows = self.flows()
        for one in flows:
            _leave(one, None)
        deadline = time.monotonic() + seconds
        for one in flows:
            one.ownership.stop(max(0.0, deadline - time.monotonic()))

    # --- the supervisor's thread

    def poll(self) -> DesiredConnectors:
        """Return all desired connectors; replaces flows that have left by successors."""
        with self._lock:
            self._replace_left()
            flows = self.flows()
            connectors = {
                name: desired for one in flows for name, desired in one.desired_connectors().items()
            }
            restarts = [restart for one in flows for restart in one.restarts()]
        return DesiredConnectors(connectors, tuple(restarts))

    def announce(self, names: Collection[str]) -> None:
        """Do nothing: each process reports only its own connectors."""

    def _replace_left(self) -> None:
        flows = dict(self._flows)
        for flow, one in self._flows.items():
            if one.is_leaving and one.ownership.stop(0.0):
                if one.successor is None:
                    del flows[flow]
                else:
                    flows[flow] = self._make(*one.successor)
                    _start(flows[flow])
        self._flows = flows


def _start(one: MirrorFlow) -> None:
    with log_scope(LogScope(str(one.flow))):
        one.commands.start()
        one.ownership.start()


def _leave(one: MirrorFlow, successor: tuple[FlowSettings, GroupSettings] | None) -> None:
    one.is_leaving, one.successor = True, successor
    one.commands.stop()
    one.ownership.stop(0.0)


def _change(one: MirrorFlow, settings: FlowSettings) -> None:
    if settings.target_admin != one.settings.target_admin:
        one.ownership.update_connection(settings.target_admin)
    one.commands.update_settings(settings)
    one.use(settings)


def _needs_new_ownership(one: MirrorFlow, settings: FlowSettings, group: GroupSettings) -> bool:
    """Whether this process must leave and join again, with another group or cluster.

    An owner stays when only credentials change: the old ones may not allow it to leave.
    """
    old, new = one.settings.target_admin, settings.target_admin
    if one.ownership.is_owner:
        old = replace(old, security=new.security)
    return one.is_leaving or (one.group, old) != (group, new)
