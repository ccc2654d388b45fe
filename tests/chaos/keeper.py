# SPDX-License-Identifier: Apache-2.0
"""A service manager for the mirror: starts it, and restarts it whenever it exits.

Executors and Python workers may outlive a killed driver. They are tracked, so that none is left
after the run.
"""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from support.clusters.spark_cluster import SparkCluster
from support.mirrors.mirror_process import MirrorProcess

_LOOK_SECONDS = 0.2
_STOP_SECONDS = 60.0


class Restarter:
    """Owns the processes of the mirror; also a context manager that kills all of them."""

    def __init__(
        self,
        file: Path,
        say: Callable[[str], None],
        environment: Mapping[str, str],
        spark: SparkCluster | None = None,
    ) -> None:
        """Executors on a standalone cluster are its processes, not the mirror's."""
        self._spark = spark
        self._file = file
        self._say = say
        self._began = time.time()
        self._home = _spark_home()
        self._environment = {"SPARK_HOME": str(self._home), **environment}
        self._lock = threading.Lock()
        self._past: list[MirrorProcess] = []
        self._wanted = threading.Event()
        self._over = threading.Event()
        self._excused_until = 0.0
        self.unexplained: list[str] = []  # ends that nobody asked for
        self.current = self._start()
        self._thread = threading.Thread(target=self._keep, name="keeper", daemon=True)
        self._wanted.set()
        self._thread.start()

    def _start(self) -> MirrorProcess:
        return MirrorProcess(self._file, environment=self._environment)

    def excuse(self, seconds: float) -> None:
        """Expect an exit within this many seconds."""
        self._excused_until = time.monotonic() + seconds

    @contextmanager
    def down(self) -> Iterator[None]:
        """Kill everything, leftovers included; restart at the end of the block."""
        with self._lock:
            self._past.append(self.current)
            for one in self._past:
                one.kill_everything()
            self._kill_executors()
            try:
                yield
            finally:
                self.current = self._start()

    def processes(self) -> list[psutil.Process]:
        """Return all processes of the current mirror."""
        with self._lock:
            return [*self.current.processes(), *(self._spark.processes() if self._spark else [])]

    def _kill_executors(self) -> None:
        """End executors that outlive their driver, before a log changes."""
        found = self._spark.processes() if self._spark else []
        for one in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        psutil.wait_procs(found, _STOP_SECONDS)

    def stop(self) -> tuple[int, float]:
        """Stop the mirror cleanly. Returns exit code and seconds taken."""
        self._wanted.clear()
        with self._lock:
            code, seconds = self.current.terminate()
        self.current.await_end_of_all()
        return code, seconds

    def _keep(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            with self._lock:
                if self.current.is_running:
                    self.current.processes()  # remember them while they have parents
                elif self._wanted.is_set():
                    self._restart()

    def _restart(self) -> None:
        code = self.current.wait(0)
        end = f"the driver ended with {code}"
        if time.monotonic() > self._excused_until:
            self.unexplained.append(f"{end}, see {self.current.log_file}")
        self._say(f"{end} and is started again")
        self._past.append(self.current)
        self.current = self._start()

    def python_workers(self) -> list[psutil.Process]:
        with self._lock:
            return self._spark.python_workers() if self._spark else self.current.python_workers()

    def executors(self) -> list[psutil.Process]:
        with self._lock:
            return self._spark.executors() if self._spark else self.current.executors()

    @property
    def log_files(self) -> list[Path]:
        """Return the logs of all mirror processes of this run."""
        return [one.log_file for one in (*self._past, self.current)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join(_STOP_SECONDS)
        for one in (*self._past, self.current):
            one.kill_everything()
        self._tidy_up()

    def _tidy_up(self) -> None:
        """Move what the local-cluster wrote into its home directory to the directory of the run."""
        folders = [
            folder
            for folder in (self._home / "work").glob("app-*")
            if folder.stat().st_mtime >= self._began
        ]
        in_use = {one.info["cwd"] or "" for one in psutil.process_iter(["cwd"])}
        for folder in folders:
            if not any(cwd.startswith(str(folder)) for cwd in in_use):
                shutil.move(folder, self._file.parent / f"spark-{folder.name}")


def _spark_home() -> Path:
    """Return the directory of PySpark: its scripts start the executors of a local-cluster."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent
