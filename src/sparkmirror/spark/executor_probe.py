# SPDX-License-Identifier: Apache-2.0
"""A small job that shows whether executors can run tasks: Python, packages, addresses.

Spark ships the probe by value and it imports only the standard library, so it also runs where
sparkmirror cannot be imported. A failure before the probe starts (another Python version, no
Python at all) ends the job; the report then has Spark's reason.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from queue import Queue
from typing import TYPE_CHECKING, Any

from sparkmirror import __version__
from sparkmirror.spark.spark_problem import job_problem

if TYPE_CHECKING:
    from pyspark import SparkContext

Address = tuple[str, int]

PACKAGES = ("kafka", "crc32c", "cramjam", "lz4", "cryptography")  # that tasks import
_TASK_MODULE = "sparkmirror.task.entry_point"
_CONNECT_SECONDS = 5.0
_TIMEOUT_SECONDS = 60.0
_TASKS_PER_SLOT = 2  # one executor may be faster than another
_GROUP = "sparkmirror probe"


@dataclass(frozen=True, slots=True)
class ExecutorReport:
    """What one executor has and reaches. `failure` is Spark's reason if the probe did not run."""

    host: str
    directory: str = ""  # its working directory; tells executors of one host apart
    python: str = ""  # major.minor
    executable: str = ""
    sparkmirror: str = ""  # the version there
    import_errors: tuple[str, ...] = ()
    unreachable: tuple[tuple[str, str], ...] = ()  # brokers and why, as host:port
    control_error: str = ""  # why the control address cannot be reached
    failure: str = ""
    is_transient: bool = False  # the failure may not repeat

    @property
    def ok(self) -> bool:
        return not (self.unreachable or hopeless_reason([self]))


def probe_executors(
    context: SparkContext,
    control_address: Address | None,
    brokers: Iterable[Address],
    *,
    timeout_seconds: float = _TIMEOUT_SECONDS,
) -> list[ExecutorReport]:
    """Run the probe on every executor; blocks for at most the timeout.

    Empty if no executor ran it in time.
    """
    probe = _probe_function(control_address, tuple(dict.fromkeys(brokers)))
    answers: Queue[list[dict[str, Any]] | Exception] = Queue()

    def run() -> None:
        try:
            context.setJobGroup(_GROUP, "check of the executors", interruptOnCancel=True)
            tasks = _TASKS_PER_SLOT * max(context.defaultParallelism, 1)
            answers.put(context.parallelize(range(tasks), tasks).map(probe).collect())
        except Exception as error:  # noqa: BLE001 - a thread's root: the caller gets it
            answers.put(error)

    job = threading.Thread(target=run, name="executor probe", daemon=True)
    job.start()
    job.join(timeout_seconds)
    if job.is_alive():
        context.cancelJobGroup(_GROUP)
        return []
    answer = answers.get()
    if isinstance(answer, Exception):
        return [failed_report(str(answer))]
    return merge_reports(answer)


def merge_reports(rows: Sequence[dict[str, Any]]) -> list[ExecutorReport]:
    """Return one report per executor, by host and working directory."""
    found = {(row["host"], row["directory"]): row for row in rows}
    return [ExecutorReport(**found[key]) for key in sorted(found)]


def failed_report(text: str) -> ExecutorReport:
    """Return the report of a probe job that failed with this error."""
    host = re.search(r"\(TID \d+\) \((\S+) executor", text)
    problem = job_problem(text)
    return ExecutorReport(
        host=host[1] if host else "",
        failure=problem.reason,
        is_transient=not problem.is_hopeless,
    )


def hopeless_reason(reports: Sequence[ExecutorReport]) -> str:
    """Return why retries cannot help, with the remedy; empty if tasks can run."""
    return next(filter(None, map(_reason, reports)), "")


def _reason(report: ExecutorReport) -> str:
    where = f"Executor on {report.host}" if report.host else "An executor"
    driver = "{}.{}".format(*sys.version_info)
    ship = "(`sparkmirror pack --help`)"
    sentence = ""
    if report.failure:
        sentence = f"cannot run Python tasks: {report.failure}"
    elif report.python not in {"", driver}:
        sentence = (
            f"runs Python {report.python}, the driver {driver}; Spark needs the same. Set "
            f"spark.pyspark.python to a Python {driver} there {ship}."
        )
    elif report.import_errors:
        sentence = (
            f"lacks packages for {report.executable}: {'; '.join(report.import_errors)}. Install "
            f"sparkmirror there, or ship the environment {ship}."
        )
    elif report.sparkmirror != __version__:
        sentence = (
            f"imports sparkmirror {report.sparkmirror}, the driver {__version__}. Install the same "
            "version there."
        )
    elif report.control_error:
        sentence = (
            f"cannot reach the driver's control address: {report.control_error}. Set "
            "spark.sparkmirror.control.host (or spark.driver.host) to an address that executors "
            "reach, and spark.sparkmirror.control.port to a port that the firewall allows."
        )
    return f"{where} {sentence}" if sentence else ""


def _probe_function(
    control_address: Address | None, brokers: tuple[Address, ...]
) -> Callable[[int], dict[str, Any]]:
    """Return the probe. It refers to no name of this module, which executors may not have."""
    packages, task_module, patience = PACKAGES, _TASK_MODULE, _CONNECT_SECONDS

    def probe(_index: int) -> dict[str, Any]:
        import importlib  # noqa: PLC0415 - the function is shipped without its module
        import socket  # noqa: PLC0415 - as above
        import sys  # noqa: PLC0415 - as above
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - as above
        from pathlib import Path  # noqa: PLC0415 - as above

        def import_error(name: str) -> str:
            try:
                importlib.import_module(name)
            except Exception as error:  # noqa: BLE001 - whatever a module raises is the result
                return f"{name}: {error}"
            return ""

        def connect_error(address: tuple[str, int]) -> str:
            try:
                socket.create_connection(address, patience).close()
            except OSError as error:
                return error.strerror or str(error) or type(error).__name__
            return ""

        errors = [error for error in map(import_error, packages) if error]
        if not errors:  # each missing package would be named again
            errors = [error for error in [import_error(task_module)] if error]
        version = getattr(sys.modules.get("sparkmirror"), "__version__", "")
        addresses = [*brokers] if control_address is None else [control_address, *brokers]
        with ThreadPoolExecutor(32) as threads:
            results = list(threads.map(connect_error, addresses))
        named = [
            (f"{address[0]}:{address[1]}", error)
            for address, error in zip(addresses, results, strict=True)
        ]
        control = named.pop(0) if control_address is not None else ("", "")
        return {
            "host": socket.gethostname(),
            "directory": str(Path.cwd()),
            "python": "{}.{}".format(*sys.version_info),
            "executable": sys.executable,
            "sparkmirror": version,
            "import_errors": tuple(errors),
            "unreachable": tuple(one for one in named if one[1]),
            "control_error": ": ".join(control) if control[1] else "",
        }

    return probe
