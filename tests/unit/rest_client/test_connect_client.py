# SPDX-License-Identifier: Apache-2.0
"""Connect's API as calls: what Java's worker answers is understood, anything else is a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sparkmirror.errors import ConfigError, WorkerError
from sparkmirror.rest_client.connect_client import ConnectClient
from sparkmirror.rest_client.http_client import WorkerEndpoint
from sparkmirror.rest_client.responses import ConfigProblem, StateInfo
from support.manual_clock import ManualClock
from support.peers.stub_worker import StubResponse, StubWorker, recordings

CLASS = "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector"
BUSY = StubResponse(
    409, {"error_code": 409, "message": "Cannot complete request because of a rebalance"}
)
READING = StubResponse(
    500,
    {"error_code": 500, "message": "Request cannot be completed because a rebalance is expected"},
)


@pytest.fixture
def server() -> Iterator[StubWorker]:
    """Answers what the test prepares."""
    with StubWorker() as started:
        yield started


@pytest.fixture
def worker(server: StubWorker, monkeypatch: pytest.MonkeyPatch) -> ConnectClient:
    """Ours; its pauses take no time."""
    clock = ManualClock(monkeypatch, "sparkmirror.rest_client.connect_client")
    monkeypatch.setattr(clock, "sleep", clock.advance)
    return ConnectClient(WorkerEndpoint(server.url), busy_seconds=0.5)


def test_connectors_are_listed_with_their_states(server: StubWorker, worker: ConnectClient) -> None:
    """As Java's worker tells them."""
    server.replay("GET /connectors", "GET /connectors?expand=status&expand=info")
    listed = worker.list_connectors()
    assert list(listed) == ["beat", "broken", "resting"]
    found = {name: one.status and sorted(one.status.states) for name, one in listed.items()}
    assert found == {"beat": ["RUNNING"], "broken": ["FAILED"], "resting": ["PAUSED"]}
    beat = listed["beat"]
    assert beat.status is not None
    assert beat.status.tasks == {0: StateInfo("RUNNING", "HOST:PORT", version="4.3.1")}
    assert beat.info.config["connector.class"] == CLASS
    assert (beat.info.type, beat.info.tasks) == ("source", (0,))
    broken = listed["broken"].status
    assert broken is not None
    assert broken.connector.trace.startswith("org.apache.kafka.common.KafkaException")


def test_a_connector_without_a_state_is_listed_too(
    server: StubWorker, worker: ConnectClient
) -> None:
    """Connect leaves it out of its list until a worker has taken it up."""
    server.on("GET", "/connectors", StubResponse(200, ["beat", "new", "gone"]))
    server.on("GET", "/connectors?expand=status&expand=info", StubResponse(200, {}))
    server.replay("GET /connectors/beat")
    server.on("GET", "/connectors/new", StubResponse(404, {"message": "Connector new not found"}))
    server.on("GET", "/connectors/gone", StubResponse(404, {"message": "Connector gone not found"}))
    listed = worker.list_connectors()
    assert [(name, one.status) for name, one in listed.items()] == [("beat", None)]


def test_the_parts_of_a_connector_are_read(server: StubWorker, worker: ConnectClient) -> None:
    """Its configuration, topics and offsets."""
    path = "GET /connectors/beat"
    server.replay(path, f"{path}/config", f"{path}/topics", f"{path}/offsets", f"{path}/status")
    assert worker.config("beat") == worker.info("beat").config
    assert worker.topics("beat") == ["heartbeats"]
    assert isinstance(worker.offsets("beat"), list)
    status = worker.status("beat")
    assert status is not None
    assert status.states == {"RUNNING"}


def test_a_connector_that_is_not_there(server: StubWorker, worker: ConnectClient) -> None:
    """None where that is an answer, a sentence with the name where it is not."""
    path = "/connectors/nobody"
    server.replay(f"GET {path}", f"GET {path}/config", f"GET {path}/status", f"DELETE {path}")
    server.replay(f"PUT {path}/pause", f"PUT {path}/resume", f"PUT {path}/stop")
    restart = f"{path}/restart?includeTasks=true&onlyFailed=true"
    server.replay(f"POST {restart}")
    assert worker.config("nobody") is None
    assert worker.status("nobody") is None
    assert worker.delete("nobody") is False
    calls: list[Callable[[str], object]] = [
        worker.info,
        worker.pause,
        worker.resume,
        worker.stop,
        lambda name: worker.restart(name, include_tasks=True, only_failed=True),
    ]
    for call in calls:
        with pytest.raises(WorkerError) as caught:
            call("nobody")
        assert str(caught.value).startswith(f"connector 'nobody' is not known to {server.url}: ")


