# SPDX-License-Identifier: Apache-2.0
"""The SparkContext of a process and its control server, started when a flow first needs them.

Starting takes seconds and happens on a separate thread; callers of `context` wait. The number of
concurrent tasks is fixed then, and flows share these slots. Flows are identified by their owner's
keys: flows of a file, or connector names. `configure`, `start`, `reallocate_slots` and `stop`
belong to one thread; the other methods are thread-safe.
"""

from __future__ import annotations

import logging
import os
import socket
import tempfile
import threading
import zipfile
from collections.abc import Hashable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import sparkmirror
from sparkmirror.errors import ConfigError, SetupError, SparkmirrorError
from sparkmirror.security.redaction import limit_library_logs
from sparkmirror.spark.class_archive import build_in_background, existing_archive
from sparkmirror.spark.context import (
    LOOPBACK,
    choose_master,
    jvm_exit_code,
    spark_options,
    start_spark,
    stop_spark,
    warm_up,
)
from sparkmirror.spark.control_server import ControlServer
from sparkmirror.spark.split_planner import allocate_slots
from sparkmirror.system.cache_directory import cache_directory, ensure_writable

if TYPE_CHECKING:
    from pyspark import SparkContext

CONTROL_PORT_KEY = "spark.sparkmirror.control.port"  # executors must reach it through firewalls
_MAX_PORT = 65535
_log = logging.getLogger(__name__)
K = TypeVar("K", bound=Hashable)


def control_port(options: Mapping[str, str]) -> int:
    """Return the port for control connections, 0 for any. Raises ConfigError."""
    text = options.get(CONTROL_PORT_KEY, "0")
    if not text.isdecimal() or int(text) > _MAX_PORT:
        raise ConfigError(
            f"Invalid {CONTROL_PORT_KEY} {text!r}: set a port number, or remove it for any port.",
            key=CONTROL_PORT_KEY,
        )
    return int(text)


