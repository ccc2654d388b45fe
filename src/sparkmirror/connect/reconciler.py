# SPDX-License-Identifier: Apache-2.0
"""What this worker is to run: its assignment, the group's target states, the parsed configs.

The supervisor polls it. `poll` reads memory only: the config topic is read by others
(`connect/group_state.py`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection

from sparkmirror.connect.api import ApiError
from sparkmirror.connect.config_cache import ConnectorConfigCache
from sparkmirror.connect.group_state import GroupState
from sparkmirror.connect.log_levels import LogLevels
from sparkmirror.connectors.targets import Desired, Restart, Target, Wanted
from sparkmirror.formats.connect_config_records import LoggerLevel, RestartRequest, TargetState
from sparkmirror.group.membership import Membership
from sparkmirror.state.connect_configs import ClusterConfigState

_DESIRED = {
    TargetState.STARTED: Desired.RUNNING,
    TargetState.PAUSED: Desired.PAUSED,
    TargetState.STOPPED: Desired.STOPPED,
}
_log = logging.getLogger(__name__)


class Reconciler:
    """The supervisor's source of targets in a worker; `poll` and `announce` are for its thread."""

    def __init__(
        self,
        group_state: GroupState,
        config_cache: ConnectorConfigCache,
        membership: Membership,
        levels: LogLevels,
        *,
        announce: Callable[[Collection[str]], None],
        on_change: Callable[[], None],
    ) -> None:
        """`announce` writes a status before a connector starts; `on_change` asks for a poll."""
        self._group_state = group_state
        self._config_cache = config_cache
        self._membership = membership
        self._levels = levels
        self._announce = announce
        self._on_change = on_change
        self._lock = threading.Lock()
        self._assigned: frozenset[str] = frozenset()
        self._restarts: list[Restart] = []
        self._last_connectors: frozenset[str] | None = None  # that the group was asked to share

    # --- any thread

    def assign(self, names: Collection[str]) -> None:
        """Run these, and nothing else, from now on."""
        with self._lock:
            self._assigned = frozenset(names)
        self._on_change()

    def revoke(self, names: Collection[str]) -> None:
        """Do not run these any more."""
        with self._lock:
            self._assigned -= frozenset(names)

    def owns(self, name: str) -> bool:
        """Whether a connector is assigned to this worker."""
        return name in self._assigned

    def request_restart(self, restart: Restart) -> None:
        """Restart a connector of this worker at the next poll."""
        with self._lock:
            self._restarts.append(restart)
        self._on_change()

    # --- the supervisor's thread

    def poll(self) -> Wanted:
        """The targets of the connectors that are assigned here, while the worker is a member."""
        restarts = self._take_restarts()
        configs = self._group_state.configs
        self._rejoin_if_changed(configs)
        self._config_cache.update(configs.configs)
        # A place in the group that is lost is lost with all its connectors.
        mine = self._assigned & configs.configs.keys() if self._membership.is_member else ()
        return Wanted(
            {name: self._target(name, configs) for name in sorted(mine)},
            restarts,
            expects_copying=self._config_cache.has_source,
        )

    def announce(self, names: Collection[str]) -> None:
        """Write a status before these start; ClusterError if that fails."""
        self._announce(names)

    def _take_restarts(self) -> tuple[Restart, ...]:
        """Requests and events of the config topic; the references of a config are read again."""
        with self._lock:
            restarts, self._restarts = self._restarts, []
        for event in self._group_state.drain_events():
            match event:
                case RestartRequest(name, include_tasks, only_failed) if self.owns(name):
                    restarts.append(
                        Restart(name, include_tasks=include_tasks, only_failed=only_failed)
                    )
                case LoggerLevel(logger, level):
                    self._set_level(logger, level)
        for one in restarts:
            if not one.tasks_only:
                self._config_cache.invalidate(one.name)
        return tuple(restarts)

    def _rejoin_if_changed(self, configs: ClusterConfigState) -> None:
        """Have the group share its connectors again if some have been created or deleted."""
        names = frozenset(configs.connectors)
        if self._last_connectors is not None and names != self._last_connectors:
            self._membership.rejoin()
        self._last_connectors = names

    def _target(self, name: str, configs: ClusterConfigState) -> Target:
        parsed = self._config_cache.get(name)
        return Target(_DESIRED[configs.target_state(name)], parsed.spec, parsed.failure)

    def _set_level(self, logger: str, level: str) -> None:
        try:
            self._levels.set(logger, level)
        except ApiError as error:
            _log.warning(f"Logger {logger}: {error}")
