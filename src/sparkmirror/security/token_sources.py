# SPDX-License-Identifier: Apache-2.0
"""One token source for all connections of a process with the same settings.

A static token is in the configuration or in a file. The file is read with the configuration, so a
new token means new settings.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol

from sparkmirror.errors import AuthenticationError
from sparkmirror.model import HIDDEN
from sparkmirror.security.oauth import RefreshingTokenSource
from sparkmirror.security.settings import OAuthSettings
from sparkmirror.security.source_cache import SourceCache
from sparkmirror.security.tokens import Token, parse_static_token


class TokenSource(Protocol):
    """A source of tokens. Thread-safe."""

    def token(self) -> Token:
        """Return a token that has not expired. Raises AuthenticationError if there is none."""
        ...

    def redact(self, message: str) -> str:
        """Remove the current token from a message; requests none."""
        ...


def _create_source(settings: OAuthSettings) -> TokenSource:
    return (
        RefreshingTokenSource(settings)
        if settings.static_token is None
        else StaticTokenSource(settings)
    )


_sources = SourceCache[OAuthSettings, TokenSource](_create_source)


def token_source(settings: OAuthSettings) -> TokenSource:
    """Return the process-wide source for these settings. Thread-safe."""
    return _sources.get(settings)


class StaticTokenSource:
    """Returns the configured token until it expires."""

    def __init__(self, settings: OAuthSettings) -> None:
        if settings.static_token is None:
            raise AssertionError("created only with a static token")
        self._file = settings.endpoint
        try:
            self._token = parse_static_token(settings.static_token.reveal())
        except ValueError as error:
            raise AuthenticationError(f"The configuration contains {error}.") from error

    def token(self) -> Token:
        if time.time() < self._token.expires_at:
            return self._token
        ended = datetime.fromtimestamp(max(self._token.expires_at, 0), UTC)
        when = ended.isoformat(timespec="seconds")
        if self._file:
            raise AuthenticationError(
                f"The token in {self._file} has expired ({when}). Write a new one to the file.",
                retriable=True,
            )
        raise AuthenticationError(
            f"The configured token has expired ({when}). Replace it, or configure a token endpoint."
        )

    def redact(self, message: str) -> str:
        return message.replace(self._token.text.reveal(), HIDDEN)
