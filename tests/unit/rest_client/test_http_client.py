# SPDX-License-Identifier: Apache-2.0
"""One request and its answer: bounded, and sent to nobody else."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from threading import Thread

import pytest

from sparkmirror.errors import ConfigError, WorkerError, WorkerUnreachableError
from sparkmirror.model import Secret
from sparkmirror.rest_client.http_client import (
    HttpClient,
    HttpResponse,
    WorkerEndpoint,
    parse_worker_url,
)
from support.peers.stub_worker import StubResponse, StubWorker

SHORT_SECONDS = 0.5


@pytest.fixture
def worker() -> Iterator[StubWorker]:
    """Answers what the test prepares."""
    with StubWorker() as started:
        yield started


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("http://localhost:8083", "http://localhost:8083"),
        ("http://localhost:8083/", "http://localhost:8083"),
        ("https://[::1]:8083/connect/", "https://[::1]:8083/connect"),
    ],
)
def test_an_address_is_brought_into_one_form(text: str, wanted: str) -> None:
    """So that paths can be added."""
    assert parse_worker_url(text) == wanted


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("localhost:8083", "write for example http://host:8083"),
        ("localhost", "write for example http://host:8083"),
        ("", "write for example http://host:8083"),
        ("file:///etc/passwd", "write for example http://host:8083"),
        ("http://", "write for example http://host:8083"),
        ("http://host:0", "write for example http://host:8083"),
        ("http://host:99999", "Invalid --url"),
        ("http://host:port", "Invalid --url"),
        ("http://[::1", "Invalid --url"),
        ("http://ho\nst", "write for example http://host:8083"),
        ("http://host/a b", "remove the query"),
        ("http://host?x=1", "remove the query"),
        ("http://me:secret@host", "SPARKMIRROR_PASSWORD"),
    ],
)
def test_other_texts_are_refused(text: str, words: str) -> None:
    """With what to write; a password is not repeated."""
    with pytest.raises(ConfigError) as caught:
        parse_worker_url(text)
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)


def test_any_status_is_an_answer(worker: StubWorker) -> None:
    """Judging it is not the exchange's business."""
    worker.on("GET", "/x", StubResponse(404, {"message": "no"}))
    assert HttpClient(WorkerEndpoint(worker.url)).request("GET", "/x") == HttpResponse(
        404, b'{"message": "no"}'
    )


def test_a_path_before_the_api_is_kept(worker: StubWorker) -> None:
    """As behind a gateway."""
    worker.on("GET", "/connect/x", StubResponse(200, []))
    assert HttpClient(WorkerEndpoint(worker.url + "/connect")).request("GET", "/x").json() == []


def test_a_name_and_password_go_with_every_request(worker: StubWorker) -> None:
    """As basic authentication, umlauts included; without them no header is sent."""
    worker.on("PUT", "/x", StubResponse(204))
    HttpClient(WorkerEndpoint(worker.url, "me", Secret("gehe:ü"))).request("PUT", "/x", {"a": "ü"})
    HttpClient(WorkerEndpoint(worker.url)).request("PUT", "/x")
    assert [(one.user, one.body) for one in worker.asked] == [
        ("me:gehe:ü", {"a": "ü"}),
        (None, None),
    ]


def test_a_closed_port_is_reported(worker: StubWorker) -> None:
    """A sentence with the address and what to check."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(WorkerUnreachableError) as caught:
            HttpClient(WorkerEndpoint(url)).request("GET", "/")
    assert str(caught.value) == (
        f"The Connect worker at {url} cannot be reached: connection refused. "
        "Check --url (or SPARKMIRROR_URL), and that the worker runs."
    )
    assert worker.asked == []


@pytest.mark.parametrize(
    "url", ["http://no-such-host.invalid:8083", "https://no-such-host.invalid"]
)
def test_a_host_without_an_address(url: str) -> None:
    """The resolver's own words."""
    with pytest.raises(WorkerUnreachableError, match=r"no-such-host.*cannot be reached"):
        HttpClient(WorkerEndpoint(url, seconds=60)).request("GET", "/")


