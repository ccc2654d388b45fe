# SPDX-License-Identifier: Apache-2.0
"""SASL authentication and re-authentication (KIP-368) of one connection.

SaslHandshake names the mechanism, then SaslAuthenticate carries its messages. The broker's last
response may limit the session lifetime; the first request after 85 to 95 % of that time waits for
re-authentication. A broker accepts no other request during a login, so the connection holds them
back. Responses to earlier requests arrive before those of the login.

A broker closes the connection on a request after the end of the session. It still accepts a
re-authentication, if one second has passed since the last one. In a shorter session, requests wait.

Owned by the loop's thread. A token request, a Kerberos ticket or a key derivation may take long, so
each step runs in a new thread.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from sparkmirror.errors import AuthenticationError
from sparkmirror.security.error_hints import Refusal
from sparkmirror.security.sasl import SaslClient, create_sasl_client, redact_broker_message
from sparkmirror.security.settings import SaslSettings, SecuritySettings
from sparkmirror.security.token_sources import token_source
from sparkmirror.wire import error_codes
from sparkmirror.wire.dialing import Address
from sparkmirror.wire.event_loop import EventLoop

T = TypeVar("T")
Send = Callable[[Any, Callable[[Any], None]], None]

# Retries do not help; all other codes are retriable.
_FINAL_CODES = frozenset(
    {
        error_codes.SASL_AUTHENTICATION_FAILED,
        error_codes.UNSUPPORTED_SASL_MECHANISM,
        error_codes.ILLEGAL_SASL_STATE,
    }
)
_HANDSHAKE_VERSION = 1  # the first with SaslAuthenticate
_AUTHENTICATE_VERSION = 2
MIN_REAUTHENTICATION_SECONDS = 1.0  # brokers refuse a re-authentication before that
_SESSION_PART, _SESSION_JITTER = 0.85, 0.1  # as in the Java client
_SESSION_REST_SECONDS = 1.0  # the previous request may keep the broker busy for this long


class SaslAuthenticator:
    """Authenticates one connection; `send` bypasses the requests that are held back."""

    def __init__(
        self,
        loop: EventLoop,
        security: SecuritySettings,
        address: Address,
        send: Send,
        *,
        done: Callable[[], None],
        refused: Callable[[Refusal], None],
        not_ready: Callable[[AuthenticationError], None],
        lost: Callable[[str], None],
    ) -> None:
        if security.sasl is None:
            raise AssertionError("SASL is not configured")
        self._loop = loop
        self._security = security
        self._sasl = security.sasl
        self._address = address
        self._send = send
        self._done = done
        self._refused = refused
        self._not_ready = not_ready
        self._lost = lost
        self._versions: Mapping[int, tuple[int, int]] = {}
        self._sasl_client: SaslClient | None = None
        self._first_token = b""
        self._due_at = math.inf
        self._handshake_at = self._token_sent_at = -math.inf
        self._is_cancelled = False
        self._has_authenticated = False
        self._has_handshake = False  # in the current login
        self.in_progress = False
        self.is_computing = False  # a step runs in a thread; the broker waits

    def is_reauthentication_due(self, now: float) -> bool:
        """Whether the session expires soon."""
        return now >= self._due_at

    def authenticate(self, versions: Mapping[int, tuple[int, int]]) -> None:
        """Start a login; calls one of the four callbacks, unless it is cancelled.

        `not_ready`: the credentials are not available. `lost`: the broker refused the
        re-authentication; a new connection may work.
        """
        self._versions = versions
        self._has_handshake = False
        self.in_progress = True
        self._due_at = math.inf
        early = self._handshake_at + MIN_REAUTHENTICATION_SECONDS - time.monotonic()
        if early > 0:
            self._loop.call_later(early, self._start)
        else:
            self._start()

    def _start(self) -> None:
        if not self._is_cancelled:
            self._run_in_thread(
                partial(_first_token, self._sasl, self._address.host), self._send_handshake
            )

    def cancel(self) -> None:
        """Call no callback any more, because the connection is closed."""
        self._is_cancelled = True

    # --- steps in threads

    def _run_in_thread(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        self.is_computing = True

        def run() -> None:
            try:
                outcome = partial(then, work())
            except AuthenticationError as error:
                outcome = partial(self._fail_step, error)
            except Exception as error:  # noqa: BLE001 - the root of a thread: reported upwards
                name = type(error).__name__  # not its message, which may contain a secret
                unexpected = AuthenticationError(f"The login failed ({name}).", retriable=True)
                outcome = partial(self._fail_step, unexpected)
            self._loop.call_soon_threadsafe(partial(self._on_thread_done, outcome))

        threading.Thread(target=run, name="sasl-login", daemon=True).start()

    def _fail_step(self, error: AuthenticationError) -> None:
        """Handle a failed client step: `not_ready` before the handshake, else `refused`."""
        explain = partial(_failed_step, error)
        if self._has_handshake:
            self._fail(Refusal(explain, error.retriable))
        else:
            self._reset()
            reason = f"{explain(self._security)}."
            self._not_ready(AuthenticationError(reason, retriable=error.retriable))

    def _on_thread_done(self, outcome: Callable[[], None]) -> None:
        self.is_computing = False
        if not self._is_cancelled:
            outcome()

    # --- the exchange

    def _send_handshake(self, started: tuple[SaslClient, bytes]) -> None:
        self._sasl_client, self._first_token = started
        message = SaslHandshakeRequest(mechanism=self._sasl.mechanism.value)
        self._request(message, _HANDSHAKE_VERSION, self._on_handshake)

    def _on_handshake(self, answer: Any) -> None:
        self._handshake_at = time.monotonic()
        self._has_handshake = True
        if answer.error_code:
            offered = ", ".join(str(name) for name in answer.mechanisms or ())
            self._refuse(answer.error_code, offered)
        else:
            first, self._first_token = self._first_token, b""
            self._send_token(first)

    def _send_token(self, token: bytes) -> None:
        self._token_sent_at = time.monotonic()
        message = SaslAuthenticateRequest(auth_bytes=token)
        self._request(message, _AUTHENTICATE_VERSION, self._on_token_response)

    def _on_token_response(self, answer: Any) -> None:
        if answer.error_code:
            self._refuse(answer.error_code, answer.error_message or "")
            return
        client = self._sasl_client
        if client is None:
            raise AssertionError("no login is in progress")
        lifetime_ms = getattr(answer, "session_lifetime_ms", None) or 0
        self._run_in_thread(
            partial(client.evaluate_challenge, bytes(answer.auth_bytes or b"")),
            partial(self._next_step, lifetime_ms),
        )

    def _next_step(self, lifetime_ms: int, token: bytes | None) -> None:
        if token is not None:
            self._send_token(token)
            return
        self._sasl_client = None
        self.in_progress = False
        self._has_authenticated = True
        if lifetime_ms > 0:
            jitter = random.random()  # noqa: S311 - spreads load
            seconds = reauthentication_seconds(lifetime_ms / 1000, jitter)
            self._due_at = self._token_sent_at + seconds
        self._done()

    def _request(self, message: Any, newest: int, then: Callable[[Any], None]) -> None:
        low, high = self._versions.get(message.API_KEY, (0, -1))
        if high < low or newest < low:
            self._refuse(error_codes.ILLEGAL_SASL_STATE, "")
            return
        message.API_VERSION = min(high, newest)
        self._send(message, then)

    def _refuse(self, code: int, message: str) -> None:
        if code == error_codes.ILLEGAL_SASL_STATE and self._has_authenticated:
            # The listener has SASL, so a new connection can authenticate.
            self._reset()
            self._lost(f"{self._address} refused the re-authentication")
            return
        explain = partial(_refused, self._address, code, message)
        self._fail(Refusal(explain, retriable=code not in _FINAL_CODES))

    def _fail(self, refusal: Refusal) -> None:
        self._reset()
        self._refused(refusal)

    def _reset(self) -> None:
        self._sasl_client = None
        self._first_token = b""


def reauthentication_seconds(session_seconds: float, jitter: float) -> float:
    """The seconds of a session after which requests wait for re-authentication.

    A broker checks the session when it reads a request, after its response to the previous one,
    which may be a long fetch. In a short session, 5 % of its time is too little for that.
    """
    part = session_seconds * (_SESSION_PART + _SESSION_JITTER * jitter)
    return min(part, max(session_seconds - _SESSION_REST_SECONDS, session_seconds / 2))


def _first_token(sasl: SaslSettings, host: str) -> tuple[SaslClient, bytes]:
    token = None if sasl.oauth is None else token_source(sasl.oauth).token()
    client = create_sasl_client(sasl, host, token)
    return client, client.initial_response()


def _failed_step(error: AuthenticationError, security: SecuritySettings) -> str:
    keys, sasl = security.keys, security.sasl
    has_endpoint = sasl is not None and sasl.oauth is not None
    key = keys.endpoint if error.retriable and has_endpoint else keys.login
    return f"{error} Check {key}"


def _refused(address: Address, code: int, message: str, security: SecuritySettings) -> str:
    """Explain a broker's refusal and name the key to check."""
    keys, said = security.keys, redact_broker_message(message, security)
    mechanism = "" if security.sasl is None else security.sasl.mechanism.value
    match code:
        case error_codes.SASL_AUTHENTICATION_FAILED:
            return f"{address} refused the login ({said or mechanism}): check {keys.login}"
        case error_codes.UNSUPPORTED_SASL_MECHANISM:
            reason = f"{address} does not offer {mechanism}: check {keys.mechanism}"
            return f"{reason} (it offers {said})" if said else reason
        case error_codes.ILLEGAL_SASL_STATE:
            return (
                f"{address} has no SASL listener: set {keys.protocol}="
                f"{'SSL' if security.protocol.has_tls else 'PLAINTEXT'}"
            )
        case _:
            name = error_codes.name(code)
            return f"{address} refused the login with {name}{f' ({said})' if said else ''}"
