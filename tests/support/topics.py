# SPDX-License-Identifier: Apache-2.0
"""Topics that tests need, made through the admin that is under test."""

from __future__ import annotations

from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.descriptions import NewTopic
from support.waiting import PATIENCE_SECONDS


def make(admin: ClusterAdmin, *topics: NewTopic) -> None:
    """Create topics and wait until they are served."""
    assert set(admin.create_topics(topics).values()) == {None}
    admin.await_topics([topic.name for topic in topics], PATIENCE_SECONDS)
