# SPDX-License-Identifier: Apache-2.0
"""Every command in the page about the REST API is answered as the page says."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from sparkmirror.rest.server import RestServer
from support.peers.memory_worker import MemoryWorker

PAGE = Path(__file__).parents[3] / "docs" / "rest.md"
SERVED = "http://localhost:8083"
LINE = re.compile(r"(?P<command>curl .*\S)\s+# (?P<status>\d{3})")


def test_every_request_is_answered_as_written() -> None:
    """One after the other, against one worker."""
    requests = PAGE.read_text(encoding="utf-8").partition("\n## From the terminal\n")[0]
    blocks = re.findall(r"```sh\n(.*?)```", requests, re.DOTALL)
    lines = "".join(blocks).splitlines()
    assert len(lines) > 40
    worker = MemoryWorker()
    server = RestServer.for_worker(worker.file.settings)
    server.start(worker, lambda: b"")
    try:
        wrong = [line for line in lines if not is_true(line, server.ports[0])]
    finally:
        server.stop()
    assert wrong == []


def is_true(line: str, port: int) -> bool:
    """Whether a command gets the status in its comment."""
    found = LINE.fullmatch(line)
    assert found is not None, line
    command = found["command"].replace(SERVED, f"http://127.0.0.1:{port}")
    done = subprocess.run(
        ["bash", "-c", f"{command} -o /dev/null -w '%{{http_code}}'"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout == found["status"]
