# SPDX-License-Identifier: Apache-2.0
"""A stop is noticed at any moment and never deadlocks the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, threading, time
from sparkmirror.cli.process_signals import ProcessSignals

stop = ProcessSignals()

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
    """The handler interrupts the wait again and again."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=120
    )

    assert (done.returncode, done.stdout) == (0, "stopped\n"), done.stderr


RELOADS = """
import os, signal
from sparkmirror.cli.process_signals import ProcessSignals

signal.signal(signal.SIGHUP, signal.SIG_DFL)
stop = ProcessSignals(reloads=True)
assert not stop.consume_reload_request()
for _ in range(3):
    os.kill(os.getpid(), signal.SIGHUP)
assert not stop.wait(3600)
assert stop.consume_reload_request()
assert not stop.consume_reload_request()
print("reload")
"""


def test_several_hangups_of_a_service_are_one_reload() -> None:
    """A reload request ends the wait at once and is not a stop."""
    done = subprocess.run(
        [sys.executable, "-c", RELOADS],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        start_new_session=True,
    )

    assert (done.returncode, done.stdout) == (0, "reload\n"), done.stderr


WAITING = """
import fcntl, os, signal, sys, termios
from sparkmirror.cli.process_signals import ProcessSignals

terminal, nohup, file = sys.argv[1:]
if terminal == "terminal":
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
# Whatever the process that runs the tests was started with.
signal.signal(signal.SIGHUP, signal.SIG_IGN if nohup == "nohup" else signal.SIG_DFL)
stop = ProcessSignals(reloads=file == "file")
print("ready", flush=True)
is_stopped = stop.wait(120)
print("stop" if is_stopped else "reload" if stop.consume_reload_request() else "nothing")
"""


@pytest.mark.parametrize(
    ("terminal", "nohup", "file", "meaning"),
    [
        ("terminal", "plain", "file", "stop"),
        ("terminal", "nohup", "file", "reload"),
        ("service", "plain", "file", "reload"),
        ("service", "nohup", "file", "reload"),
        ("terminal", "plain", "no file", "stop"),
        ("service", "plain", "no file", "stop"),
    ],
)
def test_hangup_stops_a_command_at_a_terminal_and_reloads_any_other(
    terminal: str, nohup: str, file: str, meaning: str
) -> None:
    """The terminal is still open when the signal arrives: the state at start counts."""
    controller, end = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", WAITING, terminal, nohup, file],
        stdin=end,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as started:
        os.close(end)
        assert started.stdout is not None
        assert started.stdout.readline() == "ready\n"
        started.send_signal(signal.SIGHUP)

        assert started.stdout.readline() == f"{meaning}\n"
    os.close(controller)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_stop_a_command(number: signal.Signals) -> None:
    """Whether it has files to reload or not."""
    with subprocess.Popen(
        [sys.executable, "-c", WAITING, "service", "plain", "file"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == "ready\n"
        started.send_signal(number)

        assert started.stdout.readline() == "stop\n"


def test_a_command_stops_when_its_terminal_is_closed() -> None:
    """The kernel sends SIGHUP; the terminal may still respond for a moment."""
    controller, end = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", WAITING, "terminal", "plain", "file"],
        stdin=end,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as started:
        os.close(end)
        assert started.stdout is not None
        assert started.stdout.readline() == "ready\n"
        os.close(controller)

        assert started.stdout.readline() == "stop\n"
