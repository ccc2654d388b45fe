# SPDX-License-Identifier: Apache-2.0
"""A task's end of the control channel: one blocking connection, one reading thread.

The thread only notes what it heard and wakes the loop; the task's thread sends.
"""

from __future__ import annotations

import contextlib
import json
import math
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from sparkmirror.errors import WireError
from sparkmirror.pipeline.contract import (
    Progress,
    Split,
    TaskSettings,
    split_from_json,
    task_settings_from_json,
    to_json,
)
from sparkmirror.pipeline.control_channel import (
    LENGTH,
    SERVER_NAME,
    Invitation,
    check_length,
    client_context,
    encode,
)

_CONNECT_SECONDS = 10.0


class ControlClient:
    """Implements `copy.Control`."""

    def __init__(self, invitation: Invitation, split_index: int) -> None:
        raw = socket.create_connection((invitation.host, invitation.port), _CONNECT_SECONDS)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        context = client_context(invitation.certificate)
        self._socket = context.wrap_socket(raw, server_hostname=SERVER_NAME)
        self._heard = time.monotonic()
        self._end_requested = False
        self._is_lost = False
        self._wake: Callable[[], None] = lambda: None
        self._send({"type": "hello", "token": invitation.token, "split": split_index})
        first = self._receive()
        if first.get("type") != "split":
            raise WireError(f"the driver answered hello with {first.get('type')!r}")
        self.split: Split = split_from_json(first["split"])
        self.settings: TaskSettings = task_settings_from_json(first["settings"])

    def listen(self, wake: Callable[[], None]) -> None:
        """Begin to hear the driver; `wake` is called when there is something to notice."""
        self._wake = wake
        self._socket.settimeout(self.settings.lease_seconds * 2)
        threading.Thread(target=self._listen, name="control", daemon=True).start()

    def _listen(self) -> None:
        try:
            while True:
                message = self._receive()
                self._heard = time.monotonic()
                if message["type"] == "end":
                    self._end_requested = True
                    self._wake()
        except (OSError, WireError, ValueError):
            self._is_lost = True
            self._wake()

    @property
    def end_requested(self) -> bool:
        """The driver wants this task to finish."""
        return self._end_requested

    @property
    def silence_seconds(self) -> float:
        """For how long nothing has been heard from the driver; for ever, if it hung up."""
        return math.inf if self._is_lost else time.monotonic() - self._heard

    def report(self, progress: Progress) -> None:
        """Send progress; a lost line shows as silence, not as an error here."""
        if self._is_lost:
            return
        try:
            self._send({"type": "progress", "progress": to_json(progress)})
        except OSError:
            self._is_lost = True

    def close(self) -> None:
        """Hang up."""
        with contextlib.suppress(OSError):  # the other side was quicker
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _send(self, message: dict[str, Any]) -> None:
        self._socket.sendall(encode(message))

    def _receive(self) -> dict[str, Any]:
        body = self._exactly(check_length(self._exactly(LENGTH.size)))
        message: dict[str, Any] = json.loads(body)
        return message

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(min(size - len(parts), 1 << 20))
            if not part:
                raise ConnectionResetError("the driver closed the control channel")
            parts += part
        return bytes(parts)
