# SPDX-License-Identifier: Apache-2.0
"""Tokens come in time from a real HTTP server; what is wrong with it is a sentence."""

from __future__ import annotations

import base64
import json
import math
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.errors import AuthenticationError
from sparkmirror.model import Secret
from sparkmirror.security import oauth
from sparkmirror.security.keystores import read_keystore, read_truststore
from sparkmirror.security.oauth import RefreshingTokenSource
from sparkmirror.security.settings import AssertionSettings, OAuthSettings, TlsSettings
from sparkmirror.security.tls import server_context
from sparkmirror.security.token_sources import token_source
from sparkmirror.security.tokens import Token, parse_token_response, refresh_at
from support.waiting import eventually

SECRET = "hunter2-hunter2"
WANTED = OAuthSettings("http://localhost/token", "me", Secret(SECRET), "a b", "kafka")
NOW = 1_000_000.0


@dataclass
class Endpoint:
    """A token endpoint whose next answers are given; the last one is given for ever."""

    url: str = ""
    answers: list[tuple[int, bytes]] = field(default_factory=list)
    asked: list[tuple[str, dict[str, list[str]]]] = field(default_factory=list)
    goes_on: threading.Event | None = None  # what an answer waits for

    def settings(self, **changes: Any) -> OAuthSettings:
        """What a file that names this endpoint comes to."""
        return replace(WANTED, endpoint=f"{self.url}/token", read_timeout_seconds=60.0, **changes)


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is no reason for an old token or for another request."""
    monkeypatch.setattr(oauth, "REFRESH_WAIT_SECONDS", 60.0)
    monkeypatch.setattr(oauth, "RETRY_SECONDS", 3600.0)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """An HTTP server on a free port of this machine."""
    with serving(None) as state:
        yield state


@contextmanager
def serving(context: ssl.SSLContext | None) -> Iterator[Endpoint]:
    """A token endpoint, with TLS if there is a context."""
    state = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            state.asked.append((self.headers["Authorization"], parse_qs(body)))
            if state.goes_on is not None:
                state.goes_on.wait(60)
            status, answer = state.answers[min(len(state.asked), len(state.answers)) - 1]
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "http://elsewhere.invalid/")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    scheme, host = "http", "127.0.0.1"
    if context is not None:
        scheme, host = "https", "localhost"
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    state.url = f"{scheme}://{host}:{server.server_port}"
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def jwt(**claims: object) -> str:
    """A token that says this about itself."""
    parts = ({"alg": "none"}, claims)
    encoded = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts
    ]
    return ".".join((*encoded, "c2ln"))


def answer(token: str = "opaque-1", **more: object) -> tuple[int, bytes]:
    """What an endpoint says that has no objections."""
    return 200, json.dumps({"access_token": token, "token_type": "Bearer", **more}).encode()


def test_a_token_is_requested_once(endpoint: Endpoint) -> None:
    """Client credentials in the header, scope and audience in the body; many threads, one ask."""
    endpoint.answers = [answer(expires_in=3600)]
    endpoint.goes_on = threading.Event()
    source = RefreshingTokenSource(endpoint.settings())
    given_out: list[str] = []
    threads = [
        threading.Thread(target=lambda: given_out.append(source.token().text.reveal()))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    endpoint.goes_on.set()
    for thread in threads:
        thread.join()

    assert given_out == ["opaque-1"] * 8
    basic = base64.b64encode(f"me:{SECRET}".encode()).decode()
    fields = {"grant_type": ["client_credentials"], "scope": ["a b"], "audience": ["kafka"]}
    assert endpoint.asked == [(f"Basic {basic}", fields)]


@pytest.mark.parametrize(
    ("changes", "header", "sent"),
    [
        pytest.param(
            {
                "form_fields": {"grant_type": "refresh_token", "client_id": "me"},
                "secret_form_fields": {"refresh_token": Secret(SECRET)},
            },
            None,
            {"grant_type": ["refresh_token"], "client_id": ["me"], "refresh_token": [SECRET]},
            id="refresh token",
        ),
        pytest.param(
            {
                "client_secret": Secret(""),
                "form_fields": {"grant_type": "password", "username": "ann"},
                "secret_form_fields": {"password": Secret(f"{SECRET}&=ü")},
            },
            "Basic bWU6",
            {"grant_type": ["password"], "username": ["ann"], "password": [f"{SECRET}&=ü"]},
            id="password",
        ),
    ],
)
def test_the_credentials_are_in_the_request_form(
    endpoint: Endpoint, changes: dict[str, Any], header: str | None, sent: dict[str, list[str]]
) -> None:
    """And who asks is in the header, if there is a secret; none of it is in a refusal."""
    endpoint.answers = [answer("one", expires_in=1000)]
    asking = endpoint.settings(**{"client_secret": None, "scope": "", "audience": ""} | changes)

    assert RefreshingTokenSource(asking).token().text.reveal() == "one"
    assert endpoint.asked == [(header, sent)]
    (name, hidden), *_ = asking.secret_form_fields.items()
    endpoint.answers = [(400, json.dumps({"error": f"no {hidden.reveal()}"}).encode())]
    with pytest.raises(AuthenticationError, match=r"no \[hidden\]") as caught:
        RefreshingTokenSource(asking).token()
    assert f"{name.replace('_', ' ')} and scope of the client" in str(caught.value)
    assert SECRET not in str(caught.value)


def test_every_request_has_an_assertion_of_its_own(endpoint: Endpoint) -> None:
    """Signed with the key, and sent without a header."""
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2048).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    signs = AssertionSettings("assertion", Secret(key.decode()), includes_jti=True)
    endpoint.answers = [answer(expires_in=1000)]
    asking = endpoint.settings(client_secret=None, assertion=signs)
    for _ in range(2):
        RefreshingTokenSource(asking).token()
    (header, first), (_, second) = endpoint.asked
    assert header is None
    assert first["assertion"][0].count(".") == 2
    assert first["assertion"] != second["assertion"]


def test_a_token_that_is_given_is_good_until_it_has_expired() -> None:
    """By its exp claim; only an expired token in a file is retriable."""
    for where, retriable in (("file:///etc/token", True), ("", False)):
        good = jwt(exp=time.time() + 100)
        source = token_source(OAuthSettings(where, static_token=Secret(good)))
        assert source.token().text.reveal() == good
        assert source.redact(f"x {good} y") == "x [hidden] y"
        over = token_source(OAuthSettings(where, static_token=Secret(jwt(exp=1_000_000_000))))
        with pytest.raises(
            AuthenticationError, match=r"expired \(2001-09-09T01:46:40\+00:00\)"
        ) as caught:
            over.token()
        assert caught.value.retriable == retriable
        assert where in str(caught.value)


def test_an_opaque_token_that_is_given_is_good_until_it_is_refused() -> None:
    """Only a broker can reject it."""
    source = token_source(OAuthSettings("", static_token=Secret("opaque-1")))
    assert source.token().expires_at == math.inf
    with pytest.raises(AuthenticationError, match="an invalid token"):
        token_source(OAuthSettings("", static_token=Secret("two words")))


def test_a_token_is_used_no_longer_than_the_file_says(endpoint: Endpoint) -> None:
    """`oauth.max.token.expiry.seconds`."""
    endpoint.answers = [answer(expires_in=1000)]
    began = time.time()
    token = RefreshingTokenSource(endpoint.settings(max_token_seconds=90.0)).token()
    assert began + 90 <= token.expires_at < began + 120


def test_a_token_is_replaced_before_it_expires(endpoint: Endpoint) -> None:
    """At the window factor of its life."""
    endpoint.answers = [answer("one", expires_in=1000), answer("two", expires_in=1000)]
    source = RefreshingTokenSource(
        endpoint.settings(refresh_window_factor=0.0002, refresh_min_seconds=0)
    )

    assert source.token().text.reveal() == "one"
    time.sleep(0.25)
    assert source.token().text.reveal() == "two"


def test_the_old_token_is_used_while_the_endpoint_is_down(
    endpoint: Endpoint, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as it is valid, with one line in the log and a pause between the questions."""
    endpoint.answers = [answer("one", expires_in=1000), (503, b"")]
    source = RefreshingTokenSource(
        endpoint.settings(refresh_window_factor=0.0, refresh_min_seconds=0)
    )

    assert [source.token().text.reveal() for _ in range(4)] == ["one"] * 4
    assert len(endpoint.asked) == 2
    monkeypatch.setattr(oauth, "RETRY_SECONDS", 0.0)
    source._refresh_at = 0.0
    assert [source.token().text.reveal() for _ in range(3)] == ["one"] * 3
    assert len(endpoint.asked) > 3
    assert caplog.text.count("is used until it expires") == 1


