# SPDX-License-Identifier: Apache-2.0
"""A worker's REST API on a free port of the loopback interface, and a client of it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email.message import Message
from types import TracebackType
from typing import Any, Self

from sparkmirror.rest.app import AppOptions
from sparkmirror.rest.server import RestServer
from support.peers.memory_worker import MemoryWorker
from support.waiting import PATIENCE_SECONDS


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """What the server said."""

    status: int
    headers: Message
    text: str

    def json(self) -> Any:
        """The body, which must be JSON by its own account."""
        assert self.headers["Content-Type"] == "application/json", self
        return json.loads(self.text)


class ServedRest:
    """Serves a worker, and asks it; a context manager."""

    def __init__(self, worker: MemoryWorker, options: AppOptions | None = None) -> None:
        self._worker = worker
        self._server = RestServer.for_worker(worker.file.settings, options)
        self.port = self._server.ports[0]
        self.url = f"http://127.0.0.1:{self.port}/"

    def __enter__(self) -> Self:
        self._server.start(self._worker)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._server.stop()

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> HttpResponse:
        """One request; bytes and iterables of bytes go as they are, anything else as JSON."""
        raw = body is None or isinstance(body, bytes) or _is_stream(body)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        try:
            connection.request(
                method,
                path,
                body if raw else json.dumps(body).encode(),
                {"Content-Type": "application/json", **(headers or {})},
            )
            found = connection.getresponse()
            return HttpResponse(found.status, found.headers, found.read().decode())
        finally:
            connection.close()

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> HttpResponse:
        """The same without a body."""
        return self.request("GET", path, headers=headers)


def _is_stream(body: object) -> bool:
    return isinstance(body, Iterable) and not isinstance(body, dict | list | str)
