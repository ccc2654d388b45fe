# SPDX-License-Identifier: Apache-2.0
"""A request that belongs elsewhere is repeated there: two hops, then 409."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from sparkmirror.connect.api import ApiError, ConnectorInfo, ForwardTo
from sparkmirror.rest.forwarding import next_query
from sparkmirror.rest.server import RestServer
from support.memory_worker import MemoryWorker

CONFIG = {
    "connector.class": "MirrorHeartbeatConnector",
    "source.cluster.alias": "a",
    "target.cluster.alias": "b",
    "target.cluster.bootstrap.servers": "kafka:9092",
}


class Follower(MemoryWorker):
    """Sends everybody elsewhere."""

    def __init__(self, url: str = "") -> None:
        super().__init__()
        self.url = url

    def create(self, *_: Any) -> ConnectorInfo:
        """Not here."""
        raise ForwardTo(self.url)

    def info(self, *_: Any) -> ConnectorInfo:
        """Nor this."""
        raise ForwardTo(self.url)

    def restart(self, *_: Any, **_more: Any) -> None:
        """Nor this."""
        raise ForwardTo(self.url)


@pytest.fixture
def served() -> Iterator[Any]:
    """A function that serves a worker and tells its address."""
    with ExitStack() as stack:

        def serve(worker: MemoryWorker) -> str:
            server = RestServer(worker.file.settings)
            server.start(worker)
            stack.callback(server.stop)
            return f"http://127.0.0.1:{server.ports[0]}/"

        yield serve


def ask(url: str, method: str, path: str, body: Any = None) -> tuple[int, dict[str, str], Any]:
    """One request."""
    connection = http.client.HTTPConnection(url.split("/")[2], timeout=30)
    headers = {"Content-Type": "application/json", "Authorization": "Basic abc"}
    data = None if body is None else json.dumps(body)
    connection.request(method, path, data, headers)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, dict(answer.headers), json.loads(text) if text else None


def test_the_leader_answers_through_a_follower(served: Any) -> None:
    """Status, headers and body are the leader's; odd names and queries arrive whole."""
    leader = MemoryWorker()
    follower = served(Follower(served(leader)))
    body = {"name": "a/b%", "config": CONFIG}
    status, headers, told = ask(follower, "POST", "/connectors", body)
    assert (status, told["name"], leader.connectors()) == (201, "a/b%", ["a/b%"])
    assert headers["location"] == "/connectors/a%2Fb%25"
    assert ask(follower, "POST", "/connectors", body)[0] == 409
    assert ask(follower, "GET", "/connectors/a%2Fb%25")[2]["name"] == "a/b%"
    path = "/connectors/a%2Fb%25/restart?includeTasks=true&onlyFailed=false"
    status, _, told = ask(follower, "POST", path)
    assert (status, told["tasks"][0]["state"]) == (202, "RESTARTING")
    assert "restart include_tasks=True only_failed=False" in leader.calls
    assert ask(follower, "POST", "/connectors/a%2Fb%25/restart")[0] == 204
    status, _, told = ask(follower, "GET", "/connectors/nobody")
    assert (status, told["message"]) == (404, "Connector nobody not found")


def test_two_hops_are_allowed_and_a_third_is_not(served: Any) -> None:
    """Whoever is asked last and does not know either says 409."""
    leader = MemoryWorker()
    second = Follower(served(leader))
    first = served(Follower(served(second)))
    body = {"name": "beat", "config": CONFIG}
    assert ask(first, "POST", "/connectors", body)[0] == 201
    lost = served(Follower(first))
    status, _, told = ask(lost, "POST", "/connectors", body)
    assert (status, told["error_code"]) == (409, 409)
    assert "conflicting operation" in told["message"]


def test_a_leader_that_is_gone_is_an_error_of_the_server(served: Any) -> None:
    """In Connect's words."""
    server = RestServer(MemoryWorker().file.settings)
    gone = f"http://127.0.0.1:{server.ports[0]}/"
    server.stop()
    status, _, told = ask(served(Follower(gone)), "GET", "/connectors/beat")
    assert status == 500
    assert told["message"].startswith("IO Error trying to forward REST request: ")


def test_the_query_says_how_far_a_request_has_come() -> None:
    """Other parameters stay."""
    assert next_query("") == "forward=true"
    assert next_query("forward=true") == "forward=false"
    assert next_query("a=b%2F&forward=TRUE&c=") == "a=b%2F&c=&forward=false"
    for query in ("forward=false", "forward=", "forward=yes"):
        with pytest.raises(ApiError) as refused:
            next_query(query)
        assert refused.value.status == 409
