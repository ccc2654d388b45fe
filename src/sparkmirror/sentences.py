# SPDX-License-Identifier: Apache-2.0
"""Several remarks as one text, for places that have room for one."""

from __future__ import annotations

from collections.abc import Iterable

_ENDS = (".", "!", "?")


def joined(sentences: Iterable[str]) -> str:
    """What ends like a sentence is followed by a space, anything else by a semicolon."""
    text = ""
    for one in filter(None, sentences):
        between = " " if text.endswith(_ENDS) else "; "
        text = f"{text}{between}{one}" if text else one
    return text
