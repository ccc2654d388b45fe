# SPDX-License-Identifier: Apache-2.0
"""The SparkContext of a process and its control server, started when a flow first needs them.

Starting takes seconds and happens on a separate thread; callers of `context` wait. The same thread
then watches Spark: flows share the task slots that its executors have at the moment, and a context
that Spark has stopped, or that has no executors for too long, is replaced. Flows are identified by
their owner's keys: flows of a file, or connector names. `configure`, `start`, `reallocate_slots`
and `stop` belong to one thread; the other methods are thread-safe.
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
    RunningSpark,
    choose_master,
    is_local,
    is_on_this_machine,
    spark_options,
    start_spark,
    warm_up,
)
from sparkmirror.spark.control_server import ControlServer
from sparkmirror.spark.split_planner import allocate_slots
from sparkmirror.system.cache_directory import cache_directory, ensure_writable
from sparkmirror.system.clock import steady_clock
from sparkmirror.wire.backoff import Backoff

if TYPE_CHECKING:
    from pyspark import SparkContext

CONTROL_PORT_KEY = "spark.sparkmirror.control.port"  # executors must reach it through firewalls
_MAX_PORT = 65535
_WATCH_SECONDS = 1.0
_SETTLE_SECONDS = 3.0  # executors register one after another; one replanning is enough for all
_NO_EXECUTOR_SECONDS = 60.0  # a restarted master without recovery mode never assigns new ones
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
        self._future: Future[RunningSpark] = Future()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._slots = SlotCount()
        self._requested: dict[K, int] = {}
        self._allotted: dict[K, int] = {}
        self._shortage = ""  # the last logged warning
        self._master = ""
        self._control: ControlServer | None = None
        self._has_started = False
        self._problem = ""
        self._shipped: tempfile.TemporaryDirectory[str] | None = None
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
        if not is_on_this_machine(self._master):
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
        return self._future.result().context

    def slots_for(self, flow: K) -> int:
        """Return the current number of splits of a flow; blocks until Spark runs.

        0 while Spark has no executors.
        """
        self._future.result()
        with self._lock:
            return self._allotted.get(flow, 1)  # a flow that is stopping has no slots

    @property
    def problem(self) -> str:
        """Why Spark cannot run tasks at the moment; empty if it can."""
        return self._problem

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
            if not self._slots.current:
                return []
            self._allocate_slots()
            return [f for f, slots in self._allotted.items() if slots < before.get(f, 0)]

    def _allocate_slots(self) -> None:
        """Distribute the slots. Call it under the lock."""
        slots = self._slots.current
        self._allotted = allocate_slots(self._requested, slots)
        short = [str(flow) for flow, n in self._allotted.items() if n < self._requested[flow]]
        shortage = ""
        more = "Use a larger spark.master." if is_local(self._master) else "Add executors."
        if len(self._requested) > slots:
            shortage = (
                f"Spark runs {slots} concurrent tasks, and {len(self._requested)} flows need "
                f"one each: some flows wait. {more}"
            )
        elif short:
            shortage = (
                f"Spark runs {slots} concurrent tasks, fewer than tasks.max requires: "
                f"{', '.join(short)} get fewer and larger splits. {more}"
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
            self._prepare(spark)
        except SparkmirrorError as error:
            self._future.set_exception(error)
            return
        except Exception as error:  # noqa: BLE001 - a thread's root: every waiting flow gets the error
            remedy = f"See Java's output in {self._log_file}."
            self._future.set_exception(SetupError(f"Cannot start Spark: {error}.", remedy=remedy))
            return
        self._future.set_result(spark)
        if is_local(self._master):
            try:
                warm_up(spark.context)
            except Exception as error:  # noqa: BLE001 - Spark may be stopping; else an epoch reports it
                _log.debug("the first job failed: %s", error)
            if archive is None:
                build_in_background()
        else:
            self._watch(options)

    def _prepare(self, spark: RunningSpark) -> None:
        if not is_local(self._master):
            spark.context.addPyFile(str(self._package_zip()))
            return
        with self._lock:
            self._slots = SlotCount(spark.task_slots())
            self._allocate_slots()

    def _package_zip(self) -> Path:
        """Zip this package for executors that do not have it installed."""
        if self._shipped is None:
            self._shipped = tempfile.TemporaryDirectory(prefix="sparkmirror-")
            _zip_package(Path(self._shipped.name) / "sparkmirror.zip")
        return Path(self._shipped.name) / "sparkmirror.zip"

    def _watch(self, options: Mapping[str, str]) -> None:
        """Follow the executors; replace a context that cannot get any. The thread of `start`."""
        from py4j.protocol import Py4JError  # noqa: PLC0415 - comes with Spark

        backoff = Backoff()
        while not self._stopping.wait(_WATCH_SECONDS):
            spark = self._future.result()
            if spark.exit_code() is not None:
                return  # `failure` reports it
            try:
                reason = self._observe(spark)
                if reason:
                    _log.error("Spark cannot copy: %s Replacing the SparkContext.", reason)
                    self._problem = reason
                    self._replace(spark, options)
                    self._stopping.wait(backoff.next_pause())
                elif self._slots.current:
                    backoff.reset()
            except (Py4JError, OSError, ValueError) as error:
                if spark.exit_code() is None and not self._stopping.is_set():
                    self._problem = f"Spark does not respond: {str(error).splitlines()[0]}"
                    _log.warning(self._problem)

    def _observe(self, spark: RunningSpark) -> str:
        """Update the slots. Returns why the context must be replaced, if it must."""
        now = steady_clock()
        if spark.is_stopped():
            cause = last_error(self._log_file) or "no reason in Spark's log"
            slots, reason = 0, f"Spark has stopped the application ({cause})."
        else:
            slots, reason = spark.task_slots(), ""
        with self._lock:
            has_changed = self._slots.observe(slots, now)
            if has_changed:
                self._allocate_slots()
            idle_seconds = self._slots.seconds_without(now)
        if has_changed:
            _log.info("Spark can run %d concurrent tasks", slots)
        if not reason and idle_seconds:
            self._problem = (
                f"Spark ({self._master}) has had no executors for {idle_seconds:.0f} s; flows wait."
            )
            if idle_seconds > _NO_EXECUTOR_SECONDS:
                return f"{self._master} has assigned no executors for {idle_seconds:.0f} s."
        elif not reason:
            self._problem = ""
        return reason

    def _replace(self, spark: RunningSpark, options: Mapping[str, str]) -> None:
        """Stop a useless context and start another one in the same JVM."""
        spark.stop()
        new = start_spark(options, self._log_file, spark)
        new.context.addPyFile(str(self._package_zip()))
        with self._lock:
            self._slots = SlotCount()
        future: Future[RunningSpark] = Future()
        future.set_result(new)
        self._future = future

    def failure(self) -> BaseException | None:
        """Return the error if Spark did not start or its JVM exited."""
        if not self._future.done():
            return None
        if self._future.exception() is not None:
            return self._future.exception()
        code = self._future.result().exit_code()
        if code is None:
            return None
        remedy = f"See {self._log_file}. Restart sparkmirror; copying resumes without loss."
        return SetupError(f"Spark's JVM exited unexpectedly with code {code}.", remedy=remedy)

    def stop(self, *, keep_log: bool) -> None:
        """Stop Spark. Keeps the log if requested, or if the JVM had exited."""
        self._stopping.set()
        if self._control is not None and self._has_started:
            self._control.stop()
        if not self._future.done() or self._future.exception() is not None:
            return
        if self._future.result().stop() and not keep_log:
            self._log_file.unlink(missing_ok=True)
        if self._shipped is not None:
            self._shipped.cleanup()


class SlotCount:
    """The task slots that flows may use. Not thread-safe.

    A loss counts at once. A gain counts when it has been stable for a moment.
    """

    def __init__(self, current: int = 0) -> None:
        self.current = current
        self._seen = current
        self._seen_since = 0.0
        self._none_since: float | None = None

    def observe(self, slots: int, now: float) -> bool:
        """Take an observation. Returns whether `current` has changed."""
        if slots != self._seen:
            self._seen, self._seen_since = slots, now
        if slots:
            self._none_since = None
        elif self._none_since is None:
            self._none_since = now
        is_settled = now - self._seen_since >= _SETTLE_SECONDS
        if slots < self.current or (slots > self.current and is_settled):
            self.current = slots
            return True
        return False

    def seconds_without(self, now: float) -> float:
        """Return for how long there has been no slot."""
        return 0.0 if self._none_since is None else now - self._none_since


def last_error(log_file: Path) -> str:
    """Return the last message of Spark's log that is an error, without its time and class."""
    found = ""
    with log_file.open(encoding="utf-8", errors="replace") as log:
        for line in log:
            _, is_error, message = line.partition(" spark ERROR ")
            if is_error:
                found = message.partition(": ")[2].strip()
    return found


def _zip_package(path: Path) -> None:
    root = Path(sparkmirror.__file__).parent
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(root.rglob("*.py")):
            archive.write(file, Path("sparkmirror") / file.relative_to(root))
