# SPDX-License-Identifier: Apache-2.0
"""Requests to one Connect worker: bounded in time and size, never sent to another host.

A redirect is followed for GET only, and only within the same scheme, host and port, because the
name and password go with it. A worker on this machine is asked directly, others through the proxy
of the environment, as curl does.
"""

from __future__ import annotations

import base64
import json
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

from sparkmirror.config.worker_settings import is_loopback
from sparkmirror.errors import ConfigError, WorkerError, WorkerUnreachableError
from sparkmirror.model import Secret
from sparkmirror.security.http_request import (
    HttpFailure,
    HttpRequest,
    HttpRequestError,
    send_request,
)

MAX_BYTES = 64 * 1024 * 1024  # of an answer; the largest honest ones are traces of many tasks
RESPONSE_TIMEOUT_SECONDS = 30.0

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MOST_REDIRECTS = 3


@dataclass(frozen=True, slots=True)
class WorkerEndpoint:
    """Where a worker listens, and who asks it."""

    url: str  # without a slash at the end
    user: str | None = None
    password: Secret | None = None
    seconds: float = RESPONSE_TIMEOUT_SECONDS
    most_bytes: int = MAX_BYTES


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A status code and what came with it."""

    status: int
    body: bytes

    def json(self) -> Any:
        """The body's value; ValueError if it is no JSON."""
        try:
            return json.loads(self.body)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error


def parse_worker_url(text: str) -> str:
    """An address in the form that paths are added to; ConfigError says what is wrong with it."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"--url {text} is no address: {error}.") from error
    if parts.username is not None or parts.password is not None:
        raise ConfigError(
            "--url holds a name or a password, which others can see on a command line. "
            "Say --user NAME, and put the password into SPARKMIRROR_PASSWORD."
        )
    if parts.scheme not in {"http", "https"} or not host or port == 0 or not text.isprintable():
        raise ConfigError(f"--url {text} is no address of a worker: say http://host:8083.")
    if parts.query or parts.fragment or " " in text:
        raise ConfigError(f"--url {text} has more than an address and a path: leave it out.")
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))


class HttpClient:
    """Sends requests to one worker; opens a connection for each."""

    def __init__(self, access: WorkerEndpoint) -> None:
        self.access = access
        place = urlsplit(access.url)
        self._origin = _origin(place)
        self._is_elsewhere = not is_loopback(place.hostname or "")
        self._context = ssl.create_default_context() if place.scheme == "https" else None

    def request(self, method: str, path: str, body: object = None) -> HttpResponse:
        """The answer, whatever its status; WorkerUnreachableError if there is none."""
        url = self.access.url + path
        for _ in range(_MOST_REDIRECTS + 1):
            answer, location = self._send(method, url, body)
            if location is None:
                return answer
            url = self._redirect_target(method, url, location)
        raise WorkerError(
            f"{self.access.url} redirects in circles. Is --url the address of a Connect worker?",
            url=self.access.url,
            status=answer.status,
        )

    def _redirect_target(self, method: str, url: str, location: str) -> str:
        target = location
        try:
            target = urljoin(url, location)
            is_same = _origin(urlsplit(target)) == self._origin
        except ValueError:
            is_same = False
        if method == "GET" and is_same:
            return target
        raise WorkerError(
            f"{self.access.url} redirects to {target}, which is not followed. "
            "If the worker is there, say so with --url.",
            url=self.access.url,
        )

    def _send(self, method: str, url: str, body: object) -> tuple[HttpResponse, str | None]:
        request = HttpRequest(
            method,
            url,
            seconds=self.access.seconds,
            most_bytes=self.access.most_bytes,
            headers=self._headers(),
            body=None if body is None else json.dumps(body).encode(),
            uses_proxy=self._is_elsewhere,
        )
        try:
            answer = send_request(request, self._context)
        except HttpRequestError as error:
            raise self._no_answer(error) from error
        location = answer.headers.get("location") if answer.status in _REDIRECTS else None
        return HttpResponse(answer.status, answer.body), location

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self.access.user is not None and self.access.password is not None:
            pair = f"{self.access.user}:{self.access.password.reveal()}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        return headers

    def _no_answer(self, error: HttpRequestError) -> WorkerError:
        match error.failure:
            case HttpFailure.TOO_LARGE:
                return WorkerError(
                    f"{self.access.url} sends {error.detail}, and the rest was not read. "
                    "Is --url the address of a Connect worker?",
                    url=self.access.url,
                    status=error.status,
                )
            case HttpFailure.TIMEOUT:
                words = f"no whole answer within {self.access.seconds:g} s"
            case HttpFailure.UNTRUSTED:
                words = (
                    f"its certificate is not trusted ({error.detail}); name a file with the right "
                    "authority in SSL_CERT_FILE"
                )
            case HttpFailure.REFUSED:
                words = "nobody listens there"
            case HttpFailure.TLS:
                words = f"TLS failed ({error.detail})"
            case HttpFailure.NOT_HTTP:
                words = f"no HTTP: {error.detail}"
            case _:
                words = error.detail
        return WorkerUnreachableError(
            f"The Connect worker at {self.access.url} cannot be reached: {words}. "
            "Check --url (or SPARKMIRROR_URL), and that the worker runs.",
            url=self.access.url,
        )


def _origin(parts: SplitResult) -> tuple[str, str | None, int]:
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return parts.scheme, parts.hostname, port
