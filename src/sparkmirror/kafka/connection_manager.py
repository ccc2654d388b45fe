# SPDX-License-Identifier: Apache-2.0
"""kafka-python's way to connect, with TLS that has a time limit and failures that are told.

kafka-python lets everything wait while it resolves a name, waits for a TLS handshake without limit,
forgets its socket when it fails, drops what a broker says in the moment in which it hangs up, and
tries again until the time is up whatever the reason; a wrong password would be sent dozens of
times. Here a refusal ends the attempt at once. A client that nobody uses looks at its cluster, too,
others are opened anew all the time, and servers lock users out who are refused often: so no client
of the process tries the same login at the same broker for a while, which grows, and whoever asks
meanwhile hears why.

It also makes room for whatever length a peer announces, before the peer has proved anything, and
stops reading without a word where an answer is none. Here such a connection is lost at once.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from kafka.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaProtocolError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from kafka.net.inet import create_connection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from sparkmirror.kafka.async_resolver import resolve
from sparkmirror.kafka.error_mapping import (
    authentication_error,
    cluster_error,
)
from sparkmirror.security.circuit_breaker import MAX_PAUSE_SECONDS, CircuitBreaker
from sparkmirror.security.redaction import redact_broker_message
from sparkmirror.security.settings import SecuritySettings
from sparkmirror.wire.dialing import Address
from sparkmirror.wire.frames import MAX_UNTRUSTED_FRAME_BYTES
from sparkmirror.wire.responses import DECODE_ERRORS
from sparkmirror.wire.settings import ConnectionSettings

# What time heals (a token endpoint that is down) is not counted against anybody.
_LONGEST_RETRIABLE_SECONDS = 5.0

# Of all clients of the process: who refused which login.
_refusals = CircuitBreaker[tuple[Address, SecuritySettings], KafkaError]()


def raise_if_refused(connection: ConnectionSettings) -> None:
    """AuthenticationError if none of the addresses is to be tried yet."""
    now, found = time.monotonic(), None
    for text in connection.bootstrap_servers:
        host, _, port = text.rpartition(":")
        if not port.isdecimal():
            return
        address = Address(host.strip("[]"), int(port))
        found = _refusals.current_error((address, connection.security), now)
        if found is None:
            return
    if found is not None:
        raise cluster_error(connection, "connecting", found) from found


class _Transport(KafkaTCPTransport):  # type: ignore[misc] # kafka-python has no types
    def _sock_recv(self) -> tuple[bytes, KafkaError | None]:
        return _last_words(super()._sock_recv())


class _TlsTransport(KafkaSSLTransport):  # type: ignore[misc] # kafka-python has no types
    def _sock_recv(self) -> tuple[bytes, KafkaError | None]:
        return _last_words(super()._sock_recv())

    async def shake_hands(self, timeout_at: float | None) -> None:
        while True:
            try:
                self._sock.do_handshake()
            except ssl.SSLWantReadError:
                await self._net.wait_read(self._sock, timeout_at=timeout_at)
            except ssl.SSLWantWriteError:
                await self._net.wait_write(self._sock, timeout_at=timeout_at)
            else:
                return


def _last_words(received: tuple[bytes, KafkaError | None]) -> tuple[bytes, KafkaError | None]:
    """What came before the end counts; the end is found again by the next look."""
    data, error = received
    return data, None if data else error


async def _log_in(
    log_in: Callable[..., Any], security: SecuritySettings, *args: Any, **kwargs: Any
) -> None:
    """kafka-python writes into its log what a broker says, so that is cleaned where it arises."""
    try:
        await log_in(*args, **kwargs)
    except (SaslAuthenticationFailedError, UnsupportedSaslMechanismError) as error:
        said = (redact_broker_message(str(one), security) for one in error.args)
        raise type(error)(*said) from None


def _receive(receive: Callable[[bytes], None], data: bytes) -> None:
    """An answer that cannot be read is the end of its connection, in whatever way it is none."""
    try:
        receive(data)
    except DECODE_ERRORS as error:
        raise KafkaProtocolError(f"an answer cannot be read ({type(error).__name__})") from error


class ConnectionManager(KafkaConnectionManager):  # type: ignore[misc] # kafka-python has no types
    """All connections of one client."""

    def __init__(self, net: object, connection: ConnectionSettings, **configs: object) -> None:
        super().__init__(net, **configs)
        self._connection = connection
        self.last_failure: KafkaError | None = None
        # One that is left alone must not keep us from the others.
        self.cluster.bootstrap_brokers = partial(self._welcoming, self.cluster.bootstrap_brokers)

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        refused = _refusals.begin_trial(self._key(node), time.monotonic())
        if refused is not None:
            raise refused.with_traceback(None)
        sock = await self._connect_socket(node, timeout_at)
        if not self.ssl_enabled:
            return _Transport(self._net, sock, host=node.host)
        try:
            transport = _TlsTransport(
                self._net, sock, host=node.host.rstrip("."), ssl_context=self.config["ssl_context"]
            )
        except BaseException:
            sock.close()
            raise
        try:
            await transport.shake_hands(timeout_at)
        except BaseException as error:
            transport.abort(error)
            if isinstance(error, OSError):
                raise KafkaConnectionError(f"TLS with {node.host}:{node.port}: {error}") from error
            raise
        return transport

    async def _connect_socket(self, node: Any, timeout_at: float | None) -> Any:
        """A connection to the first of the node's addresses that takes one."""
        hosts = await resolve(self._net, node.host, node.port, timeout_at)
        for host in hosts:
            try:
                return await create_connection(
                    self._net,
                    host,
                    node.port,
                    self.config["socket_options"],
                    proxy_url=self.config["proxy_url"],
                    timeout_at=timeout_at,
                )
            except KafkaConnectionError:
                if host == hosts[-1]:
                    raise
        raise KafkaConnectionError(f"{node.host} does not resolve")

    async def _connect(self, node: Any, conn: Any, *args: Any, **kwargs: Any) -> None:
        # Later logins on the same connection (KIP-368) go the same way.
        conn._sasl_authenticate = partial(  # noqa: SLF001 - there is no other way to its errors
            _log_in,
            conn._sasl_authenticate,  # noqa: SLF001
            self._connection.security,
        )
        conn.data_received = partial(_receive, conn.data_received)
        conn.config["receive_message_max_bytes"] = MAX_UNTRUSTED_FRAME_BYTES
        await super()._connect(node, conn, *args, **kwargs)
        error = conn.init_future.exception
        if conn.init_future.succeeded():
            _refusals.record_success(self._key(node))
            if conn.parser is not None:  # it is a broker: its answers may be large from now on
                conn.parser._max_frame_size = self.config["receive_message_max_bytes"]  # noqa: SLF001
            return
        if isinstance(error, KafkaError):
            error.address = f"{node.host}:{node.port}"
            self.last_failure = error
        self._note(node, error)

    def _note(self, node: Any, error: object) -> None:
        refused = (
            authentication_error(self._connection, error) if isinstance(error, KafkaError) else None
        )
        if refused is None:
            _refusals.cancel_trial(self._key(node), time.monotonic())
            return
        longest = _LONGEST_RETRIABLE_SECONDS if refused.retriable else MAX_PAUSE_SECONDS
        _refusals.record_failure(self._key(node), error, time.monotonic(), longest)

    def _key(self, node: Any) -> tuple[Address, SecuritySettings]:
        return Address(node.host, node.port), self._connection.security

    def _left_alone(self, node_id: Any) -> tuple[Address, SecuritySettings] | None:
        """What to ask the refusals for; None if there is a connection, or one is being made."""
        conn = self._conns.get(node_id)
        node = self.cluster.broker_metadata(node_id)
        has_one = conn is not None and not conn.closed
        return None if node is None or has_one else self._key(node)

    def _welcoming(self, brokers: Callable[[], list[Any]]) -> list[Any]:
        """Those that have not just refused us; all, if there is none."""
        now, found = time.monotonic(), brokers()
        return [
            one for one in found if _refusals.current_error(self._key(one), now) is None
        ] or found

    def connection_delay(self, node_id: Any) -> float:
        """Seconds for which a node is not to be tried."""
        key = self._left_alone(node_id)
        pause = 0.0 if key is None else _refusals.seconds_until_retry(key, time.monotonic())
        return max(pause, float(super().connection_delay(node_id)))

    def get_connection(self, node_id: Any, *args: Any, **kwargs: Any) -> Any:
        """If no node may be tried, that is because of a refusal where there was one."""
        if node_id is None:
            for one in (*self.cluster.brokers(), *self.cluster.bootstrap_brokers()):
                self.maybe_raise_auth_failure(one.node_id)
        return super().get_connection(node_id, *args, **kwargs)

    def maybe_raise_auth_failure(self, node_id: Any) -> None:
        """Tell it until the pause is over: the next question tries anew."""
        key = self._left_alone(node_id)
        refused = None if key is None else _refusals.current_error(key, time.monotonic())
        if refused is not None:
            raise refused.with_traceback(None)
