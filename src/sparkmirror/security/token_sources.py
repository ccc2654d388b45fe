# SPDX-License-Identifier: Apache-2.0
"""One token source for all connections of a process with the same settings.

A static token stands in the configuration or in a file. The file is read with the configuration, so
a newer token comes with newer settings.
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
    """A source; any thread may ask."""

    def token(self) -> Token:
        """A token that has not expired; AuthenticationError if there is none to be had."""
        ...

    def redact(self, words: str) -> str:
        """What somebody else said, without the token; asks nobody."""
        ...


def _create_source(settings: OAuthSettings) -> TokenSource:
    return (
        RefreshingTokenSource(settings)
        if settings.static_token is None
        else StaticTokenSource(settings)
    )


_sources = SourceCache[OAuthSettings, TokenSource](_create_source)


def token_source(settings: OAuthSettings) -> TokenSource:
    """The source for these settings; any thread may ask."""
    return _sources.get(settings)


class StaticTokenSource:
    """Hands out the same token until it has expired."""

    def __init__(self, settings: OAuthSettings) -> None:
        if settings.static_token is None:
            raise AssertionError("made only where one is given")
        self._file = settings.endpoint
        try:
            self._token = parse_static_token(settings.static_token.reveal())
        except ValueError as error:
            raise AuthenticationError(f"What is given as a token is {error}.") from error

    def token(self) -> Token:
        """The token; AuthenticationError if it has expired."""
        if time.time() < self._token.expires_at:
            return self._token
        ended = datetime.fromtimestamp(max(self._token.expires_at, 0), UTC)
        when = ended.strftime("%Y-%m-%d %H:%M:%S UTC")
        if self._file:
            raise AuthenticationError(
                f"The token in {self._file} has expired ({when}), and nobody has put a newer one "
                "there.",
                retriable=True,
            )
        raise AuthenticationError(
            f"The token has expired ({when}). It stands in the configuration, where nobody renews "
            "it: write a newer one, or where tokens are to be asked for."
        )

    def redact(self, words: str) -> str:
        """What somebody else said, without the token."""
        return words.replace(self._token.text.reveal(), HIDDEN)
