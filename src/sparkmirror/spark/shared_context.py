# SPDX-License-Identifier: Apache-2.0
"""The one Spark of a process and its control server: started when a flow first needs them.

Starting takes seconds and happens on a thread of its own; whoever needs Spark waits for it. How
many tasks run at once is fixed then, so when flows come and go they share what there is. Flows are
told apart by whatever their owner calls them: pairs of clusters, or connectors by name.
`prepare`, `start`, `share` and `stop` are for one thread; the others are anybody's.
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
_LAST_PORT = 65535
_log = logging.getLogger(__name__)
K = TypeVar("K", bound=Hashable)


def control_port(options: Mapping[str, str]) -> int:
    """The port for the executors' control connections, 0 for any; ConfigError if it is none."""
    text = options.get(CONTROL_PORT_KEY, "0")
    if not text.isdecimal() or int(text) > _LAST_PORT:
        raise ConfigError(
            f"{CONTROL_PORT_KEY} is {text!r}; write a port number, or leave it out for any.",
            key=CONTROL_PORT_KEY,
        )
    return int(text)


class SharedSparkContext(Generic[K]):
    """Spark for all flows; `asked_master` is what the command line says."""

    def __init__(self, asked_master: str | None) -> None:
        self._asked_master = asked_master
        self._log_file = cache_directory() / "logs" / f"spark-{os.getpid()}.log"
        self._future: Future[SparkContext] = Future()
        self._lock = threading.Lock()
        self._slots = 0  # known once Spark runs
        self._wanted: dict[K, int] = {}
        self._allotted: dict[K, int] = {}
        self._shortage = ""  # as it was last said
        self._master = ""
        self._control: ControlServer | None = None
        self._has_started = False
        self.options: Mapping[str, str] = {}

    @property
    def is_configured(self) -> bool:
        """Whether its options are fixed."""
        return self._control is not None

    def configure(
        self, options: Mapping[str, str], wanted: Mapping[K, int], *, room: int = 0
    ) -> None:
        """Fix what it is started with, with room for these flows; none: it is not needed yet.

        `room` is for the splits of flows that nobody knows yet, beyond the usual margin.
        """
        port = control_port(options)
        if not wanted:
            return
        self.options, self._wanted = dict(options), dict(wanted)
        asked = self._asked_master or options.get("spark.master")
        self._master = choose_master(asked, sum(wanted.values()) + room)
        host = bind_host = LOOPBACK
        if not self._master.startswith("local"):
            host = options.get("spark.driver.host", socket.getfqdn())
            bind_host = options.get("spark.driver.bindAddress", host)
        self._control = ControlServer(host, bind_host, port)

    @property
    def control_server(self) -> ControlServer:
        """Where tasks report; there once it is prepared."""
        if self._control is None:
            raise SetupError("Spark was not prepared for any flow.")
        return self._control

    def context(self) -> SparkContext:
        """Spark itself; waits until it runs."""
        return self._future.result()

    def slots_for(self, flow: K) -> int:
        """How many splits a flow may have at present; waits until Spark runs."""
        self._future.result()  # how many there are is known once Spark runs
        with self._lock:
            return self._allotted.get(flow, 1)  # a flow that ends has none any more

    def start(self) -> None:
        """Start it in the background if it is prepared; returns at once."""
        if self._control is None:
            return
        limit_library_logs("py4j", logging.WARNING)  # its commands hold the tokens of epochs
        try:
            self._control.start()
        except OSError as error:
            self._control = None
            raise SetupError(f"The control port cannot be opened: {error}.") from error
        self._has_started = True
        threading.Thread(target=self._start, name="spark", daemon=True).start()

    def reallocate_slots(self, wanted: Mapping[K, int]) -> list[K]:
        """Divide the slots anew; returns flows that have to make do with fewer from now on."""
        with self._lock:
            before, self._wanted = self._allotted, dict(wanted)
            if not self._slots:
                return []
            self._allocate_slots()
            return [f for f, slots in self._allotted.items() if slots < before.get(f, 0)]

    def _allocate_slots(self) -> None:
        """Under the lock."""
        self._allotted = allocate_slots(self._wanted, self._slots)
        short = [str(flow) for flow, n in self._allotted.items() if n < self._wanted[flow]]
        shortage = ""
        if len(self._wanted) > self._slots:
            shortage = (
                f"Spark runs {self._slots} tasks at once, and {len(self._wanted)} flows need one "
                "each: some wait. Start again with a larger spark.master."
            )
        elif short:
            shortage = (
                f"Spark runs {self._slots} tasks at once, fewer than tasks.max asks for: "
                f"{', '.join(short)} get fewer and larger splits. A new start may give more."
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
        except Exception as error:  # noqa: BLE001 - a thread's root: every waiting flow hears it
            remedy = f"What Java printed is in {self._log_file}."
            self._future.set_exception(SetupError(f"Spark did not start: {error}.", remedy=remedy))
            return
        self._future.set_result(spark)
        try:
            warm_up(spark)
        except Exception as error:  # noqa: BLE001 - Spark may be stopping; else an epoch says it
            _log.debug("the first job failed: %s", error)
        if archive is None and self._master.startswith("local"):
            build_in_background()

    def failure(self) -> BaseException | None:
        """Why there is no Spark, if it did not start or its JVM died."""
        if not self._future.done():
            return None
        if self._future.exception() is not None:
            return self._future.exception()
        code = jvm_exit_code(self._future.result())
        if code is None:
            return None
        remedy = f"What Java printed is in {self._log_file}. Start again: nothing is lost."
        return SetupError(f"Spark's JVM ended by itself with code {code}.", remedy=remedy)

    def stop(self, *, keep_log: bool) -> None:
        """End it; the log is kept if asked for, or if it did not end well."""
        if self._control is not None and self._has_started:
            self._control.stop()
        if not self._future.done() or self._future.exception() is not None:
            return
        if stop_spark(self._future.result()) and not keep_log:
            self._log_file.unlink(missing_ok=True)


def _zip_package() -> Path:
    """This package as a zip for executors that do not have it installed."""
    root = Path(sparkmirror.__file__).parent
    path = Path(tempfile.mkdtemp(prefix="sparkmirror-")) / "sparkmirror.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(root.rglob("*.py")):
            archive.write(file, Path("sparkmirror") / file.relative_to(root))
    return path
