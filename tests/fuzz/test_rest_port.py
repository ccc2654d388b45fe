# SPDX-License-Identifier: Apache-2.0
"""Whatever arrives at the REST port is answered or hung up on, and never the server's own fault."""

from __future__ import annotations

import json
import logging
import socket
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.clients.served_rest import ServedRest
from support.fuzzing import HUSH, damaged, fuzzed, mutated
from support.peers.memory_worker import MemoryWorker

HEARTBEAT = {
    "name": "beat",
    "connector.class": "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector",
    "source.cluster.alias": "a",
    "target.cluster.alias": "b",
    "source.cluster.bootstrap.servers": "localhost:1",
    "target.cluster.bootstrap.servers": "localhost:2",
    "target.cluster.ssl.truststore.password": HUSH,
}
CONFIG = json.dumps(HEARTBEAT).encode()
CREATE = json.dumps({"name": "beat", "config": HEARTBEAT, "initial_state": "PAUSED"}).encode()
OFFSETS = b'{"offsets":[{"partition":{"sourceClusterAlias":"a"},"offset":{"offset":0}}]}'
DONE = b"HTTP/1.1 "
SECONDS = 60.0
HASTE_SECONDS = 0.1


def request(method: str, target: str, body: bytes = b"", *headers: str) -> bytes:
    """As a client sends it."""
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
    lines += [*headers, f"Content-Length: {len(body)}", "Connection: close"]
    return "\r\n".join([*lines, "", ""]).encode() + body


CHUNKS = b'5\r\n{"a":\r\n2\r\n1}\r\n0\r\n\r\n'
REQUESTS = [
    request("GET", "/connectors?expand=status&expand=info", b"", "Accept: application/json;q=0.5"),
    request("POST", "/connectors?forward=false", CREATE, "Authorization: Basic bWU6cGFzcw=="),
    request("PUT", "/connectors/beat/config", CONFIG, "Origin: https://console.example"),
    request("PATCH", "/connectors/beat/offsets", OFFSETS),
    request("POST", "/connectors/beat/restart?includeTasks=true&onlyFailed=true"),
    request("GET", "/connectors/b%C3%A9at%2F1/tasks/0/status"),
    request("DELETE", "/connectors/beat/offsets"),
    request("GET", "/connector-plugins/MirrorSourceConnector/config?version=4.3.1"),
    request("PUT", "/admin/loggers/org.apache?scope=cluster", b'{"level":"debug"}'),
    request("PUT", "/connector-plugins/MirrorHeartbeatConnector/config/validate", CONFIG),
    request(
        "POST",
        "/connectors/beat/tasks",
        b'[{"a":"b"}]',
        "X-Connect-Authorization: bWU6cGFzcw==",
        "X-Connect-Request-Signature-Algorithm: HmacSHA256",
    ),
    request("POST", "/connectors").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    + CHUNKS,
]
BODIES = {
    "POST /connectors": CREATE,
    "PUT /connectors/beat/config": CONFIG,
    "PATCH /connectors/beat/config": CONFIG,
    "PATCH /connectors/beat/offsets": OFFSETS,
    "PUT /connector-plugins/MirrorHeartbeatConnector/config/validate": CONFIG,
    "PUT /admin/loggers/root": b'{"level":"INFO"}',
}


@pytest.fixture(scope="module")
def client() -> Iterator[ServedRest]:
    """One for all: nothing that is sent may hurt it."""
    with ServedRest(MemoryWorker()) as opened:
        yield opened


def answer_to(client: ServedRest, said: bytes, patience: float = SECONDS) -> bytes:
    """All that comes back until the end, which is hurried after a while: more may be expected."""
    heard = b""
    with socket.create_connection(("127.0.0.1", client.port), SECONDS) as stranger:
        stranger.settimeout(patience)
        try:
            stranger.sendall(said)
            while piece := _piece(stranger):
                heard += piece
        except OSError:
            pass  # it hung up before all was sent
    return heard


def _piece(stranger: socket.socket) -> bytes:
    try:
        return stranger.recv(65_536)
    except TimeoutError:
        assert stranger.gettimeout() != SECONDS, "no answer and no end"
        stranger.settimeout(SECONDS)
        stranger.shutdown(socket.SHUT_WR)
        return stranger.recv(65_536)


@pytest.mark.parametrize("said", REQUESTS, ids=lambda said: said.partition(b" HTTP")[0].decode())
def test_good_requests_are_understood(client: ServedRest, said: bytes) -> None:
    """Or damage would be done to what nobody reads anyway."""
    assert answer_to(client, said).startswith(DONE)


@pytest.mark.parametrize("pause", [0, 0.02])
def test_a_body_that_is_none_is_refused_once(
    client: ServedRest, caplog: pytest.LogCaptureFixture, pause: float
) -> None:
    """By the server, when the application may have started to read it, or to answer."""
    head, body = REQUESTS[-1][: -len(CHUNKS)], b'5\r\n{"a":\r\x0b2\r\n1}\r\n0\r\n\r\n'
    for method in (b"POST", b"GET", b"PUT", b"ODD"):
        with socket.create_connection(("127.0.0.1", client.port), SECONDS) as stranger:
            stranger.sendall(head.replace(b"POST", method))
            time.sleep(pause)
            stranger.sendall(body)
            assert stranger.recv(65_536).startswith(DONE)
        heard = answer_to(client, head.replace(b"POST", method) + body)
        assert heard.startswith(DONE)
        assert heard.count(b"HTTP/1.1") == 1
    assert not faults(caplog)


@given(data=st.data())
@fuzzed()
def test_any_request_is_answered_or_hung_up_on(
    client: ServedRest, caplog: pytest.LogCaptureFixture, data: st.DataObject
) -> None:
    """Damaged anywhere: its first line, its headers, its body, the lengths of both."""
    caplog.clear()
    heard = answer_to(client, data.draw(mutated(REQUESTS)), HASTE_SECONDS)
    assert not heard or heard.startswith(DONE)
    assert not faults(caplog)


@pytest.mark.parametrize("what", BODIES)
@given(data=st.data())
@fuzzed(0.5)
def test_any_body_is_taken_or_refused(
    client: ServedRest, what: str, caplog: pytest.LogCaptureFixture, data: st.DataObject
) -> None:
    """With JSON that says why, whatever its values are."""
    caplog.clear()
    method, _, target = what.partition(" ")
    heard = answer_to(client, request(method, target, data.draw(damaged([BODIES[what]]))))
    head, _, body = heard.partition(b"\r\n\r\n")
    assert head.startswith(DONE)
    assert not body or "error_code" not in (found := json.loads(body)) or found["message"]
    assert not faults(caplog)


def faults(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What went wrong in the server; the status 500 alone is Connect's word for a bad body, too."""
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]
