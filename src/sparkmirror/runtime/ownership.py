# SPDX-License-Identifier: Apache-2.0
"""Decides by a consumer group which process runs a flow, of all processes with the same file.

The group is that of MM2's workers (`group.id`, by default `A-mm2`, on the target). The flow is
assigned to one member; the other members with that flow are on standby. A coordinator accepts one
protocol per group: while a Java MM2 with the same file is a member, this process waits, and vice
versa.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sparkmirror.config.settings import FlowSettings
from sparkmirror.config.worker_settings import GroupSettings
from sparkmirror.errors import ClusterError
from sparkmirror.group.assignor import AssignableConnectors
from sparkmirror.group.membership import Membership
from sparkmirror.spark.flow_status import FlowState
from sparkmirror.wire.settings import ConnectionSettings


@dataclass(frozen=True, slots=True)
class OwnershipStatus:
    """The state of a flow that does not run here, and the reason."""

    state: FlowState
    reason: str


class FlowOwnership:
    """The membership of this process in the group of one flow. Thread-safe."""

    def __init__(
        self,
        settings: FlowSettings,
        group: GroupSettings,
        process_id: str,
        *,
        on_change: Callable[[], None],
        release: Callable[[], None],
    ) -> None:
        """`process_id` identifies this process in the statuses of others.

        `release` runs on the group's thread and returns when the flow writes nothing any more.
        """
        self._name = str(settings.flow)
        self._group = group.group_id
        self._cluster = settings.flow.target
        self._on_change = on_change
        self._release = release
        self._is_assigned = False
        self._membership = Membership(
            settings.target_admin,
            group,
            process_id,
            _SingleFlow(self._name),
            on_assigned=self._on_assigned,
            on_revoked=self._on_revoked,
        )

    def start(self) -> None:
        self._membership.start()

    def update_connection(self, connection: ConnectionSettings) -> None:
        """Use other connection settings from now on; stays a member."""
        self._membership.update_connection(connection)

    def stop(self, seconds: float) -> bool:
        """Release the flow and leave the group. Returns whether that is done within `seconds`."""
        return self._membership.stop(seconds)

    @property
    def is_owner(self) -> bool:
        """Whether this process runs the flow; False as soon as the membership may be lost."""
        return self._is_assigned and self._membership.is_member

    @property
    def is_settled(self) -> bool:
        """Whether the group of the flow is not rebalancing."""
        return self._membership.is_settled

    def status(self) -> OwnershipStatus:
        """Return why the flow does not run here."""
        member = self._membership
        if member.problem is not None:
            return OwnershipStatus(_state(member), member.problem)
        if not member.is_member or self._name in member.assignment:
            return OwnershipStatus(
                FlowState.STARTING, f"joining group {self._group} on {self._cluster}"
            )
        return OwnershipStatus(FlowState.STANDBY, f"stands by: {self._owner_description()} runs it")

    def _owner_description(self) -> str:
        """Name the owner if this process leads the group, else the leader."""
        owner = self._membership.owner_url(self._name)
        if owner is not None:
            return owner
        return f"a process of group {self._group}, led by {self._membership.leader_url},"

    def _on_assigned(self, names: tuple[str, ...]) -> None:
        if self._name in names:
            self._is_assigned = True
            self._on_change()

    def _on_revoked(self, names: tuple[str, ...]) -> None:
        if self._name in names:
            self._is_assigned = False
            self._release()


def _state(member: Membership) -> FlowState:
    """Return STANDBY if others use the group, FAILED if a retry cannot help."""
    if member.is_standby:
        return FlowState.STANDBY
    error = member.error
    is_fatal = isinstance(error, ClusterError) and not error.retriable
    return FlowState.FAILED if is_fatal else FlowState.RETRYING


class _SingleFlow:
    """A ConfigView with one flow, from the file; no topic is read."""

    def __init__(self, name: str) -> None:
        self._configured = AssignableConnectors(0, flow=name)

    def cached(self) -> AssignableConnectors:
        return self._configured

    def latest(self) -> AssignableConnectors:
        return self._configured
