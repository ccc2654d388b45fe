# SPDX-License-Identifier: Apache-2.0
"""Our worker answers over HTTP as a real worker of Kafka Connect does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.config.hidden_values import hide
from support.memory_worker import MemoryWorker
from support.rest_client import RestClient
from support.rest_script import Heard, play, script

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parent / "golden" / "rest.json").read_text("utf-8")
)["answers"]
NAMES = [step.name for step in script()]

# Where ours is another status, each with the reason.
OTHER_STATUS = {
    "slash in name": (404, "names may hold slashes; Java's server takes none in a path"),
    "dots": (404, "a name as any other"),
    "no name in path": (404, "no connector has an empty name"),
    "post trailing text": (500, "a body with something behind it was not meant like that"),
}
# Where the sentence cannot be Java's: it names Java's classes and fields.
JAVA_WORDS = ("Cannot invoke ", "Cannot deserialize ", "Cannot construct ", "Unrecognized field ")
JAVA_WORDS += ("Unexpected end-of-input ", "Non-standard token ", "org.apache.kafka.connect.")
# Where the answer tells of the worker, of keys that are ours, in the order of a map, or in HTML.
OWN_BODIES = {"root", "plugin keys", "validate", "validate wrong", "options"}
OWN_BODIES |= {"post no class", "post two values", "no characters"}


@pytest.fixture(scope="module")
def heard() -> Iterator[dict[str, Heard]]:
    """Every answer of ours."""
    worker = MemoryWorker()
    with RestClient(worker) as client:
        worker.worker_id = f"127.0.0.1:{client.port}"
        answers = play(worker.worker_id, "kafka:9092", lambda *_states: None)
        yield {step.name: answer for step, answer in answers}


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_is_javas(name: str, heard: dict[str, Heard]) -> None:
    """Status, body and the header that says where something new is."""
    ours, java = heard[name], GOLDEN[name]
    expected_status = OTHER_STATUS.get(name, (java["status"], ""))[0]
    assert (ours.status, ours.headers.get("Location")) == (
        expected_status,
        java["headers"].get("Location"),
    ), ours.body
    if ours.status >= 400:
        assert ours.headers["Content-Type"] == "application/json"
        assert sorted(ours.body) == ["error_code", "message"]
        assert ours.body["error_code"] == ours.status
    if name not in OWN_BODIES and name not in OTHER_STATUS and not is_javas_own(java["body"]):
        assert ours.body == hidden(as_json(java["body"]))


def is_javas_own(body: Any) -> bool:
    """Whether an answer speaks of Java."""
    return isinstance(body, dict) and str(body.get("message", "")).startswith(JAVA_WORDS)


def as_json(body: Any) -> Any:
    """Java's server itself sends JSON without saying so."""
    return json.loads(body) if isinstance(body, str) and body.startswith("{") else body


def hidden(body: Any) -> Any:
    """An answer of Java's with the passwords that we do not show."""
    if isinstance(body, list):
        return [hidden(one) for one in body]
    if not isinstance(body, dict):
        return body
    is_config = all(isinstance(one, str) for one in body.values())
    return hide(body) if is_config else {key: hidden(one) for key, one in body.items()}


@pytest.mark.parametrize("name", ["validate", "validate wrong"])
def test_a_validation_has_javas_errors_and_values(name: str, heard: dict[str, Heard]) -> None:
    """Key by key, for the keys that Java has."""
    ours, java = heard[name].body, GOLDEN[name]["body"]
    assert (ours["name"], ours["error_count"]) == (java["name"], java["error_count"])
    assert sorted(ours["configs"][0]) == sorted(java["configs"][0])
    found = {one["value"]["name"]: one["value"] for one in ours["configs"]}
    for one in java["configs"]:
        expected = one["value"]
        assert sorted(expected) == sorted(found[expected["name"]])
        assert expected["errors"] == found[expected["name"]]["errors"]


def test_definitions_have_javas_fields(heard: dict[str, Heard]) -> None:
    """And its documentation is our own."""
    java = set(GOLDEN["plugin keys"]["body"][0])
    assert {*java, "documentation"} == set(heard["plugin keys"].body[0])


def test_the_root_has_javas_fields(heard: dict[str, Heard]) -> None:
    """Also its version, which clients look at."""
    ours, java = heard["root"].body, GOLDEN["root"]["body"]
    assert (sorted(ours), ours["version"]) == (sorted(java), java["version"])
