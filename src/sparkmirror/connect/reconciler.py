# SPDX-License-Identifier: Apache-2.0
"""What this worker should run, from its assignment, target states and parsed configs.

The supervisor polls it. `poll` reads memory only: the config topic is read by others
(`connect/group_state.py`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import replace

from sparkmirror.connect.api import ApiError
from sparkmirror.connect.config_cache import ConnectorConfigCache
from sparkmirror.connect.group_state import GroupState
from sparkmirror.connect.log_levels import LogLevels
from sparkmirror.connectors.desired_state import (
    DesiredConnector,
    DesiredConnectors,
    DesiredState,
    Restart,
)
from sparkmirror.formats.connect_config_records import LoggerLevel, RestartRequest, TargetState
from sparkmirror.group.membership import Membership
from sparkmirror.state.connect_configs import ClusterConfigState

_DESIRED = {
    TargetState.STARTED: DesiredState.RUNNING,
    TargetState.PAUSED: DesiredState.PAUSED,
    TargetState.STOPPED: DesiredState.STOPPED,
}
_log = logging.getLogger(__name__)


class Reconciler:
    """A worker's `DesiredStateSource`; the supervisor's thread calls `poll` and `announce`."""

    def __init__(
        self,
        group_state: GroupState,
        config_cache: ConnectorConfigCache,
        membership: Membership,
        levels: LogLevels,
        *,
        announce: Callable[[Collection[str]], None],
    ) -> None:
        """`announce` writes a status before a connector starts."""
        self._group_state = group_state
        self._config_cache = config_cache
        self._membership = membership
        self._levels = levels
        self._announce = announce
        self._lock = threading.Lock()
        self._assigned: frozenset[str] = frozenset()
        self._last_assigned: frozenset[str] = frozenset()  # shown after the membership was lost
        self._last_connectors: frozenset[str] | None = None  # that the group was asked to share

    # --- any thread

    def assign(self, names: Collection[str]) -> None:
        """Run these, and nothing else, from now on."""
        with self._lock:
            self._assigned = self._last_assigned = frozenset(names)

    def revoke(self, names: Collection[str]) -> None:
        """Do not run these any more."""
        with self._lock:
            self._assigned -= frozenset(names)

    def owns(self, name: str) -> bool:
        """Whether a connector is assigned to this worker."""
        return name in self._assigned

    # --- the supervisor's thread

    def poll(self) -> DesiredConnectors:
        """The connectors that are assigned here; on standby while the worker is not a member."""
        restarts = self._take_restarts()
        configs = self._group_state.configs
        self._rejoin_if_changed(configs)
        self._config_cache.update(configs.configs)
        is_member = self._membership.is_member
        mine = (self._assigned if is_member else self._last_assigned) & configs.configs.keys()
        connectors = {name: self._desired_connector(name, configs) for name in sorted(mine)}
        if not is_member:  # their lag must not disappear because the group cannot be reached
            connectors = {
                name: replace(one, desired=DesiredState.STANDBY) for name, one in connectors.items()
            }
        return DesiredConnectors(
            connectors, restarts, expects_copying=self._config_cache.has_source
        )

    def announce(self, names: Collection[str]) -> None:
        """Write a status before these start; ClusterError if that fails."""
        self._announce(names)

    def _take_restarts(self) -> tuple[Restart, ...]:
        """Events of the config topic; references in the config of a restart are read again."""
        restarts = []
        for event in self._group_state.drain_events():
            match event:
                case RestartRequest(name, include_tasks, only_failed) if self.owns(name):
                    restarts.append(
                        Restart(name, include_tasks=include_tasks, only_failed=only_failed)
                    )
                    self._config_cache.invalidate(name)
                case LoggerLevel(logger, level):
                    self._set_level(logger, level)
        return tuple(restarts)

    def _rejoin_if_changed(self, configs: ClusterConfigState) -> None:
        """Rebalance the group if connectors were created or deleted."""
        names = frozenset(configs.connectors)
        if self._last_connectors is not None and names != self._last_connectors:
            self._membership.rejoin()
        self._last_connectors = names

    def _desired_connector(self, name: str, configs: ClusterConfigState) -> DesiredConnector:
        parsed = self._config_cache.get(name)
        return DesiredConnector(_DESIRED[configs.target_state(name)], parsed.spec, parsed.failure)

    def _set_level(self, logger: str, level: str) -> None:
        try:
            self._levels.set(logger, level)
        except ApiError as error:
            _log.warning(
                f"Logger {logger} keeps its level: {error} PUT /admin/loggers/{logger} again."
            )
