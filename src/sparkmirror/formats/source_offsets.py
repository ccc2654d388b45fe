# SPDX-License-Identifier: Apache-2.0
"""Keys and values of Connect's offsets topic, as the source connector writes them.

    key    ["<connector name>",{"cluster":"<source alias>","partition":<n>,"topic":"<topic>"}]
    value  {"offset":<last mirrored source offset>}
           {"offset":<last mirrored source offset>,"downstream":<its offset on the target>,
            "producer":<id>,"epoch":<its epoch>,"sequence":<the next one>,
            "leaderEpoch":<of the source's last record batch>,
            "sourceTopic":"<topic id>","targetTopic":"<topic id>"}

Java finds a key by its raw bytes, hence the fixed order of fields (that of a Java HashMap). The
second form of the value is ours; Java reads the first field and resumes correctly. Values must be
primitive: Connect rejects nested ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

from sparkmirror.errors import WireError
from sparkmirror.formats.connect_json import Json, decode, encode
from sparkmirror.model import ProducerState, TopicPartition

_KEY_PARTS = 2
_MAX_PARTITION = 2**31 - 1
_MAX_LONG = 2**63 - 1


@dataclass(frozen=True, slots=True)
class SourceOffsetKey:
    """The source partition of a stored offset."""

    connector: str
    cluster: str
    topic_partition: TopicPartition

    def key(self) -> bytes:
        """Encode exactly as Java does."""
        return encode(
            [
                self.connector,
                {
                    "cluster": self.cluster,
                    "partition": self.topic_partition.partition,
                    "topic": self.topic_partition.topic,
                },
            ]
        )

    @classmethod
    def from_key(cls, key: bytes) -> SourceOffsetKey | None:
        """Decode a key; None for keys of other connectors.

        A key with the same content in other bytes is not ours: Java would not find it either.
        """
        try:
            parts = decode(key, "The key of a stored offset")
        except WireError:
            return None
        if not isinstance(parts, list) or len(parts) != _KEY_PARTS:
            return None
        connector, fields = parts
        if not isinstance(connector, str) or not isinstance(fields, dict):
            return None
        cluster, partition, topic = (fields.get(name) for name in ("cluster", "partition", "topic"))
        if not isinstance(cluster, str) or not isinstance(topic, str) or not _is_int(partition):
            return None
        named = cls(connector, cluster, TopicPartition(topic, int(partition)))
        try:
            is_ours = 0 <= partition <= _MAX_PARTITION and named.key() == key
        except WireError:  # a lone surrogate: Java cannot have written it
            is_ours = False
        return named if is_ours else None


@dataclass(frozen=True, slots=True)
class StoredPosition:
    """The last mirrored record: its source offset and, if we wrote it, the resume point.

    Offset, downstream and producer together are a resume point for exact resume: the record at
    `offset` is our last one before `downstream + 1`, and the next one on the target has the
    producer's next sequence.
    """

    offset: int
    downstream: int | None = None  # our next record on the target comes after this offset
    producer: ProducerState | None = None
    leader_epoch: int = -1
    source_topic: str | None = None  # topic ids: a recreated topic has another id
    target_topic: str | None = None

    @property
    def is_foreign(self) -> bool:
        """Whether MirrorMaker 2 or another program wrote it, with the source offset only."""
        ours = (self.downstream, self.producer, self.source_topic, self.target_topic)
        return all(one is None for one in ours)

    def value(self) -> bytes:
        fields: dict[str, Json] = {"offset": self.offset}
        if self.downstream is not None:
            fields["downstream"] = self.downstream
        if self.producer is not None:
            fields["producer"] = self.producer.producer_id
            fields["epoch"] = self.producer.producer_epoch
            fields["sequence"] = self.producer.next_sequence
        if self.leader_epoch >= 0:
            fields["leaderEpoch"] = self.leader_epoch
        if self.source_topic is not None:
            fields["sourceTopic"] = self.source_topic
        if self.target_topic is not None:
            fields["targetTopic"] = self.target_topic
        return encode(fields)

    @classmethod
    def from_value(cls, value: bytes) -> StoredPosition:
        """Decode a value; unknown fields are ignored."""
        fields = decode(value, "A stored offset")
        offset = fields.get("offset") if isinstance(fields, dict) else None
        if not isinstance(fields, dict) or not _is_int(offset):
            raise WireError(f"A stored offset has no integer 'offset': {value!r}.")
        downstream, leader_epoch = fields.get("downstream"), fields.get("leaderEpoch")
        return cls(
            int(offset),
            int(downstream) if _is_int(downstream) else None,
            _producer(fields),
            int(leader_epoch) if _is_int(leader_epoch) else -1,
            _text(fields.get("sourceTopic")),
            _text(fields.get("targetTopic")),
        )


def _producer(fields: dict[str, Json]) -> ProducerState | None:
    found = [fields.get(name) for name in ("producer", "epoch", "sequence")]
    numbers = [int(one) for one in found if _is_int(one)]
    return ProducerState(*numbers) if len(numbers) == len(found) else None


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def _is_int(value: Json) -> TypeGuard[int]:
    """Whether it is an integer that fits into a request."""
    return (
        isinstance(value, int) and not isinstance(value, bool) and -_MAX_LONG <= value <= _MAX_LONG
    )
