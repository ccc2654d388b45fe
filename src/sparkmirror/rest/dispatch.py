# SPDX-License-Identifier: Apache-2.0
"""Runs request handlers on threads, within limits to size and time; forwards to other workers.

A handler is a function of the ConnectApi and the request's arguments. It blocks, so each call gets
a thread. A call that takes too long is answered with an error without waiting for its thread.
Health checks have threads of their own, or a busy worker would look dead.

A request that changes something is dropped if its client has disconnected: a worker that was
suspended must not carry out what the client has given up.

Parameters of paths and queries are read as Connect's server reads them: a boolean is true if it
says "true" in any case, and false otherwise. A task id that is not a number is not found.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Annotated, Concatenate, ParamSpec
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

P = ParamSpec("P")
Handler = Callable[Concatenate[ConnectApi, P], Response]
BodyHandler = Callable[Concatenate[ConnectApi, bytes, P], Response]

_JSON = "application/json"
_THREADS = 64
_HEALTH_THREADS = 4
_PAUSE_SECONDS = 0.25
_HANG_UP_SECONDS = 0.005  # for the event loop to notice a closed connection
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
        self._dropped = ThrottledLog(log)
        self._threads = anyio.CapacityLimiter(_THREADS)
        self._health_threads = anyio.CapacityLimiter(_HEALTH_THREADS)

    async def run(
        self, request: Request, handler: Handler[P], *args: P.args, **kwargs: P.kwargs
    ) -> Response:
        """Run a handler on a thread, or forward the request to the worker that it names."""
        return await self._run(request, partial(handler, self._api, *args, **kwargs), b"")

    async def run_with_body(
        self, request: Request, handler: BodyHandler[P], *args: P.args, **kwargs: P.kwargs
    ) -> Response:
        """Run a handler that takes the request's body, which must say that it is JSON."""
        body = await self.read_body(request)
        if body and "content-type" not in request.headers:
            raise ApiError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "HTTP 415 Unsupported Media Type")
        return await self._run(request, partial(handler, self._api, body, *args, **kwargs), body)

    async def run_with_raw_body(
        self, request: Request, handler: BodyHandler[P], *args: P.args, **kwargs: P.kwargs
    ) -> Response:
        """Run a handler that takes the request's body, whatever it is."""
        body = await self.read_body(request)
        return await self._run(request, partial(handler, self._api, body, *args, **kwargs), body)

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
            log.warning(f"{request.method} {request.url.path} took too long. {stage}".strip())
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
            log.exception(f"{request.method} {request.url.path} failed unexpectedly.")
            raise ApiError(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                f"{type(error).__name__}; see the worker's log.",
            ) from error

    async def health(self) -> Response:
        """The worker's health; unhealthy if it does not answer in time."""
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

    async def read_body(self, request: Request) -> bytes:
        """The request's body; ApiError if it is too large or the client disconnects."""
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
        self._dropped.warn(f"{what} is dropped: the client has disconnected.")
        return ApiError(HTTPStatus.CONFLICT, "The client has disconnected")


def get_dispatcher(request: Request) -> Dispatcher:
    """The dispatcher of the application that serves a request."""
    dispatcher: Dispatcher = request.app.state.dispatcher
    return dispatcher


DispatcherParam = Annotated[Dispatcher, Depends(get_dispatcher)]
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
ForwardParam = Annotated[
    str | None,
    WithJsonSchema({"type": "boolean"}),
    Query(description="Set by workers: whether the request may be forwarded once more."),
]


def require_json(request: Request) -> None:
    """ApiError if the client sends something other than JSON, or does not accept JSON."""
    sent = request.headers.get("content-type")
    if sent is not None and media_type(sent) != "application/json":
        raise ApiError(415, "HTTP 415 Unsupported Media Type")
    accepted = request.headers.get("accept")
    if accepted is None:
        return
    kinds = {media_type(one) for one in accepted.split(",") if _REFUSED.search(one) is None}
    if not kinds & {"*/*", "application/*", "application/json"}:
        raise ApiError(406, "HTTP 406 Not Acceptable")


def query_flag(request: Request, name: str, *, default: bool = False) -> bool:
    """A boolean of the query; the first of several."""
    found = request.query_params.getlist(name)
    return found[0].lower() == "true" if found else default


def parse_task_id(text: str) -> int:
    """ApiError 404 if it is not a number."""
    if _TASK.fullmatch(text) is None or abs(int(text)) > _LARGEST_INT:
        raise ApiError(404, "HTTP 404 Not Found")
    return int(text)


def base_url(request: Request) -> str:
    """The address by which this worker was reached, without a slash at its end."""
    return str(request.base_url).rstrip("/")


def empty_response(status: int) -> Response:
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
    """The media type without parameters such as a character set."""
    return text.partition(";")[0].strip().lower()


def _response(request: Request, answer: ForwardedResponse) -> Response:
    headers = dict(answer.headers)
    if "location" in headers:
        headers["location"] = f"{base_url(request)}{urlsplit(headers['location']).path}"
    if answer.status >= HTTPStatus.BAD_REQUEST and headers.get("content-type") != _JSON:
        message = "Unexpected answer when handling forwarded request"
        return error_response(answer.status, message)
    return Response(answer.body, answer.status, headers)


def _too_large(most: int) -> ApiError:
    return ApiError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"The request's body has more than {most} bytes.",
    )
