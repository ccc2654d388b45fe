# SPDX-License-Identifier: Apache-2.0
"""What a broker said to our login, fit to be shown: it may repeat what we sent."""

from __future__ import annotations

from sparkmirror.security.settings import Security
from sparkmirror.security.token_sources import token_source

_MOST_WORDS = 300


def clean_words(words: str, security: Security) -> str:
    """One line, not long, without our password or token."""
    sasl = security.sasl
    if sasl is not None and sasl.password is not None and sasl.password.reveal():
        words = words.replace(sasl.password.reveal(), "[hidden]")
    if sasl is not None and sasl.oauth is not None:
        words = token_source(sasl.oauth).hide(words)
    words = "".join(char if char.isprintable() else " " for char in words)
    return words[:_MOST_WORDS].strip().rstrip(".")
