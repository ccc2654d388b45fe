# SPDX-License-Identifier: Apache-2.0
"""What Connect's own answers could not be captured for: passwords, odd names, limits, headers."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from sparkmirror.connect.api import ConnectorInfo, State
from sparkmirror.connect.signatures import sign
from sparkmirror.rest.app import AppOptions, create_app
from sparkmirror.rest.cors import CrossOrigin
from sparkmirror.rest.desk import Limits
from sparkmirror.rest.response_headers import read_rules
from sparkmirror.rest.tracking import Tracking
from support.memory_worker import KEY, MemoryWorker

SECRET = "module required password='secret';"
CONFIG = {
    "connector.class": "MirrorHeartbeatConnector",
    "source.cluster.alias": "a",
    "target.cluster.alias": "b",
    "target.cluster.bootstrap.servers": "kafka:9092",
}
WITH_SECRET = {**CONFIG, "target.cluster.sasl.jaas.config": SECRET}
ODD_NAMES = [
    "a/b",
    "a//b/",
    "..",
    "../../etc/passwd",
    "100%",
    "%2F",
    "ü \N{GRINNING FACE}",
    "a?b#c",
]


def put(client: TestClient, name: str, config: Mapping[str, Any]) -> Any:
    """Create or change a connector."""
    return client.put(f"/connectors/{quote(name, safe='')}/config", json=config)


def test_passwords_are_never_shown(client: TestClient) -> None:
    """In no answer that has a configuration in it."""
    created = client.post("/connectors", json={"name": "beat", "config": WITH_SECRET})
    assert created.status_code == 201
    answers = [
        created,
        put(client, "beat", WITH_SECRET),
        client.patch("/connectors/beat/config", json={"added": 1}),
        client.get("/connectors/beat"),
        client.get("/connectors/beat/config"),
        client.get("/connectors/beat/tasks"),
        client.get("/connectors?expand=info"),
        client.put("/connector-plugins/MirrorHeartbeat/config/validate", json=WITH_SECRET),
    ]
    assert [one.text for one in answers if "secret" in one.text] == []
    assert answers[4].json()["target.cluster.sasl.jaas.config"] == "[hidden]"


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_hidden_password_that_returns_is_kept(
    method: str, client: TestClient, worker: MemoryWorker
) -> None:
    """A client reads a configuration, changes a line and sends it back."""
    put(client, "beat", WITH_SECRET)
    shown = client.get("/connectors/beat/config").json()
    answer = client.request(method, "/connectors/beat/config", json={**shown, "added": "1"})
    assert answer.status_code == 200
    expected = {**WITH_SECRET, "name": "beat", "added": "1"}
    assert expected == worker.info("beat").config


def test_a_hidden_password_of_nobody_is_refused(client: TestClient) -> None:
    """Nothing is stored that it could stand for."""
    hidden = {**CONFIG, "target.cluster.sasl.jaas.config": "[hidden]"}
    answer = put(client, "beat", hidden)
    assert answer.status_code == 400
    assert "[hidden] stands for a value that is stored" in answer.json()["message"]


def test_a_hidden_password_is_validated_as_the_stored_one(client: TestClient) -> None:
    """A form that shows a connector can check it as it stands."""
    put(client, "beat", WITH_SECRET)
    shown = client.get("/connectors/beat/config").json()
    path = "/connector-plugins/MirrorHeartbeat/config/validate"
    assert client.put(path, json=shown).json()["error_count"] == 0


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_name_may_hold_anything(name: str, client: TestClient, worker: MemoryWorker) -> None:
    """Escaped in paths, and in the header that says where the connector is."""
    answer = client.post("/connectors", json={"name": name, "config": CONFIG})
    assert answer.status_code == 201
    location = answer.headers["Location"]
    assert location == f"/connectors/{quote(name, safe='')}"
    assert client.get(location).json()["name"] == name
    assert client.get(f"{location}/status").json()["name"] == name
    assert client.get(f"{location}/tasks/0/status").json()["id"] == 0
    assert client.get(f"{location}/topics").json() == {name: {"topics": []}}
    assert client.put(f"{location}/pause").status_code == 202
    assert worker.status(name).connector.state is State.PAUSED
    assert client.delete(location).status_code == 204
    assert worker.connectors() == []


def test_a_path_that_is_no_text_is_refused(client: TestClient) -> None:
    """Two names must not become one."""
    answer = client.put("/connectors/%ff/config", json=CONFIG)
    assert answer.status_code == 400
    assert answer.json()["error_code"] == 400


def test_a_connector_that_vanishes_is_left_out() -> None:
    """Between the list of names and the question about one."""

    class Vanishing(MemoryWorker):
        def connectors(self) -> list[str]:
            return [*super().connectors(), "gone"]

    vanishing = Vanishing()
    vanishing.create("beat", {**CONFIG, "name": "beat"}, None)
    with TestClient(create_app(vanishing)) as other:
        assert list(other.get("/connectors?expand=status").json()) == ["beat"]


def test_a_failure_shows_its_trace_and_restart_ends_it(
    client: TestClient, worker: MemoryWorker
) -> None:
    """Only what is affected is shown as restarting."""
    put(client, "beat", CONFIG)
    worker.fail("beat", 0, "because")
    status = client.get("/connectors/beat/status").json()
    assert status["connector"]["state"] == "RUNNING"
    assert "trace" not in status["connector"]
    assert (status["tasks"][0]["state"], status["tasks"][0]["trace"]) == ("FAILED", "because")
    answer = client.post("/connectors/beat/restart?includeTasks=true&onlyFailed=true")
    assert answer.status_code == 202
    told = answer.json()
    assert told["connector"]["state"] == "RUNNING"
    assert [one["state"] for one in told["tasks"]] == ["RESTARTING"]
    assert client.get("/connectors/beat/tasks/0/status").json()["state"] == "RUNNING"


@pytest.mark.parametrize("body", [b"x" * 2_000, iter([b"x" * 400] * 5)], ids=["length", "chunks"])
def test_a_large_body_is_refused_before_it_is_read(worker: MemoryWorker, body: Any) -> None:
    """Whether or not it says how large it is."""
    options = AppOptions(limits=Limits(body_bytes=1_000))
    with TestClient(create_app(worker, options)) as client:
        answer = client.post(
            "/connectors", content=body, headers={"Content-Type": "application/json"}
        )
    assert (answer.status_code, answer.json()["error_code"]) == (413, 413)


def test_a_call_that_takes_too_long_is_answered() -> None:
    """With what the worker does meanwhile; health has threads of its own."""
    release = threading.Event()

    class Stuck(MemoryWorker):
        def info(self, name: str) -> ConnectorInfo:
            release.wait(10)
            return super().info(name)

        def health(self) -> tuple[int, Mapping[str, str]]:
            release.wait(10)
            return super().health()

        def stage(self) -> str:
            return "waiting for a test, which began at noon"

    options = AppOptions(limits=Limits(request_seconds=0.1, health_seconds=0.1))
    with TestClient(create_app(Stuck(), options)) as client:
        late = client.get("/connectors/beat")
        unwell = client.get("/health")
        release.set()
    assert late.status_code == 500
    assert late.json()["message"] == (
        "Request timed out. The worker is currently waiting for a test, which began at noon"
    )
    assert (unwell.status_code, unwell.json()["status"]) == (500, "unhealthy")


def test_a_bug_of_ours_is_no_trace_for_others(caplog: pytest.LogCaptureFixture) -> None:
    """Our log has it."""

    class Buggy(MemoryWorker):
        def connectors(self) -> list[str]:
            raise KeyError("password=secret")

    with TestClient(create_app(Buggy())) as client:
        answer = client.get("/connectors")
    assert answer.status_code == 500
    assert answer.json() == {"error_code": 500, "message": "KeyError; see the worker's log."}
    assert "password=secret" in caplog.text


def test_topics_can_be_kept_private(worker: MemoryWorker) -> None:
    """403, as the worker's file says."""
    put_path, path = "/connectors/beat/topics/reset", "/connectors/beat/topics"
    with TestClient(create_app(worker, AppOptions(tracking=Tracking(False)))) as client:
        assert client.get(path).json()["message"] == "Topic tracking is disabled."
        assert client.put(put_path).status_code == 403
    with TestClient(create_app(worker, AppOptions(tracking=Tracking(True, False)))) as client:
        assert client.get(path).status_code == 200
        refused = client.put(put_path)
    assert (refused.status_code, refused.json()["message"]) == (
        403,
        "Topic tracking reset is disabled.",
    )


