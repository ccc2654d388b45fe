# SPDX-License-Identifier: Apache-2.0
"""One connector of the supervisor: its desired state, its instance, and the state that is shown.

idle    no instance, and none is wanted (PAUSED, STOPPED, STANDBY)
due     no instance, but one is wanted
failed  no instance, because it cannot be built
active  an instance
ending  an instance that is stopping; its successor is decided after its end
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.connector_instance import ConnectorInstance
from sparkmirror.connectors.connector_states import ConnectorState, ReportedState, failed_state
from sparkmirror.connectors.desired_state import (
    ConnectorSpec,
    DesiredConnector,
    DesiredState,
    InstanceView,
)
from sparkmirror.connectors.lag_monitor import LagMonitor
from sparkmirror.formats.connect_status_records import RunState
from sparkmirror.spark.flow_status import (
    FlowSnapshot,
    FlowState,
    FlowStatus,
    with_unreachable_clusters,
)
from sparkmirror.system.log_scope import LogScope, log_scope

SLOW_SECONDS = 8.0  # for a clean end
_IDLE_STATES = {
    DesiredState.PAUSED: FlowState.PAUSED,
    DesiredState.STOPPED: FlowState.STOPPED,
    DesiredState.STANDBY: FlowState.STANDBY,
    None: FlowState.STOPPED,
}
_ON_REQUEST = {DesiredState.PAUSED, DesiredState.STOPPED}
LagMonitorBuilder = Callable[[FlowSettings, Callable[[], FlowStatus]], LagMonitor]
_log = logging.getLogger(__name__)


def _unassigned() -> ConnectorState:
    return ConnectorState(ReportedState(RunState.UNASSIGNED))


@dataclass(slots=True)
class ConnectorSlot:
    """A connector by name, through all its instances. The supervisor's lock guards it."""

    name: str
    status: FlowStatus
    wanted: DesiredConnector | None = None  # None: it ends, and the slot is removed
    spec: ConnectorSpec | None = None  # the last valid one
    instance: ConnectorInstance | None = None
    ending_since: float | None = None
    is_released: bool = False  # until the next poll
    is_announced: bool = False
    is_slow: bool = False
    failure: str = ""  # why its instance could not be built
    shown_while_waiting: RunState = RunState.UNASSIGNED  # before its next instance reports
    last_state: ConnectorState = field(default_factory=_unassigned)  # at `request_stop`
    lag_monitor: LagMonitor | None = None
    monitored: ConnectorSpec | None = None  # by `lag_monitor`

    @property
    def log_scope(self) -> LogScope:
        flow = str(self.spec.settings.flow) if self.spec is not None else ""
        return LogScope(flow, self.name)

    @property
    def desired(self) -> DesiredState | None:
        return None if self.wanted is None or self.is_released else self.wanted.desired

    @property
    def is_due(self) -> bool:
        is_runnable = self.wanted is not None and self.wanted.spec is not None
        is_wanted = self.desired is DesiredState.RUNNING and is_runnable
        return self.instance is None and is_wanted and not self.failure

    @property
    def needs_announcement(self) -> bool:
        is_new = self.instance is None and not self.is_announced
        return is_new and self.desired in (DesiredState.RUNNING, DesiredState.PAUSED)

    @property
    def wanted_splits(self) -> int:
        is_counted = self.desired in (DesiredState.RUNNING, DesiredState.STANDBY)
        spec = self.wanted.spec if self.wanted is not None else None
        return spec.wanted_splits if spec is not None and is_counted else 0

    def set_desired(self, connector: DesiredConnector | None) -> None:
        """Apply a polled state; stop an instance that does not match it."""
        before, self.is_released = self.desired, False
        desired = None if connector is None else connector.desired
        if desired is DesiredState.RUNNING and before is not DesiredState.RUNNING:
            self._return_to_running(before)
        if desired is not DesiredState.RUNNING:
            self.failure = ""
        if desired in (DesiredState.STOPPED, None):
            self.is_announced = False
        spec = None if connector is None else connector.spec
        if spec is not None:
            if self.spec is not None and spec != self.spec:
                self._on_other_spec(spec)
            self.spec = spec
        if desired is not DesiredState.RUNNING or spec is None:
            self.request_stop()
        self.wanted = connector
        if desired is not before and {desired, before} & _ON_REQUEST and desired is not None:
            _log.info(f"Connector {self.name}: {desired.value}", extra=self.log_scope._asdict())

    def _return_to_running(self, before: DesiredState | None) -> None:
        if before is DesiredState.PAUSED:
            self.shown_while_waiting = RunState.PAUSED
        elif self.instance is not None:
            self.shown_while_waiting = RunState.RESTARTING
        else:
            self.shown_while_waiting, self.last_state = RunState.UNASSIGNED, _unassigned()

    def _on_other_spec(self, spec: ConnectorSpec) -> None:
        self.failure = ""
        self.shown_while_waiting = RunState.RESTARTING
        self.request_stop()
        if self.spec is not None and self.spec.label != spec.label:
            self.status = FlowStatus(spec.label)

    def monitor_lag(self, make_monitor: LagMonitorBuilder) -> None:
        """Monitor the lag of a source connector in every state, by its latest spec."""
        if self.spec is None or not self.spec.copies or self.spec == self.monitored:
            return
        self.stop_monitor()
        self.monitored = self.spec
        self.lag_monitor = make_monitor(self.spec.settings, lambda: self.status)
        with log_scope(self.log_scope):
            self.lag_monitor.start()

    def stop_monitor(self) -> None:
        if self.lag_monitor is not None:
            self.lag_monitor.stop()

    def request_restart(self) -> None:
        """Stop the instance, if any, for a successor; clears a failure to start."""
        self.failure = ""
        self.shown_while_waiting = RunState.RESTARTING
        self.request_stop()

    def request_stop(self) -> None:
        """Stop the instance, once, and remember its last state. Does not wait."""
        if self.instance is None or self.ending_since is not None:
            return
        now = self.instance.state()
        self.last_state = now if now.tasks else ConnectorState(now.connector, self.last_state.tasks)
        self.ending_since = time.monotonic()
        self.instance.stop()

    def drop_if_finished(self) -> None:
        """Remove an instance that has ended; warn once about one that takes too long."""
        if self.instance is not None and self.ending_since is not None:
            if self.instance.is_finished:
                self.instance, self.ending_since, self.is_slow = None, None, False
                self.status = self.status.restarted()
            elif time.monotonic() - self.ending_since > SLOW_SECONDS and not self.is_slow:
                self.is_slow = True
                _log.warning(
                    f"{self.status.name}: has not ended within {SLOW_SECONDS:.0f} s; its "
                    "successor waits, because two instances would copy the same partitions.",
                    extra=self.log_scope._asdict(),
                )

    def state(self) -> ConnectorState:
        """Return the state to show, also between two instances."""
        desired, waiting = self.desired, self.last_state.with_state(self.shown_while_waiting)
        if desired is DesiredState.STOPPED:
            is_over = self.instance is None
            return ConnectorState(ReportedState(RunState.STOPPED)) if is_over else self.last_state
        if self._shown_failure:
            return failed_state(self._shown_failure)
        if self.instance is not None and self.ending_since is None:
            now = self.instance.state()
            return waiting if now.connector.state is RunState.UNASSIGNED else now
        if desired is DesiredState.RUNNING:
            return waiting
        if self.instance is not None and self.instance.may_write:
            return self.last_state
        is_paused = desired is DesiredState.PAUSED
        return self.last_state.with_state(RunState.PAUSED if is_paused else RunState.UNASSIGNED)

    @property
    def _shown_failure(self) -> str:
        return self.failure or (self.wanted.failure if self.wanted is not None else "")

    def _snapshot(self) -> FlowSnapshot:
        now = self.status.snapshot()
        if self.spec is not None and not self.spec.copies:
            now = replace(now, copies=False)
        if self.instance is not None:
            return now
        if self._shown_failure and self.desired is not DesiredState.STOPPED:
            reason = self._shown_failure.partition("\n")[0]
            return replace(now, state=FlowState.FAILED, reason=reason)
        idle = replace(now, state=_IDLE_STATES.get(self.desired, FlowState.STARTING), reason="")
        return with_unreachable_clusters(idle)

    def view(self) -> InstanceView:
        instance = self.instance
        return InstanceView(
            name=self.name,
            kind=self.spec.kind if self.spec is not None else None,
            desired=self.desired,
            state=self.state(),
            snapshot=self._snapshot(),
            groups=instance.groups if instance is not None else (),
            group_positions=instance.group_positions if instance is not None else {},
            heartbeat_error=instance.heartbeat_error if instance is not None else "",
            is_active=instance is not None,
            is_slow=self.is_slow,
            partition_lags=self.status.lags,
            figures=self.status.figures,
            settings=self.spec.settings if self.spec is not None else None,
        )

    @property
    def may_write(self) -> bool:
        return self.instance is not None and self.instance.may_write

    @property
    def is_over(self) -> bool:
        return self.instance is None or self.instance.is_finished
