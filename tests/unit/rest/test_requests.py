# SPDX-License-Identifier: Apache-2.0
"""What Connect's own answers could not be captured for: passwords, odd names, limits, headers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import pytest

from sparkmirror.connect.api import ConnectorInfo
from sparkmirror.connect.signatures import sign
from sparkmirror.formats.connect_status_records import RunState
from sparkmirror.rest.app import AppOptions
from sparkmirror.rest.cors import CorsPolicy
from sparkmirror.rest.dispatch import RequestLimits
from sparkmirror.rest.offsets import TopicTrackingPolicy
from sparkmirror.rest.response_headers import parse_header_rules
from support.clients.served_rest import ServedRest
from support.peers.memory_worker import KEY, MemoryWorker
from support.waiting import PATIENCE_SECONDS

SECRET = "module required password='hunter2';"
CONFIG = {
    "connector.class": "MirrorHeartbeatConnector",
    "source.cluster.alias": "a",
    "target.cluster.alias": "b",
    "target.cluster.bootstrap.servers": "kafka:9092",
}
UNKNOWN = (
    "source.cluster.ssl.keystore.passwort",
    "producer.override.sasl.password",
    "transforms.x.secret",
    "value.converter.basic.auth.user.info",
)
WITH_SECRET = {
    **CONFIG,
    "target.cluster.sasl.jaas.config": SECRET,
    **dict.fromkeys(UNKNOWN, SECRET),
}
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


def put(client: ServedRest, name: str, config: Mapping[str, Any]) -> Any:
    """Create or change a connector."""
    return client.request("PUT", f"/connectors/{quote(name, safe='')}/config", body=config)


def test_passwords_are_never_shown(client: ServedRest) -> None:
    """In no answer that has a configuration in it."""
    created = client.request("POST", "/connectors", body={"name": "beat", "config": WITH_SECRET})
    assert created.status == 201
    answers = [
        created,
        put(client, "beat", WITH_SECRET),
        client.request("PATCH", "/connectors/beat/config", body={"added": 1}),
        client.get("/connectors/beat"),
        client.get("/connectors/beat/config"),
        client.get("/connectors/beat/tasks"),
        client.get("/connectors?expand=info"),
        client.request(
            "PUT", "/connector-plugins/MirrorHeartbeat/config/validate", body=WITH_SECRET
        ),
    ]
    assert [one.text for one in answers if "hunter2" in one.text] == []
    shown = answers[4].json()
    hidden = {key for key, value in shown.items() if value == "[hidden]"}
    assert hidden == {"target.cluster.sasl.jaas.config", *UNKNOWN}


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_hidden_password_that_returns_is_kept(
    method: str, client: ServedRest, worker: MemoryWorker
) -> None:
    """A client reads a configuration, changes a line and sends it back."""
    put(client, "beat", WITH_SECRET)
    shown = client.get("/connectors/beat/config").json()
    answer = client.request(method, "/connectors/beat/config", body={**shown, "added": "1"})
    assert answer.status == 200
    expected = {**WITH_SECRET, "name": "beat", "added": "1"}
    assert expected == worker.info("beat").config


@pytest.mark.parametrize("key", ["target.cluster.sasl.jaas.config", "transforms.x.secret"])
def test_a_hidden_password_without_a_stored_value_is_rejected(key: str, client: ServedRest) -> None:
    """Nothing is stored that it could stand for."""
    hidden = {**CONFIG, key: "[hidden]"}
    answer = put(client, "beat", hidden)
    assert answer.status == 400
    assert "[hidden] means the stored value" in answer.json()["message"]


def test_a_hidden_password_is_validated_as_the_stored_one(client: ServedRest) -> None:
    """A form that shows a connector can check it as it stands."""
    put(client, "beat", WITH_SECRET)
    shown = client.get("/connectors/beat/config").json()
    path = "/connector-plugins/MirrorHeartbeat/config/validate"
    assert client.request("PUT", path, body=shown).json()["error_count"] == 0


def test_a_name_may_hold_anything(client: ServedRest, worker: MemoryWorker) -> None:
    """Escaped in paths, and in the header that says where the connector is."""
    for name in ODD_NAMES:
        check_name(name, client, worker)


def check_name(name: str, client: ServedRest, worker: MemoryWorker) -> None:
    """Create a connector, look at it, pause it, delete it."""
    answer = client.request("POST", "/connectors", body={"name": name, "config": CONFIG})
    assert answer.status == 201
    location = f"/connectors/{quote(name, safe='')}"
    assert answer.headers["Location"] == f"{client.url.rstrip('/')}{location}"
    assert client.get(location).json()["name"] == name
    assert client.get(f"{location}/status").json()["name"] == name
    assert client.get(f"{location}/tasks/0/status").json()["id"] == 0
    assert client.get(f"{location}/topics").json() == {name: {"topics": []}}
    assert client.request("PUT", f"{location}/pause").status == 202
    assert worker.status(name).connector.state is RunState.PAUSED
    assert client.request("DELETE", location).status == 204
    assert worker.connectors() == []


def test_a_patch_cannot_change_the_name(client: ServedRest, worker: MemoryWorker) -> None:
    """Connect stores it, and then has a connector of two names."""
    put(client, "beat", CONFIG)
    answer = client.request("PATCH", "/connectors/beat/config", body={"name": "other"})
    assert answer.status == 400
    assert worker.info("beat").config["name"] == "beat"


@pytest.mark.parametrize(
    "many",
    [
        b'{"a":[' + b"0," * 1_000_000,
        b"[" * 1_100_000,
        b'{"name": "x", "config": {%s}}' % b",".join(b'"%d": 1' % n for n in range(10_001)),
    ],
    ids=["list", "nested", "keys"],
)
def test_a_body_of_very_many_items_is_refused_unread(client: ServedRest, many: bytes) -> None:
    """It would need much more memory than its size."""
    answer = client.request("POST", "/connectors", body=many)
    assert (answer.status, answer.json()["error_code"]) == (413, 413)


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("application/json", 200),
        ("text/html,*/*;q=0.8", 200),
        ("application/*;q=0.5", 200),
        ("text/html", 406),
        ("application/json;q=0", 406),
    ],
)
def test_a_client_that_does_not_accept_json_gets_406(
    client: ServedRest, accept: str, status: int
) -> None:
    """Whatever else is accepted."""
    assert client.get("/connectors", headers={"Accept": accept}).status == status


def test_a_path_that_is_no_text_is_refused(client: ServedRest) -> None:
    """Two names must not become one."""
    answer = client.request("PUT", "/connectors/%ff/config", body=CONFIG)
    assert answer.status == 400
    assert answer.json()["error_code"] == 400


def test_a_connector_that_vanishes_is_left_out() -> None:
    """Between the list of names and the question about one."""

    class Vanishing(MemoryWorker):
        def connectors(self) -> list[str]:
            return [*super().connectors(), "gone"]

    vanishing = Vanishing()
    vanishing.create("beat", {**CONFIG, "name": "beat"}, None)
    with ServedRest(vanishing) as other:
        assert list(other.get("/connectors?expand=status").json()) == ["beat"]


def test_a_failure_shows_its_trace_and_restart_ends_it(
    client: ServedRest, worker: MemoryWorker
) -> None:
    """Only what is affected is shown as restarting."""
    put(client, "beat", CONFIG)
    worker.fail("beat", 0, "because")
    status = client.get("/connectors/beat/status").json()
    assert status["connector"]["state"] == "RUNNING"
    assert "trace" not in status["connector"]
    assert (status["tasks"][0]["state"], status["tasks"][0]["trace"]) == ("FAILED", "because")
    answer = client.request("POST", "/connectors/beat/restart?includeTasks=true&onlyFailed=true")
    assert answer.status == 202
    told = answer.json()
    assert told["connector"]["state"] == "RUNNING"
    assert [one["state"] for one in told["tasks"]] == ["RESTARTING"]
    assert client.get("/connectors/beat/tasks/0/status").json()["state"] == "RUNNING"


@pytest.mark.parametrize("body", [b"x" * 2_000, iter([b"x" * 400] * 5)], ids=["length", "chunks"])
def test_a_large_body_is_refused_before_it_is_read(worker: MemoryWorker, body: Any) -> None:
    """Whether or not it says how large it is."""
    options = AppOptions(request_limits=RequestLimits(body_bytes=1_000))
    with ServedRest(worker, options) as client:
        answer = client.request(
            "POST", "/connectors", body=body, headers={"Content-Type": "application/json"}
        )
    assert (answer.status, answer.json()["error_code"]) == (413, 413)


def test_a_refusal_does_not_repeat_megabytes(client: ServedRest) -> None:
    """The sentence about a configuration without a class has the configuration in it."""
    body = {"name": "x", "config": {"note": "x" * 1_000_000}}
    answer = client.request("POST", "/connectors", body=body)
    assert answer.status == 400
    assert answer.json()["message"].startswith("Connector config {")
    assert len(answer.text) < 30_000


def test_a_call_that_takes_too_long_is_answered() -> None:
    """With what the worker does meanwhile; health has threads of its own."""
    release = threading.Event()

    class Stuck(MemoryWorker):
        def info(self, name: str) -> ConnectorInfo:
            release.wait(60)
            return super().info(name)

        def health(self) -> tuple[int, Mapping[str, str]]:
            release.wait(60)
            return super().health()

        def stage(self) -> str:
            return "waiting for a test, which began at noon"

    options = AppOptions(request_limits=RequestLimits(request_seconds=0.1, health_seconds=0.1))
    with ServedRest(Stuck(), options) as client:
        late = client.get("/connectors/beat")
        unwell = client.get("/health")
        release.set()
    assert late.status == 500
    assert late.json()["message"] == (
        "Request timed out. The worker is currently waiting for a test, which began at noon"
    )
    assert (unwell.status, unwell.json()["status"]) == (500, "unhealthy")


def test_a_bug_of_ours_is_no_trace_for_others(caplog: pytest.LogCaptureFixture) -> None:
    """Our log has it."""

    class Buggy(MemoryWorker):
        def connectors(self) -> list[str]:
            raise KeyError("password=secret")

    with ServedRest(Buggy()) as client:
        answer = client.get("/connectors")
    assert answer.status == 500
    assert answer.json() == {"error_code": 500, "message": "KeyError; see the worker's log."}
    assert "password=secret" in caplog.text


def test_topics_can_be_kept_private(worker: MemoryWorker) -> None:
    """403, as the worker's file says."""
    put_path, path = "/connectors/beat/topics/reset", "/connectors/beat/topics"
    with ServedRest(worker, AppOptions(tracking=TopicTrackingPolicy(False))) as client:
        assert client.get(path).json()["message"] == "Topic tracking is disabled."
        assert client.request("PUT", put_path).status == 403
    with ServedRest(worker, AppOptions(tracking=TopicTrackingPolicy(True, False))) as client:
        assert client.get(path).status == 200
        refused = client.request("PUT", put_path)
    assert (refused.status, refused.json()["message"]) == (
        403,
        "Topic tracking reset is disabled.",
    )


