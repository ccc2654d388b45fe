# SPDX-License-Identifier: Apache-2.0
"""Request builders for topics and records."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
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
    """Split items into chunks of at most that size."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def partitions_by_topic(topic_partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Group partition indexes by topic."""
    found: dict[str, list[int]] = defaultdict(list)
    for topic, partition in topic_partitions:
        found[topic].append(partition)
    return found


def metadata_request(names: Sequence[str] | None, *, with_operations: bool = False) -> Request:
    """Request brokers, controller and the named topics (None: all topics).

    `with_operations` adds the operations that the principal may perform on each topic.
    """
    topic = MetadataRequest.MetadataRequestTopic
    message = MetadataRequest(
        topics=None if names is None else [topic(name=name) for name in names],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=with_operations,
    )
    return Request(message, 0, 12)  # 13 adds a top-level error code, which callers do not check


def describe_configs_request(names: Sequence[str]) -> Request:
    message = DescribeConfigsRequest(
        resources=[(_TOPIC_RESOURCE, name, None) for name in names],
        include_synonyms=False,
    )
    return Request(message, 1, 4)  # 1: the first with the source of each value


def alter_configs_request(
    changes: Sequence[tuple[str, Mapping[str, str | None]]], *, validate_only: bool
) -> Request:
    """Change topic configs incrementally; None deletes the topic's own value."""
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
    """Delete topics by id, so that recreated topics of the same name stay."""
    deleted = DeleteTopicsRequest.DeleteTopicState
    message = DeleteTopicsRequest(
        topics=[deleted(name=None, topic_id=topic.topic_id) for topic in topics],
        timeout_ms=timeout_ms,
    )
    return Request(message, 6, 6)  # 6: the first with topic ids


def delete_records_request(before: Mapping[TopicPartition, int], timeout_ms: int) -> Request:
    """Delete the records before these offsets, of partitions with one leader."""
    topic = DeleteRecordsRequest.DeleteRecordsTopic
    message = DeleteRecordsRequest(
        topics=[
            topic(
                name=name,
                partitions=[
                    topic.DeleteRecordsPartition(
                        partition_index=index, offset=before[TopicPartition(name, index)]
                    )
                    for index in indexes
                ],
            )
            for name, indexes in partitions_by_topic(before).items()
        ],
        timeout_ms=timeout_ms,
    )
    return Request(message, 0, 2)


def create_topics_request(
    topics: Sequence[NewTopic], timeout_ms: int, *, validate_only: bool
) -> Request:
    """Create topics, or validate their creation."""
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
    """Add partitions up to the given totals."""
    topic = CreatePartitionsRequest.CreatePartitionsTopic
    message = CreatePartitionsRequest(
        topics=[topic(name=name, count=total, assignments=None) for name, total in totals],
        timeout_ms=timeout_ms,
        validate_only=False,
    )
    return Request(message, 0, 3)


def list_offsets_request(
    topic_partitions: Sequence[TopicPartition], timestamp: int, isolation_level: str
) -> Request:
    """List the offsets at a timestamp, EARLIEST or LATEST, of partitions with one leader."""
    topic = ListOffsetsRequest.ListOffsetsTopic
    isolation = _ISOLATION[isolation_level]
    message = ListOffsetsRequest(
        isolation_level=isolation,
        topics=[
            topic(
                name=name,
                partitions=[
                    topic.ListOffsetsPartition(partition_index=index, timestamp=timestamp)
                    for index in indexes
                ],
            )
            for name, indexes in partitions_by_topic(topic_partitions).items()
        ],
    )
    return Request(message, 2 if isolation else 1, 7)


def init_producer_id_request() -> Request:
    """Request a producer id without a transactional id."""
    message = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
    )
    return Request(message, 0, 4)


def describe_producers_request(topic_partitions: Sequence[TopicPartition]) -> Request:
    """Describe the producers of partitions with one leader."""
    topic = DescribeProducersRequest.TopicRequest
    by_topic = partitions_by_topic(topic_partitions)
    message = DescribeProducersRequest(
        topics=[topic(name=name, partition_indexes=indexes) for name, indexes in by_topic.items()]
    )
    return Request(message, 0, 0)


def produce_request(topic: str, batches: Mapping[int, bytes], timeout_ms: int) -> Request:
    """Write one record batch to each of some partitions of a topic, with acks=all."""
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
    return Request(message, 3, 9)


def log_fetch_request(
    positions: Mapping[TopicPartition, int],
    isolation_level: str,
    *,
    topic_id: uuid.UUID | None = None,
    wait_ms: int = _FETCH_WAIT_MS,
    partition_bytes: int = _FETCH_PARTITION_BYTES,
) -> Request:
    """Fetch partitions with one leader, from their positions on.

    With a topic id, a recreated topic of the same name is not read.
    """
    topic = FetchRequest.FetchTopic
    by_topic: dict[str, list[object]] = defaultdict(list)
    for tp, position in positions.items():
        by_topic[tp.topic].append(
            topic.FetchPartition(
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
        session_epoch=-1,  # no fetch session
        topics=[
            topic(topic=name, topic_id=topic_id, partitions=partitions)
            for name, partitions in by_topic.items()
        ],
        forgotten_topics_data=[],
        rack_id="",
    )
    return Request(message, 4, FIRST_FETCH_BY_ID - 1 if topic_id is None else FIRST_FETCH_BY_ID)
