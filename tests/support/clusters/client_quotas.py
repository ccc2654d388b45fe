# SPDX-License-Identifier: Apache-2.0
"""A quota for all clients of a cluster, which neither kafka-python nor librdkafka can set.

AlterClientQuotas, version 0, about the default client id:

    request   length i32, key i16 = 49, version i16 = 0, correlation i32, client id str,
              entries [entity [type str, name str?], ops [key str, value f64, remove i8]],
              validate only i8
    response  length i32, correlation i32, throttle i32, entries [error i16, message str?, ...]
"""

from __future__ import annotations

import socket
import struct

from support.waiting import PATIENCE_SECONDS

_API, _VERSION, _CORRELATION = 49, 0, 1
_NOBODY = struct.pack(">h", -1)


def set_quota(address: str, key: str, value: float | None) -> None:
    """Limit every client (`producer_byte_rate`, `request_percentage`, ...); None lifts it."""
    operation = _string(key) + struct.pack(">d?", value or 0.0, value is None)
    body = struct.pack(">hhi", _API, _VERSION, _CORRELATION) + _string("quotas")
    body += struct.pack(">ii", 1, 1) + _string("client-id") + _NOBODY
    body += struct.pack(">i", 1) + operation + struct.pack(">?", False)
    host, _, port = address.partition(":")
    with socket.create_connection((host, int(port)), PATIENCE_SECONDS) as connection:
        connection.sendall(struct.pack(">i", len(body)) + body)
        (length,) = struct.unpack(">i", _read(connection, 4))
        _correlation, _throttle, _count, error = struct.unpack_from(
            ">iiih", _read(connection, length)
        )
    if error:
        raise RuntimeError(f"{address} refused the quota {key} with error {error}")


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _read(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            raise ConnectionResetError("the broker closed the connection")
        received += chunk
    return received