def test_workers_must_sign_what_they_ask_of_each_other(
    client: TestClient, worker: MemoryWorker
) -> None:
    """Over the body's bytes, with the key of their group."""
    put(client, "beat", CONFIG)
    signed = sign(b'[{"a": "b"}]', KEY, "HmacSHA256")
    headers = {
        "Content-Type": "application/json",
        "X-Connect-Authorization": signed.signature or "",
        "X-Connect-Request-Signature-Algorithm": "HmacSHA256",
    }
    path = "/connectors/beat/tasks"
    assert client.post(path, content=signed.body, headers=headers).status_code == 204
    assert worker.task_configs("beat") == [{"a": "b"}]
    assert client.post(path, content=b"[]", headers=headers).status_code == 403
    assert client.post(path, content=b"[]").status_code == 400
    assert client.put("/connectors/beat/fence").status_code == 400
    assert worker.task_configs("beat") == [{"a": "b"}]


def test_nothing_tells_browsers_of_other_origins_unless_configured(client: TestClient) -> None:
    """No header, and no answer to their question."""
    origin = {"Origin": "https://console.example"}
    assert "Access-Control-Allow-Origin" not in client.get("/connectors", headers=origin).headers
    asked = {**origin, "Access-Control-Request-Method": "GET"}
    assert client.options("/connectors", headers=asked).status_code == 405


