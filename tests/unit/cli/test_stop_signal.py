# SPDX-License-Identifier: Apache-2.0
"""A stop that comes at any moment is noticed, and never locks the process up."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

PROGRAM = """
import os, signal, threading, time
from sparkmirror.cli.stop_signal import StopSignal

stop = StopSignal()

def storm():
    for _ in range(20_000):
        os.kill(os.getpid(), signal.SIGTERM)

assert not stop.wait(0.01)
threading.Thread(target=storm).start()
while not stop.wait(0.001):
    pass
for _ in range(1_000):
    assert stop.wait(0.001)
print("stopped")
"""


def test_thousands_of_signals_in_the_middle_of_waiting_are_one_stop() -> None:
    """The handler interrupts the wait itself again and again."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=60
    )

    assert (done.returncode, done.stdout) == (0, "stopped\n"), done.stderr


HANGUPS = """
import os, signal
from sparkmirror.cli.stop_signal import StopSignal

stop = StopSignal(takes_hangup=True)
assert not stop.take_hangup()
for _ in range(3):
    os.kill(os.getpid(), signal.SIGHUP)
assert not stop.wait(10)
assert stop.take_hangup()
assert not stop.take_hangup()
print("read again")
"""


def test_a_hangup_of_a_service_is_noticed_once_and_is_no_stop() -> None:
    """It ends the wait at once; several before anybody looks are one."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", HANGUPS],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        start_new_session=True,
    )

    assert (done.returncode, done.stdout) == (0, "read again\n"), done.stderr
    assert time.monotonic() - began < 10


AT_A_TERMINAL = """
import fcntl, signal, sys, termios
from sparkmirror.cli.stop_signal import StopSignal

fcntl.ioctl(0, termios.TIOCSCTTY, 0)
if sys.argv[1] == "nohup":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
stop = StopSignal(takes_hangup=True)
print("ready", flush=True)
is_stopped = stop.wait(30)
print("stop" if is_stopped else "read again" if stop.take_hangup() else "nothing")
"""


@pytest.mark.parametrize(("how", "becomes"), [("plain", "stop"), ("nohup", "read again")])
def test_a_terminal_that_goes_takes_the_command_along_unless_it_is_protected(
    how: str, becomes: str
) -> None:
    """The same signal means two things; a command left behind by its terminal shall not go on."""
    terminal, end = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", AT_A_TERMINAL, how],
        stdin=end,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as started:
        os.close(end)
        assert started.stdout is not None
        assert started.stdout.readline() == "ready\n"
        os.close(terminal)

        assert started.stdout.readline() == f"{becomes}\n"
