# SPDX-License-Identifier: Apache-2.0
"""Our worker answers over HTTP as a real worker of Kafka Connect does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.rest.server import RestServer
from support.memory_worker import MemoryWorker
from support.rest_script import Heard, play, script

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parent / "golden" / "rest.json").read_text("utf-8")
)["answers"]


@pytest.fixture(scope="module")
def heard() -> Iterator[dict[str, Heard]]:
    """Every answer of ours."""
    worker = MemoryWorker()
    server = RestServer(worker.file.settings)
    worker.worker_id = f"127.0.0.1:{server.ports[0]}"
    server.start(worker)
    try:
        answers = play(worker.worker_id, "kafka:9092", lambda *_states: None)
        yield {step.name: answer for step, answer in answers}
    finally:
        server.stop()


@pytest.mark.parametrize("name", [step.name for step in script()])
def test_the_status_is_javas(name: str, heard: dict[str, Heard]) -> None:
    """Whatever is asked."""
    assert heard[name].status == GOLDEN[name]["status"], heard[name].body
