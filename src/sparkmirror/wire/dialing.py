# SPDX-License-Identifier: Apache-2.0
"""Broker addresses, and sockets that connect to them."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from sparkmirror.wire.settings import ConnectionSettings


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `host:port`, with brackets around an IPv6 address. ValueError without a port."""
        host, _colon, port = text.rpartition(":")
        return cls(host.strip("[]"), int(port))


def open_socket(settings: ConnectionSettings, addresses: list[Any]) -> socket.socket:
    """Start a non-blocking connect to the first usable address; remove the addresses tried.

    `addresses` are results of `socket.getaddrinfo`. Raises OSError if none is usable.
    """
    family, kind, protocol, _name, where = addresses.pop(0)
    try:
        sock = socket.socket(family, kind, protocol)
    except OSError:  # an address family that this machine lacks
        if addresses:
            return open_socket(settings, addresses)
        raise
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if settings.send_buffer_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.send_buffer_bytes)
    if settings.receive_buffer_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer_bytes)
    code = sock.connect_ex(where)
    if code not in (0, errno.EINPROGRESS):
        sock.close()
        if addresses:
            return open_socket(settings, addresses)
        raise OSError(errno.errorcode.get(code, str(code)))
    return sock
