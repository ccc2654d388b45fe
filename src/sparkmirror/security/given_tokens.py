# SPDX-License-Identifier: Apache-2.0
"""A token that somebody else renews: it stands in the configuration, or in a file that it names.

Like other files, that one is read with the configuration, and a newer token comes with newer
settings. So there is nothing to wait for here, and nobody to ask.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

from sparkmirror.errors import AuthenticationError
from sparkmirror.security.settings import OAuthSettings
from sparkmirror.security.tokens import Token, given_token


class GivenToken:
    """Hands out the same token until it has expired."""

    def __init__(self, settings: OAuthSettings) -> None:
        if settings.token is None:
            raise AssertionError("made only where one is given")
        self._file = settings.endpoint
        try:
            self._token = given_token(settings.token.reveal())
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

    def hide(self, words: str) -> str:
        """What somebody else said, without the token."""
        return words.replace(self._token.text.reveal(), "[hidden]")
