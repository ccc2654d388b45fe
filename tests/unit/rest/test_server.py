# SPDX-License-Identifier: Apache-2.0
"""The API is served where the worker's file says, and nowhere else."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from sparkmirror.config.worker_settings import RestListener, RestSettings
from sparkmirror.errors import ConfigError, SetupError
from sparkmirror.rest.server import RestServer, advertised_url
from support.peers.memory_worker import MemoryWorker
from support.waiting import eventually


def status(port: int, path: str) -> int:
    """What a path is answered with."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


@contextmanager
def held_port() -> Iterator[int]:
    """A port that a server may listen on, and that the system gives to nobody else."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def test_all_listeners_serve_all_paths() -> None:
    """Several addresses, one worker."""
    worker = MemoryWorker("listeners=http://127.0.0.1:0,http://localhost:0")
    server = RestServer.for_worker(worker.file.settings)
    server.start(worker)
    try:
        assert len(set(server.ports)) == 2
        for port in server.ports:
            assert (status(port, "/connectors"), status(port, "/admin/loggers")) == (200, 200)
    finally:
        server.stop()


def test_admin_listeners_serve_admin_paths_alone() -> None:
    """And the others no longer do."""
    worker = MemoryWorker("admin.listeners=http://127.0.0.1:0")
    server = RestServer.for_worker(worker.file.settings)
    server.start(worker)
    try:
        (port,), (admin,) = server.ports, server.admin_ports
        assert (status(port, "/connectors"), status(port, "/admin/loggers")) == (200, 404)
        assert (status(admin, "/connectors"), status(admin, "/admin/loggers")) == (404, 200)
    finally:
        server.stop()


def test_an_empty_list_of_admin_listeners_serves_them_nowhere() -> None:
    """As Connect has it."""
    worker = MemoryWorker("admin.listeners=")
    server = RestServer.for_worker(worker.file.settings)
    server.start(worker)
    try:
        assert server.admin_ports == ()
        assert status(server.ports[0], "/admin/loggers") == 404
    finally:
        server.stop()


def test_a_stopped_server_leaves_nothing_behind() -> None:
    """No thread, no port; stopping twice is nothing."""
    before = set(threading.enumerate())
    with held_port() as port:
        worker = MemoryWorker(f"listeners=http://127.0.0.1:{port}")
        server = RestServer.for_worker(worker.file.settings)
        server.start(worker)
        assert status(port, "/") == 200
        server.stop()
        server.stop()
        with pytest.raises(OSError, match="refused"):
            status(port, "/")
    eventually(lambda: not set(threading.enumerate()) - before, 60, "its threads have ended")


def test_a_port_in_use_is_reported_before_anything_starts() -> None:
    """With the listener and a remedy; ports bound before it are free again."""
    with socket.create_server(("127.0.0.1", 0)) as taken, held_port() as number:
        used = taken.getsockname()[1]
        worker = MemoryWorker(f"listeners=http://127.0.0.1:{number},http://127.0.0.1:{used}")
        with pytest.raises(SetupError, match=f"http://127.0.0.1:{used}.*listeners"):
            RestServer.for_worker(worker.file.settings)
        socket.create_server(("127.0.0.1", number)).close()


def test_headers_that_are_none_are_refused() -> None:
    """Before anything is bound."""
    worker = MemoryWorker("response.http.headers.config=nonsense")
    with pytest.raises(ConfigError, match="nonsense"):
        RestServer.for_worker(worker.file.settings)


def test_the_advertised_address_is_what_others_can_reach() -> None:
    """The file's words first, then the listener, then this machine's address."""
    here = RestSettings((RestListener("http", "10.0.0.1", 0),))
    assert advertised_url(here, (8083,)) == "http://10.0.0.1:8083/"
    told = replace(here, advertised_host="worker-1", advertised_port=443)
    assert advertised_url(told, (8083,)) == "http://worker-1:443/"
    six = RestSettings((RestListener("http", "::1", 0),))
    assert advertised_url(six, (8083,)) == "http://[::1]:8083/"
    both = RestSettings((RestListener("https", "h", 1), RestListener("http", "h", 2)))
    assert advertised_url(both, (1, 2)) == "http://h:2/"
    assert advertised_url(replace(both, advertised_scheme="https"), (1, 2)) == "https://h:1/"
    for host in ("", "0.0.0.0", "::"):  # noqa: S104 - never bound
        everywhere = RestSettings((RestListener("http", host, 8083),))
        assert "//0.0.0.0" not in advertised_url(everywhere, (8083,))
        assert advertised_url(everywhere, (8083,)).endswith(":8083/")