def test_requests_between_workers_must_be_signed(client: ServedRest, worker: MemoryWorker) -> None:
    """Over the body's bytes, with the key of their group."""
    put(client, "beat", CONFIG)
    signed = sign(b'[{"a": "b"}]', KEY, "HmacSHA256")
    headers = {
        "Content-Type": "application/json",
        "X-Connect-Authorization": signed.signature or "",
        "X-Connect-Request-Signature-Algorithm": "HmacSHA256",
    }
    path = "/connectors/beat/tasks"
    assert client.request("POST", path, body=signed.body, headers=headers).status == 204
    assert worker.task_configs("beat") == [{"a": "b"}]
    assert client.request("POST", path, body=b"[]", headers=headers).status == 403
    assert client.request("POST", path, body=b"no JSON", headers=headers).status == 403  # not read
    assert client.request("POST", path, body=b"[]").status == 400
    nonsense = sign(b"no JSON", KEY, "HmacSHA256")
    headers["X-Connect-Authorization"] = nonsense.signature or ""
    assert client.request("POST", path, body=nonsense.body, headers=headers).status == 500
    assert client.request("PUT", "/connectors/beat/fence").status == 400
    assert worker.task_configs("beat") == [{"a": "b"}]


def test_nothing_tells_browsers_of_other_origins_unless_configured(client: ServedRest) -> None:
    """No header, and no answer to their question."""
    origin = {"Origin": "https://console.example"}
    assert "Access-Control-Allow-Origin" not in client.get("/connectors", headers=origin).headers
    asked = {**origin, "Access-Control-Request-Method": "GET"}
    answer = client.request("OPTIONS", "/connectors", headers=asked)
    assert (answer.status, answer.headers["Allow"]) == (200, "HEAD,GET,POST,OPTIONS")
    assert "Access-Control-Allow-Methods" not in answer.headers