def test_plugins_their_keys_and_loggers(server: StubWorker, worker: ConnectClient) -> None:
    """What a worker has."""
    server.replay("GET /connector-plugins", f"GET /connector-plugins/{CLASS}/config")
    server.replay("GET /admin/loggers", "GET /admin/loggers/root", "GET /admin/loggers/nobody")
    assert (CLASS, "source") in [(one.class_name, one.type) for one in worker.plugins()]
    keys = {one.name: one for one in worker.plugin_config(CLASS)}
    assert (keys["tasks.max"].type, keys["tasks.max"].default) == ("INT", "1")
    assert keys["name"].required
    assert "root" in [one.name for one in worker.loggers()]
    assert worker.logger("root").level
    with pytest.raises(WorkerError, match="logger 'nobody' is not known to"):
        worker.logger("nobody")


def test_a_configuration_is_validated(server: StubWorker, worker: ConnectClient) -> None:
    """Key by key."""
    path = f"PUT /connector-plugins/{CLASS}/config/validate"
    server.replay(path)
    assert worker.validate({"connector.class": CLASS, "name": "new"}) == []
    server.on(*path.split(" "), StubResponse(200, recorded_objections()))
    objections = worker.validate({"connector.class": CLASS, "name": "new", "tasks.max": "none"})
    assert {one.key for one in objections} == {"tasks.max"}
    assert "Not a number" in objections[0].message


def recorded_objections() -> Any:
    """The second of two recorded answers with the same address."""
    path = f"/connector-plugins/{CLASS}/config/validate"
    return [one for one in recordings() if one["path"] == path][1]["answer"]


def test_objections_name_their_key(server: StubWorker, worker: ConnectClient) -> None:
    """As many as there are."""
    configs = [
        {"definition": None, "value": {"name": "a", "errors": ["too small", "too old"]}},
        {"definition": {}, "value": None},
        {"definition": {}, "value": {"name": "b", "errors": []}},
    ]
    server.on(
        "PUT", "/connector-plugins/C/config/validate", StubResponse(200, {"configs": configs})
    )
    found = worker.validate({"connector.class": "C"})
    assert found == [ConfigProblem("a", "too small"), ConfigProblem("a", "too old")]


def test_connectors_are_created_changed_and_deleted(
    server: StubWorker, worker: ConnectClient
) -> None:
    """Whether it was new is Connect's word."""
    path = "/connectors/new"
    server.replay(f"PUT {path}/config 201", f"PUT {path}/config 200", f"DELETE {path}")
    assert worker.put_config("new", {"a": "b"}) is True
    assert worker.put_config("new", {"a": "c"}) is False
    assert worker.delete("new") is True
    assert [one.body for one in server.asked] == [{"a": "b"}, {"a": "c"}, None]


def test_a_refused_configuration_keeps_connects_words(
    server: StubWorker, worker: ConnectClient
) -> None:
    """They name the key."""
    server.replay("PUT /connectors/new/config 400")
    with pytest.raises(WorkerError) as caught:
        worker.put_config("new", {})
    words = str(caught.value)
    assert words.startswith(
        f"connector 'new' on {server.url}: failed with status 400: Connector config"
    )
    assert "tasks.max" in words


def test_one_that_exists_is_not_tried_again(server: StubWorker, worker: ConnectClient) -> None:
    """409 is no rebalance here."""
    server.replay("POST /connectors 409")
    with pytest.raises(WorkerError, match="already exists"):
        worker.create("late", {}, "STOPPED")
    assert server.asked[0].body == {"name": "late", "config": {}, "initial_state": "STOPPED"}
    assert len(server.asked) == 1


def test_a_rebalance_is_waited_for(server: StubWorker, worker: ConnectClient) -> None:
    """Both ways in which Connect tells it."""
    server.on("PUT", "/connectors/m/pause", BUSY, BUSY, StubResponse(202))
    server.on("GET", "/connectors", READING, StubResponse(200, ["m"]))
    worker.pause("m")
    assert worker.connector_names() == ["m"]
    assert len(server.asked) == 5


