# SPDX-License-Identifier: Apache-2.0
"""A request that belongs elsewhere is repeated there: two hops, then 409."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import anyio
import pytest
from fastapi import Request
from fastapi.responses import Response
from starlette.types import Message

from sparkmirror.connect.api import ApiError, ConnectorInfo, ForwardTo
from sparkmirror.connect.forwarding import forwarded_query
from sparkmirror.rest.app import AppOptions
from sparkmirror.rest.dispatch import Dispatcher, RequestLimits
from sparkmirror.security import http_request
from support.clients.served_rest import ServedRest
from support.peers.memory_worker import MemoryWorker

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
    """A function that serves a worker."""
    with ExitStack() as stack:
        yield lambda *worker: stack.enter_context(ServedRest(*worker))


def test_the_leader_answers_through_a_follower(served: Any) -> None:
    """Status, headers and body are the leader's; odd names and queries arrive whole."""
    leader = MemoryWorker()
    follower = served(Follower(served(leader).url))
    body = {"name": "a/b%", "config": CONFIG}
    answer = follower.request("POST", "/connectors", body)
    assert (answer.status, answer.json()["name"]) == (201, "a/b%")
    assert leader.connectors() == ["a/b%"]
    assert answer.headers["Location"] == f"{follower.url}connectors/a%2Fb%25"
    assert follower.request("POST", "/connectors", body).status == 409
    assert follower.get("/connectors/a%2Fb%25").json()["name"] == "a/b%"
    path = "/connectors/a%2Fb%25/restart?includeTasks=true&onlyFailed=false"
    answer = follower.request("POST", path)
    assert (answer.status, answer.json()["tasks"][0]["state"]) == (202, "RESTARTING")
    assert "restart include_tasks=True only_failed=False" in leader.calls
    assert follower.request("POST", "/connectors/a%2Fb%25/restart").status == 204
    answer = follower.get("/connectors/nobody")
    assert (answer.status, answer.json()["message"]) == (404, "Connector nobody not found")


def test_two_hops_are_allowed_and_a_third_is_not(served: Any) -> None:
    """Whoever is asked last and does not know either says 409."""
    leader = MemoryWorker()
    second = served(Follower(served(leader).url))
    first = served(Follower(second.url))
    body = {"name": "beat", "config": CONFIG}
    assert first.request("POST", "/connectors", body).status == 201
    lost = served(Follower(first.url))
    answer = lost.request("POST", "/connectors", {**body, "name": "other"})
    assert (answer.status, answer.json()["error_code"]) == (409, 409)
    assert "conflicting operation" in answer.json()["message"]
    assert leader.connectors() == ["beat"]


def test_a_leader_that_is_gone_is_an_error_of_the_server(served: Any) -> None:
    """In Connect's words."""
    options = AppOptions(request_limits=RequestLimits(leader_wait_seconds=0.1))
    with socket.socket() as gone:  # ours, and nobody listens on it
        gone.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{gone.getsockname()[1]}/"
        answer = served(Follower(url), options).get("/connectors/beat")
    assert answer.status == 500
    assert answer.json()["message"].startswith("IO Error trying to forward REST request: ")


def test_a_request_to_a_suspended_former_leader_ends_early(
    served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system takes its connections, and nobody answers them."""
    monkeypatch.setattr(http_request, "_CHECK_SECONDS", 0.05)
    still = [True, True, False]

    class Deposed(Follower):
        def create(self, *_: Any) -> ConnectorInfo:
            raise ForwardTo(self.url, lambda: still.pop(0))

    with socket.create_server(("127.0.0.1", 0)) as suspended:
        follower = served(Deposed(f"http://127.0.0.1:{suspended.getsockname()[1]}/"))
        answer = follower.request("POST", "/connectors", {"name": "beat", "config": CONFIG})
    assert answer.status == 409
    assert not still


@pytest.mark.parametrize(("method", "is_done"), [("PUT", False), ("GET", True)])
def test_a_request_of_a_disconnected_client_changes_nothing(method: str, is_done: bool) -> None:
    """A worker that was suspended finds requests of people who have asked elsewhere since."""
    calls: list[object] = []

    async def hung_up() -> Message:
        return {"type": "http.disconnect"}

    def call(api: object) -> Response:
        calls.append(api)
        return Response()

    async def ask() -> None:
        scope = {"type": "http", "method": method, "path": "/", "headers": [], "server": ("h", 1)}
        await Dispatcher(MemoryWorker(), RequestLimits()).run(Request(scope, hung_up), call)

    async def read() -> None:
        scope = {"type": "http", "method": method, "path": "/", "headers": [], "server": ("h", 1)}
        await Dispatcher(MemoryWorker(), RequestLimits()).read_body(Request(scope, hung_up))

    with pytest.raises(ApiError):
        anyio.run(read)
    if is_done:
        anyio.run(ask)
    else:
        with pytest.raises(ApiError) as refused:
            anyio.run(ask)
        assert refused.value.status == 409
    assert bool(calls) == is_done


def test_the_query_shows_how_far_a_request_has_come() -> None:
    """Other parameters stay."""
    assert forwarded_query("") == "forward=true"
    assert forwarded_query("forward=true") == "forward=false"
    assert forwarded_query("a=b%2F&forward=TRUE&c=") == "a=b%2F&c=&forward=false"
    for query in ("forward=false", "forward=", "forward=yes"):
        with pytest.raises(ApiError) as refused:
            forwarded_query(query)
        assert refused.value.status == 409


def test_a_request_waits_for_the_successor_of_a_dead_leader(served: Any) -> None:
    """Nobody listens where the leader was, so nothing was done, and the next one may be asked."""
    leader = served(MemoryWorker())

    class Waiting(Follower):
        asked = 0

        def create(self, *_: Any) -> ConnectorInfo:
            self.asked += 1
            raise ForwardTo("http://127.0.0.1:1/" if self.asked < 3 else leader.url)

    follower = Waiting()
    answer = served(follower).request("POST", "/connectors", {"name": "x", "config": CONFIG})
    assert (answer.status, follower.asked) == (201, 3)
