# SPDX-License-Identifier: Apache-2.0
"""What a cluster says about itself, as plain values; planners see these and no client library."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Generic, TypeVar

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


@dataclass(frozen=True, slots=True)
class Answers(Generic[K, V]):
    """Answers to a question about many things; one that fails does not hide the others."""

    found: dict[K, V]
    failed: dict[K, BrokerError]
