# SPDX-License-Identifier: Apache-2.0
"""What a task knows of one cluster: its brokers, who leads what, and a connection to each.

Metadata is asked for when somebody needs it (`refresh`), never more than once at a time, with a
growing pause while nobody answers; a broker that refuses us is left alone for longer. Owned by the
loop's thread.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from kafka.protocol.metadata import MetadataRequest

from sparkmirror.errors import UnreachableError
from sparkmirror.model import TopicPartition
from sparkmirror.security.refusals import Refusals
from sparkmirror.wire import error_codes
from sparkmirror.wire.connection import Connection
from sparkmirror.wire.dialer import Address, Dialer
from sparkmirror.wire.loop import Loop, Timer

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 5.0
_TROUBLE_PAUSE = 1.0
_METADATA_VERSION = 12


class Leader(NamedTuple):
    """The broker that leads a partition, and since when."""

    node: int
    leader_epoch: int


class Cluster:
    """A cluster as seen from one task."""

    def __init__(self, loop: Loop, dialer: Dialer, bootstrap: Sequence[Address]) -> None:
        self._loop = loop
        self._dialer = dialer
        self._bootstrap = list(bootstrap)
        self._next_bootstrap = 0
        self._next_node = -1
        self._addresses: dict[int, Address] = {}
        self._connections: dict[tuple[int, int], Connection] = {}
        self._seed: Connection | None = None
        self._refusals = Refusals[Address, UnreachableError]()
        self._topics: set[str] = set()
        self._asking = False
        self._wanted = False
        self._pause = 0.0
        self._timer: Timer | None = None
        self._asked_at = 0.0
        self.leaders: dict[TopicPartition, Leader] = {}
        self.topic_ids: dict[str, uuid.UUID] = {}
        self.topic_names: dict[uuid.UUID, str] = {}
        self.topic_errors: dict[str, int] = {}
        self.trouble: UnreachableError | None = None
        self.on_metadata: list[Callable[[], None]] = []

    @property
    def alias(self) -> str:
        """The cluster's name in the configuration."""
        return self._dialer.cluster

    # --- metadata

    def want(self, topics: Iterable[str]) -> None:
        """Keep track of these topics from now on."""
        self._topics.update(topics)
        self.refresh()

    def refresh(self, after: float = 0.0) -> None:
        """Ask for metadata soon, or after a pause; many calls become one request."""
        self._wanted = True
        if self._asking:
            return
        now = time.monotonic()
        delay = max(after, self._asked_at + self._pause - now, 0.0)
        if self._timer is not None:
            if self._timer.due <= now + delay:
                return
            self._timer.cancel()
        self._timer = self._loop.call_later(delay, self._ask)

    def _ask(self) -> None:
        self._timer = None
        self._wanted = False
        self._asking = True
        self._asked_at = time.monotonic()
        try:
            connection = self._any_connection()
        except UnreachableError as error:
            self._failed(error)
            return
        connection.when_ready(lambda: self._send_request(connection), self._failed)

    def _send_request(self, connection: Connection) -> None:
        names = sorted(self._topics)
        message = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(topic_id=None, name=n) for n in names],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        connection.call(message, self._answered, self._failed, newest=_METADATA_VERSION)

    def _any_connection(self) -> Connection:
        for connection in self._connections.values():
            if not connection.closed and connection.api_versions:
                return connection
        if self._seed is None or self._seed.closed:
            choices = [*self._bootstrap, *self._addresses.values()]
            address = choices[self._next_bootstrap % len(choices)]
            self._next_bootstrap += 1
            self._seed = self._open(address)
        return self._seed

    def _failed(self, error: UnreachableError) -> None:
        self._asking = False
        self.trouble = error
        self._pause = min(max(self._pause * 2, _FIRST_PAUSE), _LONGEST_PAUSE)
        self.refresh()

    def _answered(self, answer: Any) -> None:
        self._asking = False
        self.trouble = None
        self._pause = _FIRST_PAUSE
        for broker in answer.brokers:
            address = Address(broker.host, broker.port)
            if self._addresses.get(broker.node_id) != address:
                self._addresses[broker.node_id] = address
                for key in [key for key in self._connections if key[0] == broker.node_id]:
                    self._connections.pop(key).close("the broker moved to another address")
        for topic in answer.topics:
            self._learn_topic(topic)
        if self._seed is not None and self._addresses:
            seed, self._seed = self._seed, None
            seed.close("no longer needed")
        for listener in self.on_metadata:
            listener()
        if self._wanted:
            self.refresh()

    def _learn_topic(self, topic: Any) -> None:
        if topic.error_code:
            self.topic_errors[topic.name] = topic.error_code
            for tp in [tp for tp in self.leaders if tp.topic == topic.name]:
                del self.leaders[tp]
            return
        self.topic_errors.pop(topic.name, None)
        topic_id = getattr(topic, "topic_id", None)
        if topic_id is not None:
            old = self.topic_ids.get(topic.name)
            if old is not None and old != topic_id:
                self.topic_names.pop(old, None)
            self.topic_ids[topic.name] = topic_id
            self.topic_names[topic_id] = topic.name
        for part in topic.partitions:
            tp = TopicPartition(topic.name, part.partition_index)
            if part.leader_id < 0:
                self.leaders.pop(tp, None)
            else:
                self.leaders[tp] = Leader(part.leader_id, part.leader_epoch)

    # --- brokers

    def connection(self, node: int, lane: int = 0) -> Connection:
        """The connection to a broker, opened if need be; raises UnreachableError at once.

        Another lane is another connection: a broker answers one request of each at a time.
        """
        connection = self._connections.get((node, lane))
        if connection is None or connection.closed:
            if node not in self._addresses:
                raise UnreachableError(
                    f"cluster {self.alias!r}: broker {node} is not in the metadata",
                    cluster=self.alias,
                )
            connection = self._open(self._addresses[node])
            self._connections[node, lane] = connection
        return connection

    def _open(self, address: Address) -> Connection:
        refusal = self._refusals.standing(address, time.monotonic())
        if refusal is not None:
            raise refusal

        def refused(error: UnreachableError) -> None:
            self._refusals.note(address, error, time.monotonic())

        return Connection(self._loop, self._dialer, address, refused)

    def any_node(self) -> int | None:
        """A broker that may be asked anything; another one each time."""
        nodes = sorted(self._addresses)
        self._next_node += 1
        return nodes[self._next_node % len(nodes)] if nodes else None

    def complain(self, error: UnreachableError) -> None:
        """A broker does not answer: show it until the cluster answers about its brokers again."""
        self.trouble = error
        self.refresh(after=_TROUBLE_PAUSE)

    def knows(self, tp: TopicPartition) -> bool:
        """Whether the cluster has been heard about this partition, well or badly."""
        return tp in self.leaders or tp.topic in self.topic_errors

    def leader_error(self, tp: TopicPartition) -> int:
        """Why a partition has no known leader, as an error code."""
        return self.topic_errors.get(tp.topic, error_codes.UNKNOWN_LEADER)

    def check_deadlines(self) -> None:
        """Close connections whose requests have waited too long, and those that nobody uses.

        Called about once a second.
        """
        now = time.monotonic()
        for connection in [*self._connections.values(), *([self._seed] if self._seed else [])]:
            connection.check_deadlines(now)
            connection.check_idle(now)

    def close(self) -> None:
        """Close every connection."""
        self.on_metadata.clear()
        for connection in [*self._connections.values(), *([self._seed] if self._seed else [])]:
            connection.close("the task ended")
        if self._timer is not None:
            self._timer.cancel()
