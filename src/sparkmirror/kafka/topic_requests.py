# SPDX-License-Identifier: Apache-2.0
"""Requests of the control plane about topics and records."""

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
from sparkmirror.kafka.request import Request
from sparkmirror.model import TopicPartition

T = TypeVar("T")

EARLIEST = -2
LATEST = -1
_ISOLATION = {"read_uncommitted": 0, "read_committed": 1}
_TOPIC_RESOURCE = 2
_SET, _DELETE = 0, 1
FIRST_FETCH_BY_ID = 13
_FETCH_WAIT_MS = 200
_FETCH_BYTES = 16 * 1024 * 1024
_FETCH_PARTITION_BYTES = 1024 * 1024


def chunks(items: Sequence[T], size: int) -> list[Sequence[T]]:
    """Items in portions of at most that size, for one message each."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def metadata_request(names: Sequence[str] | None, *, with_operations: bool = False) -> Request:
    """Brokers, controller and the named topics: None means all, an empty list none.

    With the operations that the client may perform on the topics, if wanted.
    """
    topic = MetadataRequest.MetadataRequestTopic
    message = MetadataRequest(
        topics=None if names is None else [topic(name=name) for name in names],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=with_operations,
    )
    return Request(message, 0, 12)  # 13 has an error code that is not read


def describe_configs_request(names: Sequence[str]) -> Request:
    """All configs of the named topics."""
    message = DescribeConfigsRequest(
        resources=[(_TOPIC_RESOURCE, name, None) for name in names],
        include_synonyms=False,
    )
    return Request(message, 1, 4)  # 1: the first version that tells where a value comes from


def alter_configs_request(
    changes: Sequence[tuple[str, Mapping[str, str | None]]], *, validate_only: bool
) -> Request:
    """New values for configs of topics; None takes a topic's own value away."""
    message = IncrementalAlterConfigsRequest(
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
    return Request(message, 0, 1)


def delete_topics_request(topics: Sequence[TopicDescription], timeout_ms: int) -> Request:
    """Deletion of exactly these topics: by their ids, so that others of the same name stay."""
    deleted = DeleteTopicsRequest.DeleteTopicState
    message = DeleteTopicsRequest(
        topics=[deleted(name=None, topic_id=topic.topic_id) for topic in topics],
        timeout_ms=timeout_ms,
    )
    return Request(message, 6, 6)  # the first version that takes ids


def create_topics_request(
    topics: Sequence[NewTopic], timeout_ms: int, *, validate_only: bool
) -> Request:
    """Creation of topics, or the question whether the cluster would create them."""
    creatable = CreateTopicsRequest.CreatableTopic
    config = creatable.CreatableTopicConfig
    message = CreateTopicsRequest(
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
    return Request(message, 0, 7)


def create_partitions_request(totals: Sequence[tuple[str, int]], timeout_ms: int) -> Request:
    """More partitions for topics, up to the given totals."""
    growing = CreatePartitionsRequest.CreatePartitionsTopic
    message = CreatePartitionsRequest(
        topics=[growing(name=name, count=total, assignments=None) for name, total in totals],
        timeout_ms=timeout_ms,
        validate_only=False,
    )
    return Request(message, 0, 3)


def list_offsets_request(
    topic_partitions: Sequence[TopicPartition], timestamp: int, isolation_level: str
) -> Request:
    """The offsets at a timestamp, or at EARLIEST or LATEST, of partitions with one leader."""
    asked = ListOffsetsRequest.ListOffsetsTopic
    by_topic: dict[str, list[object]] = defaultdict(list)
    for tp in topic_partitions:
        by_topic[tp.topic].append(
            asked.ListOffsetsPartition(partition_index=tp.partition, timestamp=timestamp)
        )
    isolation = _ISOLATION[isolation_level]
    message = ListOffsetsRequest(
        isolation_level=isolation,
        topics=[asked(name=name, partitions=partitions) for name, partitions in by_topic.items()],
    )
    return Request(message, 2 if isolation else 1, 7)


def init_producer_id_request() -> Request:
    """A new producer id, without transactions."""
    message = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
    )
    return Request(message, 0, 4)


def describe_producers_request(topic_partitions: Sequence[TopicPartition]) -> Request:
    """What a leader remembers of the producers of its partitions."""
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in topic_partitions:
        topics[topic].append(partition)
    one = DescribeProducersRequest.TopicRequest
    message = DescribeProducersRequest(
        topics=[one(name=name, partition_indexes=indexes) for name, indexes in topics.items()]
    )
    return Request(message, 0, 0)


def produce_request(topic: str, batches: Mapping[int, bytes], timeout_ms: int) -> Request:
    """One record batch for each of some partitions of a topic, for all replicas."""
    data = ProduceRequest.TopicProduceData
    message = ProduceRequest(
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
    )
    return Request(message, 3, 9)  # later versions name topics by their ids


def log_fetch_request(
    positions: Mapping[TopicPartition, int],
    isolation_level: str,
    *,
    topic_id: uuid.UUID | None = None,
    wait_ms: int = _FETCH_WAIT_MS,
    partition_bytes: int = _FETCH_PARTITION_BYTES,
) -> Request:
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
    message = FetchRequest(
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
    )
    return Request(message, 4, FIRST_FETCH_BY_ID - 1 if topic_id is None else FIRST_FETCH_BY_ID)
