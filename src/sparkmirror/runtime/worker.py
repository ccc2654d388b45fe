# SPDX-License-Identifier: Apache-2.0
"""A Connect worker, put together from its parts.

group state  what the group has agreed on (config and status topic)
watcher      says when the config topic has something new
membership   its place in the group: who leads, what runs here
supervisor   connectors on Spark
leader       what the leader does beside
reconciler   the thread that makes all of them agree
API          what others ask of it
"""

from __future__ import annotations

import logging
import threading

from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.connect.config_cache import ConnectorConfigCache
from sparkmirror.connect.connector_supervisor import ConnectorSupervisor
from sparkmirror.connect.group_state import GroupState
from sparkmirror.connect.leader import GroupLeader
from sparkmirror.connect.reconciler import Reconciler
from sparkmirror.connect.startup import Startup
from sparkmirror.connect.worker_api import WorkerApi
from sparkmirror.connectors.internal_topic_setup import ensure_storage_topics
from sparkmirror.errors import ClusterError, ConfigError, SparkmirrorError
from sparkmirror.group.membership import Membership
from sparkmirror.kafka.topic_watcher import TopicWatcher
from sparkmirror.metrics.worker_metrics import WorkerMetrics
from sparkmirror.spark.flow_status import FlowSnapshot
from sparkmirror.wire.backoff import Backoff

_LEAVE_SECONDS = 30.0
_log = logging.getLogger(__name__)


class ConnectWorker:
    """From `start` to `stop`; `requests` is its ConnectApi."""

    def __init__(self, file: WorkerConfig, url: str, *, master: str | None = None) -> None:
        """`url` is where other workers reach this one."""
        settings = file.settings
        self._file = file
        self._lifecycle = Startup()
        worker_id = url.partition("://")[2].rstrip("/")
        self._group_state = GroupState(
            settings.connection, settings.internal_topics, self._on_config_change
        )
        self._runner = ConnectorSupervisor(settings.spark, master)
        config_cache = ConnectorConfigCache(file)
        self._reconciler = Reconciler(
            file, self._group_state, self._runner, config_cache, worker_id
        )
        self._membership = Membership(
            settings.connection,
            settings.group,
            url,
            self._group_state,
            on_assigned=self._reconciler.on_assigned,
            on_revoked=self._reconciler.on_revoked,
        )
        self._leading = GroupLeader(
            settings.group, settings.signing, self._group_state, self._membership, self._lifecycle
        )
        self._config_watcher = TopicWatcher(
            settings.connection, settings.internal_topics.configs, self._on_config_records
        )
        self.api = WorkerApi(
            file,
            self._lifecycle,
            self._group_state,
            self._membership,
            self._leading,
            self._reconciler,
            config_cache,
        )
        self._thread = threading.Thread(target=self._run_start, name="connect/start", daemon=True)

    def start(self) -> None:
        """Begin; returns at once, the requests tell how it goes."""
        self._thread.start()

    def update_credentials(self) -> None:
        """Use what its file leads to now: for new connections, and for connectors that differ."""
        connection = self._file.settings.connection
        self._group_state.update_connection(connection)
        self._config_watcher.update_connection(connection)
        self._membership.update_connection(connection)
        self._reconciler.reparse_configs()

    def stop(self) -> bool:
        """Leave the group and end everything; whether all of it ended in order."""
        self._lifecycle.stage = "stopping"
        self._lifecycle.stopping.set()
        self._thread.join()
        has_left = not self._lifecycle.is_started or self._membership.stop(_LEAVE_SECONDS)
        self._reconciler.stop()
        self._config_watcher.stop()
        is_clean = self._runner.close()
        self._group_state.close()
        return has_left and is_clean

    def failure(self) -> BaseException | None:
        """Why this worker cannot go on, if only a person or a new process helps."""
        if self._lifecycle.failure is None:
            self._lifecycle.failure = self._membership.failure or self._runner.spark_failure()
        return self._lifecycle.failure

    def snapshots(self) -> list[FlowSnapshot]:
        """The figures of the connectors that copy here."""
        return self._runner.snapshots()

    def metrics(self) -> WorkerMetrics:
        """What it runs, and its place in the group."""
        place = self._membership
        return WorkerMetrics(
            {
                name: [task.state.value.lower() for _, task in sorted(state.tasks.items())]
                for name, state in self._runner.states().items()
            },
            leader=place.leader_url or "",
            generation=place.generation,
            is_rebalancing=not place.is_settled,
            is_leader=place.is_leader,
        )

    def _run_start(self) -> None:
        try:
            self._start_when_reachable()
        except Exception as error:  # noqa: BLE001 - a thread's root: the process must end
            _log.exception("The worker could not be started.")
            self._lifecycle.failure = error

    def _start_when_reachable(self) -> None:
        backoff = Backoff()
        while not self._lifecycle.stopping.is_set():
            try:
                self._lifecycle.cluster_id = ensure_storage_topics(self._file.settings)
                self._group_state.refresh_configs()
                self._group_state.refresh_statuses()
            except (ConfigError, ClusterError) as error:
                if not error.retriable:
                    self._lifecycle.failure = error
                    return
                self._report_start_failure(error)
                self._lifecycle.stopping.wait(backoff.next_pause())
            else:
                break
        if self._lifecycle.stopping.is_set():
            return
        self._lifecycle.stage = "joining its group"
        self._config_watcher.start(self._group_state.configs.offset)
        self._reconciler.start(self._membership, self._leading)
        self._membership.start()
        self._lifecycle.is_started = True

    def _report_start_failure(self, error: Exception) -> None:
        if self._lifecycle.stage != str(error):
            _log.warning(f"The worker cannot start yet: {error}")
        self._lifecycle.stage = str(error)

    def _on_config_change(self) -> None:
        self._reconciler.wake()

    def _on_config_records(self) -> None:
        """The config topic has something new; the watcher's thread reads it."""
        try:
            self._group_state.refresh_configs()
        except SparkmirrorError as error:
            # The reconciler reads it every few seconds in any case, and says what is wrong with it.
            _log.debug(f"The config topic could not be read: {error}")
            self._reconciler.wake()
