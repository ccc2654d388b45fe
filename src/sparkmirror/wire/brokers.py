# SPDX-License-Identifier: Apache-2.0
"""The brokers of one cluster: their addresses and the connections to them.

After a broker refuses a login, a circuit breaker blocks further logins with the same credentials,
for all connections of the process. Missing credentials (a token endpoint that is down) do not open
the breaker: token sources have their own backoff.
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
from sparkmirror.wire.connection import BrokerConnection, Traffic
from sparkmirror.wire.dialing import Address
from sparkmirror.wire.dns_resolver import RESOLVER, DnsResolver
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.settings import ConnectionSettings

_MAX_RETRIABLE_PAUSE_SECONDS = 5.0

LoginBreaker = CircuitBreaker[tuple[Address, SecuritySettings], Refusal]
LOGIN_BREAKER = LoginBreaker()  # shared by all connections of the process


class Brokers:
    """Opens connections on demand. Owned by the loop's thread.

    Calls `on_ready` with each new connection, before its first request.
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
        self.traffic = Traffic()
        self.bootstrap_addresses = [Address.parse(one) for one in settings.bootstrap_servers]
        count = max(1, len(self.bootstrap_addresses))
        self._next_bootstrap = random.randrange(count)  # noqa: S311 - spreads load
        self._next_node = -1
        self._addresses: dict[int, Address] = {}
        self._listed: list[int] = []  # the nodes of the last metadata response
        self._connections: dict[tuple[int, int], BrokerConnection] = {}
        self._bootstrap: BrokerConnection | None = None

    @property
    def addresses(self) -> Mapping[int, Address]:
        """The advertised addresses of the live brokers, by node."""
        return {node: self._addresses[node] for node in self._listed}

    def learn(self, brokers: Iterable[Any]) -> None:
        """Update the addresses from a metadata response.

        Closes connections to brokers whose address changed. The bootstrap connection becomes the
        connection of the broker that advertises its address; if there is none, it is closed.
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
        """Return the connection to a broker; open it if there is none. Does not block.

        Each lane is a separate connection, because a broker serves one request per connection at a
        time. Raises ConnectionLostError.
        """
        connection = self._connections.get((node, lane))
        if connection is None or connection.closed:
            if node not in self._addresses:
                reason = "the broker is not in the metadata"
                raise self._error(str(node), LossKind.UNREACHABLE, reason)
            connection = self._open(self._addresses[node])
            self._connections[node, lane] = connection
        return connection

    def bootstrap_connection(self, connect_seconds: float | None = None) -> BrokerConnection:
        """Return a connection to any address; after a loss, to the next address.

        Skips addresses that refused a login recently, unless all did.
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
        return sorted(
            node
            for (node, lane), one in self._connections.items()
            if not lane and not one.closed and one.api_versions
        )

    def next_node(self) -> int | None:
        """Return the next broker in turn, for a request that any broker can serve.

        Skips brokers that refused a login recently, unless all did.
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
        """Close idle connections and those with a request that timed out."""
        now = time.monotonic()
        for connection in self.connections():
            connection.check_timeout(now)
            connection.check_idle(now)

    def connections(self) -> list[BrokerConnection]:
        own = [] if self._bootstrap is None else [self._bootstrap]
        return [*self._connections.values(), *own]

    def close(self, reason: str) -> None:
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
                traffic=self.traffic,
            )
        except ConnectionLostError:
            LOGIN_BREAKER.cancel_trial(key, time.monotonic())
            raise

    def _is_refused(self, address: Address) -> bool:
        key = (address, self._settings.security)
        return LOGIN_BREAKER.current_error(key, time.monotonic()) is not None

    def on_connection_ready(self, connection: BrokerConnection) -> None:
        """Close the circuit breaker: the login succeeded."""
        LOGIN_BREAKER.record_success((connection.address, self._settings.security))
        if self._on_ready is not None:
            self._on_ready(connection)

    def on_connection_refused(self, connection: BrokerConnection, refusal: Refusal) -> None:
        """Open the circuit breaker: the broker refused the login."""
        longest = _MAX_RETRIABLE_PAUSE_SECONDS if refusal.retriable else MAX_PAUSE_SECONDS
        key = (connection.address, self._settings.security)
        LOGIN_BREAKER.record_failure(key, refusal, time.monotonic(), longest)

    def on_connection_failed(self, connection: BrokerConnection) -> None:
        """Allow another connection to try the login."""
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
