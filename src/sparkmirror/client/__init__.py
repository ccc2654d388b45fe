# SPDX-License-Identifier: Apache-2.0
"""For users' own programs: what mirroring has done to a cluster, asked without Spark.

    from sparkmirror.client import MirrorClient

    with MirrorClient({"bootstrap.servers": "backup:9092"}) as client:
        offsets = client.remote_consumer_offsets("orders-app", "primary")

This is the one package whose names are meant to be imported from its root.
"""

from sparkmirror.client.checkpoints import OffsetAndMetadata
from sparkmirror.client.mirror_client import MirrorClient
from sparkmirror.client.remote_clusters import (
    checkpoint_topics,
    heartbeat_topics,
    replication_hops,
    translate_offsets,
    upstream_clusters,
)
from sparkmirror.model import TopicPartition

__all__ = [
    "MirrorClient",
    "OffsetAndMetadata",
    "TopicPartition",
    "checkpoint_topics",
    "heartbeat_topics",
    "replication_hops",
    "translate_offsets",
    "upstream_clusters",
]
