# SPDX-License-Identifier: Apache-2.0
"""Requests to one Connect worker: bounded in time and size, never sent to another host.

A redirect is followed for GET only, and only within the same scheme, host and port, because it
carries the credentials. Requests to this machine are sent directly, others through the proxy of the
environment, as curl does.
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

MAX_BYTES = 64 * 1024 * 1024  # of a response; the largest are traces of many tasks
RESPONSE_TIMEOUT_SECONDS = 30.0

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_REDIRECTS = 3


@dataclass(frozen=True, slots=True)
class WorkerEndpoint:
    """The address of a worker, the credentials for it, and limits of its responses."""

    url: str  # without a slash at the end
    user: str | None = None
    password: Secret | None = None
    seconds: float = RESPONSE_TIMEOUT_SECONDS
    most_bytes: int = MAX_BYTES


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """The status and body of a response."""

    status: int
    body: bytes

    def json(self) -> Any:
        """Parse the body; ValueError if it is not JSON."""
        try:
            return json.loads(self.body)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error


def parse_worker_url(text: str) -> str:
    """Return the URL without a trailing slash; ConfigError if it is invalid."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"Invalid --url {text}: {error}.") from error
    if parts.username is not None or parts.password is not None:
        raise ConfigError(
            "--url contains a user name or password, which others can see on a command line. "
            "Use --user NAME, and set the password in SPARKMIRROR_PASSWORD."
        )
    if parts.scheme not in {"http", "https"} or not host or port == 0 or not text.isprintable():
        raise ConfigError(f"Invalid --url {text}: write for example http://host:8083.")
    if parts.query or parts.fragment or " " in text:
        raise ConfigError(f"Invalid --url {text}: remove the query, the fragment and spaces.")
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))


class HttpClient:
    """Sends requests to one worker; opens a connection for each."""

    def __init__(self, endpoint: WorkerEndpoint) -> None:
        self._endpoint = endpoint
        parts = urlsplit(endpoint.url)
        self._origin = _origin(parts)
        self._uses_proxy = not is_loopback(parts.hostname or "")
        self._context = ssl.create_default_context() if parts.scheme == "https" else None

    def request(self, method: str, path: str, body: object = None) -> HttpResponse:
        """Return the response, with any status; WorkerUnreachableError if there is none."""
        url = self._endpoint.url + path
        for _ in range(_MAX_REDIRECTS + 1):
            response, location = self._send(method, url, body)
            if location is None:
                return response
            url = self._redirect_target(method, url, location)
        raise WorkerError(
            f"{self._endpoint.url} redirects more than {_MAX_REDIRECTS} times. Check that --url is "
            "the address of a Connect worker.",
            url=self._endpoint.url,
            status=response.status,
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
            f"{self._endpoint.url} redirects to {target}, which is not followed. "
            "If the worker is there, set --url to that address.",
            url=self._endpoint.url,
        )

    def _send(self, method: str, url: str, body: object) -> tuple[HttpResponse, str | None]:
        request = HttpRequest(
            method,
            url,
            seconds=self._endpoint.seconds,
            most_bytes=self._endpoint.most_bytes,
            headers=self._headers(),
            body=None if body is None else json.dumps(body).encode(),
            uses_proxy=self._uses_proxy,
        )
        try:
            response = send_request(request, self._context)
        except HttpRequestError as error:
            raise self._request_error(error) from error
        location = response.headers.get("location") if response.status in _REDIRECTS else None
        return HttpResponse(response.status, response.body), location

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        user, password = self._endpoint.user, self._endpoint.password
        if user is not None and password is not None:
            pair = f"{user}:{password.reveal()}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        return headers

    def _request_error(self, error: HttpRequestError) -> WorkerError:
        url = self._endpoint.url
        match error.failure:
            case HttpFailure.TOO_LARGE:
                return WorkerError(
                    f"The response of {url} is too large: {error.detail}. Check that --url is the "
                    "address of a Connect worker.",
                    url=url,
                    status=error.status,
                )
            case HttpFailure.TIMEOUT:
                reason = f"no complete response within {self._endpoint.seconds:g} s"
            case HttpFailure.UNTRUSTED:
                reason = (
                    f"its certificate is not trusted ({error.detail}); set SSL_CERT_FILE to a file "
                    "with its certificate authority"
                )
            case HttpFailure.REFUSED:
                reason = "connection refused"
            case HttpFailure.TLS:
                reason = f"TLS failed ({error.detail})"
            case HttpFailure.NOT_HTTP:
                reason = f"its response is not HTTP ({error.detail})"
            case _:
                reason = error.detail
        return WorkerUnreachableError(
            f"The Connect worker at {url} cannot be reached: {reason}. "
            "Check --url (or SPARKMIRROR_URL), and that the worker runs.",
            url=url,
        )


def _origin(parts: SplitResult) -> tuple[str, str | None, int]:
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return parts.scheme, parts.hostname, port
