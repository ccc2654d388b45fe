# SPDX-License-Identifier: Apache-2.0
"""Of all processes with the same file only one runs a pair: MM2's own group says which.

The group is that of MM2's workers (`group.id`, by default `A-mm2`, on the target), the pair a
piece of work that one member runs while the others with the same pair stand by. Workers, Java's and
ours, speak other protocols, so a group is theirs or ours: a Java MM2 with the same file keeps us
waiting, and is refused while we are there.

A pair is acquired when it is ours and it is known which of its connectors shall rest.
"""

from __future__ import annotations

import threading

from sparkmirror.errors import ClusterError
from sparkmirror.group.assignor import AssignableConnectors
from sparkmirror.group.membership import Membership
from sparkmirror.runtime.commands import FlowCommands, TargetStates
from sparkmirror.runtime.flow_supervisor import FlowSpec, OwnershipCallbacks, OwnershipStatus
from sparkmirror.spark.flow_status import FlowState
from sparkmirror.wire.settings import ConnectionSettings


class FlowOwnership:
    """The place of one process in the group of one pair."""

    def __init__(
        self,
        plan: FlowSpec,
        identity: str,
        calls: OwnershipCallbacks,
    ) -> None:
        """`identity` is what the other processes call this one."""
        self._name = str(plan.flow)
        self._group = plan.group.group_id
        self._cluster = plan.flow.target
        self._calls = calls
        self._lock = threading.Lock()
        self._is_ours = False
        self._target_states: TargetStates | None = None
        self.commands = FlowCommands(plan.settings, self._on_target_states, calls.on_restart)
        self._membership = Membership(
            plan.settings.target_admin,
            plan.group,
            identity,
            _SingleFlow(self._name),
            on_assigned=self._on_assigned,
            on_revoked=self._on_revoked,
        )

    def start(self) -> None:
        """Join, and read what is asked of the pair."""
        self.commands.start()
        self._membership.start()

    def update_connection(self, connection: ConnectionSettings) -> None:
        """Connect in another way from now on; the place is kept."""
        self._membership.update_connection(connection)
        self.commands.update_connection(connection)

    def stop(self, seconds: float) -> bool:
        """End the pair and leave, waiting so long; whether that is done."""
        self.commands.stop()
        return self._membership.stop(seconds)

    def status(self) -> OwnershipStatus:
        """Why the pair does not run here."""
        member = self._membership
        if member.problem is not None:
            return OwnershipStatus(_state(member), member.problem)
        if self._is_ours and self.commands.problem:
            return OwnershipStatus(FlowState.RETRYING, self.commands.problem)
        if not member.is_member or self._name in member.assignment:
            group = f"group {self._group} on {self._cluster}"
            return OwnershipStatus(
                FlowState.STARTING, f"asks {group} whether another process runs it"
            )
        return OwnershipStatus(FlowState.STANDBY, f"stands by: {self._owner_description()} runs it")

    def _owner_description(self) -> str:
        """The leader knows who has what; the others know the leader, which mostly has it itself."""
        owner = self._membership.owner_url(self._name)
        if owner is not None:
            return owner
        return f"a process of group {self._group}, led by {self._membership.leader_url},"

    def _on_assigned(self, names: tuple[str, ...]) -> None:
        if self._name in names:
            with self._lock:
                self._is_ours = True
                self._notify_acquired()

    def _on_revoked(self, names: tuple[str, ...]) -> None:
        if self._name in names:
            with self._lock:
                self._is_ours = False
            self._calls.on_revoked()

    def _on_target_states(self, target_states: TargetStates) -> None:
        with self._lock:
            self._target_states = target_states
            self._notify_acquired()

    def _notify_acquired(self) -> None:
        """Under the lock, so that no target state acquires a pair that is being revoked."""
        if self._is_ours and self._target_states is not None:
            self._calls.on_acquired(self._target_states)


def _state(member: Membership) -> FlowState:
    """A group that is used by others keeps us waiting; what a person must mend is no waiting."""
    if member.is_standby:
        return FlowState.STANDBY
    error = member.error
    is_fatal = isinstance(error, ClusterError) and not error.retriable
    return FlowState.FAILED if is_fatal else FlowState.RETRYING


class _SingleFlow:
    """What there is to do for this member, always: the pair. The file says so, no topic is read."""

    def __init__(self, name: str) -> None:
        self._configured = AssignableConnectors(0, flow=name)

    def cached(self) -> AssignableConnectors:
        """The pair."""
        return self._configured

    def latest(self) -> AssignableConnectors:
        """The same."""
        return self._configured
