# SPDX-License-Identifier: Apache-2.0
"""The composition root: builds every object from one configuration, starts and stops them.

Spark starts on a thread of its own while the flows connect to their clusters and read their
state; whoever needs Spark first waits for it.
"""

from __future__ import annotations

import logging
import os
import socket
import tempfile
import threading
import time
import zipfile
from collections.abc import Collection
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

import sparkmirror
from sparkmirror.class_archive import build_in_background, existing_archive
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.foreign_writers import ForeignWriters
from sparkmirror.connectors.herder import Herder
from sparkmirror.connectors.side_topics import SideTopics
from sparkmirror.connectors.source import MirrorSourceConnector
from sparkmirror.errors import ConfigError, SetupError, SparkmirrorError
from sparkmirror.local.cache import cache_directory, writable
from sparkmirror.metrics.prometheus import MetricsServer
from sparkmirror.model import Flow
from sparkmirror.pipeline.contract import Progress
from sparkmirror.pipeline.control_server import ControlServer
from sparkmirror.pipeline.epochs import Epochs
from sparkmirror.pipeline.plan import allot_slots
from sparkmirror.pipeline.spark import (
    LOOPBACK,
    choose_master,
    jvm_exit_code,
    spark_options,
    start_spark,
    stop_spark,
    warm_up,
)
from sparkmirror.pipeline.status import FlowSnapshot, FlowState, FlowStatus
from sparkmirror.policy.loading import load_policy
from sparkmirror.topology.factors import ReplicationFactors

if TYPE_CHECKING:
    from pyspark import SparkContext

