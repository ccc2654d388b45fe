# SPDX-License-Identifier: Apache-2.0
"""SASL authentication and re-authentication (KIP-368) of one connection.

SaslHandshake names the mechanism, then SaslAuthenticate carries its messages. A broker that limits
the session says so in its last response; the first request after 85 to 95 % of that time waits for
a new login. A broker takes no other request during a login, so the connection holds them back.
Responses to earlier requests come before those of the login, as a connection keeps the order.

A broker closes the connection on a request after the end of the session. It accepts a new login
even then, if a second has passed since the last one. In a shorter session, requests wait.

Owned by the loop's thread. A token, a ticket or a key derivation may take long, so each step runs
in a thread of its own.
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
from sparkmirror.security.redaction import redact_broker_message
from sparkmirror.security.sasl import SaslClient, create_sasl_client
from sparkmirror.security.settings import SaslSettings, SecuritySettings
from sparkmirror.security.token_sources import token_source
from sparkmirror.wire import error_codes
from sparkmirror.wire.dialing import Address
from sparkmirror.wire.event_loop import EventLoop

T = TypeVar("T")
Send = Callable[[Any, Callable[[Any], None]], None]

# Any other code may not come again.
_FINAL_CODES = frozenset(
    {
        error_codes.SASL_AUTHENTICATION_FAILED,
        error_codes.UNSUPPORTED_SASL_MECHANISM,
        error_codes.ILLEGAL_SASL_STATE,
    }
)
_HANDSHAKE_VERSION = 1  # the one after which messages come in SaslAuthenticate
_AUTHENTICATE_VERSION = 2
MIN_REAUTHENTICATION_SECONDS = 1.0  # a broker refuses who logs in again sooner
_SESSION_PART, _SESSION_JITTER = 0.85, 0.1  # as Java's clients
_SESSION_REST_SECONDS = 1.0  # a broker may be busy with the request before the last one for as long


class SaslAuthenticator:
    """The logins of one connection; `send` sends a message at once and hands over its answer."""

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
            raise AssertionError("made only where there is somebody to log in")
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
        self._steps: SaslClient | None = None
        self._first = b""
        self._due_at = math.inf
        self._introduced_at = self._proved_at = -math.inf
        self._is_ended = False
        self._has_authenticated = False
        self._is_introduced = False  # the broker has answered in the current login
        self.in_progress = False
        self.is_computing = False  # we are the ones who take long, not the broker

    def is_reauthentication_due(self, now: float) -> bool:
        """Whether the broker will soon forget us."""
        return now >= self._due_at

    def authenticate(self, versions: Mapping[int, tuple[int, int]]) -> None:
        """Log in; then one of the four callbacks is called, unless `cancel` was.

        `not_ready`: the broker has answered nothing yet, and there are no credentials. `lost`: the
        connection is of no use any more, a new one may be.
        """
        self._versions = versions
        self._is_introduced = False
        self.in_progress = True
        self._due_at = math.inf
        early = self._introduced_at + MIN_REAUTHENTICATION_SECONDS - time.monotonic()
        if early > 0:
            self._loop.call_later(early, self._start)
        else:
            self._start()

    def _start(self) -> None:
        if not self._is_ended:
            self._run_in_thread(
                partial(_first_token, self._sasl, self._address.host), self._send_handshake
            )

    def cancel(self) -> None:
        """The connection is closed: nothing is of interest any more."""
        self._is_ended = True

    # --- what may take long

    def _run_in_thread(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        self.is_computing = True

        def run() -> None:
            try:
                outcome = partial(then, work())
            except AuthenticationError as error:
                outcome = partial(self._fail_step, error)
            except Exception as error:  # noqa: BLE001 - the root of a thread: reported upwards
                name = type(error).__name__  # its words might hold a secret
                unforeseen = AuthenticationError(f"The login failed ({name}).", retriable=True)
                outcome = partial(self._fail_step, unforeseen)
            self._loop.call_soon_threadsafe(partial(self._on_thread_done, outcome))

        threading.Thread(target=run, name="sasl-login", daemon=True).start()

    def _fail_step(self, error: AuthenticationError) -> None:
        """A step of this side failed: before the broker answered, or because of its answer."""
        explain = partial(_failed_step, error)
        if self._is_introduced:
            self._fail(Refusal(explain, error.retriable))
        else:
            self._forget()
            reason = f"{explain(self._security)}."
            self._not_ready(AuthenticationError(reason, retriable=error.retriable))

    def _on_thread_done(self, outcome: Callable[[], None]) -> None:
        self.is_computing = False
        if not self._is_ended:
            outcome()

    # --- the exchange

    def _send_handshake(self, beginning: tuple[SaslClient, bytes]) -> None:
        self._steps, self._first = beginning
        message = SaslHandshakeRequest(mechanism=self._sasl.mechanism.value)
        self._request(message, _HANDSHAKE_VERSION, self._on_handshake)

    def _on_handshake(self, answer: Any) -> None:
        self._introduced_at = time.monotonic()
        self._is_introduced = True
        if answer.error_code:
            offered = ", ".join(str(name) for name in answer.mechanisms or ())
            self._refuse(answer.error_code, offered)
        else:
            first, self._first = self._first, b""
            self._send_token(first)

    def _send_token(self, proof: bytes) -> None:
        self._proved_at = time.monotonic()
        message = SaslAuthenticateRequest(auth_bytes=proof)
        self._request(message, _AUTHENTICATE_VERSION, self._on_token_response)

    def _on_token_response(self, answer: Any) -> None:
        if answer.error_code:
            words = answer.error_message or ""
            self._refuse(answer.error_code, words)
            return
        steps = self._steps
        if steps is None:
            raise AssertionError("there is one as long as a login is under way")
        lifetime_ms = getattr(answer, "session_lifetime_ms", None) or 0
        self._run_in_thread(
            partial(steps.evaluate_challenge, bytes(answer.auth_bytes or b"")),
            partial(self._next_step, lifetime_ms),
        )

    def _next_step(self, lifetime_ms: int, proof: bytes | None) -> None:
        if proof is not None:
            self._send_token(proof)
            return
        self._steps = None
        self.in_progress = False
        self._has_authenticated = True
        if lifetime_ms > 0:
            jitter = random.random()  # noqa: S311 - spreads load
            self._due_at = self._proved_at + reauthentication_seconds(lifetime_ms / 1000, jitter)
        self._done()

    def _request(self, message: Any, newest: int, then: Callable[[Any], None]) -> None:
        low, high = self._versions.get(message.API_KEY, (0, -1))
        if high < low or newest < low:
            self._refuse(error_codes.ILLEGAL_SASL_STATE, "")
            return
        message.API_VERSION = min(high, newest)
        self._send(message, then)

    def _refuse(self, code: int, words: str) -> None:
        if code == error_codes.ILLEGAL_SASL_STATE and self._has_authenticated:
            # The listener has SASL, so a new connection will do.
            self._forget()
            self._lost(f"{self._address} did not take our login once more")
            return
        explain = partial(_refused, self._address, code, words)
        self._fail(Refusal(explain, retriable=code not in _FINAL_CODES))

    def _fail(self, refusal: Refusal) -> None:
        self._forget()
        self._refused(refusal)

    def _forget(self) -> None:
        self._steps = None
        self._first = b""


def reauthentication_seconds(session_seconds: float, jitter: float) -> float:
    """After what part of a session no request is sent any more without a new login.

    A broker looks at the clock when it reads a request, which it does after its answer to the one
    before: that may be a fetch that waits for records. Of a short one a twentieth is not enough.
    """
    part = session_seconds * (_SESSION_PART + _SESSION_JITTER * jitter)
    return min(part, max(session_seconds - _SESSION_REST_SECONDS, session_seconds / 2))


def _first_token(sasl: SaslSettings, host: str) -> tuple[SaslClient, bytes]:
    token = None if sasl.oauth is None else token_source(sasl.oauth).token()
    steps = create_sasl_client(sasl, host, token)
    return steps, steps.initial_response()


def _failed_step(error: AuthenticationError, security: SecuritySettings) -> str:
    keys, sasl = security.keys, security.sasl
    has_endpoint = sasl is not None and sasl.oauth is not None
    key = keys.endpoint if error.retriable and has_endpoint else keys.login
    return f"{error} Check {key}"


def _refused(address: Address, code: int, words: str, security: SecuritySettings) -> str:
    """Explain a broker's refusal and name the key to check."""
    keys, said = security.keys, redact_broker_message(words, security)
    mechanism = "" if security.sasl is None else security.sasl.mechanism.value
    match code:
        case error_codes.SASL_AUTHENTICATION_FAILED:
            return f"{address} does not let us in ({said or mechanism}): check {keys.login}"
        case error_codes.UNSUPPORTED_SASL_MECHANISM:
            reason = f"{address} does not offer {mechanism}: check {keys.mechanism}"
            return f"{reason} ({said} would do)" if said else reason
        case error_codes.ILLEGAL_SASL_STATE:
            return (
                f"{address} asks nobody who they are: {keys.protocol} must be "
                f"{'SSL' if security.protocol.has_tls else 'PLAINTEXT'} for this listener"
            )
        case _:
            name = error_codes.name(code)
            return f"{address} answered the login with {name}{f' ({said})' if said else ''}"
