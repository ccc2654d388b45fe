# SPDX-License-Identifier: Apache-2.0
"""Drives a worker with a client of Connect's REST API that is not ours: kafka-connect-py.

It knows nothing of sparkmirror; whatever it cannot do with a worker, nobody's script can.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import requests
from kafka_connect import KafkaConnect

from support.waiting import eventually

Config = Mapping[str, Any]


def exercise_connector(
    url: str, name: str, config: Config, changes: Config, seconds: float = 10
) -> None:
    """Take a connector through its whole life; `config` is a valid one, `changes` go over it."""
    client = KafkaConnect(url.rstrip("/"))
    _look_around(client, {"name": name, **config})
    _create(client, name, config, seconds)
    _read(client, name, config)
    _change(client, name, {**config, **changes})
    _restart(client, name, seconds)
    _rest_and_go_on(client, name, seconds)
    _delete(client, name)


def _look_around(client: KafkaConnect, config: Config) -> None:
    assert set(client.get_cluster_info()) == {"version", "commit", "kafka_cluster_id"}
    plugin = config["connector.class"]
    assert plugin in [one["class"] for one in client.list_connector_plugins()]
    assert client.validate_connector_config(plugin, config)["error_count"] == 0
    wrong = client.validate_connector_config(plugin, {**config, "tasks.max": "0"})
    errors = {c["value"]["name"] for c in wrong["configs"] if c["value"]["errors"]}
    assert (wrong["error_count"], errors) == (1, {"tasks.max"})


def _create(client: KafkaConnect, name: str, config: Config, seconds: float) -> None:
    with pytest.raises(requests.HTTPError, match="404 Client Error"):
        client.get_connector_status(name)
    created = client.create_connector({"name": name, "config": config})
    assert (created["name"], created["type"]) == (name, "source")
    with pytest.raises(requests.HTTPError, match="409 Client Error"):
        client.create_connector({"name": name, "config": config})
    with pytest.raises(requests.HTTPError, match="400 Client Error"):
        client.create_connector({"name": f"{name}-2", "config": {**config, "tasks.max": 0}})
    _await(client, name, "RUNNING", seconds)


def _read(client: KafkaConnect, name: str, config: Config) -> None:
    assert name in client.list_connectors()
    assert client.list_connectors(pattern=f"{name}$", state="running") == [name]
    info = client.get_connector(name)
    assert client.list_connectors(expand="info")[name]["info"] == info
    assert info["config"] == client.get_connector_config(name)
    assert info["config"] == {"name": name, **{k: _text(v) for k, v in config.items()}}
    tasks = client.list_connector_tasks(name)
    assert [one["id"] for one in tasks] == info["tasks"] != []
    status = client.list_connectors(expand="status")[name]["status"]
    assert [one["id"] for one in status["tasks"]] == [one["task"] for one in info["tasks"]]
    assert client.get_connector_task_status(name, 0)["state"] == "RUNNING"
    assert set(client.list_connector_topics(name)) == {name}
    client.reset_connector_topics(name)


def _change(client: KafkaConnect, name: str, config: Config) -> None:
    changed = client.update_connector(name, config)
    assert changed["config"] == {"name": name, **{k: _text(v) for k, v in config.items()}}
    assert client.get_connector_config(name) == changed["config"]


def _restart(client: KafkaConnect, name: str, seconds: float) -> None:
    _await(client, name, "RUNNING", seconds)
    assert client.restart_connector(name) is None
    _await(client, name, "RUNNING", seconds)
    again = client.restart_connector(name, include_tasks=True)
    assert again["name"] == name
    assert {one["state"] for one in (again["connector"], *again["tasks"])} == {"RESTARTING"}
    _await(client, name, "RUNNING", seconds)
    healthy = client.restart_connector(name, include_tasks=True, only_failed=True)
    assert healthy["connector"]["state"] == "RUNNING"
    client.restart_connector_task(name, 0)
    _await(client, name, "RUNNING", seconds)
    with pytest.raises(requests.HTTPError, match="404 Client Error"):
        client.restart_connector_task(name, 99)


def _rest_and_go_on(client: KafkaConnect, name: str, seconds: float) -> None:
    client.pause_connector(name)
    _await(client, name, "PAUSED", seconds)
    client.resume_connector(name)
    _await(client, name, "RUNNING", seconds)
    client.stop_connector(name)
    eventually(
        lambda: (
            (found := client.get_connector_status(name))["connector"]["state"] == "STOPPED"
            and not found["tasks"]
        ),
        seconds,
        f"{name} is stopped and has no task",
    )
    client.resume_connector(name)
    _await(client, name, "RUNNING", seconds)


def _delete(client: KafkaConnect, name: str) -> None:
    client.delete_connector(name)
    assert name not in client.list_connectors()
    for ask in (client.get_connector, client.get_connector_status, client.delete_connector):
        with pytest.raises(requests.HTTPError, match="404 Client Error"):
            ask(name)


def _await(client: KafkaConnect, name: str, state: str, seconds: float) -> None:
    """The connector and each of its tasks, of which there is one at least."""

    def reached() -> bool:
        found = client.get_connector_status(name)
        states = {one["state"] for one in (found["connector"], *found["tasks"])}
        assert (states, bool(found["tasks"])) == ({state}, True)
        return True

    eventually(reached, seconds, f"{name} and its tasks are {state}")


def _text(value: object) -> str:
    """Connect keeps texts, also of what was sent as a number or a truth value."""
    return str(value).lower() if isinstance(value, bool) else str(value)