def test_configured_origins_may_use_the_api(worker: MemoryWorker) -> None:
    """Those alone, with those methods alone."""
    allowed = CrossOrigin.of("https://*.example, http://other:1", "GET,PUT")
    ours, theirs = {"Origin": "https://console.example"}, {"Origin": "https://evil.test"}
    with TestClient(create_app(worker, AppOptions(cross_origin=allowed))) as client:
        told = client.get("/connectors", headers=ours).headers
        assert told["Access-Control-Allow-Origin"] == "https://console.example"
        assert told["Vary"] == "Origin"
        assert "Access-Control-Allow-Origin" not in client.get("/", headers=theirs).headers
        asked = {**ours, "Access-Control-Request-Method": "PUT"}
        told = client.options("/connectors/x/pause", headers=asked).headers
        assert told["Access-Control-Allow-Methods"] == "GET,PUT"
        asked = {**ours, "Access-Control-Request-Method": "DELETE"}
        told = client.options("/connectors/x", headers=asked).headers
        assert "Access-Control-Allow-Origin" not in told
        refused = client.get("/connectors/x", headers=ours)
        assert (refused.status_code, "Access-Control-Allow-Origin" in refused.headers) == (
            404,
            True,
        )


def test_every_answer_gets_the_configured_headers(worker: MemoryWorker) -> None:
    """Refusals too."""
    rules = read_rules('set X-Frame-Options: DENY, "add Cache-Control: no-cache, no-store"')
    with TestClient(create_app(worker, AppOptions(headers=rules))) as client:
        for path in ("/", "/nothing", "/connectors/%ff"):
            told = client.get(path).headers
            assert told["X-Frame-Options"] == "DENY"
            assert told["Cache-Control"] == "no-cache, no-store"


def test_admin_paths_can_be_left_out_and_served_alone(worker: MemoryWorker) -> None:
    """`admin.listeners` of a worker's file."""
    with TestClient(create_app(worker, AppOptions(has_admin=False))) as client:
        assert client.get("/admin/loggers").status_code == 404
        assert client.get("/connectors").status_code == 200
    with TestClient(create_app(worker, AppOptions(has_connectors=False))) as client:
        assert client.get("/admin/loggers").status_code == 200
        assert client.get("/connectors").status_code == 404
