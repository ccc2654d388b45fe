# SPDX-License-Identifier: Apache-2.0
"""A process is identified by pid and start time; no other process is signalled."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace

import pytest

from sparkmirror.devcluster.process_identity import ProcessIdentity, stop_processes


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does nothing for ten minutes."""
    with subprocess.Popen(["/bin/sleep", "600"]) as process:
        yield process
        process.kill()


def identity(process: subprocess.Popen[bytes]) -> ProcessIdentity:
    """The identity of a process that must be alive."""
    found = ProcessIdentity.of(process.pid)
    assert found is not None
    return found


def test_a_living_process_is_alive(sleeper: subprocess.Popen[bytes]) -> None:
    """Also when it is found a second time."""
    assert identity(sleeper).alive
    assert identity(sleeper) == identity(sleeper)


def test_a_zombie_is_not_alive(sleeper: subprocess.Popen[bytes]) -> None:
    """A process that has exited and was not reaped."""
    known = identity(sleeper)
    os.kill(sleeper.pid, signal.SIGKILL)
    stop_processes([known], timeout_seconds=60)
    assert sleeper.returncode is None
    assert not known.alive


def test_a_reused_pid_is_never_signalled(sleeper: subprocess.Popen[bytes]) -> None:
    """The same pid with another start time is another program."""
    stranger = replace(identity(sleeper), started="long ago")
    assert not stranger.alive
    stop_processes([stranger], timeout_seconds=1)
    assert sleeper.poll() is None


def test_a_suspended_process_is_stopped(sleeper: subprocess.Popen[bytes]) -> None:
    """SIGTERM alone would wait for SIGCONT."""
    known = identity(sleeper)
    os.kill(sleeper.pid, signal.SIGSTOP)
    stop_processes([known], timeout_seconds=60)
    assert sleeper.wait(60) == -signal.SIGTERM


def test_a_stubborn_process_is_killed() -> None:
    """After a timeout."""
    script = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
    with subprocess.Popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        stop_processes([identity(process)], timeout_seconds=0.2)
        assert process.wait(60) == -signal.SIGKILL
