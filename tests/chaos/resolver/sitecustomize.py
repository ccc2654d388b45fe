# SPDX-License-Identifier: Apache-2.0
"""Python loads this in every process of a mirror under chaos: it resolves the brokers' name.

CHAOS_NAME is that name, and means 127.0.0.1. While the file that CHAOS_RESOLVER names exists, a
lookup takes as many seconds as the file's first line says, and fails if its second is `failing`.
Numeric addresses and other names are looked up as ever.
"""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Any

_NAME = os.environ["CHAOS_NAME"]
_FILE = Path(os.environ["CHAOS_RESOLVER"])
_look_up = socket.getaddrinfo


def _resolve(  # as socket.getaddrinfo, whose names of arguments callers use
    host: Any,
    port: Any,
    family: int = 0,
    type: int = 0,  # noqa: A002 - see above
    proto: int = 0,
    flags: int = 0,
) -> Any:
    if host != _NAME:
        return _look_up(host, port, family, type, proto, flags)
    if flags & socket.AI_NUMERICHOST:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    if _FILE.exists():
        seconds, way = _FILE.read_text(encoding="utf-8").splitlines()
        time.sleep(float(seconds))
        if way == "failing":
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    return _look_up("127.0.0.1", port, family, type, proto, flags)


socket.getaddrinfo = _resolve
