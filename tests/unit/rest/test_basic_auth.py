# SPDX-License-Identifier: Apache-2.0
"""Without a name and its password the API answers nothing but 401."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from sparkmirror.model import Secret
from sparkmirror.rest.app import AppOptions, create_app
from sparkmirror.rest.basic_auth import BasicAuth, parse_authorization
from sparkmirror.rest.throttled_log import ThrottledLog, loggable
from support.clients.served_rest import ServedRest
from support.peers.memory_worker import MemoryWorker

PASSWORD = "s3:cret ü"
USERS = {"ann": Secret(PASSWORD), "empty": Secret("")}

SIGNED = {
    "X-Connect-Authorization": base64.b64encode(bytes(32)).decode(),
    "X-Connect-Request-Signature-Algorithm": "HmacSHA256",
}


def basic(name: str, password: str) -> dict[str, str]:
    """A header as curl sends it."""
    pair = base64.b64encode(f"{name}:{password}".encode()).decode()
    return {"Authorization": f"Basic {pair}"}


@pytest.fixture(scope="module")
def client() -> Iterator[ServedRest]:
    """An API that asks."""
    with ServedRest(MemoryWorker(), AppOptions(auth=BasicAuth(USERS))) as opened:
        yield opened


def test_the_right_password_opens(client: ServedRest) -> None:
    """Whatever is in it, and whatever the case of the scheme."""
    assert client.get("/connectors", basic("ann", PASSWORD)).status == 200
    assert client.get("/connectors", basic("empty", "")).status == 200
    header = basic("ann", PASSWORD)["Authorization"].replace("Basic", "bAsIc")
    assert client.get("/connectors", {"Authorization": header}).status == 200
    assert client.get("/nowhere", basic("ann", PASSWORD)).status == 404


@pytest.mark.parametrize(
    "headers",
    [
        {},
        basic("ann", ""),
        basic("ann", "S3:cret ü"),
        basic("ANN", PASSWORD),
        basic("bob", PASSWORD),
        basic("", ""),
        {"Authorization": "Basic"},
        {"Authorization": "Basic !!!"},
        {"Authorization": "Bearer abc"},
        {"Authorization": basic("ann", PASSWORD)["Authorization"] + "="},
    ],
)
def test_anything_else_does_not(client: ServedRest, headers: dict[str, str]) -> None:
    """In Connect's words, and nothing says who serves this."""
    answer = client.get("/connectors", headers)
    assert answer.status == 401
    expected = {"error_code": 401, "message": "User cannot access the resource."}
    assert answer.json() == expected
    assert answer.headers["WWW-Authenticate"].startswith("Basic ")
    known = {"content-length", "content-type", "date", "www-authenticate"}
    assert {name.lower() for name in answer.headers} == known


def test_every_path_requires_authentication() -> None:
    """Those of the documentation, and those that do not exist; whatever the method."""
    worker = MemoryWorker()
    paths = {
        path.replace("{connector}", "a").replace("{task}", "0"): list(methods)
        for path, methods in create_app(worker).openapi()["paths"].items()
    }
    assert {"/", "/health", "/admin/loggers"} <= set(paths)
    paths |= {"/openapi.json": ["get", "head"], "/nowhere": ["options"], "/%ff": ["get"]}
    paths |= {"/connectors/a/tasks": ["post"], "/connectors/a/fence": ["put"]}
    with ServedRest(worker, AppOptions(auth=BasicAuth(USERS))) as client:
        for path, methods in paths.items():
            for method in methods:
                assert client.request(method.upper(), path).status == 401, (method, path)
    assert worker.calls == []


def test_workers_need_a_signature_in_place_of_a_password(client: ServedRest) -> None:
    """As in Connect; one with another key is refused by who checks it."""
    signed = SIGNED
    assert client.request("POST", "/connectors/a%2Fb/tasks", [], signed).status == 403
    assert client.request("PUT", "/connectors/a/fence/", b"", signed).status == 403
    for method, path in (
        ("PUT", "/connectors/a/config"),
        ("GET", "/connectors/a/tasks"),
        ("POST", "/connectors/a/b/tasks"),
        ("POST", "/connectors/a/tasks/0/restart"),
        ("PUT", "/connectors/a%2Ffence"),
    ):
        assert client.request(method, path, headers=signed).status == 401, path


