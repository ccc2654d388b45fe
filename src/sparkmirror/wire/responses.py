# SPDX-License-Identifier: Apache-2.0
"""A broker's answer as the message that it holds, or one error if it is none.

kafka-python's codecs stumble over bytes that are not theirs in any way that Python knows; whoever
waits for an answer should hear of all of them as of a lost connection.
"""

from __future__ import annotations

import struct
from typing import Any

from sparkmirror.errors import UndecodableResponseError

# How decoding fails on bytes that are none: cut off, no text, a length or a tag out of range.
DECODE_ERRORS = (LookupError, ValueError, TypeError, OverflowError, AttributeError, struct.error)


def decode_response(kind: Any, data: memoryview, version: int) -> Any:
    """The message of a class of kafka-python's; UndecodableResponseError if the bytes are none."""
    try:
        return kind.decode(data, version=version)
    except DECODE_ERRORS as error:
        raise UndecodableResponseError(
            f"an answer of {len(data)} bytes is no {_name(kind)} of version {version}"
        ) from error


def _name(kind: Any) -> str:
    """As the protocol has it; some classes are made for one version and called so."""
    return str(kind.__name__).partition("_v")[0]