def test_a_rebalance_without_an_end_is_reported(server: StubWorker, worker: ConnectClient) -> None:
    """After some patience."""
    server.on("PUT", "/connectors/m/pause", BUSY)
    with pytest.raises(WorkerError, match=r"connector 'm': the workers .* are still rebalancing"):
        worker.pause("m")
    assert len(server.asked) > 2


def test_a_failure_while_changing_is_not_repeated(
    server: StubWorker, worker: ConnectClient
) -> None:
    """Nobody knows what has been done."""
    server.on("PUT", "/connectors/m/pause", READING)
    with pytest.raises(WorkerError, match="failed with status 500"):
        worker.pause("m")
    assert len(server.asked) == 1


def test_users_must_authenticate(server: StubWorker, worker: ConnectClient) -> None:
    """The sentence says how."""
    server.on("GET", "/connectors", StubResponse(401, b"Unauthorized"))
    with pytest.raises(WorkerError, match="set --user NAME, and the password in SPARKMIRROR_PASS"):
        worker.connector_names()


def test_another_kind_of_server(server: StubWorker, worker: ConnectClient) -> None:
    """A 404 of its own."""
    server.on("GET", "/connectors", StubResponse(404, b"<html>nothing here</html>"))
    with pytest.raises(WorkerError, match="--url is the address of a Connect worker"):
        worker.connector_names()


def test_the_words_of_a_server_in_between(server: StubWorker, worker: ConnectClient) -> None:
    """A gateway, or what is below Connect itself, answers with a page."""
    page = b"<html><title>Error 400</title><h1>Ambiguous\nURI</h1></html>"
    server.on("PUT", "/connectors/m/pause", StubResponse(400, page), StubResponse(502, b""))
    with pytest.raises(WorkerError, match="failed with status 400: Error 400 Ambiguous URI"):
        worker.pause("m")
    with pytest.raises(WorkerError, match="failed with status 502: no message"):
        worker.pause("m")


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"",
        {},
        [1],
        "text",
        None,
        ["a", None],
    ],
)
def test_an_answer_of_another_shape(server: StubWorker, worker: ConnectClient, body: Any) -> None:
    """Never a traceback."""
    server.on("GET", "/connectors", StubResponse(200, body))
    with pytest.raises(WorkerError, match="returned an unexpected response"):
        worker.connector_names()


@pytest.mark.parametrize(
    "status",
    [
        {"name": "m"},
        {"name": "m", "connector": {}},
        {"name": "m", "connector": {"state": 7}},
        {"name": "m", "connector": {"state": "RUNNING"}, "tasks": {}},
        {"name": "m", "connector": {"state": "RUNNING"}, "tasks": [{"state": "RUNNING"}]},
        {"name": "m", "connector": {"state": "RUNNING"}, "tasks": [{"id": True, "state": "R"}]},
        {"name": "m", "connector": {"state": "RUNNING", "trace": []}},
    ],
)
def test_a_status_of_another_shape(server: StubWorker, worker: ConnectClient, status: Any) -> None:
    """Each part is looked at."""
    server.on("GET", "/connectors/m/status", StubResponse(200, status))
    with pytest.raises(WorkerError, match="returned an unexpected response"):
        worker.status("m")


def test_names_are_one_part_of_a_path(server: StubWorker, worker: ConnectClient) -> None:
    """Whatever characters they have."""
    server.on("PUT", "/connectors/a%2Fb%3F%25%20%C3%BC/pause", StubResponse(202))
    worker.pause("a/b?% ü")


def test_a_name_that_java_does_not_take(server: StubWorker, worker: ConnectClient) -> None:
    """Its server refuses such an address before Connect sees it, and says nothing."""
    server.on("PUT", "/connectors/a%2Fb/config", StubResponse(400))
    with pytest.raises(WorkerError, match="reject names with a slash, backslash or percent sign"):
        worker.put_config("a/b", {})


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_names_that_lead_elsewhere_are_refused(
    server: StubWorker, worker: ConnectClient, name: str
) -> None:
    """`DELETE /connectors/..` is asked of nobody."""
    with pytest.raises(ConfigError, match="cannot be the name"):
        worker.delete(name)
    assert server.asked == []
