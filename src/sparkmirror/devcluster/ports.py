# SPDX-License-Identifier: Apache-2.0
"""Ports of 127.0.0.1 that stay reserved while a broker restarts.

A reserved port is a socket that is bound but does not listen. Linux lets a second socket with
SO_REUSEADDR (every Java server) bind and listen on it, but does not offer it to programs that ask
for any free port. So nothing can take it between choosing and using. Other systems reject the
second bind; there the port is released just before the start.
"""

from __future__ import annotations

import errno
import socket
import sys

from sparkmirror.errors import SetupError

HOST = "127.0.0.1"

_CAN_SHARE = sys.platform == "linux"


class ReservedPort:
    """One port, given or any free one; reserved from `reserve()` to `release()`."""

    def __init__(self, number: int = 0) -> None:
        self._socket: socket.socket | None = None
        self._chosen = number != 0
        self.number = number

    @property
    def is_user_chosen(self) -> bool:
        """Whether the user chose the port."""
        return self._chosen

    def reserve(self) -> None:
        """Reserve the port (any free one if it has no number). Does nothing if it is reserved."""
        if self._socket is not None:
            return
        holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            holder.bind((HOST, self.number))
        except (OSError, OverflowError) as error:
            holder.close()
            raise _bind_error(self.number, error) from error
        self.number = holder.getsockname()[1]
        self._socket = holder

    def reserve_another(self) -> None:
        """Reserve another free port instead; keeps a port that the user chose."""
        self.release()
        if not self._chosen:
            self.number = 0
        self.reserve()

    def prepare_bind(self) -> None:
        """Allow a broker to bind the port. Call this right before its start."""
        if not _CAN_SHARE:
            self.release()

    def release(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _bind_error(port: int, error: OSError | OverflowError) -> SetupError:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return port_in_use_error(port)
    reason = error.strerror if isinstance(error, OSError) else "it is not between 1 and 65535"
    return SetupError(f"Cannot use port {port} ({reason}).", remedy="Choose another port.")


def port_in_use_error(port: int) -> SetupError:
    return SetupError(
        f"Port {port} is in use by another program.",
        remedy="Stop that program or choose another port.",
    )
