# SPDX-License-Identifier: Apache-2.0
"""Parses responses of token endpoints and decides when to refresh a token. Pure.

Errors never quote a token. An endpoint's error message is shown without the client's secret.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus

from sparkmirror.errors import AuthenticationError
from sparkmirror.model import HIDDEN, Secret
from sparkmirror.security.redaction import one_line
from sparkmirror.security.settings import OAuthSettings

DEFAULT_LIFETIME_SECONDS = 60.0  # of a token without an expiry
MIN_REMAINING_SECONDS = 2.0  # a broker's session ends with its token

_TOKEN = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")  # RFC 6750, as Kafka checks it
_OK = 200
_TRY_LATER = (408, 425, 429)
_SERVER_FAULT = 500
_JWT_PARTS = 3
_REDIRECTS = range(300, 400)


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token and its expiry in seconds since 1970."""

    text: Secret
    expires_at: float


def parse_token_response(
    status: int, body: bytes, endpoint: str, settings: OAuthSettings, now: float
) -> Token:
    """Return the token of a response. Raises AuthenticationError with the endpoint's reason."""
    content = _json_object(body)
    if status != _OK:
        raise _refusal(status, content, endpoint, settings)
    text = content.get("access_token") or content.get("id_token")
    if not isinstance(text, str) or not _TOKEN.fullmatch(text):
        raise AuthenticationError(
            f"The token endpoint {endpoint} returned no access_token. Is it an OAuth 2 token "
            "endpoint?",
            retriable=True,  # a proxy or load balancer may respond so for a while
        )
    expires_at = _expires_at(text, content, now)
    if settings.max_token_seconds is not None:
        expires_at = min(expires_at, now + settings.max_token_seconds)
    token = Token(Secret(text), expires_at)
    if token.expires_at <= now:
        raise AuthenticationError(
            f"The token endpoint {endpoint} returned an expired token. Compare the clocks of both "
            "machines.",
            retriable=True,
        )
    return token


def parse_static_token(text: str) -> Token:
    """Parse a configured token. Raises ValueError if its characters are invalid.

    A token without an expiry is used until a broker refuses it.
    """
    if not _TOKEN.fullmatch(text):
        raise ValueError(
            "an invalid token: it must be one line of letters, digits and - . _ ~ + / ="
        )
    expiry = _seconds(_claims(text).get("exp"))
    return Token(Secret(text), math.inf if expiry is None else expiry)


def refresh_at(token: Token, issued_at: float, settings: OAuthSettings) -> float:
    """Return when to refresh a token, by the rules of Kafka's clients (sasl.login.refresh.*).

    A short-lived token is refreshed sooner, because its remaining lifetime limits the session.
    """
    lifetime = token.expires_at - issued_at
    refresh = issued_at + lifetime * settings.refresh_window_factor
    refresh = min(refresh, token.expires_at - min(lifetime / 2, MIN_REMAINING_SECONDS))
    if settings.refresh_min_seconds + settings.refresh_buffer_seconds > lifetime:
        return refresh  # the two settings contradict each other: Kafka ignores both
    refresh = min(refresh, token.expires_at - settings.refresh_buffer_seconds)
    return max(refresh, issued_at + settings.refresh_min_seconds)


def _expires_at(text: str, content: dict[str, Any], now: float) -> float:
    """Prefer the token's claim, which brokers check, to the response's `expires_in`."""
    expiry = _seconds(_claims(text).get("exp"))
    if expiry is not None:
        return expiry
    lifetime = _seconds(content.get("expires_in"))
    return now + (DEFAULT_LIFETIME_SECONDS if lifetime is None else lifetime)


def _claims(text: str) -> dict[str, Any]:
    """Return a JWT's claims, unverified; empty for an opaque token."""
    parts = text.split(".")
    if len(parts) != _JWT_PARTS:
        return {}
    try:
        return _json_object(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError):
        return {}


def _seconds(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):  # some endpoints quote their numbers
        value = float(value) if re.fullmatch(r"\d{1,12}", value) else None
    try:
        number = float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _refusal(
    status: int, content: dict[str, Any], endpoint: str, settings: OAuthSettings
) -> AuthenticationError:
    if status in _REDIRECTS:
        return AuthenticationError(
            f"The token endpoint {endpoint} redirects. Redirects are not followed, to keep the "
            "client's secret: set the final URL.",
            retriable=True,  # as above
        )
    parts = [content.get("error"), content.get("error_description")]
    message = ": ".join(part for part in parts if isinstance(part, str) and part)
    reason = f", {redact_oauth_message(message, settings)}" if message else ""
    is_temporary = status >= _SERVER_FAULT or status in _TRY_LATER
    advice = f" Check {_proofs(settings)} and scope of the client." if not is_temporary else ""
    return AuthenticationError(
        f"The token endpoint {endpoint} returned no token: HTTP {status}{reason}.{advice}",
        retriable=is_temporary,
    )


def _proofs(settings: OAuthSettings) -> str:
    """Name the credentials of the request."""
    proofs = (
        [f"id ({redact_oauth_message(settings.client_id, settings)})"] if settings.client_id else []
    )
    proofs += ["secret"] if settings.client_secret is not None else []
    return ", ".join((*proofs, *(name.replace("_", " ") for name in settings.secret_form_fields)))


def basic_credentials(settings: OAuthSettings) -> str:
    """Return the client's id and secret for HTTP Basic; empty if there is no secret."""
    if settings.client_secret is None:
        return ""
    both = [settings.client_id, settings.client_secret.reveal()]
    if settings.urlencodes_header:  # as Java's URLEncoder does
        both = [quote_plus(one, safe="*").replace("~", "%7E") for one in both]
    pair = ":".join(both)
    return base64.b64encode(pair.encode("utf-8", "replace")).decode()


def redact_oauth_message(message: str, settings: OAuthSettings | None) -> str:
    """Remove the client's secrets from another program's message and make it one line."""
    for secret in () if settings is None else _secrets(settings):
        if secret:
            message = message.replace(secret, HIDDEN)
    return one_line(message)


def _secrets(settings: OAuthSettings) -> Iterator[str]:
    secrets = (settings.client_secret, settings.static_token, *settings.secret_form_fields.values())
    yield from (one.reveal() for one in secrets if one is not None)
    yield basic_credentials(settings)
