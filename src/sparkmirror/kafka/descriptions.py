# SPDX-License-Identifier: Apache-2.0
"""What a cluster says about itself, as plain values; planners see these and no client library."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from sparkmirror.errors import BrokerError

K = TypeVar("K")
V = TypeVar("V")


class ConfigSource(IntEnum):
    """Where a config value comes from, numbered as in DescribeConfigs."""

    UNKNOWN = 0
    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT_CONFIG = 5

    @classmethod
    def _missing_(cls, value: object) -> ConfigSource:  # noqa: ARG003 - the name is enum's
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One config of one topic."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool = False
    sensitive: bool = False


TopicConfigs: TypeAlias = tuple[ConfigEntry, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One topic as the cluster's metadata shows it."""

    name: str
    topic_id: UUID | None  # None: the broker is older than topic ids
    partitions: int
    replication_factor: int
    is_internal: bool = False  # Kafka's own, such as __consumer_offsets


@dataclass(frozen=True, slots=True)
class Broker:
    """One live broker at the address that it advertises."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """A cluster's id and its live brokers."""

    cluster_id: str | None
    brokers: tuple[Broker, ...]


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; a replication factor of -1 leaves it to the brokers."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def shape(self) -> str:
        """What somebody has to know who creates it by hand."""
        partitions = "1 partition" if self.partitions == 1 else f"{self.partitions} partitions"
        known = self.replication_factor > 0
        factor = f"replication factor {self.replication_factor}" if known else ""
        configs = (f"{name}={value}" for name, value in sorted(self.configs.items()))
        return ", ".join(part for part in (partitions, factor, *configs) if part)


@dataclass(frozen=True, slots=True)
class GroupListing:
    """One group as its coordinator lists it."""

    id: str
    state: str  # as the broker says, such as Empty or Stable; "": the broker is too old to tell
    type: str  # classic, consumer (KIP-848), share, streams
    protocol_type: str  # consumer, connect, ...; "" for a group that only holds offsets

    @property
    def is_active(self) -> bool:
        """Whether it has members now; a broker that is too old to tell counts as no."""
        return self.state not in ("", "Empty", "Dead")


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """How far a group has come in one partition."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1  # -1: not known


class LogEnd(NamedTuple):
    """Where a partition's log ends, and the leader epoch of the broker that said so."""

    offset: int
    leader_epoch: int  # -1: the broker does not say


@dataclass(frozen=True, slots=True)
class PartialResults(Generic[K, V]):
    """Answers to a question about many things; one that fails does not hide the others."""

    found: dict[K, V]
    failed: dict[K, BrokerError]
