# SPDX-License-Identifier: Apache-2.0
"""The brokers' name resolves in processes of the mirror, except while a file disables it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chaos import resolver

NAME = "brokers.chaos.test"
LOOK_UP = "import socket, sys; print(socket.getaddrinfo(sys.argv[1], 1)[0][4][0])"


def look_up(file: Path, host: str = NAME) -> tuple[str, float]:
    """Return the output of a process that resolves a host, and the seconds it took."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", LOOK_UP, host],
        env={
            **os.environ,
            "PYTHONPATH": str(*resolver.__path__),
            "CHAOS_NAME": NAME,
            "CHAOS_RESOLVER": str(file),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    return (done.stdout + done.stderr).strip().splitlines()[-1], time.monotonic() - began


def test_the_name_resolves_without_the_file(tmp_path: Path) -> None:
    """To the address where all brokers are."""
    assert look_up(tmp_path / "none")[0] == "127.0.0.1"


@pytest.mark.parametrize(("way", "expected"), [("slow", "127.0.0.1"), ("failing", "Temporary")])
def test_the_name_resolves_late_or_not_with_the_file(
    tmp_path: Path, way: str, expected: str
) -> None:
    """Numeric addresses need no resolver."""
    file = tmp_path / "resolver"
    file.write_text(f"0.5\n{way}\n")
    found, seconds = look_up(file)
    assert expected in found
    assert seconds > 0.5
    assert look_up(file, "127.0.0.1")[0] == "127.0.0.1"
