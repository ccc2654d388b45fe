# SPDX-License-Identifier: Apache-2.0
"""Opens kafka-python's clients from our connection settings, and leaves nothing behind on failure.

kafka-python forgets its I/O thread when a constructor cannot reach the cluster, and the socket of
every connect that is refused; a flow that keeps trying for hours would collect them. It also does
not tell why a bootstrap failed, so the addresses are tried here first.
"""

from __future__ import annotations

import socket
from functools import partial
from typing import Any, Protocol, TypeVar

from kafka.errors import KafkaError
from kafka.net.compat import KafkaNetClient
from kafka.net.inet import KafkaNetSocket

from sparkmirror.kafka.failures import cluster_error, no_answer

T = TypeVar("T")

_NEVER_MS = 10 * 365 * 24 * 3600 * 1000  # kafka-python has no word for it


class Connection(Protocol):
    """How to reach a cluster; `config.settings.ConnectionSettings` is one."""

    @property
    def alias(self) -> str: ...  # noqa: D102 - the names say it
    @property
    def bootstrap_servers(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def client_id(self) -> str: ...  # noqa: D102
    @property
    def request_timeout_seconds(self) -> float: ...  # noqa: D102
    @property
    def connect_timeout_seconds(self) -> float: ...  # noqa: D102
    @property
    def send_buffer_bytes(self) -> int: ...  # noqa: D102
    @property
    def receive_buffer_bytes(self) -> int: ...  # noqa: D102
    @property
    def max_idle_seconds(self) -> float | None: ...  # noqa: D102
    @property
    def max_request_bytes(self) -> int | None: ...  # noqa: D102
    @property
    def servers_key(self) -> str: ...  # noqa: D102


class _ClosingSockets(KafkaNetSocket):  # type: ignore[misc] # kafka-python has no types
    """Plain sockets, chosen through kafka-python's proxy setting, closed if they do not connect."""

    SCHEMES = ("direct",)

    async def sock_connect(
        self, net: object, sock: socket.socket, sockaddr: object, timeout_at: float | None = None
    ) -> object:
        try:
            return await super().sock_connect(net, sock, sockaddr, timeout_at=timeout_at)
        except BaseException:
            sock.close()
            raise


def open_client(kind: type[T], connection: Connection, **options: object) -> T:
    """A connected client of that kind; UnreachableError within the connect timeout otherwise."""
    _try_addresses(connection)
    networks: list[Any] = []
    connect_timeout_ms = round(connection.connect_timeout_seconds * 1000)
    settings: dict[str, Any] = {
        "bootstrap_servers": list(connection.bootstrap_servers),
        "client_id": connection.client_id,
        "request_timeout_ms": round(connection.request_timeout_seconds * 1000),
        "bootstrap_timeout_ms": connect_timeout_ms,
        "reconnect_backoff_max_ms": 1000,
        "send_buffer_bytes": _buffer(connection.send_buffer_bytes),
        "receive_buffer_bytes": _buffer(connection.receive_buffer_bytes),
        "connections_max_idle_ms": _idle_ms(connection.max_idle_seconds),
        "proxy_url": "direct://",
        "kafka_client": partial(_open_network, networks, connect_timeout_ms),
    }
    try:
        return kind(**(settings | options))
    except KafkaError as error:
        for network in networks:
            network.close()
        raise cluster_error(connection, "connecting", error) from error


def _try_addresses(connection: Connection) -> None:
    reasons = []
    timeout_seconds = connection.connect_timeout_seconds / len(connection.bootstrap_servers)
    for address in connection.bootstrap_servers:
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout_seconds).close()
        except (OSError, ValueError) as error:
            reasons.append(f"{address}: {error}")
        else:
            return
    raise no_answer(connection, "connecting", "; ".join(reasons))


def _open_network(opened: list[Any], connect_timeout_ms: int, **configs: object) -> object:
    network = KafkaNetClient(
        **configs,
        socket_connection_setup_timeout_ms=connect_timeout_ms,
        socket_connection_setup_timeout_max_ms=connect_timeout_ms,
        slow_task_threshold_secs=0,  # decoding a large answer is slow, not stuck: no warning
    )
    opened.append(network)
    return network


def _idle_ms(seconds: float | None) -> int:
    return _NEVER_MS if seconds is None else round(seconds * 1000)


def _buffer(size: int) -> int | None:
    return None if size < 0 else size
