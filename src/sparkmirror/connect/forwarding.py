# SPDX-License-Identifier: Apache-2.0
"""Forwards a request to another worker and returns its response.

The first worker sends `forward=true`: the second may forward once more, with `forward=false`. A
worker that would have to forward that one responds with 409, because the group is rebalancing.

While a worker waits for the response, the target may lose its role; it may be suspended. The
waiting worker then also responds with 409.
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

# The leader verifies the signature of a request that another worker has forwarded.
_SENT = ("authorization", "x-connect-authorization", "x-connect-request-signature-algorithm")
_RETURNED = ("content-type", "location")
_SCHEMES = ("http", "https")
_MOST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class ForwardedRequest:
    """A request as it was received."""

    method: str
    path: str  # still escaped
    query: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ForwardedResponse:
    """The response of the other worker."""

    status: int
    headers: dict[str, str]
    body: bytes = field(repr=False)


class NotDeliveredError(ApiError):
    """The connection was refused, so nothing was done: another worker can be tried."""

    def __init__(self, message: str) -> None:
        super().__init__(HTTPStatus.INTERNAL_SERVER_ERROR, message)


def forwarded_query(query: str) -> str:
    """Return the query for the next worker; ApiError 409 if it was forwarded twice already."""
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
    """Send a request to another worker. Redirects are returned, not followed.

    ApiError if there is no response, or `still` returns False while it is awaited: it says whether
    that worker still is the leader or owner. `tls` is for https.
    """
    query = forwarded_query(request.query)
    address = urlsplit(url)
    if address.scheme not in _SCHEMES or address.hostname is None:
        raise _failed(f"the worker's URL {url} is not http or https")
    headers = {name: value for name, value in request.headers.items() if name.lower() in _SENT}
    if request.body:
        headers["Content-Type"] = "application/json"
    sent = HttpRequest(
        request.method,
        f"{address.scheme}://{_netloc(address)}{address.path.rstrip('/')}{request.path}?{query}",
        seconds=timeout_seconds,
        most_bytes=_MOST_BYTES,
        headers=headers | {"Accept": "application/json"},
        body=request.body or None,
    )
    try:
        found = send_request(sent, _context(address, tls or TlsSettings()), still)
    except HttpRequestError as error:
        raise _request_error(error, url) from error
    known = {name: found.headers[name] for name in _RETURNED if found.headers.get(name)}
    return ForwardedResponse(found.status, known, found.body)


def _netloc(address: SplitResult) -> str:
    host = (address.hostname or "").rstrip(".")  # as in certificates
    host = f"[{host}]" if ":" in host else host
    return f"{host}:{address.port}" if address.port else host


def _context(address: SplitResult, tls: TlsSettings) -> ssl.SSLContext | None:
    if address.scheme == "http":
        return None
    try:
        return client_context(tls)
    except ValueError as error:
        raise _failed(f"{address.geturl()}: {error}") from error


def _request_error(error: HttpRequestError, url: str) -> ApiError:
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
