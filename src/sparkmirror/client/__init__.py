# SPDX-License-Identifier: Apache-2.0
"""For users' own programs: what mirroring has done to a cluster, asked without Spark.

    from sparkmirror.client import MirrorClient

    with MirrorClient({"bootstrap.servers": "backup:9092"}) as client:
        offsets = client.remote_consumer_offsets("orders-app", "primary")
        record = client.translate("orders", 3, 1200)

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
