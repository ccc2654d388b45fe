# SPDX-License-Identifier: Apache-2.0
"""Metadata answers as a cluster gives them, decoded."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from types import SimpleNamespace

from sparkmirror.wire.dialing import Address


def partition(index: int, leader: int, epoch: int = 0) -> SimpleNamespace:
    """One partition; a leader of -1 is none."""
    return SimpleNamespace(partition_index=index, leader_id=leader, leader_epoch=epoch)


def topic(
    name: str, *partitions: SimpleNamespace, topic_id: uuid.UUID | None = None, error: int = 0
) -> SimpleNamespace:
    return SimpleNamespace(
        name=name, topic_id=topic_id, error_code=error, partitions=list(partitions)
    )


def metadata(brokers: Mapping[int, Address], *topics: SimpleNamespace) -> SimpleNamespace:
    return SimpleNamespace(
        brokers=[
            SimpleNamespace(node_id=node, host=address.host, port=address.port)
            for node, address in brokers.items()
        ],
        topics=list(topics),
    )
