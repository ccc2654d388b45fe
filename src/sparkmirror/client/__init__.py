# SPDX-License-Identifier: Apache-2.0
"""Client library for users' programs: what was mirrored to a cluster. Needs no Spark.

    from sparkmirror.client import MirrorClient

    with MirrorClient({"bootstrap.servers": "backup:9092"}) as client:
        offsets = client.remote_consumer_offsets("orders-app", "primary")
        record = client.translate("orders", 3, 1200)

This is the only package whose names are imported from its root.
"""

from sparkmirror.client.checkpoints import OffsetAndMetadata
from sparkmirror.client.mirror_client import MirrorClient
from sparkmirror.client.one_shot_queries import (
    checkpoint_topics,
    heartbeat_topics,
    replication_hops,
    translate_offsets,
    upstream_clusters,
)
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.offset_map import Fit, Translation

__all__ = [
    "Fit",
    "MirrorClient",
    "OffsetAndMetadata",
    "TopicPartition",
    "Translation",
    "checkpoint_topics",
    "heartbeat_topics",
    "replication_hops",
    "translate_offsets",
    "upstream_clusters",
]
