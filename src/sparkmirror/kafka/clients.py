# SPDX-License-Identifier: Apache-2.0
"""Opens kafka-python's clients from our connection settings, and leaves nothing behind on failure.

kafka-python forgets its I/O thread when a constructor cannot reach the cluster, and the socket of
every connect that is refused; a flow that keeps trying for hours would collect them. It also does
not tell why a bootstrap failed, so the addresses are tried here first.
"""

from __future__ import annotations

import socket
from functools import lru_cache, partial
from typing import Any, TypeVar

from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.net.compat import KafkaNetClient
from kafka.net.inet import KafkaNetSocket
from kafka.net.selector import NetworkSelector

from sparkmirror.errors import AuthenticationError, ClusterError
from sparkmirror.kafka.async_resolver import resolve_blocking
from sparkmirror.kafka.connection_manager import ConnectionManager, raise_if_refused
from sparkmirror.kafka.error_mapping import (
    cluster_error,
    login_error,
    silent_listener_error,
    unreachable_error,
)
from sparkmirror.kafka.sasl_adapter import SaslAdapter
from sparkmirror.security.tls import client_context
from sparkmirror.wire.settings import ConnectionSettings

T = TypeVar("T")

_NEVER_MS = 10 * 365 * 24 * 3600 * 1000  # kafka-python has no word for it


class _DirectSockets(KafkaNetSocket):  # type: ignore[misc] # kafka-python has no types
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


def open_client(kind: type[T], connection: ConnectionSettings, **options: object) -> T:
    """A connected client of that kind; UnreachableError within the connect timeout otherwise."""
    raise_if_refused(connection)
    _check_bootstrap(connection)
    managers: list[ConnectionManager] = []
    networks: list[Any] = []
    settings: dict[str, Any] = {
        "bootstrap_servers": list(connection.bootstrap_servers),
        "client_id": connection.client_id,
        "request_timeout_ms": round(connection.request_timeout_seconds * 1000),
        "bootstrap_timeout_ms": round(connection.connect_timeout_seconds * 1000),
        "reconnect_backoff_max_ms": 1000,
        "send_buffer_bytes": _buffer(connection.send_buffer_bytes),
        "receive_buffer_bytes": _buffer(connection.receive_buffer_bytes),
        "connections_max_idle_ms": _idle_ms(connection.max_idle_seconds),
        "proxy_url": "direct://",
        "kafka_client": partial(_open_network, connection, managers, networks),
        **_security_options(connection),
    }
    try:
        return kind(**(settings | options))
    except KafkaError as error:
        for network in networks:
            network.close()
        raise _failure(connection, error, managers) from error


def _failure(
    connection: ConnectionSettings, error: KafkaError, managers: list[ConnectionManager]
) -> ClusterError:
    if isinstance(error, KafkaTimeoutError):
        last = managers[0].last_failure if managers else None
        return silent_listener_error(connection, "connecting", str(last or error))
    return cluster_error(connection, "connecting", error)


def _security_options(connection: ConnectionSettings) -> dict[str, Any]:
    """What kafka-python has to know; AuthenticationError if there is no token, ticket or key."""
    security = connection.security
    options: dict[str, Any] = {"security_protocol": security.protocol.value}
    if security.tls is not None:
        options["ssl_context"] = _context(security.tls)
    if security.sasl is not None:
        login = SaslAdapter(security.sasl)
        try:
            # Here, so that no thread of kafka-python waits for a token, for AWS's keys or for the
            # ticket of the principal; those for brokers are asked for where connections are made.
            login.prepare([_host(one) for one in connection.bootstrap_servers])
        except AuthenticationError as error:
            raise login_error(connection, error) from error
        options["sasl_mechanism"] = security.sasl.mechanism.value
        options["sasl_oauth_token_provider"] = login
    return options


_context = lru_cache(maxsize=64)(client_context)  # to read what is trusted takes a while


def _check_bootstrap(connection: ConnectionSettings) -> None:
    reasons = []
    timeout_seconds = connection.connect_timeout_seconds / len(connection.bootstrap_servers)
    for address in connection.bootstrap_servers:
        try:
            port = int(address.rpartition(":")[2])
            hosts = resolve_blocking(_host(address), port, timeout_seconds)
            _try_hosts(hosts, port, timeout_seconds)
        except (OSError, ValueError) as error:
            reasons.append(f"{address}: {error}")
        else:
            return
    raise unreachable_error(connection, "connecting", "; ".join(reasons))


def _try_hosts(hosts: list[str], port: int, timeout_seconds: float) -> None:
    """OSError if none of them takes a connection."""
    for host in hosts:
        try:
            socket.create_connection((host, port), timeout_seconds).close()
        except OSError:
            if host == hosts[-1]:
                raise
        else:
            return


def _host(address: str) -> str:
    return address.rpartition(":")[0].strip("[]")


def _open_network(
    connection: ConnectionSettings,
    managers: list[ConnectionManager],
    opened: list[Any],
    **configs: object,
) -> object:
    connect_timeout_ms = round(connection.connect_timeout_seconds * 1000)
    configs |= {
        "socket_connection_setup_timeout_ms": connect_timeout_ms,
        "socket_connection_setup_timeout_max_ms": connect_timeout_ms,
        "slow_task_threshold_secs": 0,  # decoding a large answer is slow, not stuck: no warning
    }
    net = NetworkSelector(**configs)
    manager = ConnectionManager(net, connection, **configs)
    managers.append(manager)
    network = KafkaNetClient(net=net, manager=manager)
    opened.append(network)
    return network


def _idle_ms(seconds: float | None) -> int:
    return _NEVER_MS if seconds is None else round(seconds * 1000)


def _buffer(size: int) -> int | None:
    return None if size < 0 else size
