# SPDX-License-Identifier: Apache-2.0
"""A request that belongs to another worker is repeated there, and its answer handed on.

The first worker says `forward=true`: the second may forward once more, with `forward=false`. Who
receives that and is not the right one either answers 409, for the workers are about to agree anew.
So does whoever waits for a worker that is not the right one any more: it may be suspended, and
nobody else can tell how long.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from sparkmirror.connect.api import ApiError
from sparkmirror.security.http_request import (
    HttpFailure,
    HttpRequest,
    HttpRequestError,
    send_request,
)
from sparkmirror.security.settings import TlsSettings
from sparkmirror.security.tls import client_context

# Headers that go with a request and come with an answer. The two of a signature: the leader checks
# what another worker has sent.
_SENT = ("authorization", "x-connect-authorization", "x-connect-request-signature-algorithm")
_RETURNED = ("content-type", "location")
_SCHEMES = ("http", "https")
_MOST_BYTES = 64 << 20


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
    query = forwarded_query(request.query)
    place = urlsplit(url)
    if place.scheme not in _SCHEMES or place.hostname is None:
        raise _failed(f"the worker's address {url} is none that this version can reach")
    headers = {name: value for name, value in request.headers.items() if name.lower() in _SENT}
    if request.body:
        headers["Content-Type"] = "application/json"
    sent = HttpRequest(
        request.method,
        f"{place.scheme}://{_netloc(place)}{place.path.rstrip('/')}{request.path}?{query}",
        seconds=timeout_seconds,
        most_bytes=_MOST_BYTES,
        headers=headers | {"Accept": "application/json"},
        body=request.body or None,
    )
    try:
        found = send_request(sent, _context(place, tls or TlsSettings()), still)
    except HttpRequestError as error:
        raise _no_answer(error, url) from error
    known = {name: found.headers[name] for name in _RETURNED if found.headers.get(name)}
    return ForwardedResponse(found.status, known, found.body)


def _netloc(place: SplitResult) -> str:
    host = (place.hostname or "").rstrip(".")  # as in certificates
    host = f"[{host}]" if ":" in host else host
    return f"{host}:{place.port}" if place.port else host


def _context(place: SplitResult, tls: TlsSettings) -> ssl.SSLContext | None:
    if place.scheme == "http":
        return None
    try:
        return client_context(tls)
    except ValueError as error:
        raise _failed(f"{place.geturl()}: {error}") from error


def _no_answer(error: HttpRequestError, url: str) -> ApiError:
    match error.failure:
        case HttpFailure.NOT_WANTED:
            return _conflict()
        case HttpFailure.REFUSED:
            return NotDeliveredError(_failed(f"{url}: {error.detail}").message)
        case HttpFailure.TOO_LARGE:
            return _failed(f"{url} answered with {error.detail}")
        case _:
            return _failed(f"{url}: {error.detail}")


def _conflict() -> ApiError:
    return ApiError(
        HTTPStatus.CONFLICT,
        "Cannot complete request because of a conflicting operation (e.g. worker rebalance)",
    )


def _failed(reason: str) -> ApiError:
    return ApiError(
        HTTPStatus.INTERNAL_SERVER_ERROR, f"IO Error trying to forward REST request: {reason}"
    )
