# SPDX-License-Identifier: Apache-2.0
"""Waits until brokers really serve: each answers, knows a controller and lists those expected."""

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
    """What is asked of a broker that has just been launched."""

    cluster: str
    node_id: int

    @property
    def running(self) -> bool:
        """Whether its process is there."""

    def metadata(self, topic: str | None = None) -> BrokerMetadata | None:
        """The brokers it sees and the topic's error, or None while it does not answer."""

    def topics_on_disk(self) -> list[str]:
        """The topics that it holds partitions of."""

    def error(self, what: str) -> SetupError:
        """The error that says what became of it."""


def await_ready(
    brokers: Sequence[StartingBroker],
    *,
    expected: frozenset[int],
) -> None:
    """Return once all of them serve; a SetupError with the end of the log when one does not."""
    deadline = time.monotonic() + _START_SECONDS
    for broker in brokers:
        while True:
            seen = broker.metadata()
            if seen is not None and seen.has_controller and expected <= seen.node_ids:
                break
            if not broker.running:
                raise broker.error("ended during its start")
            if time.monotonic() > deadline:
                raise broker.error(f"was not ready after {_START_SECONDS:.0f} s")
            time.sleep(_POLL_SECONDS)


def await_topics(brokers: Sequence[StartingBroker]) -> None:
    """Return once all of them know the topics on their disks.

    With ZooKeeper a broker lists its peers before the controller has named any topic. A topic that
    was deleted while its broker was down is never named again, so waiting has an end.
    """
    deadline = time.monotonic() + _TOPICS_SECONDS
    for broker in brokers:
        for topic in broker.topics_on_disk():
            while time.monotonic() < deadline:
                seen = broker.metadata(topic)
                if seen is not None and seen.topic_error == _NO_ERROR:
                    break
                time.sleep(_POLL_SECONDS)
