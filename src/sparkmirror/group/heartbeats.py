# SPDX-License-Identifier: Apache-2.0
"""Sends heartbeats to the coordinator on a separate thread and connection.

They continue while a join waits for other members. Responses go to the session; errors also go to
the member.
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
from sparkmirror.system.log_scope import ScopedThread
from sparkmirror.wire.settings import ConnectionSettings

log = logging.getLogger(__name__)

_RETRY_SECONDS = 0.3
_STOP_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class MemberIdentity:
    """A member in a generation of its group."""

    member_id: str
    generation: int


class HeartbeatSender:
    """Sends heartbeats for the current member identity."""

    def __init__(
        self,
        name: str,
        open_client: Callable[[], CoordinatorClient],
        session: Session,
        interval_seconds: float,
        clock: Clock,
        on_error: Callable[[MemberIdentity, int], None],
    ) -> None:
        """`on_error` gets every error code, on this object's thread."""
        self._client = open_client()
        self._session = session
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._on_error = on_error
        self._identity: MemberIdentity | None = None
        self._ending = threading.Event()
        self._thread = ScopedThread(target=self._run, name=f"{name}/heartbeats", daemon=True)

    def start(self) -> None:
        """Start the thread; sends nothing before `set_member`."""
        self._thread.start()

    def set_member(self, identity: MemberIdentity | None) -> None:
        """Send heartbeats for this member, or none."""
        self._identity = identity

    @property
    def identity(self) -> MemberIdentity | None:
        return self._identity

    def update_connection(self, connection: ConnectionSettings) -> None:
        """Use other parameters for the next connection; the current one is kept."""
        self._client.update_connection(connection)

    def stop(self) -> None:
        """Stop without waiting for a pending heartbeat."""
        self._ending.set()
        self._client.close()
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        wait_seconds = self._interval_seconds
        while not self._ending.wait(wait_seconds):
            try:
                wait_seconds = self._send()
            except Exception:
                # The root of the thread must not end, or the session would expire again and again.
                # An error of a connection that was closed by `stop` is expected.
                if not self._ending.is_set():
                    log.exception(f"{self._thread.name}: heartbeat failed; retrying.")
                wait_seconds = _RETRY_SECONDS

    def _send(self) -> float:
        identity = self._identity
        if identity is None:
            return _RETRY_SECONDS
        sent_at = self._clock()
        try:
            code = self._client.heartbeat(identity.member_id, identity.generation)
        except ClusterError:
            # No response, or not the coordinator: the session's clock decides.
            return _RETRY_SECONDS
        if code in {0, REBALANCE_IN_PROGRESS}:
            self._session.confirm(sent_at, rebalancing=code != 0)
        if code:
            self._on_error(identity, code)
        return max(0.0, self._interval_seconds - (self._clock() - sent_at))
