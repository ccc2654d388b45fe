# SPDX-License-Identifier: Apache-2.0
"""What flows into a cluster wrote before there was a registry of producer ids.

Their producer ids are in the offsets topics and the transactional ids of that cluster. Positions
of Java MirrorMaker 2 have no producer id: its records cannot be recognized.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from sparkmirror.formats.producer_registry import RegisteredProducer
from sparkmirror.formats.source_offsets import SourceOffsetKey, StoredPosition
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.topic_log import TopicLog
from sparkmirror.kafka.transactions import TransactionalIds
from sparkmirror.wire.settings import ConnectionSettings

_PREFIX, _SUFFIX = "mm2-offsets", "internal"


class EarlierProducers:
    """The producers of all flows into one cluster, by the alias of their source."""

    def __init__(self, connection: ConnectionSettings) -> None:
        self._connection = connection
        self._ids: dict[str, set[int]] = defaultdict(set)
        self._names: dict[int, str] = {}  # transactional ids
        self._java: dict[str, set[str]] = defaultdict(set)  # topics with positions of Java MM2

    def read(self, sources: Collection[str]) -> None:
        """Read what flows from these aliases wrote. Raises ClusterError."""
        with ClusterAdmin(self._connection) as admin:
            names = admin.topics().found
        topics = {
            name: alias
            for name in sorted(names)
            if name.startswith(_PREFIX)
            and name.endswith(_SUFFIX)
            and (alias := name.removeprefix(_PREFIX).removesuffix(_SUFFIX)[1:-1]) in sources
        }
        for topic in topics:
            self._read_positions(topic)
        if topics:
            with TransactionalIds(self._connection) as ids:
                self._names = ids.names_by_producer_id()
        for alias in topics.values():
            group = f"{alias}-mm2-"
            self._ids[alias] |= {one for one, name in self._names.items() if name.startswith(group)}

    def _read_positions(self, topic: str) -> None:
        with TopicLog(self._connection, topic) as log:
            for record in log.read_to_end():
                key = SourceOffsetKey.from_key(record.key) if record.key is not None else None
                if key is None or record.value is None:
                    continue
                position = StoredPosition.from_value(record.value)
                if position.producer is not None:
                    self._ids[key.cluster].add(position.producer.producer_id)
                if position.is_foreign:
                    self._java[key.cluster].add(key.topic_partition.topic)

    def registrations(
        self, cluster_id: str, sources: Mapping[str, str]
    ) -> list[RegisteredProducer]:
        """Return their entries; `sources` has the cluster ids of known aliases."""
        alias = self._connection.alias
        return [
            RegisteredProducer(
                producer_id,
                cluster_id,
                f"{source}->{alias}",
                sources[source],
                self._names.get(producer_id),
            )
            for source, ids in self._ids.items()
            if sources.get(source)
            for producer_id in sorted(ids)
        ]

    def java_topics(self, source: str) -> frozenset[str]:
        """Return the topics that Java MM2 copied from a cluster."""
        return frozenset(self._java.get(source, ()))
