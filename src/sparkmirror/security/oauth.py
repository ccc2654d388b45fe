# SPDX-License-Identifier: Apache-2.0
"""Tokens of an OAuth 2 endpoint, refreshed in time. Thread-safe.

There is at most one request at a time, in a thread of its own. While a token is valid, callers wait
for its successor only for a moment; if the request fails, the old token is used until it expires,
and the endpoint is asked again later. Without a valid token all callers get the error until the
next attempt, so that a refusing endpoint is not asked for every connection.
"""

from __future__ import annotations

import logging
import ssl
import threading
import time
from dataclasses import replace
from urllib.parse import SplitResult, urlencode, urlsplit

from sparkmirror.errors import AuthenticationError
from sparkmirror.model import HIDDEN
from sparkmirror.security import tls
from sparkmirror.security.http_request import (
    HttpFailure,
    HttpRequest,
    HttpRequestError,
    send_request,
)
from sparkmirror.security.settings import OAuthSettings
from sparkmirror.security.tokens import (
    Token,
    basic_credentials,
    parse_token_response,
    redact_oauth_message,
    refresh_at,
)

MAX_BYTES = 1 << 20
RETRY_SECONDS = 10.0  # as Kafka's clients
REFRESH_WAIT_SECONDS = 1.0  # how long a valid token may be held back for a newer one
_SLACK_SECONDS = 30.0  # for what has no time limit of its own, such as to resolve a name

logger = logging.getLogger(__name__)

__all__ = ["RefreshingTokenSource", "Token"]


class RefreshingTokenSource:
    """A token that is always good; `token()` blocks if there is none yet. The lock guards all."""

    def __init__(self, settings: OAuthSettings) -> None:
        self._settings = settings
        self._endpoint = _Endpoint(settings)
        self._lock = threading.Condition()
        self._token: Token | None = None
        self._ask_at = 0.0
        self._began_at = 0.0  # monotonic: the last request
        self._retry_at = 0.0  # monotonic: after a failure
        self._is_asking = False
        self._failure: AuthenticationError | None = None
        self._has_warned = False

    def token(self) -> Token:
        """A token that has not expired; AuthenticationError if there is none to be had."""
        with self._lock:
            if self._is_valid() and time.time() < self._ask_at:
                return self._current()
            if not self._is_asking:
                if not self._is_valid() and time.monotonic() < self._retry_at:
                    raise self._current_error()
                self._start_refresh()
            if self._is_valid():  # nor should one that asks second get what is nearly over
                self._wait(self._began_at + REFRESH_WAIT_SECONDS - time.monotonic())
            else:
                self._wait(self._longest_seconds())
            if self._is_valid():
                return self._current()
            raise self._current_error()

    def _start_refresh(self) -> None:
        thread = threading.Thread(target=self._refresh, name="oauth-token", daemon=True)
        self._is_asking = True
        self._began_at = time.monotonic()
        self._failure = None
        try:
            thread.start()
        except RuntimeError:  # no more threads just now
            self._is_asking = False
            self._failure = AuthenticationError(
                f"The token endpoint {self._endpoint.shown} could not be asked: this process "
                "cannot start a thread.",
                retriable=True,
            )
            self._lock.notify_all()

    def _wait(self, seconds: float) -> None:
        self._lock.wait_for(lambda: not self._is_asking, seconds)

    def _longest_seconds(self) -> float:
        settings = self._settings
        return settings.connect_timeout_seconds + settings.read_timeout_seconds + _SLACK_SECONDS

    def _current_error(self) -> AuthenticationError:
        failure = self._failure
        if failure is None:
            words = "has not answered in time" if self._is_asking else "gave a token that is over"
            failure = AuthenticationError(
                f"The token endpoint {self._endpoint.shown} {words}.", retriable=True
            )
        told = AuthenticationError(str(failure), retriable=failure.retriable)
        told.__cause__ = failure
        return told

    def redact(self, words: str) -> str:
        """What somebody else said, without the token that we have; asks nobody."""
        with self._lock:
            token = self._token
        return words if token is None else words.replace(token.text.reveal(), HIDDEN)

    def _is_valid(self) -> bool:
        return self._token is not None and time.time() < self._token.expires_at

    def _current(self) -> Token:
        if self._token is None:
            raise AssertionError("asked only when there is one")
        return self._token

    def _refresh(self) -> None:
        token, failure = None, None
        issued_at = time.time()
        try:
            token = self._endpoint.request_token()
        except AuthenticationError as error:
            failure = error
        except Exception as error:  # the root of a thread: whoever waits is told
            logger.exception("the token endpoint could not be asked")
            failure = AuthenticationError(
                f"The token endpoint {self._endpoint.shown} could not be asked "
                f"({type(error).__name__}).",
                retriable=True,
            )
        with self._lock:
            self._is_asking = False
            self._failure = failure
            if failure is not None:
                self._retry_at = time.monotonic() + RETRY_SECONDS
            if token is not None:
                self._token = token
                self._has_warned = False
                self._ask_at = refresh_at(token, issued_at, self._settings)
            elif self._is_valid():
                self._ask_at = time.time() + RETRY_SECONDS
                if not self._has_warned:
                    logger.warning(f"{failure} The token before is used until it expires.")
                self._has_warned = True
            self._lock.notify_all()


