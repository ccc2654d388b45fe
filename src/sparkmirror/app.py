# SPDX-License-Identifier: Apache-2.0
"""The composition root: builds every object from one configuration, starts and stops them.

Spark starts on a thread of its own while the flows connect to their clusters and read their
state; whoever needs Spark first waits for it. A newer configuration changes what differs and
nothing else (`reload`, then `proceed` until it answers False).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from sparkmirror.config.changes import Changes, RunReading, compare, read_run
from sparkmirror.config.connector_classes import ConnectorClass
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.settings import MetricsSettings
from sparkmirror.config.worker_settings import RunRest
from sparkmirror.connectors.builders import build_source
from sparkmirror.connectors.herder import Herder
from sparkmirror.errors import SetupError, SparkmirrorError
from sparkmirror.metrics.prometheus import MetricsServer
from sparkmirror.metrics.reloads import ReloadTally
from sparkmirror.model import Flow
from sparkmirror.pair_gate import PairGate
from sparkmirror.pairs import Gate, GateCalls, PairPlan, Pairs
from sparkmirror.pipeline.status import FlowSnapshot, FlowState, FlowStatus
from sparkmirror.policy.loading import load_policy
from sparkmirror.shared_spark import SharedSpark, control_port
from sparkmirror.state.pair_orders import Wishes
from sparkmirror.topology.factors import ReplicationFactors

if TYPE_CHECKING:
    from sparkmirror.run_server import RunServer

STOP_SECONDS = 8.0


class Application:
    """A running sparkmirror; `start`, look at `snapshots`, `stop`."""

    def __init__(
        self,
        config: MirrorConfig,
        *,
        targets: Collection[str] = (),
        once: bool = False,
        master: str | None = None,
        serves: bool = False,
    ) -> None:
        """`serves`: the REST API, if the file does not forbid it."""
        self._targets = targets
        self._once = once
        self._reading = read_run(config, targets)
        self._spark: SharedSpark[Flow] = SharedSpark(master)
        self._spark.prepare(self._reading.spark, self._reading.wanted_splits)
        self._factors = ReplicationFactors()
        self._statuses: dict[Flow, FlowStatus] = {}  # the latest of every flow there ever was
        self._metrics: MetricsServer | None = None
        self.reloads = ReloadTally()
        self._file = config.name
        self._serves = serves
        self._rest: RunServer | None = None
        self._identity = f"{socket.gethostname()}/{os.getpid()}"
        self._pairs = Pairs(self._herder, self._gate, _plans(self._reading).values())

    def _gate(self, plan: PairPlan, calls: GateCalls) -> Gate:
        return PairGate(plan, self._identity, calls)

    def _herder(self, plan: PairPlan, wishes: Wishes) -> Herder:
        settings, policy = plan.settings, plan.policy
        flow = settings.flow
        before = self._statuses.get(flow)
        status = FlowStatus(str(flow)) if before is None else before.successor()
        self._statuses[flow] = status
        source = None
        if settings.enabled and ConnectorClass.SOURCE not in wishes:
            source = build_source(
                settings,
                policy,
                self._factors,
                status,
                self._spark,
                splits=lambda: self._spark.slots(flow),
                once=self._once,
            )
        return Herder(settings, policy, self._factors, status, source, wishes)

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

    def _serve_rest(self, rest: RunRest) -> RunServer:
        # After all else was started: what serves it takes long to load.
        from sparkmirror.run_server import RunServer  # noqa: PLC0415

        return RunServer(rest, self._file, self._pairs.pairs, lambda: self._reading)

    def _serve(self, settings: MetricsSettings) -> MetricsServer:
        return MetricsServer(settings, self.snapshots, self.reloads)

    def reload(self, config: MirrorConfig) -> tuple[Changes, tuple[str, ...]]:
        """Take a newer configuration up: what changes, and which of Spark's keys have to wait.

        ConfigError or SetupError: it is refused, and nothing has changed.
        """
        reading = read_run(config, self._targets)
        control_port(reading.spark)
        changes, plans = compare(self._reading, reading), _plans(reading)
        if not self._spark.is_prepared:
            self._spark.prepare(reading.spark, reading.wanted_splits)
            self._spark.start()
        renew_rest = None if self._rest is None else self._rest.renewal(reading.rest)
        self._move_metrics(reading.metrics)
        if renew_rest is not None:
            renew_rest()
        is_served = reading.rest is None if self._rest is None else renew_rest is not None
        if changes.rest_renewed and not is_served:
            changes = replace(changes, rest_renewed=False, rest_moved=True)
        shrunk = self._spark.share(reading.wanted_splits)
        self._pairs.apply(changes, plans)
        self._pairs.replan(shrunk)
        self._reading = reading
        is_waiting = changes.rest_moved and self._serves and not is_served
        later = ["listeners"] if is_waiting else []
        if self._spark.is_prepared:
            runs_with = self._spark.options
            later += [k for k in changes.spark_keys if reading.spark.get(k) != runs_with.get(k)]
        return changes, tuple(later)

    def _move_metrics(self, wanted: MetricsSettings | None) -> None:
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

    def proceed(self) -> bool:
        """Go on with what a reload began; whether something is still on its way."""
        return self._pairs.proceed()

    def failure(self) -> BaseException | None:
        """Why there is no Spark, if it did not start or its JVM died."""
        return self._spark.failure()

    def snapshots(self) -> list[FlowSnapshot]:
        """Every pair, as it stands now."""
        return self._pairs.snapshots()

    def copying(self) -> list[FlowSnapshot]:
        """Every pair that does more than emit heartbeats."""
        return self._pairs.copying()

    def is_done(self) -> bool:
        """Whether a bounded run has nothing left to do."""
        return all(one.state is FlowState.DONE for one in self.copying())

    def stop(self) -> bool:
        """End every flow in order; whether all of them wrote their positions in time."""
        if self._rest is not None:
            self._rest.stop()
        is_clean = self._pairs.stop(STOP_SECONDS)
        if self._metrics is not None:
            self._metrics.stop()
        self._spark.stop(keep_log=not is_clean)
        return is_clean


def _plans(reading: RunReading) -> Mapping[Flow, PairPlan]:
    settings = [one.settings for one in reading.pairs.values()]
    return {
        one.flow: PairPlan(one, load_policy(one.policy, one.flow), reading.groups[one.flow])
        for one in settings
    }
