# SPDX-License-Identifier: Apache-2.0
"""The three topics of a Connect worker: made before it does anything else.

Connect creates those that are missing and refuses one that is not compacted, for it would lose
what it holds.
"""

from __future__ import annotations

import logging

from sparkmirror.config.worker_settings import WorkerSettings
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.topology.factors import ReplicationFactors
from sparkmirror.topology.internal_topics import (
    InternalState,
    ensure_internal_topics,
    storage_topics,
)

_log = logging.getLogger(__name__)


def ensure_storage(settings: WorkerSettings) -> str:
    """Returns the id of the worker's cluster when its topics are there; ClusterError if not."""
    with ClusterAdmin(settings.connection) as admin:
        cluster_id = admin.cluster().cluster_id
        topics = storage_topics(settings.internal_topics)
        for one in ensure_internal_topics(topics, admin, ReplicationFactors()):
            if one.error is not None:
                raise one.error
            if one.state is InternalState.CREATED:
                _log.info(f"Created topic '{one.topic.name}' ({one.topic.storage_key})")
    return cluster_id or ""
