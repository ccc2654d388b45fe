# SPDX-License-Identifier: Apache-2.0
"""The replication factor of new topics.

A configured factor is used or is an error. Otherwise the factor is MM2's default, limited by the
number of brokers; each cluster where it is lower is logged once. One object serves all flows of a
process. Thread-safe.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from sparkmirror.errors import ReplicationFactorError
from sparkmirror.quantities import counted

if TYPE_CHECKING:
    from sparkmirror.config.settings import ReplicationFactor


log = logging.getLogger(__name__)


def choose_factor(factor: ReplicationFactor, cluster: str, brokers: int) -> int:
    """Return the factor for a new topic; -1 for the brokers' default."""
    if factor.value is None:
        return max(1, min(factor.preferred, brokers))
    if factor.value > brokers:
        raise ReplicationFactorError(
            f"{factor.key}={factor.value} exceeds the brokers of cluster '{cluster}', which "
            f"has {_count(brokers)}. Set it to {_at_most(brokers)}, or add brokers.",
            cluster=cluster,
            key=factor.key,
        )
    return factor.value


def shortfall_warning(factor: ReplicationFactor, cluster: str, brokers: int) -> str | None:
    """Return a warning if topics get fewer replicas than MM2's default; else None."""
    chosen = choose_factor(factor, cluster, brokers)
    if factor.value is not None or chosen >= factor.preferred:
        return None
    return (
        f"Cluster '{cluster}' has {_count(brokers)}: topics are created with {chosen} "
        f"instead of {factor.preferred} replicas. Set {factor.key} to choose another number."
    )


class ReplicationFactorChooser:
    """`choose_factor` that warns once per cluster."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._warned: set[str] = set()

    def choose(self, factor: ReplicationFactor, cluster: str, brokers: int) -> int:
        """Return the factor for a new topic; warns once per cluster if it is below the default."""
        chosen = choose_factor(factor, cluster, brokers)
        sentence = shortfall_warning(factor, cluster, brokers)
        if sentence is not None and self._first_time(cluster):
            log.warning(sentence)
        return chosen

    def _first_time(self, cluster: str) -> bool:
        with self._lock:
            first = cluster not in self._warned
            self._warned.add(cluster)
            return first


def _count(brokers: int) -> str:
    return counted(brokers, "broker")


def _at_most(brokers: int) -> str:
    return "1" if brokers == 1 else f"{brokers} or less"
