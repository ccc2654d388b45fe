# SPDX-License-Identifier: Apache-2.0
"""The real command `sparkmirror run` in a process of its own, watched, hurt and never left over.

The command leads a session; everything it starts (Spark's JVM, the Python workers) stays in that
session, which is how all of it is found again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sysconfig
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from support.waiting import eventually

STOP_SECONDS = 10.0  # what the command promises
_KILL_SECONDS = 10.0
_TAIL_LINES = 60


def command(name: str = "sparkmirror") -> str:
    """A console script of this environment."""
    return str(Path(sysconfig.get_path("scripts")) / name)


class MirrorProcess:
    """A running `sparkmirror run FILE`; also a context manager that kills what is left."""

    def __init__(self, file: Path, *options: str) -> None:
        self.log_file = file.with_suffix(f".{time.time_ns()}.log")
        self.started = time.monotonic()
        with self.log_file.open("wb") as log:
            self._process = subprocess.Popen(
                [command(), "run", str(file), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

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
        """Print the end of the log, for whoever reads a failure."""
        print(f"--- the end of {self.log_file}")  # noqa: T201 - pytest shows it on failure only
        print("\n".join(self.log.splitlines()[-_TAIL_LINES:]))  # noqa: T201 - as above

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
        """The exit code."""
        return self._process.wait(timeout)

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

    def _end(self, send: object) -> tuple[int, float]:
        began = time.monotonic()
        send()  # type: ignore[operator]
        code = self._process.wait(3 * STOP_SECONDS)
        return code, time.monotonic() - began

    def processes(self) -> list[psutil.Process]:
        """The command and everything it started."""
        return [one for one in psutil.process_iter() if _session(one.pid) == self._process.pid]

    def python_workers(self) -> list[psutil.Process]:
        """The processes that Spark's tasks run in: children of Spark's daemon."""
        found = []
        for one in self.processes():
            parent = one.parent()
            if parent is not None and "pyspark.daemon" in parent.cmdline():
                found.append(one)
        return found

    def kill_everything(self) -> None:
        """SIGKILL to the command, the JVM and the workers, at once."""
        everyone = self.processes()
        for one in everyone:
            one.kill()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(_KILL_SECONDS)
        psutil.wait_procs(everyone, _KILL_SECONDS)
        for late in self.processes():  # forked while the others were being killed
            late.kill()


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None
