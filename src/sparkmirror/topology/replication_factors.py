# SPDX-License-Identifier: Apache-2.0
"""How many replicas a new topic gets.

A factor that was set is a promise: it is kept or refused by name. One that was not set follows
MM2's default as far as the cluster has brokers, and each cluster where it falls short is named
once. One object serves all flows of a process; any thread may ask it.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from sparkmirror.errors import ReplicationFactorError

if TYPE_CHECKING:
    from sparkmirror.config.settings import ReplicationFactor


log = logging.getLogger(__name__)


def choose_factor(factor: ReplicationFactor, cluster: str, brokers: int) -> int:
    """The factor to create a topic with; -1 leaves it to the brokers."""
    if factor.value is None:
        return max(1, min(factor.preferred, brokers))
    if factor.value > brokers:
        raise ReplicationFactorError(
            f"The key '{factor.key}' asks for {factor.value} replicas, but cluster '{cluster}' "
            f"has {_count(brokers)}. Set {factor.key} to {_at_most(brokers)}, or add brokers.",
            cluster=cluster,
            key=factor.key,
        )
    return factor.value


def shortfall_warning(factor: ReplicationFactor, cluster: str, brokers: int) -> str | None:
    """What to say where topics get fewer replicas than MM2 would give them; None: nothing."""
    chosen = choose_factor(factor, cluster, brokers)
    if factor.value is not None or chosen >= factor.preferred:
        return None
    return (
        f"Cluster '{cluster}' has {_count(brokers)}: topics are created there with {chosen} "
        f"instead of {factor.preferred} replicas, because {factor.key} and its like are not set."
    )


class ReplicationFactorChooser:
    """`choose_factor` with a memory of the clusters that were already warned about."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._warned: set[str] = set()

    def choose(self, factor: ReplicationFactor, cluster: str, brokers: int) -> int:
        """The factor to create a topic with; warns once per cluster when it is a lesser one."""
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
    return "1 broker" if brokers == 1 else f"{brokers} brokers"


def _at_most(brokers: int) -> str:
    return "1" if brokers == 1 else f"{brokers} or less"
