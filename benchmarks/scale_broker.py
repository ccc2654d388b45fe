# SPDX-License-Identifier: Apache-2.0
"""A scripted broker with many partitions, in a separate process.

`support.peers.scripted_cluster` implements the protocol; this adds fetch sessions and a port. All
partitions of a side have the same records.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from types import SimpleNamespace
from typing import Any

from sparkmirror.model import TopicPartition
from sparkmirror.wire.event_loop import EventLoop
from support.peers.scripted_cluster import ScriptedCluster

PARTITIONS = 10  # of a topic
PRODUCER_ID = 77
_VALUE = b"x" * 100
_IDS_VERSION = 13


@dataclass(frozen=True, slots=True)
class Side:
    """The records of one cluster."""

    alias: str
    topics: tuple[str, ...]
    internal_topics: tuple[str, ...] = ()
    records: int = 0  # of each partition
    is_ours: bool = False  # written by the flow's producer


@dataclass(slots=True)
class _Session:
    members: dict[TopicPartition, Any] = field(default_factory=dict)  # as last asked for
    appends: int = -1  # the cluster's count when all members were last checked


class _ServedSocket:
    """A socket that reads without blocking and writes everything."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.fileno = sock.fileno
        self.sendall = sock.sendall
        self.close = sock.close

    def recv(self, size: int) -> bytes:
        return self._socket.recv(size, socket.MSG_DONTWAIT)


class ScaleCluster(ScriptedCluster):
    """One broker with incremental fetch sessions."""

    def __init__(self, side: Side) -> None:
        super().__init__(side.alias, side.topics, PARTITIONS)
        producer = (PRODUCER_ID, 0, 0) if side.is_ours else (-1, -1, -1)
        for log in self.logs.values():
            if side.records:
                log.append([_VALUE] * side.records, producer=producer)
        for topic in side.internal_topics:
            self.create(topic)
        self._names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        self._sessions: dict[int, _Session] = {}
        self._appends = 0

    def wake(self) -> None:
        self._appends += 1
        super().wake()

    def _fetched(self, request: Any, version: int) -> tuple[Any, bool]:
        if request.session_epoch < 0:
            return super()._fetched(request, version)
        if request.session_epoch == 0 and not request.session_id:
            request.session_id = len(self._sessions) + 1  # also when it is answered later
            self._sessions[request.session_id] = _Session()
        session = self._sessions[request.session_id]
        changed = self._update(session, request, version)
        if session.appends != self._appends:
            session.appends, changed = self._appends, [*session.members]
        found: dict[str, list[Any]] = {}
        for tp in changed:
            one = session.members[tp]
            if one.fetch_offset != self.logs[tp].high_watermark:
                found.setdefault(tp.topic, []).append(one)
        topics = [
            SimpleNamespace(topic=name, topic_id=self.topic_ids[name], partitions=partitions)
            for name, partitions in found.items()
        ]
        answer, _is_empty = super()._fetched(SimpleNamespace(topics=topics), version)
        answer.session_id = request.session_id
        return answer, not topics

    def _update(self, session: _Session, request: Any, version: int) -> list[TopicPartition]:
        """Update the session with the partitions of the request."""

        def name(topic: Any) -> str:
            return self._names[topic.topic_id] if version >= _IDS_VERSION else topic.topic

        for topic in request.forgotten_topics_data or ():
            for index in topic.partitions:
                session.members.pop(TopicPartition(name(topic), index), None)
        named = {
            TopicPartition(name(topic), one.partition): one
            for topic in request.topics or ()
            for one in topic.partitions
        }
        session.members |= named
        return [*named]


class _Acceptor:
    def __init__(self, cluster: ScaleCluster, listener: socket.socket) -> None:
        self._cluster = cluster
        self._listener = listener

    def on_ready(self, _events: int) -> None:
        sock, _where = self._listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._cluster.accept(_ServedSocket(sock))


def _serve(sides: tuple[Side, ...], pipe: Pipe) -> None:
    """Serve each side on its own port until the process ends."""
    loop = EventLoop()
    addresses = []
    for side in sides:
        cluster = ScaleCluster(side)
        listener = socket.create_server(("127.0.0.1", 0))
        cluster.address = listener.getsockname()
        cluster.attach(loop)
        loop.watch(listener, selectors.EVENT_READ, _Acceptor(cluster, listener))
        addresses.append(f"127.0.0.1:{cluster.address[1]}")
    pipe.send(Served(addresses, time.process_time()))
    while True:
        loop.run_once(1.0)


@dataclass(frozen=True, slots=True)
class Served:
    """The addresses of one broker per side."""

    addresses: list[str]
    preparing_cpu: float  # seconds that it took to fill the logs


@contextmanager
def brokers(*sides: Side) -> Iterator[Served]:
    """Serve these sides until the block ends."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(sides, theirs), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        process.kill()
        process.join()
