# SPDX-License-Identifier: Apache-2.0
"""Waits until brokers serve: each responds, knows a controller and the expected brokers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from sparkmirror.devcluster.metadata_probe import BrokerMetadata
from sparkmirror.errors import SetupError

_START_SECONDS = 180.0
_TOPICS_SECONDS = 30.0
_POLL_SECONDS = 0.05
_NO_ERROR = 0


class StartingBroker(Protocol):
    """The part of a broker that waiting needs."""

    cluster: str
    node_id: int

    @property
    def running(self) -> bool:
        """Whether its process exists."""

    def metadata(self, topic: str | None = None) -> BrokerMetadata | None:
        """The brokers it knows and the topic's error code; None if it does not respond."""

    def topics_on_disk(self) -> list[str]:
        """The topics with partitions in its data directory."""

    def error(self, what: str) -> SetupError:
        """Create the error for a failed start."""


def await_ready(
    brokers: Sequence[StartingBroker],
    *,
    expected: frozenset[int],
) -> None:
    """Block until all serve. Raises SetupError with the end of the log of one that does not."""
    deadline = time.monotonic() + _START_SECONDS
    for broker in brokers:
        while True:
            seen = broker.metadata()
            if seen is not None and seen.has_controller and expected <= seen.node_ids:
                break
            if not broker.running:
                raise broker.error("exited during its start")
            if time.monotonic() > deadline:
                raise broker.error(f"was not ready after {_START_SECONDS:.0f} s")
            time.sleep(_POLL_SECONDS)


def await_topics(brokers: Sequence[StartingBroker]) -> None:
    """Block until all know the topics on their disks, or a timeout expires.

    With ZooKeeper a broker lists its peers before it learns about topics. A topic that was deleted
    while its broker was down is never announced again, hence the timeout.
    """
    deadline = time.monotonic() + _TOPICS_SECONDS
    for broker in brokers:
        for topic in broker.topics_on_disk():
            while time.monotonic() < deadline:
                seen = broker.metadata(topic)
                if seen is not None and seen.topic_error == _NO_ERROR:
                    break
                time.sleep(_POLL_SECONDS)
