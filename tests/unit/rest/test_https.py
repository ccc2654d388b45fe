# SPDX-License-Identifier: Apache-2.0
"""The API over https: beside http, with certificates of clients, and between workers."""

from __future__ import annotations

import base64
import http.client
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from sparkmirror.config.worker_settings import RestListener, RestSettings
from sparkmirror.connect.api import ConnectorInfo, ForwardTo
from sparkmirror.errors import ConfigError
from sparkmirror.model import Secret
from sparkmirror.rest.app import AppOptions
from sparkmirror.rest.offsets import TopicTrackingPolicy
from sparkmirror.rest.server import RestServer, startup_warnings
from sparkmirror.rest_client.http_client import HttpClient, WorkerEndpoint
from sparkmirror.security.settings import TlsSettings
from sparkmirror.security.tls import client_context
from support.data.certificates import Authority
from support.peers.memory_worker import MemoryWorker

HTTP = RestListener("http", "127.0.0.1", 0)
HTTPS = RestListener("https", "127.0.0.1", 0)
OK = (200, "[]")


@pytest.fixture(scope="module")
def authority() -> Authority:
    """Vouches for everybody here."""
    return Authority()


@contextmanager
def serving(rest: RestSettings, worker: MemoryWorker | None = None) -> Iterator[RestServer]:
    """A server of these settings."""
    server = RestServer(rest, AppOptions.from_settings(rest, TopicTrackingPolicy()))
    server.start(worker or MemoryWorker())
    try:
        yield server
    finally:
        server.stop()


