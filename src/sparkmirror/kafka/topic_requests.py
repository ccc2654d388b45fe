# SPDX-License-Identifier: Apache-2.0
"""Protocol messages of the control plane, built from our values with kafka-python's classes.

A message remembers the version it was sent with, so each try builds its own.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypeVar

from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    DescribeProducersRequest,
    IncrementalAlterConfigsRequest,
)
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest

from sparkmirror.kafka.descriptions import NewTopic, TopicDescription
from sparkmirror.model import TopicPartition

T = TypeVar("T")

EARLIEST = -2
LATEST = -1
_ISOLATION = {"read_uncommitted": 0, "read_committed": 1}
_TOPIC_RESOURCE = 2
_SET, _DELETE = 0, 1
_APPEND_VERSION = 9  # later ones name topics by their ids
FIRST_FETCH_BY_ID = 13
_FETCH_WAIT_MS = 200
_FETCH_BYTES = 16 * 1024 * 1024
_FETCH_PARTITION_BYTES = 1024 * 1024


def chunks(items: Sequence[T], size: int) -> list[Sequence[T]]:
    """Items in portions of at most that size, for one message each."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def metadata_request(names: Sequence[str] | None) -> object:
    """Brokers, controller and the named topics: None means all, an empty list none."""
    topic = MetadataRequest.MetadataRequestTopic
    return MetadataRequest(
        topics=None if names is None else [topic(name=name) for name in names],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def describe_configs_request(names: Sequence[str]) -> object:
    """All configs of the named topics."""
    return DescribeConfigsRequest(
        resources=[(_TOPIC_RESOURCE, name, None) for name in names],
        include_synonyms=False,
        min_version=1,  # the first version that tells where a value comes from
    )


def alter_configs_request(
    changes: Sequence[tuple[str, Mapping[str, str | None]]], *, validate_only: bool
) -> object:
    """New values for configs of topics; None takes a topic's own value away."""
    return IncrementalAlterConfigsRequest(
        resources=[
            (
                _TOPIC_RESOURCE,
                topic,
                [
                    (name, _DELETE if value is None else _SET, value)
                    for name, value in configs.items()
                ],
            )
            for topic, configs in changes
        ],
        validate_only=validate_only,
    )


def delete_topics_request(topics: Sequence[TopicDescription], timeout_ms: int) -> object:
    """Deletion of exactly these topics: by their ids, so that others of the same name stay."""
    deleted = DeleteTopicsRequest.DeleteTopicState
    return DeleteTopicsRequest(
        topics=[deleted(name=None, topic_id=topic.topic_id) for topic in topics],
        timeout_ms=timeout_ms,
        min_version=6,  # the first that takes ids
    )


def create_topics_request(
    topics: Sequence[NewTopic], timeout_ms: int, *, validate_only: bool
) -> object:
    """Creation of topics, or the question whether the cluster would create them."""
    creatable = CreateTopicsRequest.CreatableTopic
    config = creatable.CreatableTopicConfig
    return CreateTopicsRequest(
        topics=[
            creatable(
                name=topic.name,
                num_partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                assignments=[],
                configs=[config(name=name, value=value) for name, value in topic.configs.items()],
            )
            for topic in topics
        ],
        timeout_ms=timeout_ms,
        validate_only=validate_only,
    )


def create_partitions_request(totals: Sequence[tuple[str, int]], timeout_ms: int) -> object:
    """More partitions for topics, up to the given totals."""
    growing = CreatePartitionsRequest.CreatePartitionsTopic
    return CreatePartitionsRequest(
        topics=[growing(name=name, count=total, assignments=None) for name, total in totals],
        timeout_ms=timeout_ms,
        validate_only=False,
    )


def list_offsets_request(
    topic_partitions: Sequence[TopicPartition], timestamp: int, isolation_level: str
) -> object:
    """The offsets at a timestamp, or at EARLIEST or LATEST, of partitions with one leader."""
    asked = ListOffsetsRequest.ListOffsetsTopic
    by_topic: dict[str, list[object]] = defaultdict(list)
    for tp in topic_partitions:
        by_topic[tp.topic].append(
            asked.ListOffsetsPartition(partition_index=tp.partition, timestamp=timestamp)
        )
    isolation = _ISOLATION[isolation_level]
    return ListOffsetsRequest(
        isolation_level=isolation,
        topics=[asked(name=name, partitions=partitions) for name, partitions in by_topic.items()],
        min_version=2 if isolation else 1,
    )


def init_producer_id_request() -> object:
    """A new producer id, without transactions."""
    return InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
    )


def describe_producers_request(topic_partitions: Sequence[TopicPartition]) -> object:
    """What a leader remembers of the producers of its partitions."""
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in topic_partitions:
        topics[topic].append(partition)
    one = DescribeProducersRequest.TopicRequest
    return DescribeProducersRequest(
        topics=[one(name=name, partition_indexes=indexes) for name, indexes in topics.items()]
    )


def produce_request(topic: str, batches: Mapping[int, bytes], timeout_ms: int) -> object:
    """One record batch for each of some partitions of a topic, for all replicas."""
    data = ProduceRequest.TopicProduceData
    return ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=timeout_ms,
        topic_data=[
            data(
                name=topic,
                partition_data=[
                    data.PartitionProduceData(index=index, records=records)
                    for index, records in batches.items()
                ],
            )
        ],
        max_version=_APPEND_VERSION,
    )


def log_fetch_request(
    positions: Mapping[TopicPartition, int],
    isolation_level: str,
    *,
    topic_id: uuid.UUID | None = None,
    wait_ms: int = _FETCH_WAIT_MS,
    partition_bytes: int = _FETCH_PARTITION_BYTES,
) -> object:
    """What partitions with one leader hold from their positions on.

    With a topic's id, of that topic only: a later one of the same name is not read.
    """
    asked = FetchRequest.FetchTopic
    by_topic: dict[str, list[object]] = defaultdict(list)
    for tp, position in positions.items():
        by_topic[tp.topic].append(
            asked.FetchPartition(
                partition=tp.partition,
                fetch_offset=position,
                partition_max_bytes=partition_bytes,
            )
        )
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=_FETCH_BYTES,
        isolation_level=_ISOLATION[isolation_level],
        session_id=0,
        session_epoch=-1,  # no fetch session: a log is read once
        topics=[
            asked(topic=name, topic_id=topic_id, partitions=partitions)
            for name, partitions in by_topic.items()
        ],
        forgotten_topics_data=[],
        rack_id="",
        min_version=4,
        max_version=FIRST_FETCH_BY_ID - 1 if topic_id is None else None,
    )
