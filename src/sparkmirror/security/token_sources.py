# SPDX-License-Identifier: Apache-2.0
"""One source of tokens for all connections of a process that ask in the same name."""

from __future__ import annotations

from sparkmirror.security.oauth import TokenSource
from sparkmirror.security.one_each import OneEach
from sparkmirror.security.settings import OAuthSettings

_sources = OneEach[OAuthSettings, TokenSource](TokenSource)


def token_source(settings: OAuthSettings) -> TokenSource:
    """The source for these settings; any thread may ask."""
    return _sources.of(settings)