def ask(
    port: int,
    tls: TlsSettings | None,
    path: str = "/connectors",
    headers: dict[str, str] | None = None,
) -> tuple[int, str]:
    """One request; over http if there are no settings for TLS."""
    connection = (
        http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        if tls is None
        else http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=client_context(tls))
    )
    try:
        connection.request("GET", path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_http_and_https_stand_side_by_side(authority: Authority) -> None:
    """Also for the paths below /admin; the advertised address is of the scheme that is asked."""
    rest = RestSettings(
        (HTTP, HTTPS),
        admin_listeners=(HTTPS,),
        advertised_scheme="https",
        tls=authority.tls(),
    )
    with serving(rest) as server:
        plain, secure = server.ports
        (admin,) = server.admin_ports
        assert ask(plain, None) == OK
        assert ask(secure, authority.stranger()) == OK
        assert ask(secure, authority.stranger(), "/admin/loggers")[0] == 404
        assert ask(admin, authority.stranger(), "/admin/loggers")[0] == 200
        assert server.advertised_url == f"https://127.0.0.1:{secure}/"
        # Who speaks http to an https port is refused, and so is the reverse.
        for port, tls in ((secure, None), (plain, authority.stranger())):
            with pytest.raises((OSError, http.client.HTTPException)):
                ask(port, tls)


def test_a_required_certificate_is_required(authority: Authority) -> None:
    """And one of another authority is none."""
    rest = RestSettings((HTTPS,), tls=authority.tls(), client_auth="required")
    with serving(rest) as server:
        (port,) = server.ports
        assert ask(port, authority.tls("client")) == OK
        foreign = Authority().tls("client")
        for stranger in (authority.stranger(), replace(foreign, trusted=authority.pem)):
            with pytest.raises((OSError, http.client.HTTPException)):
                ask(port, stranger)
        assert ask(port, authority.tls("client")) == OK


def test_a_requested_certificate_may_be_missing(authority: Authority) -> None:
    """One of another authority is still refused."""
    rest = RestSettings((HTTPS,), tls=authority.tls(), client_auth="requested")
    with serving(rest) as server:
        (port,) = server.ports
        assert ask(port, authority.stranger()) == OK
        foreign = replace(Authority().tls("client"), trusted=authority.pem)
        with pytest.raises((OSError, http.client.HTTPException)):
            ask(port, foreign)


class Follower(MemoryWorker):
    """Sends everybody elsewhere."""

    url = ""

    def info(self, *_: Any) -> ConnectorInfo:
        """Not here."""
        raise ForwardTo(self.url)


def test_requests_are_forwarded_over_https(authority: Authority) -> None:
    """To a leader whose certificate is trusted, with the password of who asked, and to no other."""
    users = {"ann": Secret("s3cret")}
    leader = RestSettings((HTTPS,), tls=authority.tls(), users=users)
    follower = Follower()
    basic = {"Authorization": "Basic YW5uOnMzY3JldA=="}
    with ExitStack() as stack:
        follower.url = stack.enter_context(serving(leader)).advertised_url
        answers = []
        for tls in (authority.tls(), Authority().tls(), TlsSettings()):
            rest = RestSettings((HTTP,), tls=tls, users=users)
            server = stack.enter_context(serving(rest, follower))
            answers.append(ask(server.ports[0], None, "/connectors/a", basic))
    assert answers[0] == (404, '{"error_code":404,"message":"Connector a not found"}')
    for status, text in answers[1:]:
        assert status == 500
        assert "IO Error trying to forward REST request" in text
        assert "certificate" in text.lower()


def test_the_command_line_client_works_with_https(
    authority: Authority, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its own authority in SSL_CERT_FILE, a name and a password."""
    rest = RestSettings((HTTPS,), tls=authority.tls(), users={"ann": Secret("s3cret")})
    with serving(rest) as server:
        url = server.advertised_url.rstrip("/")
        file = tmp_path / "authority.pem"
        file.write_text(authority.pem)
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        known = HttpClient(WorkerEndpoint(url, "ann", Secret("s3cret"))).request(
            "GET", "/connectors"
        )
        assert (known.status, known.json()) == (200, [])
        assert (
            HttpClient(WorkerEndpoint(url, "ann", Secret("other"))).request("GET", "/").status
            == 401
        )
        assert HttpClient(WorkerEndpoint(url)).request("GET", "/").status == 401


def test_https_without_a_certificate_is_rejected_with_an_error() -> None:
    """Before anything is bound."""
    rest = RestSettings((HTTPS,))
    with pytest.raises(ConfigError, match=r"listeners\.https\.ssl\.keystore"):
        RestServer(rest, AppOptions.from_settings(rest, TopicTrackingPolicy()))
    broken = replace(rest, tls=TlsSettings(chain="no certificate", key=Secret("nor a key")))
    with pytest.raises(ConfigError, match="https in listeners"):
        RestServer(broken, AppOptions.from_settings(broken, TopicTrackingPolicy()))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.8.8.8"])
def test_loopback_needs_no_warning(host: str) -> None:
    """Whoever is on the machine is at home."""
    assert startup_warnings(RestSettings((RestListener("http", host, 8083),))) == []


def test_a_port_for_everybody_is_remarked(authority: Authority) -> None:
    """Unless something is requested; a password in the clear is remarked as well."""
    users = {"ann": Secret("s3cret")}
    for host in ("", "0.0.0.0", "10.0.0.1", "worker-1"):  # noqa: S104 - never bound
        plain = RestSettings((HTTP, RestListener("http", host, 8083)))
        (sentence,) = startup_warnings(plain)
        assert "has no authentication" in sentence
        (sentence,) = startup_warnings(replace(plain, users=users))
        assert "https" in sentence
        secure = RestSettings((RestListener("https", host, 8443),), tls=authority.tls())
        assert len(startup_warnings(secure)) == 1
        assert startup_warnings(replace(secure, users=users)) == []
        assert startup_warnings(replace(secure, client_auth="required")) == []
        assert len(startup_warnings(replace(secure, client_auth="requested"))) == 1
        admin = RestSettings((HTTP,), admin_listeners=(RestListener("http", host, 1),))
        assert len(startup_warnings(admin)) == 1


def shown(port: int) -> bytes:
    """The certificate that a listener shows, whoever vouches for it."""
    return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(("127.0.0.1", port), timeout=60))


def test_new_connections_get_a_renewed_certificate(authority: Authority) -> None:
    """One that cannot be used leaves the old one; a connection that stands continues."""
    rest = RestSettings((HTTPS,), admin_listeners=(HTTPS,), tls=authority.tls())
    other = Authority("another")
    with serving(rest) as server:
        (port,), (admin,) = server.ports, server.admin_ports
        before = shown(port)
        standing = http.client.HTTPSConnection(
            "127.0.0.1", port, timeout=60, context=client_context(authority.stranger())
        )
        standing.request("GET", "/connectors")
        assert standing.getresponse().read() == b"[]"
        unusable = TlsSettings(chain="no certificate", key=Secret("nor a key"))
        with pytest.raises(ConfigError):
            server.prepare_credentials_update(replace(rest, tls=unusable))
        assert shown(port) == before
        server.prepare_credentials_update(replace(rest, tls=other.tls(), client_auth="required"))()
        assert ask(port, other.tls("client")) == OK
        assert ask(admin, other.tls("client"), "/admin/loggers")[0] == 200
        for stranger in (authority.tls("client"), other.stranger()):
            with pytest.raises((OSError, http.client.HTTPException)):
                ask(port, stranger)
        standing.request("GET", "/connectors")
        assert standing.getresponse().read() == b"[]"
        standing.close()


def test_other_users_are_let_in_from_the_next_request_on() -> None:
    """And those who are gone from the file are not."""
    rest = RestSettings((HTTP,), users={"ann": Secret("s3cret")})
    ann, bob = (
        {"Authorization": f"Basic {base64.b64encode(text).decode()}"}
        for text in (b"ann:s3cret", b"bob:s3cret")
    )
    with serving(rest) as server:
        (port,) = server.ports
        assert [ask(port, None, headers=who)[0] for who in (ann, bob)] == [200, 401]
        server.prepare_credentials_update(replace(rest, users={"bob": Secret("s3cret")}))()
        assert [ask(port, None, headers=who)[0] for who in (ann, bob)] == [401, 200]


def test_requests_are_forwarded_to_whom_is_trusted_by_then(authority: Authority) -> None:
    """The leader has another authority's certificate now."""
    other = Authority("another")
    follower = Follower()
    with ExitStack() as stack:
        leader = stack.enter_context(serving(RestSettings((HTTPS,), tls=other.tls())))
        follower.url = leader.advertised_url
        rest = RestSettings((HTTP,), tls=authority.tls())
        server = stack.enter_context(serving(rest, follower))
        assert ask(server.ports[0], None, "/connectors/a")[0] == 500
        server.prepare_credentials_update(replace(rest, tls=other.tls()))()
        assert ask(server.ports[0], None, "/connectors/a")[0] == 404


def test_the_key_is_in_no_text_of_the_settings(authority: Authority) -> None:
    """Nor a password."""
    rest = RestSettings((HTTPS,), tls=authority.tls(), users={"ann": Secret("s3cret")})
    assert "PRIVATE" not in repr(rest)
    assert "s3cret" not in repr(rest)
