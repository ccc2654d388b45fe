# SPDX-License-Identifier: Apache-2.0
"""Record batches written to one broker exactly as a test made them, many a second.

Client libraries decide about batches themselves and refuse odd ones (header keys that are not
UTF-8), and one produce request per tiny record batch costs them and the broker 0.2 ms; here a
request carries one record batch for each of many partitions.

    request   size i32, key i16 = 0, version i16 = 3, correlation i32, client str,
              transactional id str? = -1, acks i16, timeout i32, topics [name str, partitions
              [index i32, record batch bytes]]
    response  size i32, correlation i32, topics [name str, partitions [index i32, error i16,
              base offset i64, append time i64]], throttle i32
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Mapping

from support.clients.librdkafka import Cluster
from support.waiting import PATIENCE_SECONDS, eventually

_CLIENT = b"raw-producer"
_MOST_UNANSWERED = 20
_ALL = -1
_UNKNOWN_PARTITION, _NOT_LEADER = 3, 6
_TIMEOUT_MS = 30_000


def produce_batches(
    cluster: Cluster, topic: str, requests: Iterable[Mapping[int, bytes | bytearray]]
) -> None:
    """Send each mapping of partition -> record batch as one request; all must be taken."""
    host, _, port = cluster.bootstrap_servers.rpartition(":")
    assert "," not in host, "one broker leads all partitions"
    with socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS) as connection:
        requests = iter(requests)
        _send_first(connection, topic, next(requests))
        unanswered = 0
        for batches in requests:
            if unanswered == _MOST_UNANSWERED:
                _check(connection, topic)
                unanswered -= 1
            connection.sendall(_request(topic, batches))
            unanswered += 1
        for _ in range(unanswered):
            _check(connection, topic)


def _send_first(
    connection: socket.socket, topic: str, batches: Mapping[int, bytes | bytearray]
) -> None:
    """The first one may come before the broker knows that it leads a new partition."""
    left = dict(batches)

    def taken() -> bool:
        connection.sendall(_request(topic, left))
        for index, code in _codes(connection, topic).items():
            assert code in (0, _UNKNOWN_PARTITION, _NOT_LEADER), code
            if code == 0:
                del left[index]
        return not left

    eventually(taken, PATIENCE_SECONDS, f"the leaders of {topic} are there", not_yet=())


def _request(topic: str, batches: Mapping[int, bytes | bytearray]) -> bytes:
    name = topic.encode()
    parts = [
        struct.pack(">hhih", 0, 3, 0, len(_CLIENT)) + _CLIENT,
        struct.pack(">hhii", -1, _ALL, _TIMEOUT_MS, 1),
        struct.pack(">h", len(name)) + name + struct.pack(">i", len(batches)),
    ]
    for index, batch in batches.items():
        parts += (struct.pack(">ii", index, len(batch)), batch)
    body = b"".join(parts)
    return struct.pack(">i", len(body)) + body


def _check(connection: socket.socket, topic: str) -> None:
    """Read one answer; fail with the codes of what was refused."""
    codes = _codes(connection, topic)
    assert not any(codes.values()), f"refused: {codes}"


def _codes(connection: socket.socket, topic: str) -> dict[int, int]:
    """Read one answer: partition -> error code."""
    (size,) = struct.unpack(">i", _read(connection, 4))
    answer = _read(connection, size)
    at = 4 + 4 + 2 + len(topic.encode())
    (partitions,) = struct.unpack_from(">i", answer, at)
    at += 4
    codes = {}
    for _ in range(partitions):
        index, code = struct.unpack_from(">ih", answer, at)
        codes[index] = code
        at += 4 + 2 + 8 + 8
    return codes


def _read(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        assert chunk, "the broker hung up"
        received += chunk
    return bytes(received)
