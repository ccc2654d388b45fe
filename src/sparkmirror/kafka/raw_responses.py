# SPDX-License-Identifier: Apache-2.0
"""Answers that stay bytes until somebody needs them decoded.

The configs of thousands of topics are asked for every few seconds and hardly ever differ:
comparing the bytes with the last answer's takes a thousandth of what decoding them takes.
kafka-python decodes whatever arrives, by the class that a request's header names; a `RawRequest`
stands before a request and has its header name a class that keeps the bytes.
"""

from __future__ import annotations

from typing import Any

from kafka.errors import KafkaProtocolError

from sparkmirror.wire.responses import DECODE_ERRORS


class RawResponse:
    """The body of an answer; its first field must be the throttle time, as in most messages."""

    def __init__(self, kind: Any, body: bytes) -> None:
        self._kind = kind
        self.body = body

    @property
    def throttle_time_ms(self) -> int:
        """How long the broker wants us to pause; kafka-python's connection asks for it."""
        return int.from_bytes(self.body[:4], "big", signed=True)

    def decode(self) -> Any:
        """The message; KafkaProtocolError, as from kafka-python itself, if the bytes are none."""
        try:
            return self._kind.decode(self.body)
        except DECODE_ERRORS as error:
            raise KafkaProtocolError("an answer cannot be read") from error


class RawRequest:
    """A request as kafka-python's connections use one, whose answer is a `RawResponse`."""

    def __init__(self, request: Any) -> None:
        self._request = request

    def __getattr__(self, name: str) -> Any:
        return getattr(self._request, name)

    @property
    def API_VERSION(self) -> int | None:  # noqa: N802 - kafka-python's name
        """The version to send with; a connection sets it."""
        version: int | None = self._request.API_VERSION
        return version

    @API_VERSION.setter
    def API_VERSION(self, version: int) -> None:  # noqa: N802
        self._request.API_VERSION = version

    @property
    def header(self) -> _RawHeader:
        """The request's header, by which the answer will be read."""
        return _RawHeader(self._request.header)


class _RawHeader:
    def __init__(self, header: Any) -> None:
        self._header = header

    def __getattr__(self, name: str) -> Any:
        return getattr(self._header, name)

    def get_response_class(self) -> _Undecoded:
        return _Undecoded(self._header.get_response_class())


class _Undecoded:
    """Stands for a message class while an answer is taken off the wire."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind

    def parse_header(self, data: Any) -> Any:
        return self._kind.parse_header(data)

    def decode(self, data: Any) -> RawResponse:
        return RawResponse(self._kind, data.read())