def test_a_rejecting_endpoint_gets_no_request_for_a_while(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Identity providers lock clients out; all callers get the same error meanwhile."""
    endpoint.answers = [(401, b'{"error":"invalid_client"}')]
    source = RefreshingTokenSource(endpoint.settings())
    for _ in range(5):
        with pytest.raises(AuthenticationError, match="invalid_client"):
            source.token()
    assert len(endpoint.asked) == 1

    monkeypatch.setattr(source, "_retry_at", 0.0)
    endpoint.answers = [answer("one", expires_in=1000)]
    assert source.token().text.reveal() == "one"


def test_a_thread_that_cannot_start_is_a_failure_and_not_the_end(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one who asks does not wait for it."""
    endpoint.answers = [answer("one", expires_in=1000)]
    source = RefreshingTokenSource(endpoint.settings())

    def no_start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_start)
        with pytest.raises(AuthenticationError, match="cannot start a thread"):
            source.token()
    assert source.token().text.reveal() == "one"


def test_a_slow_endpoint_does_not_delay_callers_with_a_valid_token(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow endpoint does not delay callers with a valid token."""
    monkeypatch.setattr(oauth, "REFRESH_WAIT_SECONDS", 0.05)
    endpoint.answers = [answer("one", expires_in=1000), answer("two", expires_in=1000)]
    source = RefreshingTokenSource(
        endpoint.settings(refresh_window_factor=0.0, refresh_min_seconds=0)
    )
    source.token()
    endpoint.goes_on = threading.Event()
    began = time.monotonic()

    assert [source.token().text.reveal() for _ in range(2)] == ["one"] * 2
    assert time.monotonic() - began < 30
    endpoint.goes_on.set()


def test_concurrent_callers_get_the_new_token(endpoint: Endpoint) -> None:
    """One that is nearly over would be good for a login of moments."""
    endpoint.answers = [answer("one", expires_in=1000), answer("two", expires_in=1000)]
    source = RefreshingTokenSource(
        endpoint.settings(refresh_window_factor=0.0, refresh_min_seconds=0)
    )
    source.token()
    endpoint.goes_on = threading.Event()
    given_out: list[str] = []
    threads = [
        threading.Thread(target=lambda: given_out.append(source.token().text.reveal()))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    eventually(lambda: len(endpoint.asked) == 2, 60, "the next token is requested")
    endpoint.goes_on.set()
    for thread in threads:
        thread.join()

    assert given_out == ["two"] * 6


def test_an_endpoint_with_tls_has_to_be_trusted() -> None:
    """The truststore is that of the endpoint, not of the cluster."""
    golden, password = Path(__file__).parent / "golden", Secret("store-secret")
    authority = read_truststore((golden / "trust.p12").read_bytes(), "PKCS12", password)
    own = read_keystore((golden / "key.p12").read_bytes(), "PKCS12", password, None)
    context = server_context(TlsSettings(chain=own.chain, key=own.key), "none")
    with serving(context) as endpoint:
        endpoint.answers = [answer("one", expires_in=1000)]
        trusting = RefreshingTokenSource(endpoint.settings(tls=TlsSettings(trusted=authority)))
        assert trusting.token().text.reveal() == "one"
        with pytest.raises(AuthenticationError, match="certificate is not trusted") as caught:
            RefreshingTokenSource(endpoint.settings()).token()
    assert caught.value.retriable


def silent_port() -> tuple[socket.socket, str]:
    """A port that accepts connections and never responds."""
    listener = socket.create_server(("127.0.0.1", 0))
    return listener, f"http://127.0.0.1:{listener.getsockname()[1]}/token"


def test_an_endpoint_that_never_answers_is_given_up() -> None:
    """In the time that the file gives it."""
    listener, url = silent_port()
    with listener, pytest.raises(AuthenticationError, match="in time") as caught:
        RefreshingTokenSource(replace(WANTED, endpoint=url, read_timeout_seconds=0.2)).token()
    assert caught.value.retriable


def test_an_endpoint_that_answers_drop_by_drop_is_given_up() -> None:
    """Each byte comes in time, the whole does not."""
    listener, url = silent_port()
    is_over = threading.Event()

    def drip() -> None:
        connection, _ = listener.accept()
        with connection:
            while not is_over.wait(0.05):
                try:
                    connection.sendall(b"H")
                except OSError:
                    return

    thread = threading.Thread(target=drip)
    thread.start()
    began = time.monotonic()
    with listener, pytest.raises(AuthenticationError, match="in time"):
        RefreshingTokenSource(replace(WANTED, endpoint=url, read_timeout_seconds=0.4)).token()
    is_over.set()
    thread.join()
    assert time.monotonic() - began < 60


def test_a_closed_port_is_reported() -> None:
    """The endpoint is named, and it is worth another try."""
    listener, url = silent_port()
    listener.close()
    with pytest.raises(AuthenticationError, match="connection refused") as caught:
        RefreshingTokenSource(replace(WANTED, endpoint=url)).token()
    assert caught.value.retriable
    assert url in str(caught.value)


@pytest.mark.parametrize(
    ("given_answer", "sentence", "retriable"),
    [
        (
            (401, b'{"error":"invalid_client","error_description":"no"}'),
            "invalid_client: no",
            False,
        ),
        ((400, json.dumps({"error": f"bad {SECRET}"}).encode()), r"bad \[hidden\]", False),
        ((503, b"<html>"), "HTTP 503", True),
        ((429, b""), "HTTP 429", True),
        ((302, b""), "redirects", True),
        ((200, b"no json"), "returned no access_token", True),
        ((200, b'{"access_token":"two words"}'), "returned no access_token", True),
        (answer(expires_in=-5), "an expired token", True),
        ((200, b"x" * (oauth.MAX_BYTES + 1)), "more than", True),
    ],
)
def test_an_answer_without_a_token_is_an_error_message(
    endpoint: Endpoint, given_answer: tuple[int, bytes], sentence: str, *, retriable: bool
) -> None:
    """It names the endpoint, never the secret, and says whether to try again."""
    endpoint.answers = [given_answer]
    with pytest.raises(AuthenticationError, match=sentence) as caught:
        RefreshingTokenSource(endpoint.settings()).token()
    assert caught.value.retriable == retriable
    assert f"{endpoint.url}/token" in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    ["", "token", "ftp://host/", f"https://me:{SECRET}@host/", "http://host:x/", "http://h/ü"],
)
def test_an_odd_address_is_refused(address: str) -> None:
    """Without repeating it: people put passwords there."""
    with pytest.raises(AuthenticationError, match="token endpoint") as caught:
        RefreshingTokenSource(replace(WANTED, endpoint=address))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("given_answer", "expected"),
    [
        (answer(jwt(exp=NOW + 500), expires_in=900), NOW + 500),
        (answer(jwt(exp=NOW + 500.5)), NOW + 500.5),
        (answer(jwt(sub="x"), expires_in=900), NOW + 900),
        (answer(expires_in="900"), NOW + 900),
        (answer("a.b.c", expires_in=900), NOW + 900),
        (answer(expires_in="soon"), NOW + 60),
        (answer(), NOW + 60),
        ((200, b'{"id_token":"x","expires_in":5}'), NOW + 5),
    ],
)
def test_a_token_shows_how_long_it_lasts(given_answer: tuple[int, bytes], expected: float) -> None:
    """Its own claim counts more than the endpoint's word."""
    assert parse_token_response(*given_answer, "url", WANTED, NOW).expires_at == expected


@pytest.mark.parametrize(
    ("lifetime", "expected"),
    [
        (10_000.0, 8_000.0),  # the window
        (1_000.0, 700.0),  # the buffer at the end
        (365.0, 65.0),  # the buffer again
        (361.0, 61.0),
        (300.0, 240.0),  # both do not fit: the window alone
        (10.0, 8.0),
        (4.0, 2.0),  # of a very short one half is left: sessions last no longer than it
    ],
)
def test_the_next_token_is_requested_when_kafka_would_request_it(
    lifetime: float, expected: float
) -> None:
    """Window, least pause and buffer as in Kafka's own refreshing login."""
    token = Token(Secret("x"), NOW + lifetime)

    assert refresh_at(token, NOW, WANTED) == pytest.approx(NOW + expected)


def test_the_least_pause_counts_more_than_the_window() -> None:
    """`sasl.login.refresh.min.period.seconds`."""
    wanted = replace(WANTED, refresh_min_seconds=900.0, refresh_buffer_seconds=0.0)

    assert refresh_at(Token(Secret("x"), NOW + 1000), NOW, wanted) == NOW + 900


def test_a_token_is_not_in_the_repr() -> None:
    """A Token can be logged."""
    assert repr(Token(Secret("opaque-1"), 1.0)) == "Token(text=[hidden], expires_at=1.0)"


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=60)
@given(
    status=st.sampled_from([200, 302, 400, 503]),
    body=st.one_of(
        st.binary(max_size=40),
        st.just(b"[" * 100_000),
        st.fixed_dictionaries(
            {},
            optional={
                "access_token": st.one_of(
                    JSON, st.just(jwt(exp=10**400)), st.builds(jwt, exp=JSON), st.just("a.%%.c")
                ),
                "expires_in": st.one_of(JSON, st.just(10**400)),
                "error": st.one_of(JSON, st.just(f"x {SECRET} y")),
                "error_description": JSON,
            },
        ).map(lambda content: json.dumps(content).encode()),
    ),
)
def test_any_answer_is_a_token_or_an_error(status: int, body: bytes) -> None:
    """AuthenticationError or a token that lasts; never the secret."""
    call: Callable[[], Token] = lambda: parse_token_response(status, body, "url", WANTED, NOW)  # noqa: E731
    try:
        assert call().expires_at > NOW
    except AuthenticationError as error:
        assert SECRET not in str(error)  # noqa: PT017 - either outcome is right
