# SPDX-License-Identifier: Apache-2.0
"""Of all processes with the same file only one runs a pair: MM2's own group says which.

The group is that of MM2's workers (`group.id`, by default `A-mm2`, on the target), the pair a
piece of work that one member runs while the others with the same pair stand by. Workers, Java's and
ours, speak other protocols, so a group is theirs or ours: a Java MM2 with the same file keeps us
waiting, and is refused while we are there.
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
    """What is shown of a pair that does not run here."""

    state: FlowState
    reason: str


class FlowOwnership:
    """The place of this process in the group of one pair. Thread-safe."""

    def __init__(
        self,
        settings: FlowSettings,
        group: GroupSettings,
        process_id: str,
        *,
        on_change: Callable[[], None],
        release: Callable[[], None],
    ) -> None:
        """`process_id` names this process to the others.

        `release` runs on the group's thread and returns when the pair writes nothing any more.
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
        """Join the group."""
        self._membership.start()

    def update_connection(self, connection: ConnectionSettings) -> None:
        """Use other connection settings from now on; the place is kept."""
        self._membership.update_connection(connection)

    def stop(self, seconds: float) -> bool:
        """Release the pair and leave the group, waiting so long; whether that is done."""
        return self._membership.stop(seconds)

    @property
    def is_owner(self) -> bool:
        """Whether this process runs the pair; False as soon as the place may be another's."""
        return self._is_assigned and self._membership.is_member

    def status(self) -> OwnershipStatus:
        """Why the pair does not run here."""
        member = self._membership
        if member.problem is not None:
            return OwnershipStatus(_state(member), member.problem)
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
            self._is_assigned = True
            self._on_change()

    def _on_revoked(self, names: tuple[str, ...]) -> None:
        if self._name in names:
            self._is_assigned = False
            self._release()


def _state(member: Membership) -> FlowState:
    """A group that others use makes us stand by; a refusal needs a person."""
    if member.is_standby:
        return FlowState.STANDBY
    error = member.error
    is_fatal = isinstance(error, ClusterError) and not error.retriable
    return FlowState.FAILED if is_fatal else FlowState.RETRYING


class _SingleFlow:
    """The work of this group is always the one pair: the file says so, no topic is read."""

    def __init__(self, name: str) -> None:
        self._configured = AssignableConnectors(0, flow=name)

    def cached(self) -> AssignableConnectors:
        return self._configured

    def latest(self) -> AssignableConnectors:
        return self._configured
