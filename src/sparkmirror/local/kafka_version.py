# SPDX-License-Identifier: Apache-2.0
"""What a Kafka version decides about how its brokers are run."""

from __future__ import annotations

_FIRST_WITH_LOG4J2 = (4,)
# KRaft exists since 2.8, but as a preview that cannot do everything until here (KIP-833).
_FIRST_WITHOUT_ZOOKEEPER = (3, 3)


def version_parts(version: str) -> tuple[int, ...]:
    """The numbers of a version like 4.3.1, which compare as versions do."""
    return tuple(int(part) for part in version.split("."))


def logs_with_log4j2(version: str) -> bool:
    """Whether brokers and tools of this version log with log4j2, not with its predecessor."""
    return version_parts(version) >= _FIRST_WITH_LOG4J2


def needs_zookeeper(version: str) -> bool:
    """Whether brokers of this version are run with ZooKeeper, not with KRaft."""
    return version_parts(version) < _FIRST_WITHOUT_ZOOKEEPER
