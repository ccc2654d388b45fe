# SPDX-License-Identifier: Apache-2.0
"""The requests that Kafka UI sends to a Connect worker, and what it must be able to read of them.

After its own description of its client (kafbat/kafka-ui, `kafka-connect-api.yaml`). Its reader
ignores fields that it does not know and takes missing ones for null; it fails on a value of another
type and on a word that is not in its lists, and then a whole page stays empty.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from support.waiting import PATIENCE_SECONDS, eventually


@dataclass(frozen=True, slots=True)
class EnumOf:
    """A text of a closed list."""

    known: frozenset[str]


@dataclass(frozen=True, slots=True)
class MapOf:
    """An object with any names, whose values all have one shape."""

    shape: Any


ANYTHING = object()
TASK_STATES = EnumOf(frozenset({"RUNNING", "FAILED", "PAUSED", "RESTARTING", "UNASSIGNED"}))
STATES = EnumOf(TASK_STATES.known | {"STOPPED"})
CLUSTER = {"version": str, "commit": str, "kafka_cluster_id": str}
TASK_ID = {"connector": str, "task": int}
CONFIG = MapOf(ANYTHING)
TASK = {"id": TASK_ID, "config": CONFIG}
CONNECTOR = {
    "name": str,
    "config": CONFIG,
    "tasks": [TASK_ID],
    "type": EnumOf(frozenset({"source", "sink"})),
}
TASK_STATUS = {"id": int, "state": TASK_STATES, "worker_id": str, "trace": str}
STATUS = {
    "name": str,
    "connector": {"state": STATES, "worker_id": str, "trace": str},
    "tasks": [TASK_STATUS],
}
EXPANDED = MapOf({"status": STATUS, "info": CONNECTOR})
TOPICS = MapOf({"topics": [str]})
PLUGINS = [{"class": str}]
REFUSAL = {"error_code": int, "message": str}
DEFINITION = {
    "name": str,
    "type": EnumOf(
        frozenset("BOOLEAN CLASS DOUBLE INT LIST LONG PASSWORD SHORT STRING".split())  # noqa: SIM905
    ),
    "required": bool,
    "default_value": str,
    "importance": EnumOf(frozenset({"LOW", "MEDIUM", "HIGH"})),
    "documentation": str,
    "group": str,
    "width": EnumOf(frozenset({"SHORT", "MEDIUM", "LONG", "NONE"})),
    "display_name": str,
    "dependents": [str],
    "order": int,
}
VALUE = {
    "name": str,
    "value": str,
    "recommended_values": [str],
    "errors": [str],
    "visible": bool,
}
VALIDATION = {
    "name": str,
    "error_count": int,
    "groups": [str],
    "configs": [{"definition": DEFINITION, "value": VALUE}],
}


def schema_errors(value: Any, shape: Any, place: str = "$") -> list[str]:
    """Where a body is not what the reader of that shape can take."""
    if value is None or shape is ANYTHING:
        return []
    if isinstance(shape, EnumOf):
        return [] if value in shape.known else [f"{place} is {value!r}"]
    if isinstance(shape, type):
        return [] if type(value) is shape else [f"{place} is {value!r}, not of {shape.__name__}"]
    return _misfits_inside(value, shape, place)


def _misfits_inside(value: Any, shape: Any, place: str) -> list[str]:
    if isinstance(shape, list):
        if not isinstance(value, list):
            return [f"{place} is no list"]
        parts = [(one, shape[0], f"{place}[{n}]") for n, one in enumerate(value)]
    else:
        if not isinstance(value, dict):
            return [f"{place} is no object"]
        shapes = dict.fromkeys(value, shape.shape) if isinstance(shape, MapOf) else shape
        parts = [(value.get(name), one, f"{place}.{name}") for name, one in shapes.items()]
    return [misfit for part in parts for misfit in schema_errors(*part)]


@dataclass(frozen=True, slots=True)
class KafkaUi:
    """Sends its requests; each answer must have one of the statuses and the shape."""

    url: str

    def ask(
        self, method: str, path: str, shape: Any = None, body: Any = None, *, status: int = 200
    ) -> Any:
        """What is answered; nothing is read where the answer has no shape for it."""
        request = urllib.request.Request(  # noqa: S310 - a worker of the test
            self.url.rstrip("/") + path,
            None if body is None else json.dumps(body).encode(),
            {"Accept": "application/json"},
            method=method,
        )
        if body is not None:
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:  # noqa: S310
                found, text = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                found, text = error.code, error.read()
        assert found == status, (method, path, found, text[:2000])
        if shape is None:
            return None
        value = json.loads(text)
        assert schema_errors(value, shape) == [], (method, path)
        return value


def click_through(url: str, name: str, config: Mapping[str, Any], seconds: float = 10) -> None:
    """All that its pages ask for, in the order in which a user would open them."""
    ui, part = KafkaUi(url), f"/connectors/{urllib.parse.quote(name, safe='')}"
    plugin = config["connector.class"]

    def await_state(state: str) -> None:
        eventually(
            lambda: ui.ask("GET", f"{part}/status", STATUS)["connector"]["state"] == state,
            seconds,
            f"{name} is {state}",
        )

    assert ui.ask("GET", "/", CLUSTER)["version"]
    assert plugin in [one["class"] for one in ui.ask("GET", "/connector-plugins", PLUGINS)]
    validate = f"/connector-plugins/{plugin.rpartition('.')[2]}/config/validate"
    filled_in = {"name": name, **config}
    assert ui.ask("PUT", validate, VALIDATION, filled_in)["error_count"] == 0
    assert ui.ask("PUT", validate, VALIDATION, filled_in | {"tasks.max": 0})["error_count"] == 1

    # Creating one; a second of the same name shows a message.
    new = {"name": name, "config": dict(config)}
    assert ui.ask("POST", "/connectors", CONNECTOR, new, status=201)["name"] == name
    ui.ask("POST", "/connectors", REFUSAL, new, status=409)
    ui.ask("POST", "/connectors", REFUSAL, {"name": "", "config": {}}, status=400)
    await_state("RUNNING")

    # The list, and the pages of one.
    listed = ui.ask("GET", "/connectors?expand=info&expand=status", EXPANDED)
    assert (listed[name]["info"]["type"], listed[name]["status"]["name"]) == ("source", name)
    assert name in ui.ask("GET", "/connectors?search=", [str])
    assert ui.ask("GET", part, CONNECTOR)["tasks"]
    assert ui.ask("GET", f"{part}/config", CONFIG)["connector.class"] == plugin
    for task in ui.ask("GET", f"{part}/tasks", [TASK]):
        number = task["id"]["task"]
        ui.ask("GET", f"{part}/tasks/{number}/status", TASK_STATUS)
        ui.ask("POST", f"{part}/tasks/{number}/restart", status=204)
    assert name in ui.ask("GET", f"{part}/topics", TOPICS)
    await_state("RUNNING")

    # Its buttons.
    ui.ask("POST", f"{part}/restart?includeTasks=false&onlyFailed=false", status=204)
    await_state("RUNNING")
    ui.ask("POST", f"{part}/restart?includeTasks=true&onlyFailed=true", status=202)
    await_state("RUNNING")
    ui.ask("PUT", f"{part}/pause", status=202)
    await_state("PAUSED")
    ui.ask("PUT", f"{part}/resume", status=202)
    await_state("RUNNING")
    ui.ask("PUT", f"{part}/config", CONNECTOR, {**config, "name": name})
    ui.ask("DELETE", f"{part}/offsets", REFUSAL, status=400)
    ui.ask("PUT", f"{part}/stop", status=204)
    await_state("STOPPED")
    eventually(lambda: not ui.ask("GET", part, CONNECTOR)["tasks"], seconds, "its tasks are gone")
    ui.ask("GET", f"{part}/offsets", {"offsets": [CONFIG]})
    ui.ask("DELETE", f"{part}/offsets", {"message": str})
    ui.ask("DELETE", part, status=204)
    ui.ask("GET", f"{part}/status", REFUSAL, status=404)
    ui.ask("GET", part, REFUSAL, status=404)
    assert name not in ui.ask("GET", "/connectors?expand=info&expand=status", EXPANDED)
