# SPDX-License-Identifier: Apache-2.0
"""Sends one HTTP request and reads the whole response, limited in time and size.

Redirects are not followed. httpx has no timeout for a whole exchange: a server that sends byte by
byte resets each of its timeouts. So each request runs in its own event loop, with one deadline.
httpx is imported with the first request, because most executors send none.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any
from urllib.parse import SplitResult, urlsplit

from sparkmirror import __version__
from sparkmirror.security.redaction import limit_library_logs

_CHECK_SECONDS = 0.5  # how often `is_wanted` is called
_MAX_DETAIL_CHARS = 200
_LOGGERS = ("httpx", "httpcore")  # at DEBUG they log headers, which contain passwords


class HttpFailure(Enum):
    """Why there is no complete response."""

    REFUSED = auto()  # connection refused: the request was certainly not delivered
    TIMEOUT = auto()
    UNTRUSTED = auto()  # the server's certificate
    TLS = auto()
    CUT_OFF = auto()  # the connection closed before the response was complete
    NOT_HTTP = auto()
    TOO_LARGE = auto()
    NOT_WANTED = auto()  # `is_wanted` returned False
    UNREACHABLE = auto()


class HttpRequestError(Exception):
    """There is no complete response. `detail` is a clause to which callers add the server."""

    def __init__(self, failure: HttpFailure, detail: str, status: int | None = None) -> None:
        super().__init__(detail)
        self.failure = failure
        self.detail = detail
        self.status = status  # set if only the body is incomplete


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request and its limits. The path and query of `url` are sent unchanged."""

    method: str
    url: str
    seconds: float
    most_bytes: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    connect_seconds: float | None = None  # None: no limit except `seconds`
    read_seconds: float | None = None  # between two chunks of the response
    uses_proxy: bool = False  # the environment's proxy for this host, if any


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A response; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


def send_request(
    request: HttpRequest,
    context: ssl.SSLContext | None = None,
    is_wanted: Callable[[], bool] = lambda: True,
) -> HttpAnswer:
    """Send a request and return its response; blocks. Raises HttpRequestError.

    https needs a `context`. The wait ends when `is_wanted` returns False.
    """
    return asyncio.run(_send(request, context, is_wanted))


async def _send(
    request: HttpRequest, context: ssl.SSLContext | None, is_wanted: Callable[[], bool]
) -> HttpAnswer:
    exchange = asyncio.create_task(_exchange(request, context))
    try:
        async with asyncio.timeout(request.seconds):
            while not (await asyncio.wait({exchange}, timeout=_CHECK_SECONDS))[0]:
                if not is_wanted():
                    raise HttpRequestError(HttpFailure.NOT_WANTED, "the request was cancelled")
    except TimeoutError as error:
        raise _timeout() from error
    finally:
        exchange.cancel()
        await asyncio.gather(exchange, return_exceptions=True)
    return exchange.result()


async def _exchange(request: HttpRequest, context: ssl.SSLContext | None) -> HttpAnswer:
    httpx = _import_httpx()
    place = urlsplit(request.url)
    proxy = _proxy(place) if request.uses_proxy else None
    status: int | None = None
    try:
        async with (
            httpx.AsyncClient(
                verify=context or False,  # http has no certificate
                proxy=proxy,
                trust_env=False,
                timeout=httpx.Timeout(
                    None, connect=request.connect_seconds, read=request.read_seconds
                ),
            ) as client,
            client.stream(
                request.method,
                request.url if proxy else f"{place.scheme}://{place.netloc}/",
                headers=_headers(request),
                content=request.body,
                extensions={} if proxy else {"target": _target(place)},
            ) as response,
        ):
            status = response.status_code
            body = bytearray()
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > request.most_bytes:
                    detail = f"more than {request.most_bytes:,} bytes"
                    raise HttpRequestError(HttpFailure.TOO_LARGE, detail, status)
            return HttpAnswer(response.status_code, dict(response.headers), bytes(body))
    except httpx.TimeoutException as error:
        raise _timeout() from error
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        raise _failure(error, status) from error


def _headers(request: HttpRequest) -> dict[str, bytes]:
    own = {"User-Agent": f"sparkmirror/{__version__}", "Accept-Encoding": "identity"}
    return {name: text.encode("latin-1") for name, text in {**own, **request.headers}.items()}


def _target(place: SplitResult) -> bytes:
    query = f"?{place.query}" if place.query else ""
    return f"{place.path or '/'}{query}".encode()


def _proxy(place: SplitResult) -> str | None:
    """Return the environment's proxy for this host, by urllib's rules."""
    proxy = urllib.request.getproxies().get(place.scheme)
    if not proxy or urllib.request.proxy_bypass(place.hostname or ""):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _timeout() -> HttpRequestError:
    return HttpRequestError(HttpFailure.TIMEOUT, "timed out")


def _failure(error: Exception, status: int | None) -> HttpRequestError:
    httpx = _import_httpx()
    causes = list(_causes(error))
    tls = next((one for one in causes if isinstance(one, ssl.SSLError)), None)
    os_errors = [one for one in causes if isinstance(one, OSError) and one.errno]
    if isinstance(tls, ssl.SSLCertVerificationError):
        failure, detail = HttpFailure.UNTRUSTED, tls.verify_message
    elif tls is not None:
        failure, detail = HttpFailure.TLS, (tls.reason or "no TLS").lower().replace("_", " ")
    elif os_errors and all(isinstance(one, ConnectionRefusedError) for one in os_errors):
        failure, detail = HttpFailure.REFUSED, _os_message(os_errors[0])
    elif os_errors:
        failure, detail = HttpFailure.UNREACHABLE, _os_message(os_errors[0])
    elif isinstance(error, httpx.RemoteProtocolError) and not _is_cut_off(error, status):
        failure, detail = HttpFailure.NOT_HTTP, str(error)[:_MAX_DETAIL_CHARS]
    elif isinstance(error, httpx.RemoteProtocolError | httpx.NetworkError):
        failure, detail = HttpFailure.CUT_OFF, "the connection closed before the response"
    else:
        failure, detail = HttpFailure.UNREACHABLE, str(error) or type(error).__name__
    return HttpRequestError(failure, detail, status)


def _is_cut_off(error: Exception, status: int | None) -> bool:
    """Return whether the connection closed early; with a status, only the body is incomplete."""
    return status is not None or str(error).startswith("Server disconnected")


def _os_message(error: OSError) -> str:
    """Return the system's message, without the address that asyncio adds."""
    if isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    return os.strerror(error.errno or 0)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes; a group has one cause per address of the host."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for one in error.exceptions:
                yield from _causes(one)
        error = error.__cause__ or error.__context__


def _import_httpx() -> Any:
    import httpx  # noqa: PLC0415 - most executors send no request

    for name in _LOGGERS:
        limit_library_logs(name, logging.WARNING)
    return httpx
