# SPDX-License-Identifier: Apache-2.0
"""The bytes of the probe, and brokers that do not respond yet."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

from sparkmirror.devcluster.metadata_probe import BrokerMetadata, fetch_broker_metadata
from sparkmirror.devcluster.ports import HOST


def text(value: str | None) -> bytes:
    """A Kafka string, nullable."""
    return (
        struct.pack(">h", -1) if value is None else struct.pack(">h", len(value)) + value.encode()
    )


def metadata(node_ids: list[int], controller: int, topic_error: int | None = None) -> bytes:
    """A framed Metadata response, version 4."""
    body = struct.pack(">iii", 7, 0, len(node_ids))
    for node_id in node_ids:
        body += struct.pack(">i", node_id) + text("host") + struct.pack(">i", 9092) + text(None)
    body += text("cluster") + struct.pack(">i", controller)
    if topic_error is None:
        body += struct.pack(">i", 0)
    else:
        body += struct.pack(">ih", 1, topic_error) + text("orders") + struct.pack(">?i", False, 0)
    return struct.pack(">i", len(body)) + body


@contextmanager
def server(answer: bytes) -> Iterator[int]:
    """A port whose one connection gets `answer` for its first bytes and is then closed."""
    with closing(socket.create_server((HOST, 0))) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with closing(connection):
                connection.recv(1024)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def test_brokers_and_controller_are_read() -> None:
    """Ids of all brokers, nullable strings skipped."""
    with server(metadata([1, 2, 3], controller=2)) as port:
        assert BrokerMetadata(frozenset({1, 2, 3}), has_controller=True) == fetch_broker_metadata(
            HOST, port, timeout_seconds=60
        )


def test_missing_controller_is_reported() -> None:
    """A broker that has not found its controller answers -1."""
    with server(metadata([], controller=-1)) as port:
        assert BrokerMetadata(frozenset(), has_controller=False) == fetch_broker_metadata(
            HOST, port, timeout_seconds=60
        )


def test_topic_error_is_read() -> None:
    """3 is UNKNOWN_TOPIC_OR_PARTITION."""
    with server(metadata([1], controller=1, topic_error=3)) as port:
        answer = fetch_broker_metadata(HOST, port, topic="orders", timeout_seconds=60)
    assert answer is not None
    assert answer.topic_error == 3


def test_cut_answers_mean_not_yet() -> None:
    """A broker that dies during its response is not an exception."""
    whole = metadata([1], controller=1)
    for answer in (b"", whole[:3], whole[:20], b"HTTP/1.1 400 Bad Request\r\n\r\n"):
        with server(answer) as port:
            assert fetch_broker_metadata(HOST, port, timeout_seconds=60) is None


def test_closed_port_means_not_yet() -> None:
    with closing(socket.socket()) as silent:
        silent.bind((HOST, 0))
        assert fetch_broker_metadata(HOST, silent.getsockname()[1], timeout_seconds=60) is None
