# SPDX-License-Identifier: Apache-2.0
"""Ports of 127.0.0.1 that stay ours once chosen, through a broker's death and restart.

A held port is a socket that is bound but does not listen. Linux lets a second socket (the broker's,
which sets SO_REUSEADDR as every Java server does) bind and listen on it, yet gives it to nobody who
asks for a free one: no gap between choosing and using. Other systems refuse the second bind, so
there the port is released just before the start.
"""

from __future__ import annotations

import errno
import socket
import sys

from sparkmirror.errors import SetupError

HOST = "127.0.0.1"

_CAN_SHARE = sys.platform == "linux"


class ReservedPort:
    """One port: the wanted one, or any free one; ours from `hold()` to `release()`."""

    def __init__(self, wanted: int = 0) -> None:
        self._socket: socket.socket | None = None
        self._chosen = wanted != 0
        self.number = wanted

    @property
    def is_user_chosen(self) -> bool:
        """Whether the user wants this very port."""
        return self._chosen

    def reserve(self) -> None:
        """Take the port (any free one when it has no number yet); nothing happens if it is held."""
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
        """Hold another free port instead; a port that the user wants stays."""
        self.release()
        if not self._chosen:
            self.number = 0
        self.reserve()

    def prepare_bind(self) -> None:
        """Let a broker bind the port now; called right before its start."""
        if not _CAN_SHARE:
            self.release()

    def release(self) -> None:
        """Give the port back to the system."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _bind_error(port: int, error: OSError | OverflowError) -> SetupError:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return port_in_use_error(port)
    reason = error.strerror if isinstance(error, OSError) else "it is not between 1 and 65535"
    return SetupError(f"Port {port} cannot be used ({reason}).", remedy="Choose another port.")


def port_in_use_error(port: int) -> SetupError:
    """The error for a port that another program listens on."""
    return SetupError(
        f"Port {port} is in use by another program.",
        remedy="Stop that program or choose another port.",
    )
