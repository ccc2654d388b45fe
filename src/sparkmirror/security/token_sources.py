# SPDX-License-Identifier: Apache-2.0
"""One source of tokens for all connections of a process that ask in the same name.

A flow has many connections, a process many flows: an endpoint is asked once for all of them.
"""

from __future__ import annotations

import threading

from sparkmirror.security.oauth import TokenSource
from sparkmirror.security.settings import OAuthSettings

_MOST = 64  # settings change when a secret does; sources that nobody uses any more are let go
_sources: list[tuple[OAuthSettings, TokenSource]] = []
_lock = threading.Lock()


def token_source(settings: OAuthSettings) -> TokenSource:
    """The source for these settings; any thread may ask."""
    with _lock:
        for place, (known, source) in enumerate(_sources):
            if known == settings:
                _sources.append(_sources.pop(place))
                return source
        source = TokenSource(settings)
        _sources.append((settings, source))
        del _sources[:-_MOST]
        return source
