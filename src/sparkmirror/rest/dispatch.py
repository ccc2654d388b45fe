# SPDX-License-Identifier: Apache-2.0
"""Runs request handlers on threads, with limits of size and time; forwards to other workers.

A handler is a function of the ConnectApi. It blocks, so each call gets a thread. A call that takes
too long gets an error response, without waiting for its thread. Health checks have separate
threads, or a busy worker would look dead.

A request that changes something is dropped if its client has disconnected: a worker that was
suspended must not carry out requests that the client has given up.

Parameters of paths and queries are parsed as in Connect's server: a boolean is true if it is "true"
in any case, and false otherwise. A task id that is not a number is not found.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import urlsplit

import anyio
from anyio.to_thread import run_sync
from fastapi import Depends, Path, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import AfterValidator, WithJsonSchema
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
from sparkmirror.rest.middleware import unescape_segment
from sparkmirror.rest.throttled_log import ThrottledLog, loggable
from sparkmirror.security.settings import TlsSettings

log = logging.getLogger(__name__)

Handler = Callable[[ConnectApi], Response]
BodyHandler = Callable[[ConnectApi, bytes], Response]

_JSON = "application/json"
_THREADS = 64
_HEALTH_THREADS = 4
_PAUSE_SECONDS = 0.25
_DISCONNECT_SECONDS = 0.005  # for the event loop to notice a closed connection
_LARGEST_INT = (1 << 31) - 1
_REFUSED = re.compile(r";\s*q=0(\.0*)?\s*(;|$)")
_TASK = re.compile(r"[+-]?[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits of time and size for requests."""

    request_seconds: float = 90.0
    health_seconds: float = 10.0
    leader_wait_seconds: float = 15.0  # for the successor of a leader that died
    body_bytes: int = 12 << 20


@dataclass(frozen=True, slots=True)
class _Call:
    request: Request
    handler: Callable[[], Response]
    body: bytes
    started: float  # time.monotonic()


class Dispatcher:
    """One for each application; belongs to its event loop."""

    def __init__(
        self, api: ConnectApi, limits: RequestLimits, peers: TlsSettings | None = None
    ) -> None:
        self._api = api
        self.worker_tls = peers or TlsSettings()  # may be replaced
        self._limits = limits
        self._dropped_log = ThrottledLog(log)
        self._threads = anyio.CapacityLimiter(_THREADS)
        self._health_threads = anyio.CapacityLimiter(_HEALTH_THREADS)

    async def run(self, request: Request, handler: Handler) -> Response:
        """Run a handler on a thread, or forward the request to the worker that it names."""
        return await self._run(request, partial(handler, self._api), b"")

    async def run_with_body(self, request: Request, handler: BodyHandler) -> Response:
        """Run a handler with the request's body, whose Content-Type must be JSON."""
        body = await self.read_body(request)
        if body and "content-type" not in request.headers:
            raise ApiError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "HTTP 415 Unsupported Media Type")
        return await self._run(request, partial(handler, self._api, body), body)

    async def run_with_raw_body(self, request: Request, handler: BodyHandler) -> Response:
        """Run a handler with the request's body, with or without a Content-Type."""
        body = await self.read_body(request)
        return await self._run(request, partial(handler, self._api, body), body)

    async def _run(
        self, request: Request, handler: Callable[[], Response], body: bytes
    ) -> Response:
        call = _Call(request, handler, body, time.monotonic())
        if request.method != "GET" and await _is_disconnected(request):
            raise self._client_disconnected(request)
        try:
            with anyio.fail_after(self._limits.request_seconds):
                return await run_sync(
                    self._retry_until_leader, call, abandon_on_cancel=True, limiter=self._threads
                )
        except TimeoutError as error:
            stage = await run_sync(self._api.stage, limiter=self._health_threads)
            status = f" The worker is currently {stage}." if stage else ""
            log.warning(f"{request.method} {request.url.path} timed out; repeat it.{status}")
            what = f"Request timed out. The worker is currently {stage}"
            raise ApiError(
                HTTPStatus.INTERNAL_SERVER_ERROR, what if stage else "Request timed out"
            ) from error

    def _retry_until_leader(self, call: _Call) -> Response:
        """Retry while the leader cannot be reached; the group elects another one soon."""
        while True:
            try:
                return self._call_or_forward(call)
            except NotDeliveredError:
                if time.monotonic() - call.started > self._limits.leader_wait_seconds:
                    raise
                time.sleep(_PAUSE_SECONDS)

    def _call_or_forward(self, call: _Call) -> Response:
        request = call.request
        try:
            if request.method == "GET":
                self._api.refresh()
            return call.handler()
        except ForwardTo as target:
            left = max(self._limits.request_seconds - (time.monotonic() - call.started), 0.001)
            forwarded = _forwarded(request, call.body)
            answer = forward(forwarded, target.url, left, target.is_current, self.worker_tls)
            return _response(request, answer)
        except SparkmirrorError:
            raise
        except Exception as error:
            # The trace goes to the log, never to a client.
            log.exception(
                f"{request.method} {request.url.path} failed unexpectedly; report the trace."
            )
            raise ApiError(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                f"{type(error).__name__}; see the worker's log.",
            ) from error

    async def health(self, *, of_flows: bool = False) -> Response:
        """Return the health of the worker, or the readiness of its flows.

        The worker is unhealthy if it does not respond in time.
        """
        query = self._api.readiness if of_flows else self._api.health
        try:
            with anyio.fail_after(self._limits.health_seconds):
                status, body = await run_sync(
                    query, abandon_on_cancel=True, limiter=self._health_threads
                )
        except TimeoutError:
            message = (
                "Worker was unable to handle this request and may be unable to handle other "
                "requests."
            )
            status, body = 500, {"status": "unhealthy", "message": message}
        return JSONResponse(dict(body), status)

    async def read_body(self, request: Request) -> bytes:
        """Read the request's body; ApiError if it is too large or the client disconnects."""
        max_bytes = self._limits.body_bytes
        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > max_bytes:
            raise _too_large(max_bytes)
        body = bytearray()
        try:
            async for chunk in request.stream():
                body += chunk
                if len(body) > max_bytes:
                    raise _too_large(max_bytes)
        except ClientDisconnect as error:
            raise self._client_disconnected(request) from error
        return bytes(body)

    def _client_disconnected(self, request: Request) -> ApiError:
        what = f"{request.method} {loggable(request.url.path)}"
        self._dropped_log.warn(
            f"{what} is dropped: the client has disconnected. Give it a longer timeout."
        )
        return ApiError(HTTPStatus.CONFLICT, "The client has disconnected")