class SharedSparkContext(Generic[K]):
    """Spark for all flows; `requested_master` comes from the command line."""

    def __init__(self, requested_master: str | None) -> None:
        self._requested_master = requested_master
        self._log_file = cache_directory() / "logs" / f"spark-{os.getpid()}.log"
        self._future: Future[SparkContext] = Future()
        self._lock = threading.Lock()
        self._slots = 0  # known once Spark runs
        self._requested: dict[K, int] = {}
        self._allotted: dict[K, int] = {}
        self._shortage = ""  # the last logged warning
        self._master = ""
        self._control: ControlServer | None = None
        self._has_started = False
        self.options: Mapping[str, str] = {}

    @property
    def is_configured(self) -> bool:
        """Whether its options are fixed."""
        return self._control is not None

    def configure(
        self, options: Mapping[str, str], splits: Mapping[K, int], *, room: int = 0
    ) -> None:
        """Fix the options and slots for these flows; without flows nothing is needed yet.

        `room` is the number of slots for later flows, beyond the usual spare ones.
        """
        port = control_port(options)
        if not splits:
            return
        self.options, self._requested = dict(options), dict(splits)
        master = self._requested_master or options.get("spark.master")
        self._master = choose_master(master, sum(splits.values()) + room)
        host = bind_host = LOOPBACK
        if not self._master.startswith("local"):
            host = options.get("spark.driver.host", socket.getfqdn())
            bind_host = options.get("spark.driver.bindAddress", host)
        self._control = ControlServer(host, bind_host, port)

    @property
    def control_server(self) -> ControlServer:
        """The server that tasks report to. Raises SetupError before `configure`."""
        if self._control is None:
            raise SetupError("Spark is not configured: no flow needs it.")
        return self._control

    def context(self) -> SparkContext:
        """Return the context; blocks until Spark runs."""
        return self._future.result()

    def slots_for(self, flow: K) -> int:
        """Return the current number of splits of a flow; blocks until Spark runs."""
        self._future.result()
        with self._lock:
            return self._allotted.get(flow, 1)  # a flow that is stopping has no slots

    def start(self) -> None:
        """Start in the background if configured; does not block."""
        if self._control is None:
            return
        limit_library_logs("py4j", logging.WARNING)  # its commands contain the epochs' tokens
        try:
            self._control.start()
        except OSError as error:
            self._control = None
            raise SetupError(f"Cannot open the control port: {error}.") from error
        self._has_started = True
        threading.Thread(target=self._start, name="spark", daemon=True).start()

    def reallocate_slots(self, splits: Mapping[K, int]) -> list[K]:
        """Distribute the slots again. Returns the flows that get fewer than before."""
        with self._lock:
            before, self._requested = self._allotted, dict(splits)
            if not self._slots:
                return []
            self._allocate_slots()
            return [f for f, slots in self._allotted.items() if slots < before.get(f, 0)]

    def _allocate_slots(self) -> None:
        """Distribute the slots. Call it under the lock."""
        self._allotted = allocate_slots(self._requested, self._slots)
        short = [str(flow) for flow, n in self._allotted.items() if n < self._requested[flow]]
        shortage = ""
        if len(self._requested) > self._slots:
            shortage = (
                f"Spark runs {self._slots} concurrent tasks, and {len(self._requested)} flows need "
                "one each: some flows wait. Restart with a larger spark.master."
            )
        elif short:
            shortage = (
                f"Spark runs {self._slots} concurrent tasks, fewer than tasks.max requires: "
                f"{', '.join(short)} get fewer and larger splits. A restart may give more."
            )
        if shortage and shortage != self._shortage:
            _log.warning(shortage)
        self._shortage = shortage

    def _start(self) -> None:
        try:
            archive = existing_archive()
            user = {k: v for k, v in self.options.items() if k != "spark.master"}
            options = spark_options(self._master, user, archive=archive)
            ensure_writable(self._log_file.parent)
            spark = start_spark(options, self._log_file)
            if not self._master.startswith("local"):
                spark.addPyFile(str(_zip_package()))
            with self._lock:
                self._slots = spark.defaultParallelism
                self._allocate_slots()
        except SparkmirrorError as error:
            self._future.set_exception(error)
            return
        except Exception as error:  # noqa: BLE001 - a thread's root: every waiting flow gets the error
            remedy = f"See Java's output in {self._log_file}."
            self._future.set_exception(SetupError(f"Cannot start Spark: {error}.", remedy=remedy))
            return
        self._future.set_result(spark)
        try:
            warm_up(spark)
        except Exception as error:  # noqa: BLE001 - Spark may be stopping; else an epoch reports it
            _log.debug("the first job failed: %s", error)
        if archive is None and self._master.startswith("local"):
            build_in_background()

    def failure(self) -> BaseException | None:
        """Return the error if Spark did not start or its JVM exited."""
        if not self._future.done():
            return None
        if self._future.exception() is not None:
            return self._future.exception()
        code = jvm_exit_code(self._future.result())
        if code is None:
            return None
        remedy = f"See {self._log_file}. Restart sparkmirror; copying resumes without loss."
        return SetupError(f"Spark's JVM exited unexpectedly with code {code}.", remedy=remedy)

    def stop(self, *, keep_log: bool) -> None:
        """Stop Spark. Keeps the log if requested, or if the JVM had exited."""
        if self._control is not None and self._has_started:
            self._control.stop()
        if not self._future.done() or self._future.exception() is not None:
            return
        if stop_spark(self._future.result()) and not keep_log:
            self._log_file.unlink(missing_ok=True)


def _zip_package() -> Path:
    """Zip this package for executors that do not have it installed."""
    root = Path(sparkmirror.__file__).parent
    path = Path(tempfile.mkdtemp(prefix="sparkmirror-")) / "sparkmirror.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(root.rglob("*.py")):
            archive.write(file, Path("sparkmirror") / file.relative_to(root))
    return path