class _Endpoint:
    """Asks for one token; no redirect, no proxy."""

    def __init__(self, settings: OAuthSettings) -> None:
        self._settings = settings
        parts = _split(settings.endpoint)
        host = (parts.hostname or "").rstrip(".")  # as in certificates
        shown_host = f"[{host}]" if ":" in host else host
        port = f":{parts.port}" if parts.port else ""
        self.shown = f"{parts.scheme}://{shown_host}{port}{parts.path}"
        self._url = f"{self.shown}?{parts.query}" if parts.query else self.shown
        self._context: ssl.SSLContext | None = None
        if parts.scheme == "https":
            try:
                self._context = tls.client_context(settings.tls)
            except ValueError as error:
                raise AuthenticationError(
                    f"TLS to the token endpoint {self.shown} cannot be set up: {error}."
                ) from error

    def request_token(self) -> Token:
        settings = self._settings
        asking = _with_assertion(settings)
        request = HttpRequest(
            "POST",
            self._url,
            seconds=settings.connect_timeout_seconds + settings.read_timeout_seconds,
            connect_seconds=settings.connect_timeout_seconds,
            read_seconds=settings.read_timeout_seconds,
            most_bytes=MAX_BYTES,
            headers=_headers(asking),
            body=_body(asking).encode(),
        )
        try:
            answer = send_request(request, self._context)
        except HttpRequestError as error:
            raise self._no_answer(error) from error
        return parse_token_response(answer.status, answer.body, self.shown, asking, time.time())

    def _no_answer(self, error: HttpRequestError) -> AuthenticationError:
        match error.failure:
            case HttpFailure.TOO_LARGE:
                return AuthenticationError(
                    f"The token endpoint {self.shown} sends {error.detail}. Is it the address of a "
                    "token endpoint (OAuth 2)?",
                    retriable=True,  # as what is no token
                )
            case HttpFailure.TIMEOUT:
                words = "no whole answer in time"
            case HttpFailure.UNTRUSTED:
                words = f"its certificate is not trusted ({error.detail})"
            case HttpFailure.TLS:
                words = f"TLS failed ({error.detail})"
            case HttpFailure.REFUSED:
                words = "nobody listens there"
            case HttpFailure.NOT_HTTP:
                words = "no HTTP"
            case _:
                words = error.detail
        return AuthenticationError(
            f"The token endpoint {self.shown} cannot be asked: "
            f"{redact_oauth_message(words, self._settings)}.",
            retriable=True,
        )


def _with_assertion(settings: OAuthSettings) -> OAuthSettings:
    """The settings of one request: with an assertion of its own, where one is to be signed."""
    wanted = settings.assertion
    if wanted is None:
        return settings
    from sparkmirror.security.jwt_assertions import sign_assertion  # noqa: PLC0415 - long to import, and rare

    made = {wanted.form_field: sign_assertion(wanted, int(time.time()))}
    return replace(settings, secret_form_fields={**settings.secret_form_fields, **made})


def _body(asking: OAuthSettings) -> str:
    fields = {
        **asking.form_fields,
        **{name: one.reveal() for name, one in asking.secret_form_fields.items()},
        "scope": asking.scope,
        "audience": asking.audience,
    }
    return urlencode({name: text for name, text in fields.items() if text})


def _headers(asking: OAuthSettings) -> dict[str, str]:
    credentials = basic_credentials(asking)
    return {
        "Accept": "application/json",
        **({"Authorization": f"Basic {credentials}"} if credentials else {}),
        "Content-Type": "application/x-www-form-urlencoded",
    }


def _split(endpoint: str) -> SplitResult:
    """The address in parts; what may be a secret in it is not repeated."""
    try:
        parts = urlsplit(endpoint)
        is_address = bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or parts.scheme not in {"http", "https"}:
        raise AuthenticationError("The token endpoint is no address: say https://host/path.")
    if parts.username is not None or parts.password is not None:
        raise AuthenticationError(
            "The address of the token endpoint holds a name or a password: say them as client id "
            "and client secret."
        )
    if not endpoint.isascii() or not endpoint.isprintable() or " " in endpoint:
        raise AuthenticationError("The address of the token endpoint has odd characters.")
    return parts
