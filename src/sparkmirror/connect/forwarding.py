# SPDX-License-Identifier: Apache-2.0
"""A request that belongs to another worker is repeated there, and its answer handed on.

The first worker says `forward=true`: the second may forward once more, with `forward=false`. Who
receives that and is not the right one either answers 409, for the workers are about to agree anew.
So does whoever waits for a worker that is not the right one any more: it may be suspended, and
nobody else can tell how long.
"""

from __future__ import annotations

import http.client
import select
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from sparkmirror.connect.api import ApiError
from sparkmirror.security.settings import TlsSettings
from sparkmirror.security.tls import client_context

# Headers that go with a request and come with an answer. The two of a signature: the leader checks
# what another worker has sent.
_SENT = ("authorization", "x-connect-authorization", "x-connect-request-signature-algorithm")
_RETURNED = ("content-type", "location")
_SCHEMES = ("http", "https")
_MOST_BYTES = 64 << 20
_LOOK_SECONDS = 0.5  # how often to ask whether it is worth waiting


@dataclass(frozen=True, slots=True)
class ForwardedRequest:
    """A request as it came in."""

    method: str
    path: str  # as it was sent, escapes and all
    query: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ForwardedResponse:
    """What the other worker said."""

    status: int
    headers: dict[str, str]
    body: bytes = field(repr=False)


class NotDeliveredError(ApiError):
    """Nobody listens there any more, so certainly nothing was done: another one may be asked."""

    def __init__(self, message: str) -> None:
        super().__init__(HTTPStatus.INTERNAL_SERVER_ERROR, message)


def forwarded_query(query: str) -> str:
    """The query for the next worker; ApiError if there may be no next one."""
    pairs = parse_qsl(query, keep_blank_values=True)
    hop = next((value for name, value in pairs if name == "forward"), None)
    if hop is not None and hop.lower() != "true":
        raise _conflict()
    rest = [(name, value) for name, value in pairs if name != "forward"]
    return urlencode([*rest, ("forward", "true" if hop is None else "false")])


def forward(
    request: ForwardedRequest,
    url: str,
    timeout_seconds: float,
    still: Callable[[], bool] = lambda: True,
    tls: TlsSettings | None = None,
) -> ForwardedResponse:
    """Repeat a request at another worker's address; ApiError if it is not `still` the right one.

    `tls` says whom to trust where that address is https. A redirect is an answer like any other.
    """
    deadline = time.monotonic() + timeout_seconds
    query = forwarded_query(request.query)
    place = urlsplit(url)
    if place.scheme not in _SCHEMES or place.hostname is None:
        raise _failed(f"the worker's address {url} is none that this version can reach")
    headers = {name: value for name, value in request.headers.items() if name.lower() in _SENT}
    if request.body:
        headers["Content-Type"] = "application/json"
    connection = _connection(place, timeout_seconds, tls or TlsSettings())
    try:
        connection.request(
            request.method,
            f"{place.path.rstrip('/')}{request.path}?{query}",
            request.body or None,
            headers | {"Accept": "application/json"},
        )
        _await_response(connection, deadline, still)
        found = connection.getresponse()
        body = found.read(_MOST_BYTES + 1)
    except ConnectionRefusedError as error:
        raise NotDeliveredError(_failed(f"{url}: {error}").message) from error
    except (OSError, http.client.HTTPException) as error:
        raise _failed(f"{url}: {error or type(error).__name__}") from error
    finally:
        connection.close()
    if len(body) > _MOST_BYTES:
        raise _failed(f"{url} answered with more than {_MOST_BYTES} bytes")
    known = {name: found.headers[name] for name in _RETURNED if found.headers[name]}
    return ForwardedResponse(found.status, known, body)


def _connection(
    place: SplitResult, timeout_seconds: float, tls: TlsSettings
) -> http.client.HTTPConnection:
    host = (place.hostname or "").rstrip(".")  # as in certificates
    if place.scheme == "http":
        return http.client.HTTPConnection(host, place.port, timeout=timeout_seconds)
    try:
        context = client_context(tls)
    except ValueError as error:
        raise _failed(f"{place.geturl()}: {error}") from error
    return http.client.HTTPSConnection(host, place.port, timeout=timeout_seconds, context=context)


def _await_response(
    connection: http.client.HTTPConnection, deadline: float, still: Callable[[], bool]
) -> None:
    while not _has_bytes(connection.sock):
        if not still():
            raise _conflict()
        if time.monotonic() > deadline:
            raise TimeoutError("timed out")


def _has_bytes(connection: socket.socket) -> bool:
    """Bytes that TLS has read already do not wake select."""
    if isinstance(connection, ssl.SSLSocket) and connection.pending():
        return True
    return bool(select.select([connection], [], [], _LOOK_SECONDS)[0])


def _conflict() -> ApiError:
    return ApiError(
        HTTPStatus.CONFLICT,
        "Cannot complete request because of a conflicting operation (e.g. worker rebalance)",
    )


def _failed(reason: str) -> ApiError:
    return ApiError(
        HTTPStatus.INTERNAL_SERVER_ERROR, f"IO Error trying to forward REST request: {reason}"
    )
