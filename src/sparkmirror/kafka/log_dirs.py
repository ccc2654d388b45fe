# SPDX-License-Identifier: Apache-2.0
"""The size of partitions on their leaders' disks (DescribeLogDirs).

Needs Describe on the cluster, and some services do not support it. Unknown sizes are missing from
the result, which has an error sentence then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from kafka.protocol.admin import DescribeLogDirsRequest

from sparkmirror.errors import UnsupportedVersionError
from sparkmirror.kafka.cluster_client import ClusterClient, partition_results
from sparkmirror.kafka.request import Request
from sparkmirror.kafka.topic_requests import partitions_by_topic
from sparkmirror.model import TopicPartition

_DOING = "describing log directories"


@dataclass(frozen=True, slots=True)
class LogSizes:
    """The known sizes in bytes."""

    found: dict[TopicPartition, int] = field(default_factory=dict)
    error: str = ""  # why some are unknown


def log_sizes(client: ClusterClient, topic_partitions: Iterable[TopicPartition]) -> LogSizes:
    """Return the size of each partition's log on its leader."""
    wanted = frozenset(topic_partitions)
    if not wanted:
        return LogSizes()
    return client.retry(_DOING, partial(_describe_log_dirs, client, wanted))


def _describe_log_dirs(client: ClusterClient, wanted: frozenset[TopicPartition]) -> LogSizes:
    alias = client.connection.alias
    found: dict[TopicPartition, int] = {}
    errors: list[str] = []
    leaders, _ = client.partitions_by_leader(wanted)
    try:
        answers = client.send_to_each({leader: _request(some) for leader, some in leaders.items()})
    except UnsupportedVersionError:
        return LogSizes({}, f"Cluster '{alias}' does not support DescribeLogDirs.")
    for answer in answers.values():
        # Before version 3, a missing permission results in an empty response without an error.
        codes = [answer.error_code or 0, *(one.error_code for one in answer.results)]
        errors += [str(client.broker_error(_DOING, code, None)) for code in codes if code]
        for directory in answer.results:
            for tp, one in partition_results(directory.topics):
                if not one.is_future_key:  # a replica that moves to another disk
                    found[tp] = one.partition_size
    if errors or not wanted - found.keys():
        return LogSizes(found, errors[0] if errors else "")
    return LogSizes(
        found, f"Cluster '{alias}' does not report all log sizes; grant Describe on the cluster."
    )


def _request(topic_partitions: Sequence[TopicPartition]) -> Request:
    topic = DescribeLogDirsRequest.DescribableLogDirTopic
    by_topic = partitions_by_topic(topic_partitions)
    message = DescribeLogDirsRequest(
        topics=[topic(topic=name, partitions=indexes) for name, indexes in by_topic.items()]
    )
    return Request(message, 1, 4)
