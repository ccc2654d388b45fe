# SPDX-License-Identifier: Apache-2.0
"""Measures the wire alone: a connection sends record batches to a peer that echoes them.

The peer is another process, so only our CPU is counted.
"""

from __future__ import annotations

import multiprocessing
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe

from sparkmirror.errors import UnreachableError
from sparkmirror.model import Secret
from sparkmirror.security.settings import PLAINTEXT, SecurityProtocol, SecuritySettings, TlsSettings
from sparkmirror.security.tls import server_context
from sparkmirror.wire.connection import BrokerConnection
from sparkmirror.wire.dialing import Address
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.settings import ConnectionSettings
from support.data.certificates import Authority
from support.peers.secure_broker import ECHO, SecureBroker

_PATIENCE_SECONDS = 60.0
_BATCHES, _BATCH_BYTES = 8, 128 << 10  # in a request
_UNDER_WAY = 4  # requests
_WARM_UP = 50 << 20
_HEADER = struct.Struct(">ihhi")


def megabytes_per_cpu_second(*, is_secured: bool, total: int) -> float:
    """Measure payload that is sent and received once, as in a task."""
    security, shown = PLAINTEXT, None
    if is_secured:
        authority = Authority("benchmark")
        identity = authority.identity()
        security = SecuritySettings(SecurityProtocol.SSL, TlsSettings(trusted=authority.pem))
        shown = (identity.chain, identity.key)
    with _peer(shown) as address:
        settings = ConnectionSettings(
            "peer", (), "bench", _PATIENCE_SECONDS, _PATIENCE_SECONDS, security=security
        )
        loop = EventLoop()
        connection = BrokerConnection(loop, settings, address)
        _exchange(loop, connection, min(total, _WARM_UP))
        began = time.process_time()
        _exchange(loop, connection, total)
        used = time.process_time() - began
        connection.close("measured")
        loop.close()
    return total / 1e6 / used


def _exchange(loop: EventLoop, connection: BrokerConnection, total: int) -> None:
    batches = [memoryview(bytearray(os.urandom(_BATCH_BYTES))) for _ in range(_BATCHES)]
    size = _BATCHES * _BATCH_BYTES
    sent = received = 0
    failures: list[UnreachableError] = []

    def header(correlation_id: int) -> bytes:
        return _HEADER.pack(_HEADER.size - 4 + size, ECHO, 0, correlation_id)

    def send() -> None:
        nonlocal sent
        sent += size
        connection.send_buffers(header, batches, answered, failures.append)

    def answered(frame: memoryview) -> None:
        nonlocal received
        received += len(frame) - 4
        if sent < total:
            send()

    for _ in range(_UNDER_WAY):
        connection.when_ready(send, failures.append)
    while received < max(sent, total):
        loop.run_once(1.0)
        if failures:
            raise failures[0]


@contextmanager
def _peer(shown: tuple[str, str] | None) -> Iterator[Address]:
    """Run a process that echoes everything; `shown` is its certificate and key."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(there, shown), daemon=True)
    process.start()
    there.close()
    try:
        if not here.poll(_PATIENCE_SECONDS):
            raise TimeoutError("the peer did not start")
        yield here.recv()
    finally:
        here.close()
        process.join(_PATIENCE_SECONDS)
        process.kill()


def _serve(pipe: Pipe, shown: tuple[str, str] | None) -> None:
    context = None
    if shown is not None:
        chain, key = shown
        context = server_context(TlsSettings(chain=chain, key=Secret(key)), "none")
    with SecureBroker(context) as peer:
        pipe.send(peer.address)
        pipe.poll(None)  # until the other end is closed
