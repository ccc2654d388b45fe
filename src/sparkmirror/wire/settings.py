# SPDX-License-Identifier: Apache-2.0
"""Settings that configuration, control plane and tasks share."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparkmirror.security.settings import PLAINTEXT, SecuritySettings


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """How one client reaches one cluster."""

    alias: str
    bootstrap_servers: tuple[str, ...]
    client_id: str
    request_timeout_seconds: float = 30.0
    connect_timeout_seconds: float = 10.0
    send_buffer_bytes: int = -1  # -1: the operating system's default
    receive_buffer_bytes: int = -1
    max_idle_seconds: float | None = None  # connections unused for so long are closed; None: never
    max_request_bytes: int | None = None  # the target takes no larger request; None: not known
    servers_key: str = field(default="", compare=False)  # what to look at if nobody answers
    security: SecuritySettings = PLAINTEXT