def test_configured_origins_may_use_the_api(worker: MemoryWorker) -> None:
    """Those alone, with those methods alone."""
    allowed = CorsPolicy.parse("https://*.example, http://other:1", "GET,PUT")
    ours, theirs = {"Origin": "https://console.example"}, {"Origin": "https://evil.test"}
    with ServedRest(worker, AppOptions(cross_origin=allowed)) as client:
        told = client.get("/connectors", headers=ours).headers
        assert told["Access-Control-Allow-Origin"] == "https://console.example"
        assert told["Vary"] == "Origin"
        assert "Access-Control-Allow-Origin" not in client.get("/", headers=theirs).headers
        endless = {"Origin": f"https://{'a' * 2_000}.example"}
        assert "Access-Control-Allow-Origin" not in client.get("/", headers=endless).headers
        asked = {**ours, "Access-Control-Request-Method": "PUT"}
        told = client.request("OPTIONS", "/connectors/x/pause", headers=asked).headers
        assert told["Access-Control-Allow-Methods"] == "GET,PUT"
        asked = {**ours, "Access-Control-Request-Method": "DELETE"}
        told = client.request("OPTIONS", "/connectors/x", headers=asked).headers
        assert "Access-Control-Allow-Origin" not in told
        refused = client.get("/connectors/x", headers=ours)
        assert (refused.status, "Access-Control-Allow-Origin" in refused.headers) == (
            404,
            True,
        )


