# SPDX-License-Identifier: Apache-2.0
"""Our worker responds over HTTP as a worker of Kafka Connect does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.clients.served_rest import ServedRest
from support.data.rest_golden import GOLDEN, NAMES, check_response
from support.data.rest_script import Response, run_script
from support.peers.memory_worker import MemoryWorker


@pytest.fixture(scope="module")
def heard() -> Iterator[dict[str, Response]]:
    """All responses of our worker."""
    worker = MemoryWorker()
    with ServedRest(worker) as client:
        worker.worker_id = f"127.0.0.1:{client.port}"
        answers = run_script(worker.worker_id, "kafka:9092", lambda *_states: None)
        yield {step.name: answer for step, answer in answers}


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_is_javas(name: str, heard: dict[str, Response]) -> None:
    """Of a worker that keeps everything in memory."""
    check_response(name, heard[name])


@pytest.mark.parametrize("name", ["validate", "validate wrong"])
def test_a_validation_has_javas_errors_and_values(name: str, heard: dict[str, Response]) -> None:
    """Key by key, for the keys that Java has."""
    ours, java = heard[name].body, GOLDEN[name]["body"]
    assert (ours["name"], ours["error_count"]) == (java["name"], java["error_count"])
    assert sorted(ours["configs"][0]) == sorted(java["configs"][0])
    found = {one["value"]["name"]: one["value"] for one in ours["configs"]}
    for one in java["configs"]:
        expected = one["value"]
        assert sorted(expected) == sorted(found[expected["name"]])
        assert expected["errors"] == found[expected["name"]]["errors"]


def test_definitions_have_javas_fields(heard: dict[str, Response]) -> None:
    """The documentation is our own."""
    java = set(GOLDEN["plugin keys"]["body"][0])
    assert {*java, "documentation"} == set(heard["plugin keys"].body[0])


def test_the_root_has_javas_fields(heard: dict[str, Response]) -> None:
    ours, java = heard["root"].body, GOLDEN["root"]["body"]
    assert (sorted(ours), ours["version"]) == (sorted(java), java["version"])
