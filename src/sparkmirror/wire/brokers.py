# SPDX-License-Identifier: Apache-2.0
"""The brokers of one cluster: their addresses and the connections to them.

A broker that refuses a login is not tried again for a while, by no connection of the process with
the same credentials. Missing credentials (a token endpoint that is down) do not count: their
sources have pauses of their own.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sparkmirror.errors import ConnectionLostError, LossKind
from sparkmirror.security.circuit_breaker import MAX_PAUSE_SECONDS, CircuitBreaker
from sparkmirror.security.error_hints import Refusal
from sparkmirror.security.settings import SecuritySettings
from sparkmirror.wire.connection import BrokerConnection
from sparkmirror.wire.dialing import Address
from sparkmirror.wire.dns_resolver import RESOLVER, DnsResolver
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.settings import ConnectionSettings

_MAX_RETRIABLE_PAUSE_SECONDS = 5.0

LoginBreaker = CircuitBreaker[tuple[Address, SecuritySettings], Refusal]
LOGIN_BREAKER = LoginBreaker()  # of all connections of the process


class Brokers:
    """Opens connections when they are needed. Owned by the loop's thread.

    `on_ready` is called with each connection that has opened, before its first request.
    """

    def __init__(
        self,
        loop: EventLoop,
        settings: ConnectionSettings,
        *,
        resolver: DnsResolver = RESOLVER,
        on_ready: Callable[[BrokerConnection], None] | None = None,
    ) -> None:
        self._loop = loop
        self._settings = settings
        self._resolver = resolver
        self._on_ready = on_ready
        self.bootstrap_addresses = [Address.parse(one) for one in settings.bootstrap_servers]
        count = max(1, len(self.bootstrap_addresses))
        self._next_bootstrap = random.randrange(count)  # noqa: S311 - spreads load
        self._next_node = -1
        self._addresses: dict[int, Address] = {}
        self._listed: list[int] = []  # nodes that the last metadata response named
        self._connections: dict[tuple[int, int], BrokerConnection] = {}
        self._bootstrap: BrokerConnection | None = None

    @property
    def addresses(self) -> Mapping[int, Address]:
        """The advertised addresses of the brokers that are in the cluster, by node."""
        return {node: self._addresses[node] for node in self._listed}

    def learn(self, brokers: Iterable[Any]) -> None:
        """Take over the brokers of a metadata response.

        Connections to brokers that have moved are closed. The bootstrap connection becomes the
        connection of the broker that advertises its address, or is closed.
        """
        listed = {one.node_id: Address(one.host, one.port) for one in brokers}
        for node, address in listed.items():
            if self._addresses.get(node) != address:
                self._addresses[node] = address
                for key in [key for key in self._connections if key[0] == node]:
                    self._connections.pop(key).close("the broker moved to another address")
        self._listed = sorted(listed) or self._listed
        if self._bootstrap is not None and self._addresses:
            self._adopt(self._bootstrap)
            self._bootstrap = None

    def _adopt(self, bootstrap: BrokerConnection) -> None:
        for node in self._listed:
            known = self._connections.get((node, 0))
            if self._addresses[node] == bootstrap.address and (known is None or known.closed):
                self._connections[node, 0] = bootstrap
                return
        bootstrap.close("no longer needed")

    def connection(self, node: int, lane: int = 0) -> BrokerConnection:
        """The connection to a broker, opened if need be; raises ConnectionLostError at once.

        Another lane is another connection: a broker answers one request of each at a time.
        """
        connection = self._connections.get((node, lane))
        if connection is None or connection.closed:
            if node not in self._addresses:
                raise self._error(str(node), LossKind.UNREACHABLE, "it is not in the metadata")
            connection = self._open(self._addresses[node])
            self._connections[node, lane] = connection
        return connection

    def bootstrap_connection(self, connect_seconds: float | None = None) -> BrokerConnection:
        """A connection to any address; the next one after each that was lost.

        Addresses that refused a login lately are left out, unless all did.
        """
        if self._bootstrap is None or self._bootstrap.closed:
            choices = [*self.bootstrap_addresses, *self._addresses.values()]
            first = self._next_bootstrap % len(choices)
            order = [*choices[first:], *choices[:first]]
            at = next((n for n, one in enumerate(order) if not self._is_refused(one)), 0)
            self._next_bootstrap += at + 1
            self._bootstrap = self._open(order[at], connect_seconds)
        return self._bootstrap

    def ready_nodes(self) -> list[int]:
        """The brokers with an open connection."""
        return sorted(
            node
            for (node, lane), one in self._connections.items()
            if not lane and not one.closed and one.api_versions
        )

    def next_node(self) -> int | None:
        """A broker of the cluster for any request; another one each time.

        Those that refused a login lately are left out, unless all did.
        """
        nodes = [
            node
            for node in self._listed
            if self._is_open(node) or not self._is_refused(self._addresses[node])
        ] or self._listed
        self._next_node += 1
        return nodes[self._next_node % len(nodes)] if nodes else None

    def _is_open(self, node: int) -> bool:
        connection = self._connections.get((node, 0))
        return connection is not None and not connection.closed

    def check_timeouts(self) -> None:
        """Close connections whose requests have waited too long, and unused ones."""
        now = time.monotonic()
        for connection in self.connections():
            connection.check_timeout(now)
            connection.check_idle(now)

    def connections(self) -> list[BrokerConnection]:
        """All that were opened and are still of use."""
        own = [] if self._bootstrap is None else [self._bootstrap]
        return [*self._connections.values(), *own]

    def close(self, reason: str) -> None:
        """Close every connection."""
        for connection in self.connections():
            connection.close(reason)

    # --- logins

    def _open(self, address: Address, connect_seconds: float | None = None) -> BrokerConnection:
        key = (address, self._settings.security)
        refusal = LOGIN_BREAKER.begin_trial(key, time.monotonic())
        if refusal is not None:
            reason = refusal.explain(self._settings.security)
            raise self._error(str(address), LossKind.REFUSED, reason, refusal.retriable)
        try:
            return BrokerConnection(
                self._loop,
                self._settings,
                address,
                self,
                connect_seconds=connect_seconds,
                resolver=self._resolver,
            )
        except ConnectionLostError:
            LOGIN_BREAKER.cancel_trial(key, time.monotonic())
            raise

    def _is_refused(self, address: Address) -> bool:
        key = (address, self._settings.security)
        return LOGIN_BREAKER.current_error(key, time.monotonic()) is not None

    def on_connection_ready(self, connection: BrokerConnection) -> None:
        """Note that the broker let us in."""
        LOGIN_BREAKER.record_success((connection.address, self._settings.security))
        if self._on_ready is not None:
            self._on_ready(connection)

    def on_connection_refused(self, connection: BrokerConnection, refusal: Refusal) -> None:
        """Leave the broker alone for a while."""
        longest = _MAX_RETRIABLE_PAUSE_SECONDS if refusal.retriable else MAX_PAUSE_SECONDS
        key = (connection.address, self._settings.security)
        LOGIN_BREAKER.record_failure(key, refusal, time.monotonic(), longest)

    def on_connection_failed(self, connection: BrokerConnection) -> None:
        """Let another connection try the login."""
        key = (connection.address, self._settings.security)
        LOGIN_BREAKER.cancel_trial(key, time.monotonic())

    def _error(
        self, address: str, kind: LossKind, reason: str, retriable: bool = True
    ) -> ConnectionLostError:
        return ConnectionLostError(
            reason,
            cluster=self._settings.alias,
            address=address,
            kind=kind,
            retriable=retriable,
        )