STOP_SECONDS = 8.0
CONTROL_PORT_KEY = "spark.sparkmirror.control.port"  # executors must reach it through firewalls
_LAST_PORT = 65535
_log = logging.getLogger(__name__)


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
        config.validate(targets)
        self._settings = [config.flow_settings(flow) for flow in config.pairs(targets)]
        self._enabled = [one for one in self._settings if one.enabled]
        self._user_options = dict(config.spark)
        wanted = {one.flow: one.source.tasks_max for one in self._enabled}
        asked = master or self._user_options.pop("spark.master", None)
        self._master = choose_master(asked, sum(wanted.values()))
        self._wanted = wanted
        self._allotted: dict[Flow, int] = {}
        self._once = once
        self._spark: Future[SparkContext] = Future()
        self._log_file = cache_directory() / "logs" / f"spark-{os.getpid()}.log"
        self._control = ControlServer(*self._control_hosts(), self._control_port())
        self._factors = ReplicationFactors()
        self._metrics_settings = config.metrics
        self._metrics: MetricsServer | None = None
        self.herders = [self._herder(one) for one in self._settings]

    def _control_hosts(self) -> tuple[str, str]:
        if self._master.startswith("local"):
            return LOOPBACK, LOOPBACK
        host = self._user_options.get("spark.driver.host", socket.getfqdn())
        return host, self._user_options.get("spark.driver.bindAddress", host)

    def _control_port(self) -> int:
        text = self._user_options.get(CONTROL_PORT_KEY, "0")
        if not text.isdecimal() or int(text) > _LAST_PORT:
            raise ConfigError(
                f"{CONTROL_PORT_KEY} is {text!r}; write a port number, or leave it out for any.",
                key=CONTROL_PORT_KEY,
            )
        return int(text)

    def _herder(self, settings: FlowSettings) -> Herder:
        flow = settings.flow
        policy = load_policy(settings.policy, flow)
        status = FlowStatus(str(flow))
        source = None
        if settings.enabled:
            side_topics = SideTopics(settings, policy.replication, self._factors, status)
            foreign_writers = ForeignWriters(settings, status)

            def progressed(progress: Progress) -> None:
                status.progressed(progress)
                side_topics.need(progress.needs)
                foreign_writers.seen(progress.other_writers)

            epochs = Epochs(flow, self._spark.result, self._control, progressed)
            source = MirrorSourceConnector(
                settings,
                policy,
                self._factors,
                status,
                epochs,
                side_topics,
                splits=lambda: self._slots(flow),
                once=self._once,
            )
        return Herder(settings, policy, self._factors, status, source)

    def _slots(self, flow: Flow) -> int:
        self._spark.result()  # how many there are is known once Spark runs
        return self._allotted[flow]

    def start(self) -> None:
        """Start everything; returns at once, `snapshots` tells how it goes."""
        if self._metrics_settings is not None:
            self._metrics = MetricsServer(self._metrics_settings, self.snapshots)
        if self._enabled:
            try:
                self._control.start()
            except OSError as error:
                raise SetupError(f"The control port cannot be opened: {error}.") from error
            threading.Thread(target=self._start_spark, name="spark", daemon=True).start()
        for herder in self.herders:
            herder.start()

    def _start_spark(self) -> None:
        try:
            archive = existing_archive()
            options = spark_options(self._master, self._user_options, archive=archive)
            writable(self._log_file.parent)
            spark = start_spark(options, self._log_file)
            if not self._master.startswith("local"):
                spark.addPyFile(str(_package_archive()))
            self._allotted = allot_slots(self._wanted, spark.defaultParallelism)
            short = [str(f) for f, n in self._allotted.items() if n < self._wanted[f]]
            if short:
                _log.warning(
                    f"Spark runs {spark.defaultParallelism} tasks at once, fewer than tasks.max "
                    f"asks for: {', '.join(short)} get fewer and larger splits."
                )
        except SparkmirrorError as error:
            self._spark.set_exception(error)
            return
        except Exception as error:  # noqa: BLE001 - a thread's root: every waiting flow hears it
            remedy = f"What Java printed is in {self._log_file}."
            self._spark.set_exception(SetupError(f"Spark did not start: {error}.", remedy=remedy))
            return
        self._spark.set_result(spark)
        try:
            warm_up(spark)
        except Exception as error:  # noqa: BLE001 - Spark may be stopping; else an epoch says it
            _log.debug("the first job failed: %s", error)
        if archive is None and self._master.startswith("local"):
            build_in_background()

    def failure(self) -> BaseException | None:
        """Why there is no Spark, if it did not start or its JVM died."""
        if not self._spark.done():
            return None
        if self._spark.exception() is not None:
            return self._spark.exception()
        code = jvm_exit_code(self._spark.result())
        if code is None:
            return None
        remedy = f"What Java printed is in {self._log_file}. Start again: nothing is lost."
        return SetupError(f"Spark's JVM ended by itself with code {code}.", remedy=remedy)

    def snapshots(self) -> list[FlowSnapshot]:
        """Every pair, as it stands now."""
        return [herder.snapshot() for herder in self.herders]

    def is_done(self) -> bool:
        """Whether a bounded run has nothing left to do."""
        enabled = [herder for herder in self.herders if herder.source is not None]
        return all(h.status.snapshot().state is FlowState.DONE for h in enabled)

    def stop(self) -> bool:
        """End every flow in order; whether all of them wrote their positions in time."""
        deadline = time.monotonic() + STOP_SECONDS
        for herder in self.herders:
            herder.stop()
        clean = [herder.join(max(0.1, deadline - time.monotonic())) for herder in self.herders]
        self._control.stop()
        if self._metrics is not None:
            self._metrics.stop()
        ended_well = self._spark.done() and self._spark.exception() is None
        if ended_well:
            ended_well = stop_spark(self._spark.result())
        if ended_well and all(clean):
            self._log_file.unlink(missing_ok=True)
        return all(clean)


def _package_archive() -> Path:
    """This package as a zip for executors that do not have it installed."""
    root = Path(sparkmirror.__file__).parent
    path = Path(tempfile.mkdtemp(prefix="sparkmirror-")) / "sparkmirror.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(root.rglob("*.py")):
            archive.write(file, Path("sparkmirror") / file.relative_to(root))
    return path
