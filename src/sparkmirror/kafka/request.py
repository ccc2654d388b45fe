# SPDX-License-Identifier: Apache-2.0
"""Requests with their range of versions, and responses that are not decoded yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparkmirror.wire.responses import decode_response


@dataclass(frozen=True, slots=True)
class Request:
    """A kafka-python message and its range of versions.

    It can be sent several times, also in different versions.
    """

    message: Any
    oldest: int
    newest: int

    @property
    def version(self) -> int | None:
        """The version of the last send."""
        found: int | None = self.message.API_VERSION
        return found


class RawResponse:
    """A response that is decoded on demand.

    The configs of thousands of topics are requested every few seconds and rarely change. Comparing
    the bytes with the last response takes a thousandth of the time of decoding.
    """

    __slots__ = ("_kind", "_version", "body")

    def __init__(self, message: Any, frame: memoryview) -> None:
        """`message` is the request; `frame` starts with the correlation id."""
        self._kind = message.header.get_response_class()
        self._version = message.API_VERSION
        flexible = self._kind.flexible_version_q(self._version)
        self.body = bytes(frame[5 if flexible else 4 :])

    @property
    def throttle_time_ms(self) -> int:
        """The first field of DescribeConfigs and most other responses."""
        return int.from_bytes(self.body[:4], "big", signed=True)

    def decode(self) -> Any:
        """Decode the response; UndecodableResponseError if it is malformed."""
        return decode_response(self._kind, memoryview(self.body), self._version)
