# SPDX-License-Identifier: Apache-2.0
"""Composition root of `worker`: a Connect worker, its parts and the calls between their threads.

A request writes to the config topic (`WorkerApi`, `GroupLeader`). The change wakes the supervisor
of this worker, and through the `TopicWatcher` those of all workers. The supervisor polls the
`Reconciler`, and starts and stops connector instances. The `Reporter` writes their statuses and
tasks to the topics. `Membership` decides which worker leads and which connectors run here.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial

from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.connect.config_cache import ConnectorConfigCache
from sparkmirror.connect.group_state import GroupState
from sparkmirror.connect.leader import GroupLeader
from sparkmirror.connect.log_levels import LogLevels
from sparkmirror.connect.reconciler import Reconciler
from sparkmirror.connect.reporter import Reporter
from sparkmirror.connect.startup import Startup
from sparkmirror.connect.task_publisher import TaskPublisher
from sparkmirror.connect.worker_api import WorkerApi
from sparkmirror.connectors.connector_instance import ConnectorInstance
from sparkmirror.connectors.desired_state import DesiredState, InstanceView, Restart
from sparkmirror.connectors.lag_monitor import LagMonitor
from sparkmirror.group.membership import Membership
from sparkmirror.kafka.topic_watcher import TopicWatcher
from sparkmirror.metrics.process_view import ReloadMetrics, WorkerMetrics
from sparkmirror.metrics.server import MetricsServer
from sparkmirror.rest.server import RestServer
from sparkmirror.runtime.metrics_view import MirroredFlow, ProcessMetrics, task_states
from sparkmirror.runtime.reload import Reloaded
from sparkmirror.runtime.supervisor import Supervisor
from sparkmirror.security.settings import TlsSettings
from sparkmirror.spark.flow_status import FlowSnapshot, FlowState
from sparkmirror.spark.shared_context import SharedSparkContext
from sparkmirror.topology.replication_factors import ReplicationFactorChooser

_LEAVE_SECONDS = 30.0
_SPARK_ROOM = 240  # splits for connectors created later; a slot of a local Spark costs nothing
_log = logging.getLogger(__name__)


class ConnectWorker:
    """From `start` to `stop`; `api` is its ConnectApi."""

    def __init__(self, file: WorkerConfig, url: str, *, master: str | None = None) -> None:
        """`url` is the advertised URL of this worker."""
        settings = file.settings
        self._file = file
        self._worker_id = url.partition("://")[2].rstrip("/")
        # Revoked connectors must end within this time, or this worker loses its membership.
        self._release_seconds = 0.7 * settings.group.rebalance_timeout_ms / 1000
        self._startup = Startup()
        self.spark: SharedSparkContext[str] = SharedSparkContext(master)
        self._config_cache = ConnectorConfigCache(file)
        self._group_state = GroupState(settings.connection, settings.internal_topics)
        self._membership = Membership(
            settings.connection,
            settings.group,
            url,
            self._group_state,
            on_assigned=self._on_assigned,
            on_revoked=self._on_revoked,
        )
        self._leader = GroupLeader(
            settings.group, settings.signing, self._group_state, self._membership, self._startup
        )
        levels = LogLevels()
        self._reconciler = Reconciler(
            self._group_state,
            self._config_cache,
            self._membership,
            levels,
            announce=self._announce,
        )
        self._supervisor = Supervisor(
            self._reconciler,
            partial(
                ConnectorInstance,
                factors=ReplicationFactorChooser(),
                spark=self.spark,
                configured_flows=self._config_cache.flows,
            ),
            self.spark,
            start_spark=self._start_spark,
            on_change=self._wake_reporter,
            monitor_lag=LagMonitor,
        )
        self._reporter = Reporter(
            self._group_state,
            self._config_cache,
            self._membership,
            self._leader,
            TaskPublisher(settings, self._group_state, self._membership, self._leader),
            worker_id=self._worker_id,
            owns=self._reconciler.owns,
            instances=self._supervisor.instances,
            tracks_topics=settings.topic_tracking,
        )
        self._group_state.subscribe(self._supervisor.wake, self._reporter.wake)
        self._config_watcher = TopicWatcher(
            settings.connection,
            settings.internal_topics.configs,
            self._group_state.on_config_records,
        )
        self.api = WorkerApi(
            file,
            self._startup,
            self._group_state,
            self._membership,
            self._leader,
            self._reconciler,
            self._config_cache,
            levels,
            instances=self._supervisor.instances,
            restart=self._restart,
            problem=lambda: self._reporter.problem or self._supervisor.problem,
        )
        self._thread = threading.Thread(target=self._run_start, name="connect/start", daemon=True)

    def start(self) -> None:
        """Start everything. Returns at once; the API shows the progress."""
        self._thread.start()

    def update_credentials(self) -> None:
        """Use changed credentials for new connections; restart connectors that differ."""
        connection = self._file.settings.connection
        self._group_state.update_connection(connection)
        self._config_watcher.update_connection(connection)
        self._membership.update_connection(connection)
        self._config_cache.invalidate_all()
        self._supervisor.wake()

    def stop(self) -> bool:
        """Leave the group and end everything. Returns whether all of it ended cleanly."""
        self._startup.stage = "stopping"
        self._startup.stopping.set()
        self._thread.join()
        has_left = not self._startup.is_started or self._membership.stop(_LEAVE_SECONDS)
        self._reporter.stop()
        self._config_watcher.stop()
        is_clean = self._supervisor.close()
        self.spark.stop(keep_log=not is_clean)
        self._group_state.close()
        return has_left and is_clean

    def failure(self) -> BaseException | None:
        """Return the error that only a restart, perhaps after a correction, can resolve."""
        if self._startup.failure is None:
            self._startup.failure = self._membership.failure or self.spark.failure()
        return self._startup.failure

    def snapshots(self) -> list[FlowSnapshot]:
        """Return the snapshots of the source connectors of this worker, stopped ones included."""
        return [one.snapshot for one in self.mirrored_flows()]

    # --- MetricsSource

    def instances(self) -> Mapping[str, InstanceView]:
        return self._supervisor.instances()

    def mirrored_flows(self) -> list[MirroredFlow]:
        """Return the source connectors of this worker, stopped ones included."""
        member = self._membership
        reason = "" if member.is_member or member.is_standby else member.problem or ""
        return [
            MirroredFlow(
                replace(view.snapshot, state=FlowState.RETRYING, reason=reason)
                if reason and view.desired is DesiredState.STANDBY
                else view.snapshot,
                view.settings,
                view.name,
                view,
            )
            for view in self._supervisor.instances().values()
            if view.kind is ConnectorClass.SOURCE and view.settings is not None
        ]

    def worker_metrics(self) -> WorkerMetrics:
        """Return the task states by connector, and the membership."""
        member = self._membership
        return WorkerMetrics(
            task_states(self._supervisor.instances()),
            self._worker_id,
            generation=member.generation,
            is_rebalancing=not member.is_settled,
            is_leader=member.is_leader,
        )

    @property
    def listener_tls(self) -> TlsSettings | None:
        """The TLS settings of the REST API."""
        return self._file.settings.rest.tls

    @property
    def max_partitions(self) -> int:
        """How many partitions metrics show one by one."""
        return self._file.settings.metrics.max_partitions

    # --- the start's thread

    def _run_start(self) -> None:
        try:
            if not self._startup.run(self._file.settings, self._group_state):
                return
            self._config_watcher.start(self._group_state.configs.offset)
            self._supervisor.start()
            self._reporter.start()
            self._membership.start()
            self._startup.is_started = True
        except Exception as error:  # noqa: BLE001 - a thread's root: the process must end
            _log.exception("The worker failed to start by an unexpected error; restart it.")
            self._startup.failure = error

    # --- threads of requests

    def _restart(self, restart: Restart) -> None:
        """Restart, and write the status before the response is sent."""
        if not restart.tasks_only:
            self._config_cache.invalidate(restart.name)  # files that it refers to are read again
        self._supervisor.restart(restart)
        self._reporter.update_statuses()

    # --- the supervisor's thread

    def _start_spark(self, wanted: Mapping[str, int]) -> None:
        """Start Spark unless it runs, with room for these and for later connectors."""
        if not self.spark.is_configured:
            options = self._file.settings.spark
            self.spark.configure(options, wanted or {"": 1}, room=_SPARK_ROOM)
            self.spark.start()

    def _wake_reporter(self) -> None:
        self._reporter.wake()

    def _announce(self, names: Collection[str]) -> None:
        self._reporter.announce(names)

    # --- the group's thread

    def _on_assigned(self, names: Collection[str]) -> None:
        self._startup.has_joined = True
        self._reconciler.assign(names)
        self._supervisor.wake()
        self._reporter.wake(read=True)

    def _on_revoked(self, names: Collection[str]) -> None:
        """Return when these write nothing any more, and their statuses say so."""
        self._reconciler.revoke(names)
        if not self._supervisor.release(names, self._release_seconds):
            # Nothing is written twice: the next owner compares both sides, and the brokers reject
            # late writes.
            _log.warning(
                f"{', '.join(names)}: revoked before they ended here; the next owner compares first"
            )
        self._reporter.give_up(names)


class Worker:
    """The REST server, the metrics server and the Connect worker of one process.

    The constructor binds the REST ports; SetupError if that fails.
    """

    def __init__(self, file: WorkerConfig, *, master: str | None = None) -> None:
        self._file = file
        self._server = RestServer.for_worker(file.settings)
        self._connect = ConnectWorker(file, self._server.advertised_url, master=master)
        self._metrics: MetricsServer | None = None
        self.reloads = ReloadMetrics()
        self._render = ProcessMetrics(self._connect, self._connect.spark, self.reloads).render

    def start(self) -> None:
        """Start everything. Returns at once."""
        settings = self._file.settings
        if settings.metrics.port is not None:
            self._metrics = MetricsServer(settings.metrics, self._render)
        self._server.start(self._connect.api, self._render)
        self._connect.start()

    def reload(self) -> Reloaded:
        """Reload the files that the worker's file refers to: certificates, passwords, users."""
        return reload_credentials(self._file, self._server, self._connect.update_credentials)

    def failure(self) -> BaseException | None:
        return self._connect.failure()

    def snapshots(self) -> list[FlowSnapshot]:
        return self._connect.snapshots()

    def stop(self) -> bool:
        """Leave the group and end everything. Returns whether all of it ended cleanly."""
        # The REST server ends last, because it responds to requests until then.
        is_clean = self._connect.stop()
        self._server.stop()
        if self._metrics is not None:
            self._metrics.stop()
        return is_clean


def reload_credentials(
    file: WorkerConfig, server: RestServer, update_credentials: Callable[[], None]
) -> Reloaded:
    """Apply changed credentials of a worker's file; ConfigError: rejected."""
    changes = file.reload_credentials()
    if changes.rest:
        server.prepare_credentials_update(file.settings.rest)()
    if changes.connection or changes.rest:
        update_credentials()
    parts = []
    if changes.connection:
        parts.append("used for new connections to the worker's cluster")
    if changes.rest:
        parts.append("used by the REST API")
    if changes.needs_restart:
        parts.append("some values take effect only after a restart")
    sentence = "; ".join(parts) or "no change for the worker itself"
    return Reloaded(sentence, changes.connection or changes.rest, changes.needs_restart)
