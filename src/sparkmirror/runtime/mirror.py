# SPDX-License-Identifier: Apache-2.0
"""The composition root: builds every object from one configuration, starts and stops them.

Spark starts on a thread of its own while the flows connect to their clusters and read their
state; whoever needs Spark first waits for it. A newer configuration changes what differs and
nothing else (`reload`, then `proceed` until it answers False).
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sparkmirror.config.config_changes import (
    ParsedRun,
    compare_runs,
    describe_changes,
    parse_run,
)
from sparkmirror.config.files.notices import Notice, NoticeLevel
from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.settings import MetricsSettings
from sparkmirror.config.worker_settings import RunRestSettings
from sparkmirror.connectors.connector_instance import build_source
from sparkmirror.connectors.targets import ConnectorSpec
from sparkmirror.errors import SetupError, SparkmirrorError
from sparkmirror.metrics.prometheus import MetricsServer, ReloadMetrics
from sparkmirror.model import Flow
from sparkmirror.policy.loading import load_policy
from sparkmirror.runtime.commands import TargetStates
from sparkmirror.runtime.flow_supervisor import (
    FlowSpec,
    FlowSupervisor,
    Ownership,
    OwnershipCallbacks,
)
from sparkmirror.runtime.herder import Herder
from sparkmirror.runtime.ownership import FlowOwnership
from sparkmirror.runtime.reload import Reloaded
from sparkmirror.spark.flow_status import FlowSnapshot, FlowState, FlowStatus
from sparkmirror.spark.shared_context import SharedSparkContext, control_port
from sparkmirror.topology.replication_factors import ReplicationFactorChooser

if TYPE_CHECKING:
    from sparkmirror.runtime.mirror_rest import MirrorRestServer

STOP_SECONDS = 8.0
_log = logging.getLogger(__name__)


class MirrorFile:
    """The file of a run; every reading logs the warnings that the reading before did not have."""

    def __init__(self, path: Path, targets: Collection[str] = ()) -> None:
        self._path = path
        self._targets = targets
        self._warned: set[tuple[str, str]] = set()

    @property
    def name(self) -> str:
        return self._path.name

    def read(self) -> ParsedRun:
        """ConfigError with every sentence if anything is wrong."""
        config = MirrorConfig.load(self._path)
        warnings = [n for n in config.all_notices(self._targets) if n.level is NoticeLevel.WARNING]
        for one in warnings:
            if _notice_key(one) not in self._warned:
                _log.warning(str(one))
        self._warned = {_notice_key(one) for one in warnings}
        return parse_run(config, self._targets)


class Mirror:
    """A running sparkmirror; `start`, look at `snapshots`, `stop`."""

    def __init__(
        self,
        file: Path,
        *,
        targets: Collection[str] = (),
        once: bool = False,
        master: str | None = None,
        serves: bool = False,
    ) -> None:
        """`serves`: the REST API, if the file does not forbid it. ConfigError: it is wrong."""
        self._file = MirrorFile(file, targets)
        self._once = once
        self._reading = self._file.read()
        self._spark: SharedSparkContext[str] = SharedSparkContext(master)
        self._spark.configure(self._reading.spark, _wanted_splits(self._reading))
        self._factors = ReplicationFactorChooser()
        self._statuses: dict[Flow, FlowStatus] = {}  # the latest of every flow there ever was
        self._metrics: MetricsServer | None = None
        self.reloads = ReloadMetrics()
        self._serves = serves
        self._rest: MirrorRestServer | None = None
        self._process_id = f"{socket.gethostname()}/{os.getpid()}"
        self._pairs = FlowSupervisor(
            self._herder, self._ownership, _flow_specs(self._reading).values()
        )

    def _ownership(self, plan: FlowSpec, calls: OwnershipCallbacks) -> Ownership:
        return FlowOwnership(plan, self._process_id, calls)

    def _herder(self, plan: FlowSpec, target_states: TargetStates) -> Herder:
        settings, policy = plan.settings, plan.policy
        flow = settings.flow
        before = self._statuses.get(flow)
        status = FlowStatus(str(flow)) if before is None else before.restarted()
        self._statuses[flow] = status
        source = None
        if settings.enabled and ConnectorClass.SOURCE not in target_states:
            spec = ConnectorSpec(
                ConnectorClass.SOURCE, str(flow), None, settings, is_bounded=self._once
            )
            source = build_source(spec, policy, self._factors, status, self._spark)
        return Herder(settings, policy, self._factors, status, source, target_states)

    def start(self) -> None:
        """Start everything; returns at once, `snapshots` tells how it goes."""
        if self._reading.metrics is not None:
            self._metrics = self._serve(self._reading.metrics)
        self._spark.start()
        self._pairs.start()
        if self._serves and self._reading.rest is not None:
            try:
                self._rest = self._serve_rest(self._reading.rest)
            except SparkmirrorError:
                self.stop()
                raise

    def _serve_rest(self, rest: RunRestSettings) -> MirrorRestServer:
        # After all else was started: what serves it takes long to load.
        from sparkmirror.runtime.mirror_rest import MirrorRestServer  # noqa: PLC0415

        return MirrorRestServer(rest, self._file.name, self._pairs.pairs, lambda: self._reading)

    def _serve(self, settings: MetricsSettings) -> MetricsServer:
        return MetricsServer(settings, self.snapshots, self.reloads)

    def reload(self) -> Reloaded:
        """Read the file again and apply it: only what differs restarts.

        ConfigError or SetupError: it is refused, and nothing has changed.
        """
        reading = self._file.read()
        control_port(reading.spark)
        changes, plans = compare_runs(self._reading, reading), _flow_specs(reading)
        if not self._spark.is_configured:
            self._spark.configure(reading.spark, _wanted_splits(reading))
            self._spark.start()
        renew_rest = None if self._rest is None else self._rest.prepare_credentials(reading.rest)
        self._restart_metrics(reading.metrics)
        if renew_rest is not None:
            renew_rest()
        is_served = reading.rest is None if self._rest is None else renew_rest is not None
        if changes.rest_credentials_changed and not is_served:
            changes = replace(changes, rest_credentials_changed=False, rest_changed=True)
        shrunk = self._spark.reallocate_slots(_wanted_splits(reading))
        self._pairs.apply(changes, plans)
        self._pairs.replan([flow for flow in plans if str(flow) in shrunk])
        self._reading = reading
        is_waiting = changes.rest_changed and self._serves and not is_served
        later = ["listeners"] if is_waiting else []
        if self._spark.is_configured:
            runs_with = self._spark.options
            later += [k for k in changes.spark_keys if reading.spark.get(k) != runs_with.get(k)]
        sentence = describe_changes(self._file.name, changes, tuple(later))
        return Reloaded(sentence, not changes.is_empty, bool(later))

    def _restart_metrics(self, wanted: MetricsSettings | None) -> None:
        """Serve them where they are wanted; SetupError if that cannot be, and all is as before."""
        old = self._metrics
        if wanted == (old.settings if old else None):
            return
        if wanted is None or old is None or wanted.port != old.settings.port:
            self._metrics = None if wanted is None else self._serve(wanted)
            if old is not None:
                old.stop()
            return
        old.stop()  # another address with the same port: both at once may not be possible
        try:
            self._metrics = self._serve(wanted)
        except SetupError:
            self._metrics = self._serve(old.settings)
            raise

    def advance(self) -> bool:
        """Go on with what a reload began; whether something is still on its way."""
        return self._pairs.advance()

    def failure(self) -> BaseException | None:
        """Why there is no Spark, if it did not start or its JVM died."""
        return self._spark.failure()

    def snapshots(self) -> list[FlowSnapshot]:
        """Every pair, as it stands now."""
        return self._pairs.snapshots()

    def copying_snapshots(self) -> list[FlowSnapshot]:
        """Every pair that does more than emit heartbeats."""
        return self._pairs.copying_snapshots()

    def is_done(self) -> bool:
        """Whether a bounded run has nothing left to do."""
        return all(one.state is FlowState.DONE for one in self.copying_snapshots())

    def stop(self) -> bool:
        """End every flow in order; whether all of them wrote their positions in time."""
        if self._rest is not None:
            self._rest.stop()
        is_clean = self._pairs.stop(STOP_SECONDS)
        if self._metrics is not None:
            self._metrics.stop()
        self._spark.stop(keep_log=not is_clean)
        return is_clean


def _notice_key(one: Notice) -> tuple[str, str]:
    """Without its line, which moves when others are added."""
    return one.key, one.message


def _wanted_splits(reading: ParsedRun) -> dict[str, int]:
    return {str(flow): splits for flow, splits in reading.wanted_splits.items()}


def _flow_specs(reading: ParsedRun) -> Mapping[Flow, FlowSpec]:
    settings = [one.settings for one in reading.flows.values()]
    return {
        one.flow: FlowSpec(one, load_policy(one.policy, one.flow), reading.groups[one.flow])
        for one in settings
    }
