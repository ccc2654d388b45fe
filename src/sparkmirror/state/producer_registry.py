# SPDX-License-Identifier: Apache-2.0
"""The producer registry of one cluster: which producer ids and flows write to it. Blocking.

Each `refresh` reads only what is new. Entries are never deleted, so what was read stays valid even
if the topic is deleted; the next `register` writes it again. Not thread-safe.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TypeAlias

from sparkmirror.errors import BrokerError, ClusterError, WireError, join_sentences
from sparkmirror.formats.producer_registry import (
    PRODUCERS_TOPIC,
    RegisteredFlow,
    RegisteredProducer,
)
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import Closable, ClusterClient
from sparkmirror.kafka.topic_log import KeyValue, TopicLog
from sparkmirror.model import TopicPartition
from sparkmirror.wire import error_codes
from sparkmirror.wire.settings import ConnectionSettings

_Entry: TypeAlias = RegisteredProducer | RegisteredFlow

_PARTITION = 0
_log = logging.getLogger(__name__)


class ProducerRegistry(Closable):
    """The registry topic on one cluster, as of the last `refresh`."""

    def __init__(self, connection: ConnectionSettings) -> None:
        self._client = ClusterClient(connection)
        self._admin = ClusterAdmin(connection, self._client)
        self._log = TopicLog(connection, PRODUCERS_TOPIC, client=self._client)
        self._since: dict[TopicPartition, int] = {}
        self.cluster_id = ""  # empty before `identify`
        self.exists = False
        self.producers: dict[int, RegisteredProducer] = {}  # of this cluster, by producer id
        self.flows: dict[bytes, RegisteredFlow] = {}  # by key
        self._written: set[bytes] = set()  # keys in the topic as it is now

    def close(self) -> None:
        self._client.close()

    def identify(self) -> None:
        """Read the id of the cluster. Raises ClusterError."""
        if not self.cluster_id:
            alias = self._client.connection.alias
            self.cluster_id = self._admin.cluster().cluster_id or f"alias:{alias}"

    def refresh(self) -> None:
        """Read new entries. A cluster without the topic has none. Raises ClusterError."""
        self.identify()
        try:
            self._read()
        except BrokerError as error:
            if error.code != error_codes.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            self.exists = False
            self._forget_log()

    def _forget_log(self) -> None:
        self._since.clear()
        self._written.clear()

    def _read(self) -> None:
        with self._log as log:
            if log.was_replaced(self._since):
                self._forget_log()
            since = dict(self._since)
            for record in log.read_to_end(since=since):
                self._add(record.key, record.value)
            self._since = since
            self.exists = True

    def _add(self, key: bytes | None, value: bytes | None) -> None:
        if key is None or value is None:
            return
        try:
            producer = RegisteredProducer.from_record(key, value)
            flow = RegisteredFlow.from_record(key, value)
            is_same = flow is None or (flow.key() == key and bool(flow.value()))  # encodable
        except WireError as error:
            alias = self._client.connection.alias
            skipped = f"{alias}: skipped a record in topic {PRODUCERS_TOPIC}: {error}"
            remedy = "Another program writes to this topic; stop it."
            _log.warning(join_sentences([skipped, remedy]))
            return
        self._written.add(key)
        if producer is not None and producer.cluster_id == self.cluster_id:
            self.producers[producer.producer_id] = producer
        if flow is not None and is_same:
            self.flows[key] = flow

    def register(
        self, producers: Iterable[RegisteredProducer], flows: Iterable[RegisteredFlow] = ()
    ) -> None:
        """Write entries, and wait until all replicas have them.

        Raises ClusterError, also if a producer id is registered for another flow: its records
        would be taken for those of the other one.
        """
        new = [one for one in producers if self.producers.get(one.producer_id) != one]
        for one in new:
            if self.is_of_another(one.producer_id, one.source_cluster_id):
                raise ClusterError(self._conflict(one), cluster=self._client.connection.alias)
        flows = list(flows)
        added: list[_Entry] = [*new, *flows]
        written = self._written | {one.key() for one in added}
        known: list[_Entry] = [*self.producers.values(), *self.flows.values()]
        lost = [one for one in known if one.key() not in written]
        records: list[KeyValue] = [(one.key(), one.value()) for one in (*lost, *added)]
        if not records:
            return
        with self._log as log:
            log.append({_PARTITION: records})
        self.producers |= {one.producer_id: one for one in new}
        self.flows |= {one.key(): one for one in flows}
        self._written = written | {one.key() for one in lost}

    def is_of_another(self, producer_id: int, source_cluster_id: str) -> bool:
        """Whether a producer id is registered for a flow from another cluster."""
        known = self.producers.get(producer_id)
        return known is not None and known.source_cluster_id != source_cluster_id

    def _conflict(self, one: RegisteredProducer) -> str:
        known = self.producers[one.producer_id]
        return (
            f"Cluster '{self._client.connection.alias}': producer id {one.producer_id} of "
            f"{one.flow}, from cluster {one.source_cluster_id}, is registered for {known.flow} "
            f"from cluster {known.source_cluster_id} in topic '{PRODUCERS_TOPIC}'. Records of both "
            "could not be told apart. Delete the stored offsets of the flow that was set up "
            "again; then it gets another producer id."
        )
