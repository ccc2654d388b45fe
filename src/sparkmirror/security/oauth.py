# SPDX-License-Identifier: Apache-2.0
"""Requests tokens from an OAuth 2 token endpoint and refreshes them. Thread-safe.

At most one request runs at a time, in a separate thread. While a token is valid, callers wait only
briefly for the next one. If the request fails, the old token is used until it expires, and the
request is retried later. Without a valid token, all callers get the error until the next attempt:
an endpoint that refuses does not get a request per connection.
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
REFRESH_WAIT_SECONDS = 1.0  # how long callers with a valid token wait for a newer one
_SLACK_SECONDS = 30.0  # for steps without a timeout, such as DNS lookups

logger = logging.getLogger(__name__)


class RefreshingTokenSource:
    """Holds a valid token; `token()` blocks until the first one. `_lock` guards all fields."""

    def __init__(self, settings: OAuthSettings) -> None:
        self._settings = settings
        self._endpoint = _Endpoint(settings)
        self._lock = threading.Condition()
        self._token: Token | None = None
        self._refresh_at = 0.0
        self._started_at = 0.0  # monotonic: the last request
        self._retry_at = 0.0  # monotonic: after a failure
        self._is_refreshing = False
        self._failure: AuthenticationError | None = None
        self._has_warned = False

    def token(self) -> Token:
        """Return a token that has not expired. Raises AuthenticationError if there is none."""
        with self._lock:
            if self._is_valid() and time.time() < self._refresh_at:
                return self._current()
            if not self._is_refreshing:
                if not self._is_valid() and time.monotonic() < self._retry_at:
                    raise self._current_error()
                self._start_refresh()
            if self._is_valid():  # all callers wait, so that none gets a nearly expired token
                self._wait(self._started_at + REFRESH_WAIT_SECONDS - time.monotonic())
            else:
                self._wait(self._max_wait_seconds())
            if self._is_valid():
                return self._current()
            raise self._current_error()

    def _start_refresh(self) -> None:
        thread = threading.Thread(target=self._refresh, name="oauth-token", daemon=True)
        self._is_refreshing = True
        self._started_at = time.monotonic()
        self._failure = None
        try:
            thread.start()
        except RuntimeError:  # too many threads at the moment
            self._is_refreshing = False
            self._failure = AuthenticationError(
                f"Cannot query the token endpoint {self._endpoint.shown}: this process cannot "
                "start a thread.",
                retriable=True,
            )
            self._lock.notify_all()

    def _wait(self, seconds: float) -> None:
        self._lock.wait_for(lambda: not self._is_refreshing, seconds)

    def _max_wait_seconds(self) -> float:
        settings = self._settings
        return settings.connect_timeout_seconds + settings.read_timeout_seconds + _SLACK_SECONDS

    def _current_error(self) -> AuthenticationError:
        failure = self._failure
        if failure is None:
            reason = "timed out" if self._is_refreshing else "returned an expired token"
            failure = AuthenticationError(
                f"The token endpoint {self._endpoint.shown} {reason}.", retriable=True
            )
        copied = AuthenticationError(str(failure), retriable=failure.retriable)
        copied.__cause__ = failure
        return copied

    def redact(self, message: str) -> str:
        """Remove the current token from a message; requests none."""
        with self._lock:
            token = self._token
        return message if token is None else message.replace(token.text.reveal(), HIDDEN)

    def _is_valid(self) -> bool:
        return self._token is not None and time.time() < self._token.expires_at

    def _current(self) -> Token:
        if self._token is None:
            raise AssertionError("called only with a valid token")
        return self._token

    def _refresh(self) -> None:
        token, failure = None, None
        issued_at = time.time()
        try:
            token = self._endpoint.request_token()
        except AuthenticationError as error:
            failure = error
        except Exception as error:  # the root of a thread: waiting callers get the error
            logger.exception(
                f"Token request to {self._endpoint.shown} failed unexpectedly; retrying"
            )
            failure = AuthenticationError(
                f"Cannot query the token endpoint {self._endpoint.shown} ({type(error).__name__}).",
                retriable=True,
            )
        with self._lock:
            self._is_refreshing = False
            self._failure = failure
            if failure is not None:
                self._retry_at = time.monotonic() + RETRY_SECONDS
            if token is not None:
                self._token = token
                self._has_warned = False
                self._refresh_at = refresh_at(token, issued_at, self._settings)
            elif self._is_valid():
                self._refresh_at = time.time() + RETRY_SECONDS
                if not self._has_warned:
                    logger.warning(f"{failure} The previous token is used until it expires.")
                self._has_warned = True
            self._lock.notify_all()


class _Endpoint:
    """The token endpoint; requests use no redirect and no proxy."""

    def __init__(self, settings: OAuthSettings) -> None:
        self._settings = settings
        parts = _split(settings.endpoint)
        host = (parts.hostname or "").rstrip(".")  # certificates have no final dot
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
                    f"Cannot set up TLS for the token endpoint {self.shown}: {error}."
                ) from error

    def request_token(self) -> Token:
        settings = _with_assertion(self._settings)
        request = HttpRequest(
            "POST",
            self._url,
            seconds=settings.connect_timeout_seconds + settings.read_timeout_seconds,
            connect_seconds=settings.connect_timeout_seconds,
            read_seconds=settings.read_timeout_seconds,
            most_bytes=MAX_BYTES,
            headers=_headers(settings),
            body=_body(settings).encode(),
        )
        try:
            response = send_request(request, self._context)
        except HttpRequestError as error:
            raise self._no_response(error) from error
        return parse_token_response(
            response.status, response.body, self.shown, settings, time.time()
        )

    def _no_response(self, error: HttpRequestError) -> AuthenticationError:
        match error.failure:
            case HttpFailure.TOO_LARGE:
                return AuthenticationError(
                    f"The token endpoint {self.shown} sent {error.detail}. Is it an OAuth 2 token "
                    "endpoint?",
                    retriable=True,  # as a response without a token
                )
            case HttpFailure.TIMEOUT:
                reason = "it did not respond in time"
            case HttpFailure.UNTRUSTED:
                reason = f"its certificate is not trusted ({error.detail})"
            case HttpFailure.TLS:
                reason = f"TLS failed ({error.detail})"
            case HttpFailure.REFUSED:
                reason = "connection refused"
            case HttpFailure.NOT_HTTP:
                reason = "it does not speak HTTP"
            case _:
                reason = error.detail
        return AuthenticationError(
            f"Cannot reach the token endpoint {self.shown}: "
            f"{redact_oauth_message(reason, self._settings)}.",
            retriable=True,
        )


def _with_assertion(settings: OAuthSettings) -> OAuthSettings:
    """Return the settings of one request, with a new assertion if one is configured."""
    assertion = settings.assertion
    if assertion is None:
        return settings
    from sparkmirror.security.jwt_assertions import sign_assertion  # noqa: PLC0415 - slow import, rarely needed

    signed = {assertion.form_field: sign_assertion(assertion, int(time.time()))}
    return replace(settings, secret_form_fields={**settings.secret_form_fields, **signed})


def _body(settings: OAuthSettings) -> str:
    fields = {
        **settings.form_fields,
        **{name: one.reveal() for name, one in settings.secret_form_fields.items()},
        "scope": settings.scope,
        "audience": settings.audience,
    }
    return urlencode({name: text for name, text in fields.items() if text})


def _headers(settings: OAuthSettings) -> dict[str, str]:
    credentials = basic_credentials(settings)
    return {
        "Accept": "application/json",
        **({"Authorization": f"Basic {credentials}"} if credentials else {}),
        "Content-Type": "application/x-www-form-urlencoded",
    }


def _split(endpoint: str) -> SplitResult:
    """Split the URL. Raises AuthenticationError, which does not quote it: it may hold a secret."""
    try:
        parts = urlsplit(endpoint)
        is_address = bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or parts.scheme not in {"http", "https"}:
        raise AuthenticationError(
            "The URL of the token endpoint is invalid: set https://host/path."
        )
    if parts.username is not None or parts.password is not None:
        raise AuthenticationError(
            "The URL of the token endpoint contains a user name or password: set them as client id "
            "and client secret instead."
        )
    if not endpoint.isascii() or not endpoint.isprintable() or " " in endpoint:
        raise AuthenticationError(
            "The URL of the token endpoint has spaces, control or non-ASCII characters."
        )
    return parts
