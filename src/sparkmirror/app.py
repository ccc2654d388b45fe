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
from sparkmirror.connectors.herder import Herder
from sparkmirror.connectors.source import MirrorSourceConnector
from sparkmirror.errors import SetupError, SparkmirrorError
from sparkmirror.local.cache import cache_directory, writable
from sparkmirror.model import Flow
from sparkmirror.pipeline.control_server import ControlServer
from sparkmirror.pipeline.epochs import Epochs
from sparkmirror.pipeline.plan import allot_slots
from sparkmirror.pipeline.session import (
    LOOPBACK,
    choose_master,
    session_options,
    start_session,
)
from sparkmirror.pipeline.status import FlowSnapshot, FlowState, FlowStatus
from sparkmirror.policy.loading import load_policy
from sparkmirror.topology.factors import ReplicationFactors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STOP_SECONDS = 8.0
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
        self._spark: Future[SparkSession] = Future()
        self._control = ControlServer(*self._control_hosts())
        self._factors = ReplicationFactors()
        self.herders = [self._herder(one) for one in self._settings]

    def _control_hosts(self) -> tuple[str, str]:
        if self._master.startswith("local"):
            return LOOPBACK, LOOPBACK
        host = self._user_options.get("spark.driver.host", socket.getfqdn())
        return host, self._user_options.get("spark.driver.bindAddress", host)

    def _herder(self, settings: FlowSettings) -> Herder:
        flow = settings.flow
        policy = load_policy(settings.policy, flow)
        status = FlowStatus(str(flow))
        source = None
        if settings.enabled:
            epochs = Epochs(flow, self._spark.result, self._control, status.progressed)
            source = MirrorSourceConnector(
                settings,
                policy,
                self._factors,
                status,
                epochs,
                splits=lambda: self._slots(flow),
                once=self._once,
            )
        return Herder(settings, policy, self._factors, status, source)

    def _slots(self, flow: Flow) -> int:
        self._spark.result()  # how many there are is known once Spark runs
        return self._allotted[flow]

    def start(self) -> None:
        """Start everything; returns at once, `snapshots` tells how it goes."""
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
            options = session_options(self._master, self._user_options, archive=archive)
            spark = start_session(options, self._spark_log())
            context = spark.sparkContext
            if not self._master.startswith("local"):
                context.addPyFile(str(_package_archive()))
            self._allotted = allot_slots(self._wanted, context.defaultParallelism)
            short = [str(f) for f, n in self._allotted.items() if n < self._wanted[f]]
            if short:
                _log.warning(
                    f"Spark runs {context.defaultParallelism} tasks at once, fewer than tasks.max "
                    f"asks for: {', '.join(short)} get fewer and larger splits."
                )
        except SparkmirrorError as error:
            self._spark.set_exception(error)
            return
        except Exception as error:  # noqa: BLE001 - a thread's root: every waiting flow hears it
            remedy = f"What Java printed is in {self._spark_log()}."
            self._spark.set_exception(SetupError(f"Spark did not start: {error}.", remedy=remedy))
            return
        self._spark.set_result(spark)
        if archive is None and self._master.startswith("local"):
            build_in_background()

    def _spark_log(self) -> Path:
        folder = writable(cache_directory() / "logs")
        return folder / f"spark-{os.getpid()}.log"

    def failure(self) -> BaseException | None:
        """Why Spark did not start, if it did not."""
        return self._spark.exception() if self._spark.done() else None

    def snapshots(self) -> list[FlowSnapshot]:
        """Every pair, as it stands now."""
        return [herder.status.snapshot() for herder in self.herders]

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
        if self._spark.done() and self._spark.exception() is None:
            self._spark.result().stop()
        log = self._spark_log()
        if all(clean) and log.exists():
            log.unlink()
        return all(clean)


def _package_archive() -> Path:
    """This package as a zip for executors that do not have it installed."""
    root = Path(sparkmirror.__file__).parent
    path = Path(tempfile.mkdtemp(prefix="sparkmirror-")) / "sparkmirror.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(root.rglob("*.py")):
            archive.write(file, Path("sparkmirror") / file.relative_to(root))
    return path
