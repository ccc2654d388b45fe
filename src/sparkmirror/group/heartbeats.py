# SPDX-License-Identifier: Apache-2.0
"""A thread that tells the coordinator that this worker lives, whatever else the worker waits for.

Its line is its own, so that it goes on while a join waits for other workers. It tells the session
what was answered, and the member what it has to act on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from sparkmirror.errors import ClusterError
from sparkmirror.group.session import Session
from sparkmirror.kafka.coordinator_client import REBALANCE_IN_PROGRESS, CoordinatorClient
from sparkmirror.system.clock import Clock
from sparkmirror.wire.settings import ConnectionSettings

log = logging.getLogger(__name__)

_AGAIN_SECONDS = 0.3
_END_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class MemberIdentity:
    """Who beats: a member in a generation of its group."""

    member_id: str
    generation: int


class HeartbeatSender:
    """Beats for whoever was named last."""

    def __init__(
        self,
        name: str,
        open_line: Callable[[], CoordinatorClient],
        session: Session,
        interval_seconds: float,
        clock: Clock,
        answered: Callable[[MemberIdentity, int], None],
    ) -> None:
        """`answered` gets every code that is not 0, in the thread of this."""
        self._line = open_line()
        self._session = session
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._answered = answered
        self._identity: MemberIdentity | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"{name}/heartbeats", daemon=True)

    def start(self) -> None:
        """Begin; nothing is sent before there is an identity."""
        self._thread.start()

    def set_member(self, identity: MemberIdentity | None) -> None:
        """From now on for this one, or for nobody."""
        self._identity = identity

    @property
    def identity(self) -> MemberIdentity | None:
        """Whom the next heartbeat will be for."""
        return self._identity

    def update_connection(self, connection: ConnectionSettings) -> None:
        """Connect in another way, should the line be lost: a place is not risked for less."""
        self._line.update_connection(connection)

    def stop(self) -> None:
        """End; a heartbeat on its way does not keep anybody."""
        self._ending.set()
        self._line.close()
        if self._thread.is_alive():
            self._thread.join(_END_SECONDS)

    def _run(self) -> None:
        wait_seconds = self._interval_seconds
        while not self._ending.wait(wait_seconds):
            try:
                wait_seconds = self._send()
            except Exception:
                # The root of the thread, which must not end: the clock would take the place away
                # again and again. A line that was closed meanwhile is no surprise.
                if not self._ending.is_set():
                    log.exception(f"{self._thread.name}: a heartbeat failed; trying again.")
                wait_seconds = _AGAIN_SECONDS

    def _send(self) -> float:
        identity = self._identity
        if identity is None:
            return _AGAIN_SECONDS
        sent_at = self._clock()
        try:
            code = self._line.heartbeat(identity.member_id, identity.generation)
        except ClusterError:
            # Nobody answers, or it is not the coordinator: what this means is up to the clock.
            return _AGAIN_SECONDS
        if code in {0, REBALANCE_IN_PROGRESS}:
            self._session.confirm(sent_at, rebalancing=code != 0)
        if code:
            self._answered(identity, code)
        return max(0.0, self._interval_seconds - (self._clock() - sent_at))
