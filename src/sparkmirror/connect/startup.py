# SPDX-License-Identifier: Apache-2.0
"""The startup of a worker: its topics are created and read before it joins its group."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field

from sparkmirror.config.worker_settings import WorkerSettings
from sparkmirror.connect import api_errors
from sparkmirror.connect.group_state import GroupState
from sparkmirror.connectors.internal_topic_setup import ensure_storage_topics
from sparkmirror.errors import ClusterError, ConfigError
from sparkmirror.wire.backoff import Backoff

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Startup:
    """The progress of a worker's startup. The worker writes it, any thread reads it."""

    stage: str = "starting"
    cluster_id: str = ""
    is_started: bool = False
    has_joined: bool = False  # its group, once
    failure: BaseException | None = None  # why it cannot start
    stopping: threading.Event = field(default_factory=threading.Event)

    def require(self) -> None:
        """ApiError 503 before the worker has started."""
        if not self.is_started:
            raise api_errors.still_starting(self.stage)

    def run(self, settings: WorkerSettings, group_state: GroupState) -> bool:
        """Create and read the worker's topics, with retries.

        Returns False if the worker was stopped, or if it cannot start; `failure` says why.
        """
        backoff = Backoff()
        while not self.stopping.is_set():
            try:
                self.cluster_id = ensure_storage_topics(settings)
                group_state.refresh_configs()
                group_state.refresh_statuses()
            except (ConfigError, ClusterError) as error:
                if not error.retriable:
                    self.failure = error
                    return False
                if self.stage != str(error):
                    _log.warning(f"The worker cannot start yet, retrying: {error}")
                self.stage = str(error)
                self.stopping.wait(backoff.next_pause())
            else:
                self.stage = "joining its group"
                return not self.stopping.is_set()
        return False