@pytest.mark.parametrize(
    ("signature", "algorithm"),
    [
        ("", "HmacSHA256"),
        ("bm9uZQ==", "HmacSHA256"),
        (SIGNED["X-Connect-Authorization"], "HmacSHA512"),
        (SIGNED["X-Connect-Authorization"], "Hmac"),
        ("*" + SIGNED["X-Connect-Authorization"], "HmacSHA256"),
    ],
)
def test_what_cannot_be_a_signature_is_none(
    client: ServedRest, signature: str, algorithm: str
) -> None:
    """Whoever sends it is a stranger, whose body nobody reads."""
    headers = {
        "X-Connect-Authorization": signature,
        "X-Connect-Request-Signature-Algorithm": algorithm,
    }
    answer = client.request("POST", "/connectors/a/tasks", [], headers)
    assert (answer.status, answer.headers["Connection"]) == (401, "close")


def test_the_body_of_an_unauthenticated_request_is_not_read(client: ServedRest) -> None:
    """The connection ends with the answer."""
    answer = client.request("POST", "/connectors", {"name": "a", "config": {}})
    assert (answer.status, answer.headers["Connection"]) == (401, "close")


def test_attempts_are_logged_without_the_password(caplog: pytest.LogCaptureFixture) -> None:
    """Once a minute at most, on one line, whatever the name holds."""
    auth = BasicAuth(USERS)
    with caplog.at_level(logging.DEBUG):
        for _ in range(100):
            headers = Headers(basic("x\ny\x1b[0m", "hunter2"))
            assert auth.challenge("GET", "/", headers, "10.1.2.3") is not None
        assert auth.challenge("GET", "/", Headers(), "10.1.2.3") is not None
    (line,) = (record.getMessage() for record in caplog.records)
    assert "10.1.2.3" in line
    assert "hunter2" not in line
    assert line.isprintable()


def test_the_log_names_who_has_connected(caplog: pytest.LogCaptureFixture) -> None:
    """Not whom a header names, on whom somebody who reads the log might close the door."""
    with ServedRest(MemoryWorker(), AppOptions(auth=BasicAuth(USERS))) as client:
        client.get("/", {**basic("x", "y"), "X-Forwarded-For": "10.1.2.3"})
    assert "from 127.0.0.1 as 'x'" in caplog.text
    assert "10.1.2.3" not in caplog.text


def test_a_minute_later_the_number_of_attempts_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nothing is silent for ever."""
    times = iter((0.0, 10.0, 59.0, 61.0, 62.0))
    attempts = ThrottledLog(logging.getLogger("test"), 60, lambda: next(times))
    for _ in range(5):
        attempts.warn("Somebody knocks.")
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0] == "Somebody knocks."
    assert lines[1].startswith("Somebody knocks. (2 more")
    assert len(lines) == 2


@given(st.text(), st.text())
def test_any_name_and_password_arrive(name: str, password: str) -> None:
    """A colon ends the name; nobody without a name is somebody."""
    pair = f"{name}:{password}".encode("utf-8", "replace")
    found = parse_authorization(f"Basic {base64.b64encode(pair).decode()}")
    before, _, after = pair.decode().partition(":")
    assert found == ((before, Secret(after)) if before else None)


@given(st.text() | st.text(alphabet="Basic =+/:a0", max_size=40))
def test_no_header_does_harm_or_opens(header: str) -> None:
    """Whatever is sent."""
    for text in (header, f"Basic {header}"):
        found = parse_authorization(text)
        assert found is None or ("[hidden]" in repr(found) and found[0])
    sent = Headers(raw=[(b"authorization", header.encode("utf-8", "replace"))])
    assert BasicAuth(USERS).challenge("GET", "/", sent, "here") is not None
    assert loggable(header).isascii()
