# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror run` in a separate process that tests watch, kill and suspend.

The command leads a process group. Spark's JVM and the Python workers are found as its descendants
and remembered, because orphans get other parents.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sysconfig
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from support.waiting import PATIENCE_SECONDS, eventually

STOP_SECONDS = 10.0  # what the command promises
_TAIL_LINES = 60
_WATCH = 'read -r _; kill -9 "$1" 2>/dev/null'


def command(name: str = "sparkmirror") -> str:
    """A console script of this environment."""
    return str(Path(sysconfig.get_path("scripts")) / name)


class MirrorProcess:
    """A running `sparkmirror run FILE`; also a context manager that kills what is left."""

    verb = "run"

    def __init__(
        self,
        file: Path,
        *options: str,
        environment: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        """A command in `prefix` replaces itself with the one that follows."""
        self.log_file = file.with_suffix(f".{time.time_ns()}.log")
        self.started = time.monotonic()
        with self.log_file.open("wb") as log:
            self._process = subprocess.Popen(
                [*prefix, command(), self.verb, str(file), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )
        # Ends with this process, however that ends: the pipe closes and the shell kills.
        self._watch = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, "sh", str(self._process.pid)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        self._known: set[psutil.Process] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.kill_everything()
        if kind is not None:
            self.show_log()

    def show_log(self) -> None:
        """Print the end of the log."""
        print(f"--- the end of {self.log_file}")
        print("\n".join(self.log.splitlines()[-_TAIL_LINES:]))

    @property
    def log(self) -> str:
        """Everything the command has printed so far."""
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    def await_log(self, text: str, timeout: float) -> None:
        """Wait until the command has printed a text."""

        def printed() -> bool:
            if text in self.log:
                return True
            if self._process.poll() is not None:
                raise RuntimeError(f"it ended with {self._process.returncode} before {text!r}")
            return False

        eventually(printed, timeout, f"{text!r} in {self.log_file}")

    def wait(self, timeout: float) -> int:
        return self._process.wait(timeout)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the command has not ended yet."""
        return self._process.poll() is None

    def terminate(self) -> tuple[int, float]:
        """SIGTERM to the command alone, as a service manager does: exit code and seconds taken."""
        return self._end(lambda: os.kill(self._process.pid, signal.SIGTERM))

    def interrupt(self) -> tuple[int, float]:
        """SIGINT to the whole process group, as a terminal does: exit code and seconds taken."""
        return self._end(lambda: os.killpg(self._process.pid, signal.SIGINT))

    def _end(self, send: Callable[[], None]) -> tuple[int, float]:
        self.processes()
        began = time.monotonic()
        send()
        code = self._process.wait(PATIENCE_SECONDS)
        return code, time.monotonic() - began

    def processes(self) -> list[psutil.Process]:
        """The command and everything it started, as far as it is alive."""
        try:
            root = psutil.Process(self._process.pid)
            self._known |= {root, *root.children(recursive=True)}
        except psutil.NoSuchProcess:
            pass  # its orphans are among the known
        for one in list(self._known):
            try:
                self._known |= set(one.children(recursive=True))
            except psutil.NoSuchProcess:
                self._known.discard(one)
        return [one for one in self._known if _is_alive(one)]

    def await_end_of_all(self) -> None:
        """Wait until the JVM and the workers have exited after the command."""
        eventually(lambda: not self.processes(), PATIENCE_SECONDS, "no process is left")

    def python_workers(self) -> list[psutil.Process]:
        """Return the processes of tasks: children of Spark's daemon with connections.

        A worker that started the daemon before the first task may be idle there for a minute.
        """
        found = []
        for one in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                parent = one.parent()
                is_forked = parent and "sparkmirror.spark.daemon" in parent.cmdline()
                if is_forked and one.net_connections("tcp"):
                    found.append(one)
        return found

    def executors(self) -> list[psutil.Process]:
        """Spark's executors, where they are processes of their own."""
        return [one for one in self.processes() if _runs(one, "CoarseGrainedExecutorBackend")]

    def driver_jvm(self) -> psutil.Process | None:
        """Spark's JVM on the driver's side, not the one that makes the class archive meanwhile."""
        for one in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                if one.ppid() == self._process.pid and _runs(one, "pyspark-shell"):
                    return one
        return None

    def kill_driver(self) -> None:
        """Send SIGKILL to the command only."""
        self.processes()
        self._process.kill()
        self._process.wait(PATIENCE_SECONDS)

    def mapped_files(self) -> set[str]:
        """The files that Spark's JVM has mapped into its memory."""
        return {
            area.path
            for one in self.processes()
            if one.name() == "java"
            for area in one.memory_maps()
        }

    def kill_everything(self) -> None:
        """SIGKILL to the command, the JVM and the workers, at once."""
        everyone = self.processes()
        # Workers first: one whose driver is gone would still write its positions.
        for one in sorted(everyone, key=lambda process: process.pid, reverse=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        self._process.wait(PATIENCE_SECONDS)
        psutil.wait_procs(everyone, PATIENCE_SECONDS)
        if self._watch.poll() is None:
            self._watch.kill()
        self._watch.communicate(timeout=PATIENCE_SECONDS)


def _runs(process: psutil.Process, word: str) -> bool:
    try:
        return any(word in argument for argument in process.cmdline())
    except psutil.NoSuchProcess:
        return False


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
