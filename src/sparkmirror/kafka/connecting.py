# SPDX-License-Identifier: Apache-2.0
"""kafka-python's way to connect, with TLS that has a time limit and failures that are told.

kafka-python waits for a TLS handshake without limit, forgets its socket when it fails, drops what a
broker says in the moment in which it hangs up, and tries again until the time is up whatever the
reason; a wrong password would be sent dozens of times. Here a refusal ends the attempt at once, and
is told to whoever asks next.
"""

from __future__ import annotations

import ssl
from typing import Any

from kafka.errors import KafkaConnectionError, KafkaError
from kafka.net.inet import create_connection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from sparkmirror.kafka.failures import Connection, refusal


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


class TellingManager(KafkaConnectionManager):  # type: ignore[misc] # kafka-python has no types
    """All connections of one client."""

    def __init__(self, net: object, connection: Connection, **configs: object) -> None:
        super().__init__(net, **configs)
        self._connection = connection
        self.last_failure: KafkaError | None = None

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
                self._net, sock, host=node.host, ssl_context=self.config["ssl_context"]
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
        await super()._connect(node, conn, *args, **kwargs)
        error = conn.init_future.exception
        if isinstance(error, KafkaError):
            error.address = f"{node.host}:{node.port}"
            self.last_failure = error
            if refusal(self._connection, error) is not None:
                self._auth_failures[node.node_id] = error

    def maybe_raise_auth_failure(self, node_id: Any) -> None:
        """Tell it once: the next question tries anew."""
        error = self._auth_failures.pop(node_id, None)
        if error is not None:
            raise error