def test_every_answer_gets_the_configured_headers(worker: MemoryWorker) -> None:
    """Refusals too."""
    rules = parse_header_rules('set X-Frame-Options: DENY, "add Cache-Control: no-cache, no-store"')
    with ServedRest(worker, AppOptions(headers=rules)) as client:
        for path in ("/", "/nothing", "/connectors/%ff"):
            told = client.get(path).headers
            assert told["X-Frame-Options"] == "DENY"
            assert told["Cache-Control"] == "no-cache, no-store"


def test_a_body_with_two_ends_is_no_way_in_for_a_second_request(client: ServedRest) -> None:
    """One for a proxy before us, another for us: what is between them was asked by nobody."""
    head = b"POST /connectors HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
    smuggled = b"0\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.create_connection(("127.0.0.1", client.port), PATIENCE_SECONDS) as connection:
        connection.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n" + smuggled)
        answers = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    assert answers.startswith(b"HTTP/1.1 400 ")
    assert answers.count(b"HTTP/1.1 ") == 1


def test_admin_paths_can_be_left_out_and_served_alone(worker: MemoryWorker) -> None:
    """`admin.listeners` of a worker's file."""
    with ServedRest(worker, AppOptions(has_admin=False)) as client:
        assert client.get("/admin/loggers").status == 404
        assert client.get("/connectors").status == 200
    with ServedRest(worker, AppOptions(has_connectors=False)) as client:
        assert client.get("/admin/loggers").status == 200
        assert client.get("/connectors").status == 404
