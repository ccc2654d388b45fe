# SPDX-License-Identifier: Apache-2.0
"""A small HTTP server with prepared responses; records the requests.

For behaviour that a real Connect worker does not show on demand; `recorded_response` returns
responses of a real one.
"""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Self

_RECORDED = Path(__file__).parents[2] / "unit" / "rest_client" / "recorded.json"
_NOT_PREPARED = 599


@dataclass(frozen=True, slots=True)
class StubResponse:
    """One answer; bytes are sent as they are, anything else as JSON."""

    status: int = 200
    body: object = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """One request as it came."""

    method: str
    path: str
    body: Any
    authorization: str | None

    @property
    def user(self) -> str | None:
        """The name and password of basic authentication."""
        if self.authorization is None:
            return None
        return base64.b64decode(self.authorization.removeprefix("Basic ")).decode()


@cache
def recordings() -> list[dict[str, Any]]:
    """All that was recorded, in order."""
    answers: list[dict[str, Any]] = json.loads(_RECORDED.read_text(encoding="utf-8"))["answers"]
    return answers


def recorded_response(method: str, path: str, *, status: int | None = None) -> StubResponse:
    """Return the response of a Java worker; the first one with this status."""
    for one in recordings():
        if (one["method"], one["path"]) == (method, path) and status in {None, one["status"]}:
            answer = one["answer"]
            return StubResponse(
                one["status"], answer.encode() if isinstance(answer, str) else answer
            )
    raise KeyError(f"{method} {path} with {status} is not recorded")


class StubWorker:
    """A context manager; responds in the prepared order, and repeats the last response."""

    def __init__(self) -> None:
        self._replies: dict[tuple[str, str], list[StubResponse | Callable[..., None]]] = (
            defaultdict(list)
        )
        self.asked: list[ReceivedRequest] = []
        worker = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                worker._serve(self)

            do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815 - http.server's

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def on(self, method: str, path: str, *replies: StubResponse | Callable[..., None]) -> Self:
        """Prepare responses; a callable gets the handler."""
        self._replies[method, path] = list(replies)
        return self

    def replay(self, *requests: str) -> Self:
        """Prepare recorded responses, written `GET /connectors`, optionally with a status."""
        for request in requests:
            method, path, *status = request.split(" ")
            reply = recorded_response(method, path, status=int(status[0]) if status else None)
            self._replies[method, path].append(reply)
        return self

    def requests(self, *, changing: bool = False) -> list[str]:
        """Return the requests in order; or only those that change something."""
        return [
            f"{one.method} {one.path}"
            for one in self.asked
            if not changing or (one.method != "GET" and not one.path.endswith("/validate"))
        ]

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("Content-Length") or 0)
        content = handler.rfile.read(length)
        body = json.loads(content) if content else None
        self.asked.append(
            ReceivedRequest(
                handler.command, handler.path, body, handler.headers.get("Authorization")
            )
        )
        replies = self._replies[handler.command, handler.path]
        reply = StubResponse(_NOT_PREPARED, {"message": f"not prepared: {handler.path}"})
        if replies:
            reply_or_act = replies.pop(0) if len(replies) > 1 else replies[0]
            if callable(reply_or_act):
                reply_or_act(handler)
                return
            reply = reply_or_act
        content = reply.content()
        handler.send_response(reply.status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(content)))
        for key, value in reply.headers.items():
            handler.send_header(key, value)
        handler.end_headers()
        handler.wfile.write(content)
