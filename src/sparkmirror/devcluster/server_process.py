# SPDX-License-Identifier: Apache-2.0
"""A server in a JVM as a child process: start, stop, kill, suspend, log.

A server that is not detached ends with this process, also after SIGKILL: a small shell waits on a
pipe that only this process holds open, and kills the server when the pipe closes.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from sparkmirror.errors import SetupError

_STOP_SECONDS = 20.0
_KILL_SECONDS = 10.0
_TAIL_LINES = 12
_TAIL_BYTES = 16_384
_WATCH = 'read -r _; kill -9 "$1" 2>/dev/null'
# A JVM that ends on SIGTERM reports 128 + 15.
_CLEAN_EXIT_CODES = (0, 128 + signal.SIGTERM)


class ServerProcess:
    """One server of a local cluster; `title` is its name in errors."""

    def __init__(self, *, cluster: str, title: str, log_file: Path, detached: bool) -> None:
        self.cluster = cluster
        self.log_file = log_file
        self._title = title
        self._detached = detached
        self._process: subprocess.Popen[bytes] | None = None
        self._parent_watch: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def pid(self) -> int | None:
        """The process id, or None if the server is not running."""
        return self._process.pid if self._process and self.running else None

    @property
    def running(self) -> bool:
        """Whether the process exists (a suspended one does)."""
        if self._process is None:
            return False
        if self._process.poll() is None:
            return True
        # From now on another program may get the pid; the shell must not kill it.
        self._end_parent_watch()
        return False

    @property
    def exited_cleanly(self) -> bool:
        """Whether it has exited after a stop request."""
        return self._process is not None and self._process.returncode in _CLEAN_EXIT_CODES

    def stop(self) -> None:
        """Send SIGTERM, wait, and send SIGKILL after a timeout."""
        if self._process is None:
            return
        self.request_stop()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._forget_process()

    def request_stop(self) -> None:
        """Send SIGTERM without waiting, so that several servers stop concurrently."""
        # A suspended process would not handle it.
        self.resume()
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL: no deregistration, nothing flushed."""
        self._signal(signal.SIGKILL)
        self._forget_process()

    def suspend(self) -> None:
        """Send SIGSTOP and wait until all threads have stopped. Connections stay open."""
        if self._process is not None and self.running:
            self._process.send_signal(signal.SIGSTOP)
            # A thread may run on for a moment. WNOWAIT keeps the status for `running`.
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Send SIGCONT after `suspend()`."""
        self._signal(signal.SIGCONT)

    def log_tail(self) -> str:
        """Return the last log lines since the latest start."""
        if not self.log_file.exists():
            return ""
        with self.log_file.open("rb") as log:
            end = log.seek(0, 2)
            log.seek(max(self._log_start, end - _TAIL_BYTES))
            text = log.read().decode(errors="replace")
        return "\n".join(text.splitlines()[-_TAIL_LINES:])

    def error(self, what: str) -> SetupError:
        """Create an error for this server with the end of its log."""
        tail = self.log_tail() or "(the log is empty)"
        return SetupError(
            f"{self._title} of the local cluster {self.cluster} {what}; "
            f"the end of {self.log_file} says:\n{tail}"
        )

    def port_was_taken(self) -> bool:
        """Whether the server exited because one of its ports was in use."""
        return not self.running and "Address already in use" in self.log_tail()

    def _spawn(self, command: Sequence[str]) -> None:
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("ab") as log:
            self._log_start = log.seek(0, 2)
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C in a terminal must reach only this process: it stops the servers in order.
                start_new_session=True,
            )
        if not self._detached:
            self._parent_watch = subprocess.Popen(
                ["/bin/sh", "-c", _WATCH, "sh", str(self._process.pid)],
                stdin=subprocess.PIPE,
                start_new_session=True,
            )

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self.running:
            self._process.send_signal(number)

    def _forget_process(self) -> None:
        """Reap the process. From then on another program may get its pid."""
        self._end_parent_watch()
        if self._process is not None:
            code = self._process.wait(_KILL_SECONDS)
            self._process = None
            self._ended(cleanly=code in _CLEAN_EXIT_CODES)

    def _ended(self, *, cleanly: bool) -> None:
        """Called after the process has exited."""

    def _end_parent_watch(self) -> None:
        if self._parent_watch is not None:
            self._parent_watch.kill()
            self._parent_watch.communicate(timeout=_KILL_SECONDS)
            self._parent_watch = None
