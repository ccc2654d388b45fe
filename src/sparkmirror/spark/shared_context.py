# SPDX-License-Identifier: Apache-2.0
"""The SparkContext of a process and its control server, started when a flow first needs them.

A thread of its own starts Spark, which takes seconds, and then watches it. On a cluster it follows
the executors, and replaces a context that Spark has stopped or whose master has forgotten it. What
keeps flows from copying is a `SparkProblem` in their capacity. Flows are identified by their
owner's keys: flows of a file, or connector names. `configure`, `start`, `reallocate_slots` and
`stop` belong to one thread; the other methods are thread-safe.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from sparkmirror.errors import ConfigError, SetupError, SparkmirrorError
from sparkmirror.security.redaction import limit_library_logs
from sparkmirror.spark.class_archive import SparkJvm, build_in_background, existing_archive
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
from sparkmirror.spark.executor_environment import PACKAGE_ZIP, zip_package
from sparkmirror.spark.executor_monitor import ExecutorMonitor, Verdict
from sparkmirror.spark.jvm_figures import JvmFigures, read_jvm_figures
from sparkmirror.spark.master_url import master_problem
from sparkmirror.spark.slots import FlowCapacity, SlotAllocator
from sparkmirror.spark.spark_log import SparkLog
from sparkmirror.spark.spark_problem import SparkProblem, java_cause
from sparkmirror.spark.standalone_master import connection_problem, is_standalone
from sparkmirror.spark.submitted_conf import spark_defaults, submitted_conf, submitted_master
from sparkmirror.system.cache_directory import cache_directory, ensure_writable
from sparkmirror.system.clock import steady_clock
from sparkmirror.wire.backoff import Backoff

if TYPE_CHECKING:
    from pyspark import SparkContext

CONTROL_HOST_KEY = "spark.sparkmirror.control.host"  # what executors connect to
CONTROL_PORT_KEY = "spark.sparkmirror.control.port"  # executors must reach it through firewalls
_MAX_PORT = 65535
_WATCH_SECONDS = 1.0
_CAPACITY_SECONDS = 0.5
_JVM_SECONDS = 5.0  # between two reads of its figures
_MAX_ERRORS = 3  # of consecutive calls to Spark
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
        self._log = SparkLog(cache_directory() / "logs" / f"spark-{os.getpid()}.log")
        self._changed = threading.Condition()  # guards the next three attributes
        self._running: RunningSpark | None = None
        self._problem: SparkProblem | None = None
        self._jvm_lock = threading.Lock()
        self._jvm_read_at = -math.inf
        self._jvm_figures: JvmFigures | None = None
        self._failure: BaseException | None = None  # only a restart of the process can help
        self._stopping = threading.Event()
        self._slots: SlotAllocator[K] = SlotAllocator("")
        self._master = ""
        self._control: ControlServer | None = None
        self._thread = threading.Thread(target=self._run, name="spark", daemon=True)
        self._shipped: Path | None = None
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
        self.options = {**spark_defaults(), **options, **submitted_conf()}
        master = self._requested_master or submitted_master() or options.get("spark.master")
        self._master = choose_master(master, sum(splits.values()) + room)
        problem = master_problem(self._master, self.options)
        if problem:
            raise ConfigError(problem, key="spark.master")
        more = "Use a larger spark.master." if is_local(self._master) else "Add executors."
        self._slots = SlotAllocator(more)
        self._slots.request(splits)
        self._control = ControlServer(port)

    @property
    def control_server(self) -> ControlServer:
        """The server that tasks report to. Raises SetupError before `configure`."""
        if self._control is None:
            raise SetupError("Spark is not configured: no flow needs it.")
        return self._control

    def context(self) -> SparkContext:
        """Return the context; blocks until Spark runs. Raises SetupError if it never will."""
        with self._changed:
            self._await(lambda: self._running is not None)
            if self._running is None:
                raise SetupError("Spark is stopping.")
            return self._running.context

    def capacity(self, flow: K) -> FlowCapacity:
        """Return what a flow may use now; blocks for a moment while Spark starts."""
        with self._changed:
            self._await(
                lambda: self._running is not None or self._problem is not None, _CAPACITY_SECONDS
            )
            if self._running is None or self._problem is not None:
                return FlowCapacity(0, self._problem, is_starting=self._problem is None)
        return self._slots.capacity(flow)

    def _await(self, is_reached: Callable[[], bool], seconds: float | None = None) -> None:
        """Wait under the lock. Raises the failure if there is one."""
        self._changed.wait_for(
            lambda: is_reached() or self._failure is not None or self._stopping.is_set(), seconds
        )
        if self._failure is not None:
            raise self._failure

    def start(self) -> None:
        """Start in the background if configured; does not block."""
        if self._control is None:
            return
        limit_library_logs("py4j", logging.WARNING)  # its commands contain the epochs' tokens
        if is_on_this_machine(self._master):
            try:
                self._control.start(LOOPBACK, LOOPBACK)
            except SetupError:
                self._control = None
                raise
        self._thread.start()

    @property
    def slot_count(self) -> int:
        """How many tasks the executors can run at a time."""
        return self._slots.slots

    def capacity_slots(self, flow: K) -> int:
        """Return how many slots a flow may use now. Does not block."""
        return self._slots.capacity(flow).slots

    def jvm_figures(self) -> JvmFigures | None:
        """Return figures of the driver's JVM, a few seconds old; None while Spark does not run."""
        from py4j.protocol import Py4JError  # noqa: PLC0415 - comes with Spark

        now = steady_clock()
        is_recent = now - self._jvm_read_at < _JVM_SECONDS
        if is_recent or not self._jvm_lock.acquire(blocking=False):  # a JVM may hang
            return self._jvm_figures
        try:
            self._jvm_read_at, self._jvm_figures = now, None
            running = self._running
            if running is not None and running.exit_code() is None:
                with contextlib.suppress(Py4JError, OSError, AttributeError):  # it is stopping
                    self._jvm_figures = read_jvm_figures(running.gateway.jvm, running.scala_context)
        finally:
            self._jvm_lock.release()
        return self._jvm_figures

    def reallocate_slots(self, splits: Mapping[K, int]) -> list[K]:
        """Distribute the slots again. Returns the flows that get fewer than before."""
        return self._slots.request(splits)

    def failure(self) -> BaseException | None:
        """Return the error if Spark cannot run in this process any more."""
        with self._changed:
            if self._failure is not None or self._running is None:
                return self._failure
            return self._jvm_failure(self._running)

    def _jvm_failure(self, running: RunningSpark) -> SetupError | None:
        code = running.exit_code()
        if code is None:
            return None
        remedy = f"See {self._log.path}. Restart sparkmirror; copying resumes without loss."
        return SetupError(f"Spark's JVM exited unexpectedly with code {code}.", remedy=remedy)

    def stop(self, *, keep_log: bool) -> None:
        """Stop Spark. Keeps the log if requested, or if the JVM had exited."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()
            running, failure = self._running, self._failure
        if self._control is not None:
            self._control.stop()
        is_clean = running is None or running.stop()
        if is_clean and failure is None and not keep_log:
            self._log.path.unlink(missing_ok=True)
        if self._shipped is not None:
            shutil.rmtree(self._shipped.parent, ignore_errors=True)

    # --- the thread

    def _run(self) -> None:
        try:
            archive = existing_archive()
            user = {k: v for k, v in self.options.items() if k != "spark.master"}
            for_executors = existing_archive(SparkJvm.EXECUTOR)
            options = spark_options(
                self._master, user, archive=archive, executor_archive=for_executors
            )
            ensure_writable(self._log.path.parent)
            if not is_local(self._master):
                if for_executors is None:  # this machine may have executors, too
                    build_in_background(SparkJvm.EXECUTOR)
                self._run_on_cluster(options)
                return
            running = self._start_spark(options, None)
            self._slots.set_slots(running.task_slots(), steady_clock())
            self._publish(running, None)
        except SparkmirrorError as error:
            self._fail(error)
            return
        except Exception as error:  # noqa: BLE001 - a thread's root: every waiting flow gets the error
            _log.debug("Spark did not start", exc_info=True)
            self._fail(SetupError(f"Cannot start Spark: {error}."))
            return
        try:
            warm_up(running.context)
        except Exception as error:  # noqa: BLE001 - Spark may be stopping; else an epoch reports it
            _log.debug("the first job failed: %s", error)
        if archive is None:
            build_in_background()

    def _start_spark(
        self, options: Mapping[str, str], previous: RunningSpark | None
    ) -> RunningSpark:
        """Start a context, with our package for executors. Raises SetupError with the cause."""
        from py4j.protocol import Py4JError  # noqa: PLC0415 - comes with Spark
        from pyspark.errors import PySparkException  # noqa: PLC0415 - as above

        self._log.mark()
        running: RunningSpark | None = None
        try:
            running = start_spark(options, self._log.path, previous)
            if not is_local(self._master):
                running.context.addPyFile(str(self._package_zip()))
        except (Py4JError, PySparkException, OSError, ValueError) as error:
            cause = (self._log.start_failure() or java_cause(error)).rstrip(".")
            if running is not None:
                running.stop()  # PySpark refuses a second context
            remedy = f"Java's output is in {self._log.path}."
            if is_standalone(self._master):
                remedy += " The port of a master is 7077 by default; its web page has another one."
            raise SetupError(
                f"Cannot start Spark ({self._master}): {cause}.", remedy=remedy
            ) from error
        return running

    def _publish(self, running: RunningSpark | None, problem: SparkProblem | None) -> None:
        """Set what flows see, and wake those that wait; log a new problem."""
        with self._changed:
            is_new = problem is not None and problem != self._problem
            self._running, self._problem = running, problem
            self._changed.notify_all()
        if is_new and problem is not None:
            _log.log(logging.ERROR if problem.is_hopeless else logging.WARNING, "%s", problem)

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._failure = error
            self._changed.notify_all()

    # --- the thread, on a cluster

    def _run_on_cluster(self, options: Mapping[str, str]) -> None:
        """Keep a context running until the end; replace it if it becomes useless."""
        backoff = Backoff()
        running: RunningSpark | None = None
        while self._await_master(backoff):
            try:
                new = self._start_spark(options, running)
                if running is None and not is_on_this_machine(self._master):
                    self._start_control(new)
            except SetupError as error:
                failure = running and self._jvm_failure(running)
                if running is None or failure is not None:
                    raise (failure or error) from error
                problem, is_hopeless = SparkProblem(str(error)), True
            else:
                running = new
                found = self._watch(running, backoff)
                if found is None:
                    return
                problem, is_hopeless = found, found.is_hopeless
            self._slots.set_slots(0, steady_clock())
            self._publish(None, problem)
            running.stop()
            pause = backoff.next_pause(slow=is_hopeless)
            _log.info("Replacing the SparkContext in %.0f s", pause)
            self._stopping.wait(pause)

    def _await_master(self, backoff: Backoff) -> bool:
        """Wait until a standalone master answers; False: Spark is stopping."""
        while is_standalone(self._master) and (reason := connection_problem(self._master)):
            self._publish(None, SparkProblem(f"{reason} Retrying."))
            if self._stopping.wait(backoff.next_pause()):
                break
        return not self._stopping.is_set()

    def _start_control(self, running: RunningSpark) -> None:
        """Listen where Spark's driver does, under the address that it advertises."""
        conf = running.context.getConf()
        host = conf.get("spark.driver.host", LOOPBACK)
        bind_host = conf.get("spark.driver.bindAddress", host)
        self.control_server.start(self.options.get(CONTROL_HOST_KEY, host), bind_host)

    def _package_zip(self) -> Path:
        """Zip this package for executors that do not have it installed."""
        if self._shipped is None:
            folder = Path(tempfile.mkdtemp(prefix="sparkmirror-"))
            self._shipped = folder / PACKAGE_ZIP
            zip_package(self._shipped)
        return self._shipped

    def _watch(self, running: RunningSpark, backoff: Backoff) -> SparkProblem | None:
        """Publish what executors can do, until the context is useless; returns the reason.

        None: Spark is stopping, or its JVM has exited, which `failure` reports. A hopeless problem
        of an earlier context stays visible until tasks can run.
        """
        from py4j.protocol import Py4JError  # noqa: PLC0415 - comes with Spark

        monitor = ExecutorMonitor(
            running, self._master, self._slots, self._log, self.control_server.address
        )
        earlier = self._problem if self._problem and self._problem.is_hopeless else None
        slots = errors = 0
        self._publish(running, earlier)
        while not self._stopping.wait(_WATCH_SECONDS):
            try:
                verdict, errors = monitor.check(steady_clock()), 0
            except (Py4JError, OSError, ValueError) as error:
                if running.exit_code() is not None:
                    return None
                errors += 1
                if errors < _MAX_ERRORS:
                    continue
                reason = f"Spark does not respond: {java_cause(error)}"
                verdict = Verdict(slots, SparkProblem(reason))
            if verdict.is_useless:
                return verdict.problem
            if verdict.slots:
                earlier = None
                backoff.reset()
            if verdict.slots != slots:
                _log.info("Spark can run %d concurrent tasks", verdict.slots)
                slots = verdict.slots
            is_news = verdict.problem is not None and verdict.problem.is_hopeless
            self._publish(running, verdict.problem if is_news else earlier or verdict.problem)
        return None
