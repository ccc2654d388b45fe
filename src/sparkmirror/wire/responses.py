# SPDX-License-Identifier: Apache-2.0
"""Decode a broker's response, with one error type for malformed bytes.

kafka-python's codecs raise many exception types on malformed bytes. Callers handle all of them as a
lost connection.
"""

from __future__ import annotations

import struct
from typing import Any

from sparkmirror.errors import UndecodableResponseError

# Raised on malformed bytes: truncated, not UTF-8, a length or a tag out of range.
DECODE_ERRORS = (LookupError, ValueError, TypeError, OverflowError, AttributeError, struct.error)


def decode_response(kind: Any, data: memoryview, version: int) -> Any:
    """Decode a kafka-python response class; UndecodableResponseError if the bytes do not match."""
    try:
        return kind.decode(data, version=version)
    except DECODE_ERRORS as error:
        raise UndecodableResponseError(
            f"cannot decode a response of {len(data)} bytes as {_name(kind)} version {version}"
        ) from error


def _name(kind: Any) -> str:
    """The name in the protocol, without the version suffix of some classes."""
    return str(kind.__name__).partition("_v")[0]
