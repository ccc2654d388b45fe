# SPDX-License-Identifier: Apache-2.0
"""How many bytes partitions take up on their leaders' disks.

Needs the right to describe the cluster; some services do not offer the question at all. Either way
what is not known is not among the answers, and a sentence tells why.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from kafka.protocol.admin import DescribeLogDirsRequest

from sparkmirror.errors import UnsupportedVersionError
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.request import Request
from sparkmirror.model import TopicPartition

_DOING = "describing log directories"


@dataclass(frozen=True, slots=True)
class LogSizes:
    """Bytes by partition, as far as they are told."""

    found: dict[TopicPartition, int] = field(default_factory=dict)
    error: str = ""  # why some are not


def log_sizes(client: ClusterClient, topic_partitions: Iterable[TopicPartition]) -> LogSizes:
    """The size of each partition's log on its leader."""
    wanted = frozenset(topic_partitions)
    if not wanted:
        return LogSizes()
    return client.retry(_DOING, partial(_describe_log_dirs, client, wanted))


def _describe_log_dirs(client: ClusterClient, wanted: frozenset[TopicPartition]) -> LogSizes:
    alias = client.connection.alias
    found: dict[TopicPartition, int] = {}
    complaints: list[str] = []
    leaders, _ = client.partitions_by_leader(wanted)
    try:
        answers = client.send_to_each({leader: _request(some) for leader, some in leaders.items()})
    except UnsupportedVersionError:
        return LogSizes({}, f"Cluster '{alias}' does not tell how large its logs are.")
    for answer in answers.values():
        # Only versions from 3 on say by a code that we may not ask; before, nothing comes back.
        codes = [answer.error_code or 0, *(one.error_code for one in answer.results)]
        complaints += [str(client.broker_error(_DOING, code, None)) for code in codes if code]
        for directory in answer.results:
            for topic in directory.topics:
                for one in topic.partitions:
                    if not one.is_future_key:  # a copy that is on its way to another disk
                        found[TopicPartition(topic.name, one.partition_index)] = one.partition_size
    if complaints or not wanted - found.keys():
        return LogSizes(found, complaints[0] if complaints else "")
    sentence = (
        f"Cluster '{alias}' does not tell how large all logs are; grant Describe on the cluster."
    )
    return LogSizes(found, sentence)


def _request(topic_partitions: Sequence[TopicPartition]) -> Request:
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in topic_partitions:
        topics[topic].append(partition)
    asked = DescribeLogDirsRequest.DescribableLogDirTopic
    message = DescribeLogDirsRequest(
        topics=[asked(topic=name, partitions=indexes) for name, indexes in topics.items()]
    )
    return Request(message, 1, 4)
