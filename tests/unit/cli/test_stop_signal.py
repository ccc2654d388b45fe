# SPDX-License-Identifier: Apache-2.0
"""A stop that comes at any moment is noticed, and never locks the process up."""

from __future__ import annotations

import subprocess
import sys

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
