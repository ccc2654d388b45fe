# SPDX-License-Identifier: Apache-2.0
"""One HTTP request and its whole answer, bounded in time and size. No redirect is followed.

httpx has no limit for a whole exchange: a server that sends byte by byte resets each of its
timeouts. So the request runs in an event loop of its own, under one deadline. httpx is imported
with the first request, because most executors send none.
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

_CHECK_SECONDS = 0.5  # how often `is_wanted` is asked
_MOST_WORDS = 200
_LOGGERS = ("httpx", "httpcore")  # at DEBUG they show headers, and with them passwords


class HttpFailure(Enum):
    """Why there is no whole answer."""

    REFUSED = auto()  # nobody listens: the request was certainly not delivered
    TIMEOUT = auto()
    UNTRUSTED = auto()  # the server's certificate
    TLS = auto()
    CUT_OFF = auto()  # the connection ended before the answer
    NOT_HTTP = auto()
    TOO_LARGE = auto()
    NOT_WANTED = auto()  # `is_wanted` said so
    UNREACHABLE = auto()


class HttpRequestError(Exception):
    """No whole answer. `detail` is the end of a sentence; callers add whom they asked."""

    def __init__(self, failure: HttpFailure, detail: str, status: int | None = None) -> None:
        super().__init__(detail)
        self.failure = failure
        self.detail = detail
        self.status = status  # known if only the body is missing


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What to send, and how long to wait for the answer.

    The path and query of `url` are sent as they are written.
    """

    method: str
    url: str
    seconds: float
    most_bytes: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    connect_seconds: float | None = None  # None: as long as the whole exchange
    read_seconds: float | None = None  # between two parts of the answer
    uses_proxy: bool = False  # that of the environment, if it has one for this host


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A status code and what came with it; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


def send_request(
    request: HttpRequest,
    context: ssl.SSLContext | None = None,
    is_wanted: Callable[[], bool] = lambda: True,
) -> HttpAnswer:
    """Send a request and wait for its answer; blocks. Raises HttpRequestError.

    `context` is needed for https. The wait ends when `is_wanted` says no.
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
                    raise HttpRequestError(HttpFailure.NOT_WANTED, "the answer is not wanted")
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
                    words = f"more than {request.most_bytes:,} bytes"
                    raise HttpRequestError(HttpFailure.TOO_LARGE, words, status)
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
    """The proxy of the environment for this host, as urllib finds it."""
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
    systems = [one for one in causes if isinstance(one, OSError) and one.errno]
    if isinstance(tls, ssl.SSLCertVerificationError):
        failure, words = HttpFailure.UNTRUSTED, tls.verify_message
    elif tls is not None:
        failure, words = HttpFailure.TLS, (tls.reason or "no TLS").lower().replace("_", " ")
    elif systems and all(isinstance(one, ConnectionRefusedError) for one in systems):
        failure, words = HttpFailure.REFUSED, _system_words(systems[0])
    elif systems:
        failure, words = HttpFailure.UNREACHABLE, _system_words(systems[0])
    elif isinstance(error, httpx.RemoteProtocolError) and not _is_cut_off(error, status):
        failure, words = HttpFailure.NOT_HTTP, str(error)[:_MOST_WORDS]
    elif isinstance(error, httpx.RemoteProtocolError | httpx.NetworkError):
        failure, words = HttpFailure.CUT_OFF, "the connection ended before the answer"
    else:
        failure, words = HttpFailure.UNREACHABLE, str(error) or type(error).__name__
    return HttpRequestError(failure, words, status)


def _is_cut_off(error: Exception, status: int | None) -> bool:
    """With a status the head of the answer was HTTP, and only the body is not whole."""
    return status is not None or str(error).startswith("Server disconnected")


def _system_words(error: OSError) -> str:
    """Without asyncio's addition, which names the address once more."""
    if isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    return os.strerror(error.errno or 0)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, what led to it, and so on; a host may have failed at several addresses."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for one in error.exceptions:
                yield from _causes(one)
        error = error.__cause__ or error.__context__


def _import_httpx() -> Any:
    import httpx  # noqa: PLC0415 - most executors send no request

    from sparkmirror.security.redaction import limit_library_logs  # noqa: PLC0415 - a circle

    for name in _LOGGERS:
        limit_library_logs(name, logging.WARNING)
    return httpx