class RestCall:
    """A request and the dispatcher of its application; what a route needs to respond."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self._dispatcher: Dispatcher = request.app.state.dispatcher

    @property
    def base_url(self) -> str:
        """The URL by which the client reached this worker, without a trailing slash."""
        return base_url(self.request)

    def query_flag(self, name: str, *, default: bool = False) -> bool:
        """Return a boolean of the query; the first of several."""
        found = self.request.query_params.getlist(name)
        return found[0].lower() == "true" if found else default

    async def run(self, handler: Handler) -> Response:
        """Run a handler on a thread."""
        return await self._dispatcher.run(self.request, handler)

    async def json(self, query: Callable[[ConnectApi], Any]) -> Response:
        """Run a query on a thread, and return its value as JSON."""
        return await self.run(lambda api: JSONResponse(query(api)))

    async def empty(self, status: int, command: Callable[[ConnectApi], None]) -> Response:
        """Run a command on a thread, and return an empty response."""

        def run(api: ConnectApi) -> Response:
            command(api)
            return empty_response(status)

        return await self.run(run)

    async def with_body(self, handler: BodyHandler) -> Response:
        """Run a handler with the body, which must be JSON."""
        return await self._dispatcher.run_with_body(self.request, handler)

    async def with_raw_body(self, handler: BodyHandler) -> Response:
        """Run a handler with the body of a signed request."""
        return await self._dispatcher.run_with_raw_body(self.request, handler)

    async def health(self, *, of_flows: bool = False) -> Response:
        return await self._dispatcher.health(of_flows=of_flows)


async def _rest_call(request: Request) -> RestCall:
    return RestCall(request)


RestCallParam = Annotated[RestCall, Depends(_rest_call)]
ConnectorParam = Annotated[
    str,
    AfterValidator(unescape_segment),
    Path(description="The name of the connector.", examples=["beat"]),
]
NameParam = Annotated[str, AfterValidator(unescape_segment), Path()]
TaskIdParam = Annotated[
    str,
    WithJsonSchema({"type": "integer", "minimum": 0, "maximum": _LARGEST_INT}),
    Path(description="The number of the task.", examples=[0]),
]
BooleanParam = Annotated[str | None, WithJsonSchema({"type": "boolean"}), Query()]


async def _forward_parameter(
    forward: Annotated[
        str | None,
        WithJsonSchema({"type": "boolean"}),
        Query(description="Set by workers: whether the request may be forwarded once more."),
    ] = None,
) -> None:
    """Declare the parameter for the OpenAPI document; `forwarded_query` reads it."""


FORWARDED = [Depends(_forward_parameter)]


def require_json(request: Request) -> None:
    """Raise ApiError if the client sends something other than JSON, or does not accept JSON."""
    sent = request.headers.get("content-type")
    if sent is not None and media_type(sent) != "application/json":
        raise ApiError(415, "HTTP 415 Unsupported Media Type")
    accepted = request.headers.get("accept")
    if accepted is None:
        return
    kinds = {media_type(one) for one in accepted.split(",") if _REFUSED.search(one) is None}
    if not kinds & {"*/*", "application/*", "application/json"}:
        raise ApiError(406, "HTTP 406 Not Acceptable")


def parse_task_id(text: str) -> int:
    """Parse a task id; ApiError 404 if it is not a number."""
    if _TASK.fullmatch(text) is None or abs(int(text)) > _LARGEST_INT:
        raise ApiError(404, "HTTP 404 Not Found")
    return int(text)


def base_url(request: Request) -> str:
    """Return the URL by which the client reached this worker, without a trailing slash."""
    return str(request.base_url).rstrip("/")


def empty_response(status: int) -> Response:
    return Response(status_code=status)


async def _is_disconnected(request: Request) -> bool:
    await anyio.sleep(_DISCONNECT_SECONDS)
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
    """Return the media type without parameters such as a character set."""
    return text.partition(";")[0].strip().lower()


def _response(request: Request, forwarded: ForwardedResponse) -> Response:
    headers = dict(forwarded.headers)
    if "location" in headers:
        headers["location"] = f"{base_url(request)}{urlsplit(headers['location']).path}"
    if forwarded.status >= HTTPStatus.BAD_REQUEST and headers.get("content-type") != _JSON:
        message = "Unexpected answer when handling forwarded request"
        return error_response(forwarded.status, message)
    return Response(forwarded.body, forwarded.status, headers)


def _too_large(max_bytes: int) -> ApiError:
    return ApiError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"The request's body has more than {max_bytes} bytes.",
    )
