# SPDX-License-Identifier: Apache-2.0
"""The composition root: builds every object from one configuration, starts and stops them.

Spark starts on a thread of its own while the flows connect to their clusters and read their
state; whoever needs Spark first waits for it. A newer configuration changes what differs and
nothing else (`reload`, then `proceed` until it answers False).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Collection, Mapping

from sparkmirror.config.changes import Changes, RunReading, compare, read_run
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.settings import MetricsSettings
from sparkmirror.connectors.builders import build_source
from sparkmirror.connectors.herder import Herder
from sparkmirror.errors import SetupError
from sparkmirror.metrics.prometheus import MetricsServer
from sparkmirror.metrics.reloads import ReloadTally
from sparkmirror.model import Flow
from sparkmirror.pair_gate import PairGate
from sparkmirror.pairs import Gate, PairPlan, Pairs
from sparkmirror.pipeline.status import FlowSnapshot, FlowState, FlowStatus
from sparkmirror.policy.loading import load_policy
from sparkmirror.shared_spark import SharedSpark, control_port
from sparkmirror.topology.factors import ReplicationFactors

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
    ) -> None:
        self._targets = targets
        self._once = once
        self._reading = read_run(config, targets)
        self._spark: SharedSpark[Flow] = SharedSpark(master)
        self._spark.prepare(self._reading.spark, self._reading.wanted_splits)
        self._factors = ReplicationFactors()
        self._statuses: dict[Flow, FlowStatus] = {}  # the latest of every flow there ever was
        self._metrics: MetricsServer | None = None
        self.reloads = ReloadTally()
        self._identity = f"{socket.gethostname()}/{os.getpid()}"
        self._pairs = Pairs(self._herder, self._gate, _plans(self._reading).values())

    def _gate(
        self, plan: PairPlan, *, opened: Callable[[], None], closed: Callable[[], None]
    ) -> Gate:
        return PairGate(plan, self._identity, opened=opened, closed=closed)

    def _herder(self, plan: PairPlan) -> Herder:
        settings, policy = plan.settings, plan.policy
        flow = settings.flow
        before = self._statuses.get(flow)
        status = FlowStatus(str(flow)) if before is None else before.successor()
        self._statuses[flow] = status
        source = None
        if settings.enabled:
            source = build_source(
                settings,
                policy,
                self._factors,
                status,
                self._spark,
                splits=lambda: self._spark.slots(flow),
                once=self._once,
            )
        return Herder(settings, policy, self._factors, status, source)

    def start(self) -> None:
        """Start everything; returns at once, `snapshots` tells how it goes."""
        if self._reading.metrics is not None:
            self._metrics = self._serve(self._reading.metrics)
        self._spark.start()
        self._pairs.start()

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
        self._move_metrics(reading.metrics)
        shrunk = self._spark.share(reading.wanted_splits)
        self._pairs.apply(changes, plans)
        self._pairs.replan(shrunk)
        self._reading = reading
        if not self._spark.is_prepared:
            return changes, ()
        runs_with = self._spark.options
        later = [k for k in changes.spark_keys if reading.spark.get(k) != runs_with.get(k)]
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
