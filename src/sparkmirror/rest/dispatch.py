# SPDX-License-Identifier: Apache-2.0
"""Between handlers and the worker: limits to size and time, and requests for other workers.

The worker's calls block, so each has a thread; one that takes too long is answered without waiting
for its thread. Health has threads of its own, or a busy worker would look dead.

A worker that was suspended finds requests of people who have given up: nothing is changed for those
who are not there to hear of it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

import anyio
from anyio.to_thread import run_sync
from fastapi import Request
from fastapi.responses import JSONResponse, Response
from starlette.requests import ClientDisconnect

from sparkmirror.connect.api import ApiError, ConnectApi, ForwardTo
from sparkmirror.connect.forwarding import (
    ForwardedRequest,
    ForwardedResponse,
    NotDeliveredError,
    forward,
)
from sparkmirror.errors import SparkmirrorError
from sparkmirror.rest.errors import error_response
from sparkmirror.rest.throttled_log import ThrottledLog, loggable
from sparkmirror.security.settings import TlsSettings

log = logging.getLogger(__name__)

ApiCall = Callable[[ConnectApi], Response]

_JSON = "application/json"
_THREADS = 64
_HEALTH_THREADS = 4
_PAUSE_SECONDS = 0.25
_HANG_UP_SECONDS = 0.005  # in which the event loop learns that a connection was closed long ago


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """How long and how large a request may be."""

    request_seconds: float = 90.0
    health_seconds: float = 10.0
    leader_wait_seconds: float = 15.0  # that a request waits for the successor of a dead leader
    body_bytes: int = 12 << 20


class Dispatcher:
    """One for each application; its event loop's."""

    def __init__(
        self, api: ConnectApi, limits: RequestLimits, peers: TlsSettings | None = None
    ) -> None:
        self._api = api
        self.worker_tls = peers or TlsSettings()  # may be replaced
        self._limits = limits
        self._left_undone = ThrottledLog(log)
        self._threads = anyio.CapacityLimiter(_THREADS)
        self._health_threads = anyio.CapacityLimiter(_HEALTH_THREADS)

    async def dispatch(self, request: Request, call: ApiCall, body: bytes = b"") -> Response:
        """What the worker answers, or the one that it sends us to."""
        started = time.monotonic()
        if request.method != "GET" and await _is_disconnected(request):
            raise self._client_disconnected(request)

        def blocking() -> Response:
            return self._retry_until_leader(
                lambda: self._call_or_forward(request, call, body, started), started
            )

        try:
            with anyio.fail_after(self._limits.request_seconds):
                return await run_sync(blocking, abandon_on_cancel=True, limiter=self._threads)
        except TimeoutError as error:
            stage = await run_sync(self._api.stage, limiter=self._health_threads)
            log.warning(f"{request.method} {request.url.path} took too long. {stage}".strip())
            what = f"Request timed out. The worker is currently {stage}"
            raise ApiError(
                HTTPStatus.INTERNAL_SERVER_ERROR, what if stage else "Request timed out"
            ) from error

    def _retry_until_leader(self, once: Callable[[], Response], started: float) -> Response:
        """The leader may have died a moment ago; soon there is another one."""
        while True:
            try:
                return once()
            except NotDeliveredError:
                if time.monotonic() - started > self._limits.leader_wait_seconds:
                    raise
                time.sleep(_PAUSE_SECONDS)

    def _call_or_forward(
        self, request: Request, call: ApiCall, body: bytes, started: float
    ) -> Response:
        try:
            if request.method == "GET":
                self._api.refresh()
            return call(self._api)
        except ForwardTo as target:
            left = max(self._limits.request_seconds - (time.monotonic() - started), 0.001)
            forwarded = _forwarded(request, body)
            answer = forward(forwarded, target.url, left, target.is_current, self.worker_tls)
            return _response(request, answer)
        except SparkmirrorError:
            raise
        except Exception as error:
            # The trace belongs into our log, never into an answer.
            log.exception(f"{request.method} {request.url.path} failed unexpectedly.")
            raise ApiError(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                f"{type(error).__name__}; see the worker's log.",
            ) from error

    async def health(self) -> Response:
        """How the worker is; one that does not even say is not well."""
        try:
            with anyio.fail_after(self._limits.health_seconds):
                status, body = await run_sync(
                    self._api.health, abandon_on_cancel=True, limiter=self._health_threads
                )
        except TimeoutError:
            message = (
                "Worker was unable to handle this request and may be unable to handle other "
                "requests."
            )
            status, body = 500, {"status": "unhealthy", "message": message}
        return JSONResponse(dict(body), status)

    async def read_json_body(self, request: Request) -> bytes:
        """The request's body; refused if it does not say what it is, or is too large."""
        body = await self.read_body(request)
        if body and "content-type" not in request.headers:
            raise ApiError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "HTTP 415 Unsupported Media Type")
        return body

    async def read_body(self, request: Request) -> bytes:
        """The same, whatever it is."""
        most = self._limits.body_bytes
        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > most:
            raise _too_large(most)
        body = bytearray()
        try:
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    raise _too_large(most)
        except ClientDisconnect as error:
            raise self._client_disconnected(request) from error
        return bytes(body)

    def _client_disconnected(self, request: Request) -> ApiError:
        what = f"{request.method} {loggable(request.url.path)}"
        self._left_undone.warn(f"{what} is left undone: whoever asked has hung up.")
        return ApiError(HTTPStatus.CONFLICT, "Nobody waits for this request any more")


def get_dispatcher(request: Request) -> Dispatcher:
    """The dispatcher of the application that serves a request."""
    dispatcher: Dispatcher = request.app.state.dispatcher
    return dispatcher


def absolute_url(request: Request, path: str) -> str:
    """A path with the address by which this worker was reached, as Connect has it."""
    return f"{str(request.base_url).rstrip('/')}{path}"


def empty_response(status: int) -> Response:
    """An answer without a body."""
    return Response(status_code=status)


async def _is_disconnected(request: Request) -> bool:
    await anyio.sleep(_HANG_UP_SECONDS)
    return await request.is_disconnected()


def _forwarded(request: Request, body: bytes) -> ForwardedRequest:
    raw = request.scope.get("raw_path") or request.url.path.encode()
    return ForwardedRequest(
        request.method,
        raw.partition(b"?")[0].decode("latin-1"),
        request.url.query,
        dict(request.headers),
        body,
    )


def media_type(text: str) -> str:
    """Without parameters such as a character set."""
    return text.partition(";")[0].strip().lower()


def _response(request: Request, answer: ForwardedResponse) -> Response:
    headers = dict(answer.headers)
    if "location" in headers:
        headers["location"] = absolute_url(request, urlsplit(headers["location"]).path)
    if answer.status >= HTTPStatus.BAD_REQUEST and headers.get("content-type") != _JSON:
        message = "Unexpected answer when handling forwarded request"
        return error_response(answer.status, message)
    return Response(answer.body, answer.status, headers)


def _too_large(most: int) -> ApiError:
    return ApiError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"The request's body has more than {most} bytes, which is more than any connector needs.",
    )
