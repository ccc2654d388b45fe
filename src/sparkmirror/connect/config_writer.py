# SPDX-License-Identifier: Apache-2.0
"""What a request may change, and when: written by the leader, to the config topic, in its turn.

A worker that does not lead passes the request on; while nobody leads it waits for a while.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus

from sparkmirror.connect import api_errors
from sparkmirror.connect.api import ApiError, ConnectorInfo, ForwardTo
from sparkmirror.connect.group_state import GroupState
from sparkmirror.connect.leader import GroupLeader
from sparkmirror.errors import ClusterError, LeadershipLostError
from sparkmirror.group.membership import Membership
from sparkmirror.state.connect_configs import ConfigLog

_PATIENCE_SECONDS = 10.0  # that a change may wait for a leader
_PAUSE_SECONDS = 0.05
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class WorkerLifecycle:
    """How far a worker is; written by the worker, read by any thread."""

    stage: str = "starting"
    cluster_id: str = ""
    is_started: bool = False
    failure: BaseException | None = None  # why it cannot go on
    stopping: threading.Event = field(default_factory=threading.Event)


class ConfigWriter:
    """The leader's pen; any thread may hold it."""

    def __init__(
        self,
        life: WorkerLifecycle,
        group_state: GroupState,
        membership: Membership,
        leading: GroupLeader,
    ) -> None:
        self._life = life
        self._group_state = group_state
        self._membership = membership
        self._leading = leading
        self.lock = threading.Lock()  # offsets are set while nothing can be begun

    def connector_info(self, name: str) -> ConnectorInfo:
        """A connector as it is meant to be."""
        self.require_started()
        configs = self._group_state.configs
        config = configs.configs.get(name)
        if config is None:
            raise api_errors.connector_not_found(name)
        return ConnectorInfo(name, dict(config), tuple(range(len(configs.tasks(name)))))

    def require_started(self) -> None:
        """ApiError before there is anything to be asked."""
        if not self._life.is_started:
            raise ApiError(
                HTTPStatus.SERVICE_UNAVAILABLE, f"This worker is still starting: {self._life.stage}"
            )

    def require_leadership(self) -> None:
        """Returns if this worker leads; waits a while if nobody does."""
        self.require_started()
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self._leading.is_ready:
            url = self._membership.leader_url
            if url is not None and self._membership.is_member and not self._membership.is_leader:
                raise self._to_leader(url)
            is_theirs = self._membership.is_standby  # and Java's worker leads
            if is_theirs or time.monotonic() > deadline or self._life.stopping.is_set():
                raise api_errors.no_leader()
            self._life.stopping.wait(_PAUSE_SECONDS)

    def _to_leader(self, url: str) -> ForwardTo:
        return ForwardTo(url, lambda: self._membership.leader_url == url)

    def refresh(self) -> None:
        """Before a decision: what others have said up to now."""
        try:
            self._group_state.refresh_configs()
            self._group_state.refresh_statuses()
        except ClusterError as error:
            raise topic_error("Error reading the topics of this worker's group", error) from error

    def wait_briefly(self) -> None:
        """A moment, until others have had time to say something."""
        if self._life.stopping.wait(_PAUSE_SECONDS):
            raise api_errors.no_leader()

    def write(self, write: Callable[[ConfigLog], None]) -> None:
        """Have something written by `write`, which sees all that was written before."""

        def fresh(log: ConfigLog) -> None:
            log.read_new()
            if not self._leading.is_ready:
                raise api_errors.stale_configuration()
            write(log)

        try:
            self._group_state.write_configs(fresh)
        except LeadershipLostError as error:
            self._leading.on_fenced()
            raise api_errors.stale_configuration() from error
        except ClusterError as error:
            _log.warning(f"The config topic could not be written: {error}")
            raise api_errors.config_write_failed() from error


def topic_error(what: str, error: ClusterError) -> ApiError:
    """A topic could not be read or written: the log says so, and so does the answer."""
    _log.warning(f"{what}: {error}")
    return ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, f"{what}: {error}")