def test_a_server_that_never_answers_is_given_up() -> None:
    """It takes the connection and stays silent."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(WorkerUnreachableError, match=r"no complete response within 0\.5 s"):
            HttpClient(WorkerEndpoint(url, seconds=SHORT_SECONDS)).request("GET", "/")


def test_an_answer_that_trickles_is_given_up(worker: StubWorker) -> None:
    """Each byte is in time, the whole is not."""

    def trickle(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        try:
            for _ in range(1000):  # 50 s, the whole
                handler.wfile.write(b" ")
                handler.wfile.flush()
                time.sleep(SHORT_SECONDS / 10)
        except OSError:
            pass

    worker.on("GET", "/", trickle)
    begun = time.monotonic()
    with pytest.raises(WorkerUnreachableError, match=r"no complete response within 0\.5 s"):
        HttpClient(WorkerEndpoint(worker.url, seconds=SHORT_SECONDS)).request("GET", "/")
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize("length", [None, 10**12])
def test_an_endless_answer_is_cut(worker: StubWorker, length: int | None) -> None:
    """Whether or not it says how long it will be."""
    sent = 0

    def pour(handler: BaseHTTPRequestHandler) -> None:
        nonlocal sent
        handler.send_response(200)
        if length is not None:
            handler.send_header("Content-Length", str(length))
        handler.end_headers()
        try:
            while True:
                sent += handler.wfile.write(b" " * 65536)
        except OSError:
            pass

    worker.on("GET", "/", pour)
    with pytest.raises(WorkerError, match="too large: more than 1,000,000 bytes"):
        HttpClient(WorkerEndpoint(worker.url, most_bytes=1_000_000)).request("GET", "/")
    assert sent < 50_000_000  # what the system had in its buffers


def test_an_answer_that_ends_early_is_none(worker: StubWorker) -> None:
    """Half a list of connectors would look like a short one."""

    def half(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b"[]")

    worker.on("GET", "/", half)
    with pytest.raises(WorkerUnreachableError, match="the connection closed before the response"):
        HttpClient(WorkerEndpoint(worker.url)).request("GET", "/")


@pytest.mark.parametrize("greeting", [b"SSH-2.0-OpenSSH_9\r\n", b"\x15\x03\x01\x00\x02\x02", b""])
def test_a_server_that_does_not_speak_http(greeting: bytes) -> None:
    """Another service on that port; also one that hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(greeting)

        thread = Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(WorkerUnreachableError, match="cannot be reached"):
            HttpClient(WorkerEndpoint(url, seconds=60)).request("GET", "/")
        thread.join()


def test_plain_http_where_tls_is_expected(worker: StubWorker) -> None:
    """The port is the right one, the scheme is not."""
    url = worker.url.replace("http://", "https://")
    with pytest.raises(WorkerUnreachableError, match="cannot be reached"):
        HttpClient(WorkerEndpoint(url, seconds=60)).request("GET", "/")


def test_a_redirect_on_the_same_server_is_followed_for_reading(worker: StubWorker) -> None:
    """A gateway may move its paths."""
    worker.on("GET", "/old", StubResponse(307, b"", {"Location": "/new"}))
    worker.on("GET", "/new", StubResponse(200, [1]))
    assert HttpClient(WorkerEndpoint(worker.url)).request("GET", "/old").json() == [1]


@pytest.mark.parametrize(
    "target", ["http://127.0.0.2:1/", "https://127.0.0.1/", "file:///etc/x", "http://[", "//x/"]
)
def test_a_redirect_to_another_server_is_not_followed(worker: StubWorker, target: str) -> None:
    """The password would go there too."""
    worker.on("GET", "/", StubResponse(302, b"", {"Location": target}))
    with pytest.raises(WorkerError, match=r"redirects to .*, which is not followed"):
        HttpClient(WorkerEndpoint(worker.url, "me", Secret("secret"))).request("GET", "/")


def test_another_port_is_another_server(worker: StubWorker) -> None:
    """Whoever listens there is not who was asked."""
    with StubWorker() as other:
        worker.on("GET", "/", StubResponse(302, b"", {"Location": other.url}))
        with pytest.raises(WorkerError, match="is not followed"):
            HttpClient(WorkerEndpoint(worker.url)).request("GET", "/")
        assert other.asked == []


def test_a_change_is_never_redirected(worker: StubWorker) -> None:
    """What was requested would be done elsewhere, or as another method."""
    worker.on("DELETE", "/x", StubResponse(301, b"", {"Location": "/y"}))
    with pytest.raises(WorkerError, match="is not followed"):
        HttpClient(WorkerEndpoint(worker.url)).request("DELETE", "/x")
    assert worker.requests() == ["DELETE /x"]


def test_redirects_in_circles_end(worker: StubWorker) -> None:
    """After a few."""
    worker.on("GET", "/x", StubResponse(302, b"", {"Location": "/x"}))
    with pytest.raises(WorkerError, match="more than 3 times"):
        HttpClient(WorkerEndpoint(worker.url)).request("GET", "/x")


def test_no_proxy_is_used_for_this_machine(
    worker: StubWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would look for the worker on its own machine."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    worker.on("GET", "/", StubResponse(200, {}))
    assert HttpClient(WorkerEndpoint(worker.url)).request("GET", "/").status == 200


def test_a_proxy_is_used_for_other_machines(
    worker: StubWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As curl does it."""
    monkeypatch.setenv("http_proxy", worker.url)
    monkeypatch.delenv("no_proxy", raising=False)
    worker.on("GET", "http://connect.invalid:8083/", StubResponse(200, {}))
    assert (
        HttpClient(WorkerEndpoint("http://connect.invalid:8083")).request("GET", "/").status == 200
    )


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff", b"[" * 200_000, b"1" * 10_000])
def test_a_body_that_is_no_json(body: bytes) -> None:
    """Always a ValueError, however it is broken."""
    with pytest.raises(ValueError, match=r".+"):
        HttpResponse(200, body).json()
