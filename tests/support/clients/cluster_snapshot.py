# SPDX-License-Identifier: Apache-2.0
"""All that a cluster shows of itself to an independent client, to be compared before and after."""

from __future__ import annotations

from typing import Any

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)

from support.clients.librdkafka import Cluster, admin
from support.waiting import PATIENCE_SECONDS

_EVERY_ACL = AclBindingFilter(
    ResourceType.ANY,
    None,
    ResourcePatternType.ANY,
    None,
    None,
    AclOperation.ANY,
    AclPermissionType.ANY,
)


def snapshot(cluster: Cluster, *names: str) -> dict[str, Any]:
    """Topics with ids and partitions, configs, end offsets, group offsets, ACLs; internal too.

    With names, the end offsets of topics that contain one of them: markers of transactions that
    others left open come to theirs at any time. What a broker writes to topics of its own and
    groups that hold nothing are left out, because it clears them away by itself. Asks nothing that
    makes a broker create its own topics.
    """
    client = admin(cluster)
    listed = client.list_topics(timeout=PATIENCE_SECONDS).topics
    topics = {name: sorted(topic.partitions) for name, topic in listed.items()}
    return {
        "topics": topics,
        "ids": _ids(client, sorted(topics)),
        "configs": _configs(client, sorted(topics)),
        "ends": _ends(client, {name: topics[name] for name in topics if _is_meant(name, names)}),
        "groups": _groups(client),
        "acls": _acls(client),
    }


def _is_meant(topic: str, names: tuple[str, ...]) -> bool:
    if topic.startswith("__"):
        return False
    return not names or any(name in topic for name in names)


def _ids(client: AdminClient, topics: list[str]) -> dict[str, str]:
    if not topics:
        return {}
    asked = client.describe_topics(TopicCollection(topics), request_timeout=PATIENCE_SECONDS)
    return {name: str(one.result(PATIENCE_SECONDS).topic_id) for name, one in asked.items()}


def _configs(client: AdminClient, topics: list[str]) -> dict[str, dict[str, tuple[str, int]]]:
    if not topics:
        return {}
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in topics]
    futures = client.describe_configs(resources, request_timeout=PATIENCE_SECONDS)
    return {
        resource.name: {
            name: (entry.value, entry.source)
            for name, entry in future.result(PATIENCE_SECONDS).items()
        }
        for resource, future in futures.items()
    }


def _ends(client: AdminClient, topics: dict[str, list[int]]) -> dict[str, int]:
    wanted = {
        TopicPartition(name, index): OffsetSpec.latest()
        for name, indexes in topics.items()
        for index in indexes
    }
    if not wanted:
        return {}
    futures = client.list_offsets(wanted, request_timeout=PATIENCE_SECONDS)
    return {
        f"{tp.topic}-{tp.partition}": future.result(PATIENCE_SECONDS).offset
        for tp, future in futures.items()
    }


def _groups(client: AdminClient) -> dict[str, dict[str, int]]:
    listed = client.list_consumer_groups(request_timeout=PATIENCE_SECONDS).result(PATIENCE_SECONDS)
    found: dict[str, dict[str, int]] = {}
    for group in sorted(one.group_id for one in listed.valid):
        asked = [ConsumerGroupTopicPartitions(group)]
        future = client.list_consumer_group_offsets(asked)[group]
        partitions = future.result(PATIENCE_SECONDS).topic_partitions
        if partitions:
            found[group] = {f"{tp.topic}-{tp.partition}": tp.offset for tp in partitions}
    return found


def _acls(client: AdminClient) -> list[str]:
    try:
        return sorted(map(str, client.describe_acls(_EVERY_ACL).result(PATIENCE_SECONDS)))
    except KafkaException as error:
        if error.args[0].code() == KafkaError.SECURITY_DISABLED:
            return []
        raise
