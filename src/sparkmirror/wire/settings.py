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


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """How a task reads the source (the layered `consumer.` keys)."""

    isolation_level: str = "read_committed"  # or read_uncommitted
    auto_offset_reset: str = "earliest"  # or latest, none
    fetch_max_bytes: int = 52_428_800
    max_partition_fetch_bytes: int = -1  # -1: as much as there is room for
    fetch_max_wait_ms: int = 500
    fetch_min_bytes: int = 1

    @property
    def reads_committed(self) -> bool:
        return self.isolation_level == "read_committed"


@dataclass(frozen=True, slots=True)
class ProduceSettings:
    """How a task writes the target (the worker's `producer.` keys and `producer.override.`)."""

    acks: int = -1  # -1 (all) or 1
    request_timeout_ms: int = 30_000
    max_request_bytes: int = 8_388_608
    max_in_flight: int = 5  # the broker remembers the last five record batches of a producer
    compression: str | None = None  # a codec's name; None: as on the source
    enforces_max_request_bytes: bool = False  # whether even a single record batch may not be larger
