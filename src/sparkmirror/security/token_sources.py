# SPDX-License-Identifier: Apache-2.0
"""One source of tokens for all connections of a process that ask in the same name."""

from __future__ import annotations

from typing import Protocol

from sparkmirror.security.given_tokens import GivenToken
from sparkmirror.security.oauth import TokenSource
from sparkmirror.security.one_each import OneEach
from sparkmirror.security.settings import OAuthSettings
from sparkmirror.security.tokens import Token


class Tokens(Protocol):
    """A source; any thread may ask."""

    def token(self) -> Token:
        """A token that has not expired; AuthenticationError if there is none to be had."""
        ...

    def hide(self, words: str) -> str:
        """What somebody else said, without the token; asks nobody."""
        ...


def _made(settings: OAuthSettings) -> Tokens:
    return TokenSource(settings) if settings.token is None else GivenToken(settings)


_sources = OneEach[OAuthSettings, Tokens](_made)


def token_source(settings: OAuthSettings) -> Tokens:
    """The source for these settings; any thread may ask."""
    return _sources.of(settings)
