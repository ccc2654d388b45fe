# SPDX-License-Identifier: Apache-2.0
"""Of all processes with the same file only one runs a pair: MM2's own group says which.

The group is that of MM2's workers (`group.id`, by default `A-mm2`, on the target), the pair a
piece of work that one member runs while the others with the same pair stand by. Workers, Java's and
ours, speak other protocols, so a group is theirs or ours: a Java MM2 with the same file keeps us
waiting, and is refused while we are there.

A gate opens when the pair is ours and it is known which of its connectors shall rest.
"""

from __future__ import annotations

import threading

from sparkmirror.config.settings import ConnectionSettings
from sparkmirror.connect.assignor import Configured
from sparkmirror.connect.membership import Membership
from sparkmirror.errors import ClusterError
from sparkmirror.pairs import GateCalls, PairPlan, Standing
from sparkmirror.pipeline.status import FlowState
from sparkmirror.state.pair_orders import PairOrders, Wishes


class PairGate:
    """The place of one process in the group of one pair."""

    def __init__(
        self,
        plan: PairPlan,
        identity: str,
        calls: GateCalls,
    ) -> None:
        """`identity` is what the other processes call this one."""
        self._name = str(plan.flow)
        self._group = plan.group.group_id
        self._cluster = plan.flow.target
        self._calls = calls
        self._lock = threading.Lock()
        self._is_ours = False
        self._wishes: Wishes | None = None
        self.orders = PairOrders(plan.settings, self._wished, calls.restart)
        self._membership = Membership(
            plan.settings.target_admin,
            plan.group,
            identity,
            _OnePiece(self._name),
            on_assigned=self._assigned,
            on_revoked=self._revoked,
        )

    def start(self) -> None:
        """Join, and read what is asked of the pair."""
        self.orders.start()
        self._membership.start()

    def renew(self, connection: ConnectionSettings) -> None:
        """Connect in another way from now on; the place is kept."""
        self._membership.renew(connection)
        self.orders.renew(connection)

    def stop(self, seconds: float) -> bool:
        """End the pair and leave, waiting so long; whether that is done."""
        self.orders.stop()
        return self._membership.stop(seconds)

    def standing(self) -> Standing:
        """Why the pair does not run here."""
        member = self._membership
        if member.trouble is not None:
            return Standing(_state(member), member.trouble)
        if self._is_ours and self.orders.trouble:
            return Standing(FlowState.RETRYING, self.orders.trouble)
        if not member.is_member or self._name in member.assignment:
            group = f"group {self._group} on {self._cluster}"
            return Standing(FlowState.STARTING, f"asks {group} whether another process runs it")
        return Standing(FlowState.STANDBY, f"stands by: {self._runner()} runs it")

    def _runner(self) -> str:
        """The leader knows who has what; the others know the leader, which mostly has it itself."""
        owner = self._membership.owner_url(self._name)
        if owner is not None:
            return owner
        return f"a process of group {self._group}, led by {self._membership.leader_url},"

    def _assigned(self, names: tuple[str, ...]) -> None:
        if self._name in names:
            with self._lock:
                self._is_ours = True
                self._open()

    def _revoked(self, names: tuple[str, ...]) -> None:
        if self._name in names:
            with self._lock:
                self._is_ours = False
            self._calls.closed()

    def _wished(self, wishes: Wishes) -> None:
        with self._lock:
            self._wishes = wishes
            self._open()

    def _open(self) -> None:
        """Under the lock, so that no wish opens a gate that is being closed."""
        if self._is_ours and self._wishes is not None:
            self._calls.opened(self._wishes)


def _state(member: Membership) -> FlowState:
    """A group that is used by others keeps us waiting; what a person must mend is no waiting."""
    if member.stands_by:
        return FlowState.STANDBY
    error = member.error
    is_fatal = isinstance(error, ClusterError) and not error.retriable
    return FlowState.FAILED if is_fatal else FlowState.RETRYING


class _OnePiece:
    """What there is to do for this member, always: the pair. The file says so, no topic is read."""

    def __init__(self, name: str) -> None:
        self._configured = Configured(0, piece=name)

    def known(self) -> Configured:
        """The pair."""
        return self._configured

    def fresh(self) -> Configured:
        """The same."""
        return self._configured
