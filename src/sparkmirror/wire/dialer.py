# SPDX-License-Identifier: Apache-2.0
"""How the brokers of one cluster are reached: what all connections have in common, and a socket."""

from __future__ import annotations

import errno
import socket
from typing import Any, NamedTuple

from sparkmirror.security.settings import PLAINTEXT, SecuritySettings
from sparkmirror.wire.dns_resolver import RESOLVER, DnsResolver


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Dialer(NamedTuple):
    """What every connection to one cluster has in common."""

    cluster: str
    client_id: str
    connect_timeout_seconds: float
    request_timeout_seconds: float
    send_buffer_bytes: int
    receive_buffer_bytes: int
    max_idle_seconds: float | None = None  # None: an unused connection stays
    security: SecuritySettings = PLAINTEXT
    resolver: DnsResolver = RESOLVER

    def dial(self, places: list[Any]) -> socket.socket:
        """Begin to connect to the first place where that is possible; takes it off the list.

        OSError if it is possible at none. Places are what `socket.getaddrinfo` found.
        """
        family, kind, protocol, _name, where = places.pop(0)
        try:
            sock = socket.socket(family, kind, protocol)
        except OSError:  # an address family that this machine lacks
            if places:
                return self.dial(places)
            raise
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self.send_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.send_buffer_bytes)
        if self.receive_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_buffer_bytes)
        code = sock.connect_ex(where)
        if code not in (0, errno.EINPROGRESS):
            sock.close()
            if places:
                return self.dial(places)
            raise OSError(errno.errorcode.get(code, str(code)))
        return sock
