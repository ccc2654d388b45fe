# SPDX-License-Identifier: Apache-2.0
"""Composition root of `run`: builds all objects from one file, starts and stops them.

Spark starts on its own thread while the flows connect to their clusters and read their state. A
reload restarts only what has changed.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sparkmirror.config.config_changes import (
    ParsedRun,
    compare_runs,
    describe_changes,
    parse_run,
)
from sparkmirror.config.files.notices import Notice, NoticeLevel
from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.settings import FlowSettings, MetricsSettings
from sparkmirror.config.worker_settings import GroupSettings, RunRestSettings
from sparkmirror.connectors.connector_instance import ConnectorInstance
from sparkmirror.connectors.desired_state import InstanceView
from sparkmirror.connectors.lag_monitor import LagMonitor
from sparkmirror.errors import SetupError, SparkmirrorError
from sparkmirror.metrics.process_view import ReloadMetrics, WorkerMetrics
from sparkmirror.metrics.server import MetricsServer
from sparkmirror.model import Flow
from sparkmirror.rest.listening_sockets import require_free_ports
from sparkmirror.runtime.commands import FlowCommands
from sparkmirror.runtime.log_output import LogOutput
from sparkmirror.runtime.metrics_view import MirroredFlow, ProcessMetrics, task_states
from sparkmirror.runtime.mirror_reconciler import MirrorReconciler, connector_name
from sparkmirror.runtime.ownership import FlowOwnership
from sparkmirror.runtime.reload import Reloaded
from sparkmirror.runtime.supervisor import Supervisor
from sparkmirror.security.settings import TlsSettings
from sparkmirror.spark.flow_status import FlowSnapshot, FlowState
from sparkmirror.spark.shared_context import SharedSparkContext, control_port
from sparkmirror.system.served_urls import publish_url, withdraw_url
from sparkmirror.topology.replication_factors import ReplicationFactorChooser

if TYPE_CHECKING:
    from sparkmirror.runtime.mirror_rest import MirrorRestServer

_RELEASE_SHARE = 0.7  # of the group's rebalance timeout
_LEAVE_SECONDS = 2.0
_log = logging.getLogger(__name__)


class MirrorFile:
    """The file of a run; each read logs the warnings that the previous one did not have."""

    def __init__(self, path: Path, targets: Collection[str] = ()) -> None:
        self._path = path
        self._target_clusters = targets
        self._warned: set[tuple[str, str]] = set()

    @property
    def path(self) -> Path:
        return self._path

    @property
    def name(self) -> str:
        return self._path.name

    def read(self) -> ParsedRun:
        """Read and parse the file; ConfigError lists all errors."""
        config = MirrorConfig.load(self._path)
        warnings = [
            n for n in config.all_notices(self._target_clusters) if n.level is NoticeLevel.WARNING
        ]
        for one in warnings:
            if _notice_key(one) not in self._warned:
                _log.warning(str(one))
        self._warned = {_notice_key(one) for one in warnings}
        return parse_run(config, self._target_clusters)


class Mirror:
    """The process of `sparkmirror run`, from `start` to `stop`."""

    def __init__(
        self,
        file: Path,
        *,
        targets: Collection[str] = (),
        once: bool = False,
        master: str | None = None,
        serves: bool = False,
        log_output: LogOutput | None = None,
    ) -> None:
        """`serves`: start the REST API, if the file allows it. ConfigError: the file is invalid.

        `log_output` follows the file's log settings; None: they are ignored.
        """
        self._log_output = log_output
        self._file = MirrorFile(file, targets)
        self._parsed_run = self._file.read()
        self._spark: SharedSparkContext[str] = SharedSparkContext(master)
        self._spark.configure(self._parsed_run.spark, _wanted_splits(self._parsed_run))
        self._metrics: MetricsServer | None = None
        self.reloads = ReloadMetrics()
        self._serves = serves
        self._rest: MirrorRestServer | None = None
        self._process_id = f"{socket.gethostname()}/{os.getpid()}"
        self._reconciler = MirrorReconciler(
            self._parsed_run, self._make_ownership, self._make_commands, is_bounded=once
        )
        self._supervisor = Supervisor(
            self._reconciler,
            partial(
                ConnectorInstance,
                factors=ReplicationFactorChooser(),
                spark=self._spark,
                configured_flows=lambda: self._parsed_run.enabled,
            ),
            self._spark,
            monitor_lag=LagMonitor,
        )
        self._process_metrics = ProcessMetrics(self, self._spark, self.reloads)

    def _make_commands(self, settings: FlowSettings) -> FlowCommands:
        return FlowCommands(settings, self._wake)

    def _make_ownership(self, settings: FlowSettings, group: GroupSettings) -> FlowOwnership:
        return FlowOwnership(
            settings,
            group,
            self._process_id,
            on_change=self._wake,
            release=lambda: self._release(settings.flow, group),
        )

    def _wake(self) -> None:
        self._supervisor.wake()

    def _release(self, flow: Flow, group: GroupSettings) -> None:
        """End the connectors of a flow before another process gets it. The group's thread."""
        names = [connector_name(flow, kind) for kind in ConnectorClass]
        if not self._supervisor.release(names, _RELEASE_SHARE * group.rebalance_timeout_ms / 1000):
            # To wait longer would cost the membership. Nothing is written twice: the next owner
            # compares both sides, and the brokers reject late writes.
            _log.warning(
                f"{flow}: revoked before its connectors ended here; the next owner compares first"
            )

    def start(self) -> None:
        """Start everything. Returns at once; `snapshots` shows the progress.

        SetupError if a port of the file is in use: before any group is joined, because a member
        that leaves at once would interrupt the process that runs the flows.
        """
        rest = self._parsed_run.rest
        if self._serves and rest is not None and not rest.allows_any_port:
            require_free_ports(rest.settings.listeners)
        self._metrics = self._serve(self._parsed_run.metrics)
        self._spark.start()
        self._supervisor.start()
        self._reconciler.start()
        if self._serves and self._parsed_run.rest is not None:
            try:
                self._rest = self._serve_rest(self._parsed_run.rest)
                publish_url(self._file.path, self._rest.url)
            except SparkmirrorError:
                self.stop()
                raise

    def _serve_rest(self, rest: RunRestSettings) -> MirrorRestServer:
        # Imported last: FastAPI takes long to load.
        from sparkmirror.runtime.mirror_rest import MirrorRestServer  # noqa: PLC0415

        return MirrorRestServer(
            rest,
            self._file.name,
            self._reconciler.flows,
            self._supervisor.instances,
            lambda: self._parsed_run,
            self._process_metrics.render,
        )

    def _serve(self, settings: MetricsSettings) -> MetricsServer | None:
        return (
            None if settings.port is None else MetricsServer(settings, self._process_metrics.render)
        )

    def reload(self) -> Reloaded:
        """Read the file again and apply it; only what differs restarts.

        ConfigError or SetupError: the file is rejected, and nothing has changed.
        """
        parsed_run = self._file.read()
        control_port(parsed_run.spark)
        if self._log_output is not None:
            self._log_output.check(parsed_run.log)
        changes = compare_runs(self._parsed_run, parsed_run)
        if not self._spark.is_configured:
            self._spark.configure(parsed_run.spark, _wanted_splits(parsed_run))
            self._spark.start()
        renew_rest = None if self._rest is None else self._rest.prepare_credentials(parsed_run.rest)
        self._restart_metrics(parsed_run.metrics)
        if renew_rest is not None:
            renew_rest()
        is_served = parsed_run.rest is None if self._rest is None else renew_rest is not None
        if changes.rest_credentials_changed and not is_served:
            changes = replace(changes, rest_credentials_changed=False, rest_changed=True)
        if self._log_output is not None:
            self._log_output.apply(parsed_run.log)
        self._reconciler.apply(parsed_run)
        self._supervisor.wake()
        self._parsed_run = parsed_run
        is_waiting = changes.rest_changed and self._serves and not is_served
        later = ["listeners"] if is_waiting else []
        if self._spark.is_configured:
            runs_with = self._spark.options
            later += [k for k in changes.spark_keys if parsed_run.spark.get(k) != runs_with.get(k)]
        sentence = describe_changes(self._file.name, changes, tuple(later))
        return Reloaded(sentence, not changes.is_empty, bool(later))

    def _restart_metrics(self, wanted: MetricsSettings) -> None:
        """Serve metrics at another address; SetupError if that fails, and nothing has changed."""
        old = self._metrics
        now = self._parsed_run.metrics
        if (wanted.host, wanted.port) == (now.host, now.port):
            return
        if old is None or wanted.port != old.settings.port:
            self._metrics = self._serve(wanted)
            if old is not None:
                old.stop()
            return
        old.stop()  # another address with the same port: both at once may not be possible
        try:
            self._metrics = self._serve(wanted)
        except SetupError:
            self._metrics = self._serve(old.settings)
            raise

    @property
    def progress_seconds(self) -> float:
        """Seconds between two log lines with the progress of a flow."""
        return self._parsed_run.log.progress_seconds

    def failure(self) -> BaseException | None:
        """Return the error if Spark did not start or its JVM died."""
        return self._spark.failure()

    def snapshots(self) -> list[FlowSnapshot]:
        """Return the current state of all flows."""
        instances = self._supervisor.instances()
        return [flow.snapshot(instances) for flow in self._reconciler.flows()]

    # --- MetricsSource

    def instances(self) -> Mapping[str, InstanceView]:
        return self._supervisor.instances()

    def mirrored_flows(self) -> list[MirroredFlow]:
        """Return all flows, also those that another process runs."""
        instances = self._supervisor.instances()
        found = []
        for one in self._reconciler.flows():
            name = connector_name(one.flow, ConnectorClass.SOURCE)
            found.append(
                MirroredFlow(one.snapshot(instances), one.settings, name, instances.get(name))
            )
        return found

    def worker_metrics(self) -> WorkerMetrics:
        """Return this process as a Connect worker would show itself."""
        flows = self._reconciler.flows()
        url = "" if self._rest is None else self._rest.url
        return WorkerMetrics(
            task_states(self._supervisor.instances()),
            urlsplit(url).netloc or socket.gethostname(),
            is_rebalancing=any(not one.ownership.is_settled for one in flows),
        )

    @property
    def listener_tls(self) -> TlsSettings | None:
        """The TLS settings of the REST API."""
        rest = self._parsed_run.rest
        return None if rest is None else rest.settings.tls

    @property
    def max_partitions(self) -> int:
        """How many partitions metrics show one by one."""
        return self._parsed_run.metrics.max_partitions

    # ---

    def copying_snapshots(self) -> list[FlowSnapshot]:
        """Return the flows that do more than emit heartbeats."""
        instances = self._supervisor.instances()
        flows = [flow for flow in self._reconciler.flows() if flow.settings.enabled]
        return [flow.snapshot(instances) for flow in flows]

    def is_done(self) -> bool:
        """Whether a bounded run has nothing left to do."""
        return all(one.state is FlowState.DONE for one in self.copying_snapshots())

    def stop(self) -> bool:
        """End all flows. Returns whether all of them wrote their positions in time."""
        if self._rest is not None:
            withdraw_url(self._file.path)
            self._rest.stop()
        is_clean = self._supervisor.close()
        self._reconciler.stop(_LEAVE_SECONDS)
        if self._metrics is not None:
            self._metrics.stop()
        self._spark.stop(keep_log=not is_clean)
        return is_clean


def _notice_key(one: Notice) -> tuple[str, str]:
    """Identify a notice without its line number, which changes with other lines."""
    return one.key, one.message


def _wanted_splits(parsed_run: ParsedRun) -> dict[str, int]:
    return {str(flow): splits for flow, splits in parsed_run.wanted_splits.items()}
