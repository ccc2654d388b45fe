# SPDX-License-Identifier: Apache-2.0
"""Binds the ports of listeners. Does not import the web framework, which takes long to load."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable

from sparkmirror.config.worker_settings import RestListener
from sparkmirror.errors import SetupError

_BACKLOG = 128


def require_free_ports(listeners: Iterable[RestListener]) -> None:
    """Raise SetupError if a listener cannot be bound now; leaves none of them bound."""
    bound: list[socket.socket] = []
    try:
        bind_listeners(listeners, bound)
    finally:
        for one in bound:
            one.close()


def bind_listeners(
    listeners: Iterable[RestListener], bound: list[socket.socket]
) -> list[socket.socket]:
    """Bind all listeners; if one fails, `bound` has those that are bound."""
    for one in listeners:
        try:
            bound.append(_listen(one))
        except OSError as error:
            raise SetupError(
                f"The REST server cannot listen on {one}: {_reason(error)}.",
                remedy="Set listeners to a free address.",
            ) from error
    return bound


def _reason(error: OSError) -> str:
    """Return the system's text, without the address that Python adds to it."""
    return os.strerror(error.errno) if error.errno else str(error)


def _listen(listener: RestListener) -> socket.socket:
    if not listener.host:
        if socket.has_dualstack_ipv6():
            return socket.create_server(
                ("", listener.port),
                family=socket.AF_INET6,
                backlog=_BACKLOG,
                dualstack_ipv6=True,
            )
        return socket.create_server(("", listener.port), backlog=_BACKLOG)
    family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
    return socket.create_server((listener.host, listener.port), family=family, backlog=_BACKLOG)
