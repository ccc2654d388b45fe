# SPDX-License-Identifier: Apache-2.0
"""The data sets: topics of a known shape, written with Kafka's producer tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.devcluster.kafka_tools import KafkaTools
from support.clients.librdkafka import create_topics, end_offsets

_BATCH = {"batch.size": "131072", "linger.ms": "20", "acks": "1", "buffer.memory": "67108864"}
_ALONE = {"batch.size": "1", "linger.ms": "0", "acks": "1"}  # a record batch for every record


@dataclass(frozen=True, slots=True)
class DataSet:
    """The shape of a source topic."""

    name: str
    records: int
    record_size: int
    compression: str
    partitions: int = 4
    filled: int = 0  # partitions that hold records; 0: all of them
    producer: Mapping[str, str] = field(default_factory=lambda: _BATCH)

    @property
    def topic(self) -> str:
        return "".join(c for c in self.name.replace(" ", "-") if c.isalnum() or c == "-")

    def scaled(self, factor: float) -> DataSet:
        """The same with fewer records."""
        return DataSet(
            self.name,
            round(self.records * factor),
            self.record_size,
            self.compression,
            self.partitions,
            self.filled,
            self.producer,
        )

    def topics(self) -> dict[str, int]:
        """All topics, with their partitions."""
        idle = self.partitions - (self.filled or self.partitions)
        empty = {f"{self.topic}-idle": idle} if idle else {}
        return {self.topic: self.filled or self.partitions} | empty

    def write(self, source: LocalCluster) -> int:
        """Create and fill the topics. Returns their size in bytes."""
        create_topics(source, self.topics())
        properties = {**self.producer, "compression.type": self.compression}
        KafkaTools(source.bootstrap_servers).load(
            self.topic, records=self.records, record_size=self.record_size, properties=properties
        )
        there = sum(end_offsets(source, self.topic).values())
        if there != self.records:
            message = f"{self.topic} holds {there} records, not {self.records}"
            raise RuntimeError(message)
        [broker] = source.brokers
        return sum(file.stat().st_size for file in broker.data.glob(f"{self.topic}-*/*.log"))


KILOBYTE_LZ4 = DataSet("1 KB lz4", 2_000_000, 1_000, "lz4")
SMALL_LZ4 = DataSet("100 B lz4", 6_000_000, 100, "lz4")
DATA_SETS = (
    KILOBYTE_LZ4,
    SMALL_LZ4,
    DataSet("1 KB uncompressed", 1_500_000, 1_000, "none"),
    DataSet("10 KB zstd", 150_000, 10_000, "zstd"),
    DataSet("one-record batches", 200_000, 100, "none", producer=_ALONE),
    DataSet("1 partition", 1_000_000, 1_000, "lz4", partitions=1),
    DataSet("100 partitions", 2_000_000, 1_000, "lz4", partitions=100),
    DataSet("1,000 partitions, 4 busy", 1_000_000, 1_000, "lz4", partitions=1_000, filled=4),
)
SEVERAL_TASKS = DataSet("1, 2 and 4 tasks", 2_000_000, 1_000, "lz4")
BOUNDED = DataSet("1 KB lz4, bounded run", 1_000_000, 1_000, "lz4")
SPARKS_OWN = DataSet("Spark's own source and sink", 500_000, 1_000, "lz4")
FAR_AWAY = DataSet("50 ms round trip", 1_000_000, 1_000, "lz4")
OVER_TLS = DataSet("1 KB lz4 over TLS", 2_000_000, 1_000, "lz4")
OLDER_SOURCE = DataSet("1 KB lz4 from an older source", 2_000_000, 1_000, "lz4")
WINDOWS = DataSet("50 ms round trip, with TCP windows", 200_000, 1_000, "lz4")
