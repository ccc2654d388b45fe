# SPDX-License-Identifier: Apache-2.0
"""The task side of the control channel: one TLS connection, owned by its own thread.

OpenSSL connections are not thread-safe, so the task passes reports to that thread through a queue
and wakes it with a socket pair.
"""

from __future__ import annotations

import json
import math
import queue
import select
import socket
import threading
from collections.abc import Callable
from typing import Any

from sparkmirror.errors import ControlUnreachableError, WireError
from sparkmirror.system.clock import steady_clock
from sparkmirror.task.control_protocol import (
    LENGTH,
    SERVER_NAME,
    ControlEndpoint,
    client_context,
    encode_message,
    message_length,
)
from sparkmirror.task.messages import (
    Progress,
    Split,
    TaskSettings,
    split_from_json,
    task_settings_from_json,
)
from sparkmirror.task.progress_json import progress_to_json
from sparkmirror.wire.memory import no_garbage_collection

_CONNECT_SECONDS = 10.0
_FLUSH_SECONDS = 2.0


def _connect(host: str, port: int) -> socket.socket:
    try:
        return socket.create_connection((host, port), _CONNECT_SECONDS)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ControlUnreachableError(
            f"The executor cannot reach the driver's control channel at {host}:{port}: {reason}. "
            "Open this port between the executors and the driver, or set "
            "spark.sparkmirror.control.host and .port to an address that the executors reach."
        ) from error


class ControlClient:
    """Implements `copy_task.ControlChannel`. The constructor connects and receives the split."""

    def __init__(self, invitation: ControlEndpoint, split_index: int) -> None:
        raw = _connect(invitation.host, invitation.port)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        context = client_context(invitation.certificate)
        self._socket = context.wrap_socket(raw, server_hostname=SERVER_NAME)
        self._last_message_at = steady_clock()
        self._end_requested = False
        self._is_lost = False
        self._wake: Callable[[], None] = lambda: None
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)
        try:
            first = self._register(invitation.token, split_index)
        except (OSError, WireError):
            self.close()
            raise
        with no_garbage_collection():
            self.split: Split = split_from_json(first["split"])
        self.settings: TaskSettings = task_settings_from_json(first["settings"])

    def _register(self, token: str, split_index: int) -> dict[str, Any]:
        self._socket.sendall(
            encode_message({"type": "hello", "token": token, "split": split_index})
        )
        first = self._receive()
        if first.get("type") != "split":
            raise WireError(f"unexpected reply of the driver to hello: {first.get('type')!r}")
        return first

    def start(self, wake: Callable[[], None]) -> None:
        """Start the thread; it calls `wake` when the driver requests the end or disconnects."""
        self._wake = wake
        self._thread.start()

    @property
    def end_requested(self) -> bool:
        """Whether the driver has requested the end of this task."""
        return self._end_requested

    @property
    def silence_seconds(self) -> float:
        """Seconds since the driver's last message; infinite after it disconnected."""
        return math.inf if self._is_lost else steady_clock() - self._last_message_at

    def report(self, progress: Progress) -> None:
        """Queue a progress report; never raises: a lost connection shows in `silence_seconds`."""
        self._post(encode_message({"type": "progress", "progress": progress_to_json(progress)}))

    def report_finished(self) -> None:
        """Tell the driver that the task returns its receipts, before the connection closes."""
        self._post(encode_message({"type": "finished"}))

    def close(self) -> None:
        """Send the queued reports, then disconnect."""
        if self._thread.is_alive():
            self._post(None)
            self._thread.join(_FLUSH_SECONDS)
        self._socket.close()
        self._wake_receiver.close()
        self._wake_sender.close()

    def _post(self, message: bytes | None) -> None:
        if not self._is_lost:
            self._outbox.put(message)
            self._wake_sender.send(b"!")

    # --- the channel's thread

    def _run(self) -> None:
        try:
            while self._run_once():
                pass
        except (OSError, WireError, ValueError):
            self._is_lost = True
            self._wake()

    def _run_once(self) -> bool:
        """Send queued messages and receive one, if there is one. Returns False after `close`."""
        if not self._socket.pending():
            select.select([self._socket, self._wake_receiver], [], [], self.settings.lease_seconds)
        if select.select([self._wake_receiver], [], [], 0)[0]:
            self._wake_receiver.recv(4096)
        while not self._outbox.empty():
            message = self._outbox.get()
            if message is None:
                return False
            self._socket.sendall(message)
        if self._socket.pending() or select.select([self._socket], [], [], 0)[0]:
            message_type = self._receive()["type"]
            self._last_message_at = steady_clock()
            if message_type == "end":
                self._end_requested = True
                self._wake()
        return True

    def _receive(self) -> dict[str, Any]:
        body = self._receive_exactly(message_length(self._receive_exactly(LENGTH.size)))
        with no_garbage_collection():
            message: dict[str, Any] = json.loads(body)
        return message

    def _receive_exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(min(size - len(parts), 1 << 20))
            if not part:
                raise ConnectionResetError("the driver closed the control channel")
            parts += part
        return bytes(parts)
