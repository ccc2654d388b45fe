# SPDX-License-Identifier: Apache-2.0
"""A resolver that responds, fails or hangs, for names that end in `.example`."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from sparkmirror.wire.dns_resolver import numeric_addresses


class ScriptedResolver:
    """Replaces `socket.getaddrinfo`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.places: list[Any] | Exception = OSError("the resolver is down")
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.asked: list[str] = []
        self._real = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self._resolve)

    def _resolve(self, host: str, port: int, *args: Any, **kwargs: Any) -> list[Any]:
        if not host.endswith(".example") or kwargs.get("flags"):
            return self._real(host, port, *args, **kwargs)
        self.asked.append(host)
        self.may_answer.wait()
        if isinstance(self.places, Exception):
            raise self.places
        return self.places

    def leads_to(self, port: int) -> None:
        """Resolve names to a port of this machine from now on."""
        self.places = numeric_addresses("127.0.0.1", port)
