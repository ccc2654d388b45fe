# SPDX-License-Identifier: Apache-2.0
"""A browser that reaches us serves the pages of strangers, too; programs notice none of it."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest

from sparkmirror.config.worker_settings import RestListener, RestSettings
from sparkmirror.connect.api import ForwardTo
from sparkmirror.rest.csrf import AllowedHosts
from support.clients.served_rest import ServedRest
from support.peers.memory_worker import MemoryWorker
from support.waiting import PATIENCE_SECONDS

BEAT = {
    "connector.class": "MirrorHeartbeatConnector",
    "source.cluster.alias": "a",
    "target.cluster.alias": "b",
    "target.cluster.bootstrap.servers": "kafka:9092",
}
OURS = ["localhost", "LOCALHOST:1", "localhost.:8083", "127.0.0.1", "127.8.8.8:1", "[::1]:8083"]
THEIRS = ["evil.test", "evil.test:8083", "localhost.evil.test", "127.0.0.1.evil.test", "10.0.0.1"]
ODD = ["[", "a]b", "127.1", "0"]
STRANGERS = ["http://evil.test", "null", "", "http://localhost:1"]
CHANGES = [
    ("POST", "/connectors/beat/restart"),
    ("POST", "/connectors"),
    ("PUT", "/connectors/beat/pause"),
    ("DELETE", "/connectors/beat"),
    ("PUT", "/admin/loggers/root"),
]


def test_loopback_names_are_accepted_as_host(client: ServedRest) -> None:
    """With any port: somebody may have redirected it."""
    for host in OURS:
        assert client.get("/connectors", headers={"Host": host}).status == 200, host


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST"])
def test_a_name_that_leads_here_is_not_ours(method: str, client: ServedRest) -> None:
    """A page of it would be handed our answers; paths that do not exist are no exception."""
    for host in (*THEIRS, *ODD):
        for path in ("/connectors", "/admin/loggers", "/nothing"):
            answer = client.request(method, path, headers={"Host": host})
            assert answer.status == 403, host
            assert method == "HEAD" or "rest.advertised.host.name" in answer.json()["message"]


def test_a_request_without_a_host_is_answered(client: ServedRest) -> None:
    """HTTP/1.0 has none, and no browser speaks it."""
    with socket.create_connection(("127.0.0.1", client.port), PATIENCE_SECONDS) as connection:
        connection.sendall(b"GET /connectors HTTP/1.0\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")


def test_names_of_the_file_are_ours() -> None:
    """For a proxy on this machine that hands on by which name it was asked."""
    worker = MemoryWorker("rest.advertised.host.name=Mirror.example")
    with ServedRest(worker) as client:
        assert client.get("/", headers={"Host": "mirror.example"}).status == 200
        assert client.get("/", headers={"Host": "evil.test"}).status == 403


def test_non_loopback_listeners_accept_any_host_name() -> None:
    """Also where one of this machine has the same port."""
    rest = RestSettings((RestListener("http", "127.0.0.1", 1), RestListener("http", "10.0.0.1", 1)))
    own = AllowedHosts.from_settings(rest, [("127.0.0.1", 1), ("10.0.0.1", 1), ("::", 2)])
    assert not own.allows("worker-1:1", ("127.0.0.1", 1))
    assert own.allows("worker-1:1", ("10.0.0.1", 1))
    assert own.allows("worker-1:2", ("::ffff:127.0.0.1", 2))


@pytest.mark.parametrize(("method", "path"), CHANGES)
def test_a_page_of_another_origin_changes_nothing(
    method: str, path: str, worker: MemoryWorker, client: ServedRest
) -> None:
    """Browsers send some of these without a question; what only looks is the browser's affair."""
    client.request("POST", "/connectors", {"name": "beat", "config": BEAT})
    before = worker.status("beat")
    for origin in STRANGERS:
        answer = client.request(method, path, {"level": "DEBUG"}, {"Origin": origin})
        assert (answer.status, answer.headers["Connection"]) == (403, "close")
        assert "access.control.allow.origin" in answer.json()["message"]
        assert client.get("/connectors", headers={"Origin": origin}).status == 200
    assert worker.status("beat") == before


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_page_of_ours_may_change_things(scheme: str, client: ServedRest) -> None:
    """A proxy may terminate TLS."""
    client.request("POST", "/connectors", {"name": "beat", "config": BEAT})
    origin = {"Host": "localhost:8443", "Origin": f"{scheme}://localhost:8443"}
    assert client.request("PUT", "/connectors/beat/pause", headers=origin).status == 202


def test_a_page_of_a_listed_origin_may_change_things() -> None:
    """And no other."""
    worker = MemoryWorker("access.control.allow.origin=https://*.example")
    with ServedRest(worker) as client:
        client.request("POST", "/connectors", {"name": "beat", "config": BEAT})
        for origin, status in (("https://console.example", 202), ("https://evil.test", 403)):
            asked = {"Origin": origin}
            assert client.request("PUT", "/connectors/beat/pause", headers=asked).status == status


def test_another_worker_is_queried_by_its_advertised_name() -> None:
    """What a listed page asks for is handed on without its origin, which is none of the other's."""

    class Follower(MemoryWorker):
        url = ""

        def pause(self, *_: object) -> None:
            raise ForwardTo(self.url)

    leader = MemoryWorker("rest.advertised.host.name=localhost")
    follower = Follower("access.control.allow.origin=*")
    with ExitStack() as stack:
        leading = stack.enter_context(ServedRest(leader))
        following = stack.enter_context(ServedRest(follower))
        leading.request("POST", "/connectors", {"name": "beat", "config": BEAT})
        follower.url = f"http://localhost:{leading.port}/"
        asked = {"Origin": "https://console.example"}
        assert following.request("PUT", "/connectors/beat/pause", headers=asked).status == 202
