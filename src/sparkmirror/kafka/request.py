# SPDX-License-Identifier: Apache-2.0
"""Requests with the versions in which they mean what is wanted, and responses as bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparkmirror.wire.responses import decode_response


@dataclass(frozen=True, slots=True)
class Request:
    """A protocol message of kafka-python and the range of its versions.

    It may be sent again, also in another version.
    """

    message: Any
    oldest: int
    newest: int

    @property
    def version(self) -> int | None:
        """The version in which it was last sent."""
        found: int | None = self.message.API_VERSION
        return found


class RawResponse:
    """A response that stays bytes until somebody needs it decoded.

    The configs of thousands of topics are requested every few seconds and hardly ever differ:
    comparing the bytes with the last response's takes a thousandth of what decoding them takes.
    """

    __slots__ = ("_kind", "_version", "body")

    def __init__(self, message: Any, frame: memoryview) -> None:
        """`message` is the request; `frame` begins with the correlation id."""
        self._kind = message.header.get_response_class()
        self._version = message.API_VERSION
        flexible = self._kind.flexible_version_q(self._version)
        self.body = bytes(frame[5 if flexible else 4 :])

    @property
    def throttle_time_ms(self) -> int:
        """The first field of most responses, and of all that are kept as bytes."""
        return int.from_bytes(self.body[:4], "big", signed=True)

    def decode(self) -> Any:
        """The message; UndecodableResponseError if the bytes are none."""
        return decode_response(self._kind, memoryview(self.body), self._version)
