# SPDX-License-Identifier: Apache-2.0
"""kafka-python's way to connect, with TLS that has a time limit and failures that are told.

kafka-python waits for a TLS handshake without limit, forgets its socket when it fails, drops what a
broker says in the moment in which it hangs up, and tries again until the time is up whatever the
reason; a wrong password would be sent dozens of times. Here a refusal ends the attempt at once. A
client that nobody uses looks at its cluster, too, and servers lock users out who are refused often:
so the broker is left alone for a while, which grows, and whoever asks meanwhile hears why.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from kafka.errors import (
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from kafka.net.inet import create_connection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from sparkmirror.kafka.failures import Connection, refusal
from sparkmirror.security.settings import Security
from sparkmirror.security.words import clean_words

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 30.0


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
    log_in: Callable[..., Any], security: Security, *args: Any, **kwargs: Any
) -> None:
    """kafka-python writes into its log what a broker says, so that is cleaned where it arises."""
    try:
        await log_in(*args, **kwargs)
    except (SaslAuthenticationFailedError, UnsupportedSaslMechanismError) as error:
        said = (clean_words(str(one), security) for one in error.args)
        raise type(error)(*said) from None


class _Refusal(NamedTuple):
    error: KafkaError
    pause_seconds: float
    until: float

    def is_over(self) -> bool:
        return time.monotonic() >= self.until


class TellingManager(KafkaConnectionManager):  # type: ignore[misc] # kafka-python has no types
    """All connections of one client."""

    def __init__(self, net: object, connection: Connection, **configs: object) -> None:
        super().__init__(net, **configs)
        self._connection = connection
        self.last_failure: KafkaError | None = None
        self._refusals: dict[Any, _Refusal] = {}  # by node, until it lets us in

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        sock = await create_connection(
            self._net,
            node.host,
            node.port,
            self.config["socket_options"],
            proxy_url=self.config["proxy_url"],
            timeout_at=timeout_at,
        )
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

    async def _connect(self, node: Any, conn: Any, *args: Any, **kwargs: Any) -> None:
        # Later logins on the same connection (KIP-368) go the same way.
        conn._sasl_authenticate = partial(  # noqa: SLF001 - there is no other way to its errors
            _log_in,
            conn._sasl_authenticate,  # noqa: SLF001
            self._connection.security,
        )
        await super()._connect(node, conn, *args, **kwargs)
        error = conn.init_future.exception
        if conn.init_future.succeeded():
            self._refusals.pop(node.node_id, None)
        if isinstance(error, KafkaError):
            error.address = f"{node.host}:{node.port}"
            self.last_failure = error
            if refusal(self._connection, error) is not None:
                self._leave_alone(node.node_id, error)

    def _leave_alone(self, node_id: Any, error: KafkaError) -> None:
        before = self._refusals.get(node_id)
        wanted = FIRST_PAUSE_SECONDS if before is None else 2 * before.pause_seconds
        pause = min(wanted, LONGEST_PAUSE_SECONDS)
        self._refusals[node_id] = _Refusal(error, pause, time.monotonic() + pause)

    def connection_delay(self, node_id: Any) -> float:
        """Seconds for which a node is not to be tried."""
        refused = self._refusals.get(node_id)
        pause = 0.0 if refused is None else refused.until - time.monotonic()
        return max(pause, float(super().connection_delay(node_id)))

    def get_connection(self, node_id: Any, *args: Any, **kwargs: Any) -> Any:
        """If no node may be tried, that is because of a refusal where there was one."""
        if node_id is None:
            for one in self._refusals:
                self.maybe_raise_auth_failure(one)
        return super().get_connection(node_id, *args, **kwargs)

    def maybe_raise_auth_failure(self, node_id: Any) -> None:
        """Tell it until the pause is over: the next question tries anew."""
        refused = self._refusals.get(node_id)
        if refused is not None and not refused.is_over():
            raise refused.error
