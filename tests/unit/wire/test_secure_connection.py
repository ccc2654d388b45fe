# SPDX-License-Identifier: Apache-2.0
"""Connections with TLS and logins to a peer that is as strict as a broker."""

from __future__ import annotations

import json
import random
import selectors
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.errors import ConnectionLostError, LossKind
from sparkmirror.model import Secret
from sparkmirror.security import msk_iam
from sparkmirror.security.aws_credentials import AwsCredentials
from sparkmirror.security.settings import (
    AwsSettings,
    OAuthSettings,
    SaslMechanism,
    SaslSettings,
    SecurityProtocol,
    SecuritySettings,
    TlsSettings,
)
from sparkmirror.security.tls import server_context
from sparkmirror.wire.connection import BrokerConnection
from sparkmirror.wire.dialing import Address
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.sasl_authenticator import reauthentication_seconds
from sparkmirror.wire.settings import ConnectionSettings
from support.clients.wire_requests import Outcome, RecordingOwner, run_until
from support.data.certificates import Authority, Identity
from support.manual_clock import WIRE, ManualClock
from support.peers.secure_broker import API_VERSIONS, AUTHENTICATE, ECHO, HANDSHAKE, SecureBroker
from support.peers.token_endpoint import ResponseMode, TokenEndpoint
from support.waiting import PATIENCE_SECONDS

FAR = "sparkmirror.wire.connection._HIGH_LATENCY_SECONDS"
AUTHORITY = Authority("of this test")
PASSWORD = "pa55-word"
PLAIN = f"\0me\0{PASSWORD}".encode()
TLS = SecuritySettings(SecurityProtocol.SSL, TlsSettings(trusted=AUTHORITY.pem))
LOGIN = SaslSettings(SaslMechanism.PLAIN, "me", Secret(PASSWORD))
SASL = SecuritySettings(SecurityProtocol.SASL_PLAINTEXT, sasl=LOGIN)
BOTH = SecuritySettings(SecurityProtocol.SASL_SSL, TLS.tls, LOGIN)
HEADER_BYTES = 4
SESSION_MS = 60_000
SESSION_SECONDS = SESSION_MS / 1000


def context(identity: Identity | None = None, client_auth: str = "none") -> ssl.SSLContext:
    """What a broker shows."""
    shown = identity or AUTHORITY.identity()
    own = TlsSettings(trusted=AUTHORITY.pem, chain=shown.chain, key=Secret(shown.key))
    return server_context(own, client_auth)


def connection_settings(security: SecuritySettings, **changes: float) -> ConnectionSettings:
    """To the cluster b."""
    made = ConnectionSettings(
        "b", (), "test", PATIENCE_SECONDS, PATIENCE_SECONDS, security=security
    )
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def near(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine answers late; nothing here is about far away brokers."""
    monkeypatch.setattr(FAR, float("inf"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """The clock of both sides. Sessions end when the test says so."""
    return ManualClock(monkeypatch, *WIRE, "support.peers.secure_broker")


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    """A loop that the test turns."""
    made = EventLoop()
    yield made
    made.close()


def ask(
    loop: EventLoop, security: SecuritySettings, address: Address, bodies: list[list[bytes]]
) -> tuple[list[Outcome], list[str]]:
    """Open a connection, send requests, wait for the end of all; refusals that it told of."""
    owner = RecordingOwner()
    connection = BrokerConnection(loop, connection_settings(security), address, owner)
    outcomes = [Outcome() for _ in bodies]
    for outcome, body in zip(outcomes, bodies, strict=True):
        outcome.send(connection, body)
    run_until(loop, lambda: all(outcome.is_over for outcome in outcomes))
    connection.close("the test is over")
    assert all(len(one.replies) + len(one.failures) == 1 for one in outcomes)
    return outcomes, [one.explain(security) for one in owner.refusals]


def refused(loop: EventLoop, security: SecuritySettings, peer: SecureBroker) -> str:
    """Why a broker and we do not get together; it is reported as a refusal, once."""
    (outcome,), refusals = ask(loop, security, peer.address, [[b"x"]])
    assert [one.reason for one in outcome.failures] == refusals
    assert outcome.failures[0].kind is LossKind.REFUSED
    return str(outcome.failures[0])


# --- TLS


@pytest.mark.parametrize("security", [TLS, BOTH, SASL], ids=lambda one: one.protocol.value)
def test_requests_and_answers_of_any_size_pass(loop: EventLoop, security: SecuritySettings) -> None:
    """In order, in pieces as they come, after a login where there is one."""
    bodies = [[bytes([n]) * random.choice((1, 300, 70_000)) for n in range(20)] for _ in range(8)]
    own = context() if security.tls else None
    with SecureBroker(own, login=PLAIN if security.sasl else None) as peer:
        outcomes, refusals = ask(loop, security, peer.address, bodies)

    assert [one.replies[0][HEADER_BYTES:] for one in outcomes] == [b"".join(b) for b in bodies]
    expected = [API_VERSIONS, *([HANDSHAKE, AUTHENTICATE] if security.sasl else []), *[ECHO] * 8]
    assert peer.seen == expected
    assert not refusals


def test_a_client_shows_its_certificate(loop: EventLoop) -> None:
    """To a broker that asks for one."""
    own = AUTHORITY.identity("me")
    tls = TlsSettings(trusted=AUTHORITY.pem, chain=own.chain, key=Secret(own.key))
    with SecureBroker(context(client_auth="required")) as peer:
        (outcome,), _ = ask(
            loop, SecuritySettings(SecurityProtocol.SSL, tls), peer.address, [[b"x"]]
        )

    assert outcome.replies


@pytest.mark.parametrize(
    ("identity", "client_auth", "words"),
    [
        (AUTHORITY.expired(), "none", "has expired"),
        (AUTHORITY.wrong_host(), "none", "ssl.endpoint.identification.algorithm"),
        (Authority("a stranger").identity(), "none", "ssl.truststore.location"),
        (AUTHORITY.identity(), "required", "ssl.keystore.location"),
    ],
)
def test_a_certificate_that_is_no_good_is_a_refusal(
    loop: EventLoop, identity: Identity, client_auth: str, words: str
) -> None:
    """The sentence names the cluster, the broker and the key."""
    with SecureBroker(context(identity, client_auth)) as peer:
        sentence = refused(loop, TLS, peer)

    assert words in sentence
    assert f"cluster 'b': broker {peer.address}" in sentence


def test_another_host_is_accepted_without_hostname_verification(loop: EventLoop) -> None:
    """`ssl.endpoint.identification.algorithm=` as people have it."""
    tls = TlsSettings(trusted=AUTHORITY.pem, verifies_hostname=False)
    with SecureBroker(context(AUTHORITY.wrong_host())) as peer:
        (outcome,), _ = ask(
            loop, SecuritySettings(SecurityProtocol.SSL, tls), peer.address, [[b"x"]]
        )

    assert outcome.replies


@pytest.mark.parametrize(("theirs", "ours"), [("TLSv1.2", "TLSv1.3"), ("TLSv1.3", "TLSv1.2")])
def test_versions_of_tls_that_do_not_meet_are_a_refusal(
    loop: EventLoop, theirs: str, ours: str
) -> None:
    """Both sides have to be told."""
    shown = AUTHORITY.identity()
    own = TlsSettings(chain=shown.chain, key=Secret(shown.key), protocols=(theirs,))
    tls = TlsSettings(trusted=AUTHORITY.pem, protocols=(ours,))
    with SecureBroker(server_context(own, "none")) as peer:
        assert "TLS" in refused(loop, SecuritySettings(SecurityProtocol.SSL, tls), peer)


def test_key_and_certificate_that_do_not_fit_are_a_failure_of_this_cluster(loop: EventLoop) -> None:
    """Nothing is raised into the loop."""
    one, other = AUTHORITY.identity(), AUTHORITY.identity()
    tls = TlsSettings(trusted=AUTHORITY.pem, chain=one.chain, key=Secret(other.key))
    with SecureBroker(context()) as peer:
        assert "TLS cannot be set up" in refused(
            loop, SecuritySettings(SecurityProtocol.SSL, tls), peer
        )


def _hang_up_on_garbage(peer: socket.socket) -> None:
    peer.recv(4)


def _answer_in_http(peer: socket.socket) -> None:
    peer.recv(1000)
    peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def _answer_in_tls(peer: socket.socket) -> None:
    peer.recv(1000)
    peer.sendall(bytes((21, 3, 3, 0, 2, 2, 80)))  # internal_error
    peer.recv(1)


@pytest.mark.parametrize(
    ("security", "script"),
    [
        (TLS, _hang_up_on_garbage),
        (TLS, _answer_in_http),
        (SecuritySettings(), _hang_up_on_garbage),
        (SecuritySettings(), _answer_in_http),
        (SecuritySettings(), _answer_in_tls),
    ],
)
def test_a_wrong_protocol_error_names_the_key(
    loop: EventLoop, security: SecuritySettings, script: Callable[[socket.socket], None]
) -> None:
    """TLS to a plain listener and the other way round are mistakes that everybody makes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with listener.accept()[0] as peer, suppress(OSError):
                script(peer)

        thread = threading.Thread(target=serve)
        thread.start()
        address = Address("localhost", listener.getsockname()[1])
        (outcome,), _ = ask(loop, security, address, [[b"x"]])
        thread.join(PATIENCE_SECONDS)

    assert "security.protocol" in str(outcome.failures[0])


@settings(max_examples=20, deadline=None)
@given(cut=st.integers(0, 2500), flips=st.booleans(), version=st.sampled_from(["1.2", "1.3"]))
def test_a_handshake_that_breaks_anywhere_is_one_failure(
    cut: int, flips: bool, version: str
) -> None:
    """Cut off, or with one wrong byte: never two outcomes, never none, nothing raised."""
    own = context()
    own.maximum_version = ssl.TLSVersion.TLSv1_2 if version == "1.2" else ssl.TLSVersion.TLSv1_3
    loop = EventLoop()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_shake_badly, args=(listener, own, cut, flips))
        thread.start()
        connection = BrokerConnection(
            loop,
            connection_settings(
                TLS, connect_timeout_seconds=0.1
            ),  # both sides may wait for each other
            Address("localhost", listener.getsockname()[1]),
        )
        outcome = Outcome()
        outcome.send(connection)
        run_until(loop, lambda: outcome.is_over)
        connection.close("the test is over")
        thread.join(PATIENCE_SECONDS)
    loop.close()

    assert not outcome.replies
    assert len(outcome.failures) == 1


def _shake_badly(listener: socket.socket, own: ssl.SSLContext, cut: int, flips: bool) -> None:
    """A TLS server whose stream has one wrong byte, or an end, after `cut` bytes."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = own.wrap_bio(incoming, outgoing, server_side=True)
    sent = 0
    with listener.accept()[0] as peer, suppress(OSError):
        peer.settimeout(0.2)
        while some := peer.recv(65_536):
            incoming.write(some)
            with suppress(ssl.SSLWantReadError):
                tls.do_handshake()
                tls.read(1000)  # there it ends: no request is answered
            piece = bytearray(outgoing.read())
            if sent <= cut < sent + len(piece):
                if not flips:
                    peer.sendall(piece[: cut - sent])
                    return
                piece[cut - sent] ^= 0xFF
            sent += len(piece)
            peer.sendall(piece)


def test_an_answer_that_arrives_slowly_is_not_late(loop: EventLoop, clock: ManualClock) -> None:
    """Nobody is woken for a bit of a large one, but it counts when somebody looks."""
    reached, go_on = threading.Semaphore(0), threading.Semaphore(0)

    def between() -> None:
        reached.release()
        go_on.acquire(timeout=PATIENCE_SECONDS)

    body = random.randbytes(400_000)
    with SecureBroker(context(), cuts=(150_000, 170_000), between=between) as peer:
        connection = BrokerConnection(loop, connection_settings(TLS), peer.address)
        outcome = Outcome()
        outcome.send(connection, [body])
        run_until(loop, lambda: reached.acquire(blocking=False))

        def has_first_piece() -> bool:
            connection.on_ready(selectors.EVENT_READ)  # its end alone may wake nobody
            return connection._reader._frame_filled == 150_000 - HEADER_BYTES

        run_until(loop, has_first_piece)
        clock.advance(1.0)
        began = clock.monotonic()
        go_on.release()
        assert reached.acquire(timeout=PATIENCE_SECONDS)
        loop.run_once(0.05)
        assert connection._received_at < began, "20,000 bytes are not worth it"
        clock.advance(PATIENCE_SECONDS)
        connection.check_timeout(clock.monotonic())
        assert not outcome.is_over
        assert connection._received_at == clock.monotonic()
        go_on.release()
        run_until(loop, lambda: outcome.is_over)
        connection.close("the test is over")

    assert outcome.replies[0][HEADER_BYTES:] == body


# --- logins


def test_a_wrong_password_is_a_refusal_that_does_not_repeat_it(loop: EventLoop) -> None:
    """Even if the broker does, in several lines."""
    with SecureBroker(login=b"\0me\0another") as peer:
        sentence = refused(loop, SASL, peer)

    assert "sasl.jaas.config" in sentence
    assert PASSWORD not in sentence
    assert "\n" not in sentence


def test_a_mechanism_that_the_broker_does_not_have_is_a_refusal(loop: EventLoop) -> None:
    """With those that it has."""
    scram = replace(LOGIN, mechanism=SaslMechanism.SCRAM_SHA_256)
    with SecureBroker(login=PLAIN) as peer:
        sentence = refused(loop, replace(SASL, sasl=scram), peer)

    assert "SCRAM-SHA-256: check sasl.mechanism (it offers PLAIN)" in sentence


def test_sasl_to_a_listener_without_sasl_is_rejected(loop: EventLoop) -> None:
    """The listener is another one than the file says."""
    with SecureBroker() as peer:
        assert "security.protocol=PLAINTEXT" in refused(loop, SASL, peer)


def test_a_missing_login_is_explained_with_the_key(loop: EventLoop) -> None:
    """The broker hangs up without a word."""
    with SecureBroker(login=PLAIN) as peer:
        (outcome,), _ = ask(loop, SecuritySettings(), peer.address, [[b"x"]])

    assert "security.protocol" in str(outcome.failures[0])


@pytest.mark.parametrize("security", [SASL, BOTH], ids=lambda one: one.protocol.value)
def test_logging_in_again_loses_nothing_and_keeps_the_order(
    loop: EventLoop, clock: ManualClock, security: SecuritySettings
) -> None:
    """Under load, with requests under way: every one is answered, in order, on one connection.

    Time passes with each answer, so a broker reads a request a quarter of a second after it was
    sent, or sooner.
    """
    own = context() if security.tls else None
    answers: list[int] = []
    failures: list[ConnectionLostError] = []
    asked, total = 0, 100
    with SecureBroker(own, login=PLAIN, session_ms=2000) as peer:
        connection = BrokerConnection(loop, connection_settings(security), peer.address)
        run_until(loop, lambda: bool(connection.api_versions))

        def ask_more() -> bool:
            nonlocal asked
            while connection.in_flight < 5 and asked < total:
                one = _Numbered(asked, answers, failures, lambda: clock.advance(0.05))
                one.send(connection)
                asked += 1
            return bool(failures) or len(answers) == total

        run_until(loop, ask_more)
        connection.close("the test is over")

    assert not failures
    assert answers == list(range(total))
    assert peer.logins >= 4
    assert not peer.broken_rules


class _Numbered:
    def __init__(
        self,
        number: int,
        answers: list[int],
        failures: list[ConnectionLostError],
        then: Callable[[], None],
    ) -> None:
        self._number = number
        self._answers = answers
        self._failures = failures
        self._then = then

    def send(self, connection: BrokerConnection) -> None:
        body = self._number.to_bytes(4, "big")

        def answered(frame: memoryview) -> None:
            assert bytes(frame[4:]) == body
            self._answers.append(self._number)
            self._then()

        def header(correlation_id: int) -> bytes:
            size, key = 8 + len(body), ECHO
            return b"".join(
                n.to_bytes(k, "big") for n, k in ((size, 4), (key, 2), (0, 2), (correlation_id, 4))
            )

        connection.send_buffers(header, [body], answered, self._failures.append)


def test_an_idle_connection_logs_in_again_when_it_is_used(
    loop: EventLoop, clock: ManualClock
) -> None:
    """Not before, or it would never be idle; the request waits meanwhile."""
    with SecureBroker(login=PLAIN, session_ms=SESSION_MS) as peer:
        connection = BrokerConnection(loop, connection_settings(SASL), peer.address)
        run_until(loop, lambda: bool(connection.api_versions))
        clock.advance(2 * SESSION_SECONDS)
        loop.run_once(0.01)
        assert peer.logins == 1
        outcome = Outcome()
        outcome.send(connection)
        run_until(loop, lambda: outcome.is_over)
        connection.close("the test is over")

    assert outcome.replies
    assert peer.logins == 2
    assert not peer.broken_rules


class _Renewed:
    """AWS's keys, other ones each time."""

    def __init__(self) -> None:
        self._given = 0

    def region(self, _host: str) -> str:
        return "eu-central-1"

    def credentials(self, _region: str) -> AwsCredentials:
        self._given += 1
        return AwsCredentials(f"AKID{self._given}", Secret("secret"), Secret("session"))


def test_a_new_login_at_msk_has_the_keys_of_then(
    loop: EventLoop, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys of a role expire sooner than connections end."""
    source = _Renewed()
    monkeypatch.setattr(msk_iam, "credential_source", lambda _options: source)
    sasl = SaslSettings(SaslMechanism.AWS_MSK_IAM, aws=AwsSettings())
    security = SecuritySettings(SecurityProtocol.SASL_SSL, TLS.tls, sasl)
    with SecureBroker(
        context(),
        login=b"",
        mechanism="AWS_MSK_IAM",
        takes=lambda _proof: True,
        answer=b'{"version":"2020_10_22","request-id":"1"}',
        session_ms=SESSION_MS,
    ) as peer:
        connection = BrokerConnection(loop, connection_settings(security), peer.address)
        run_until(loop, lambda: bool(connection.api_versions))
        clock.advance(2 * SESSION_SECONDS)
        outcome = Outcome()
        outcome.send(connection)
        run_until(loop, lambda: outcome.is_over)
        connection.close("the test is over")

    assert outcome.replies
    assert not peer.broken_rules
    signers = [json.loads(one)["x-amz-credential"].partition("/")[0] for one in peer.proofs]
    assert signers == ["AKID1", "AKID2"]
    assert {json.loads(one)["host"] for one in peer.proofs} == {peer.address.host}


def test_a_login_that_fails_later_closes_the_connection(
    loop: EventLoop, clock: ManualClock
) -> None:
    """What waited for it fails, and a new connection may be tried."""
    with SecureBroker(login=PLAIN, session_ms=SESSION_MS) as peer:
        connection = BrokerConnection(loop, connection_settings(SASL), peer.address)
        run_until(loop, lambda: bool(connection.api_versions))
        peer.login = b"\0me\0changed"
        clock.advance(SESSION_SECONDS)
        outcomes = [Outcome(), Outcome()]
        for outcome in outcomes:
            outcome.send(connection)
        run_until(loop, lambda: all(outcome.is_over for outcome in outcomes))

    assert connection.closed
    assert all("sasl.jaas.config" in str(outcome.failures[0]) for outcome in outcomes)


def _tokens(endpoint: TokenEndpoint) -> SecuritySettings:
    oauth = OAuthSettings(
        endpoint.url, "me", Secret("secret"), read_timeout_seconds=PATIENCE_SECONDS
    )
    return SecuritySettings(
        SecurityProtocol.SASL_PLAINTEXT, sasl=SaslSettings(SaslMechanism.OAUTHBEARER, oauth=oauth)
    )


def _waits_for_a_token(connection: BrokerConnection) -> bool:
    return connection._authenticator is not None and connection._authenticator.is_computing


def test_a_token_request_blocks_no_other_connection(loop: EventLoop, clock: ManualClock) -> None:
    """The endpoint is silent; another cluster's requests are answered meanwhile."""
    with TokenEndpoint({"me": "secret"}) as endpoint, SecureBroker(login=PLAIN) as peer:
        endpoint.mood = ResponseMode.SILENT
        limits = {"connect_timeout_seconds": 1.0}
        stuck = BrokerConnection(
            loop, connection_settings(_tokens(endpoint), **limits), peer.address
        )
        failed = Outcome()
        failed.send(stuck)
        run_until(loop, lambda: _waits_for_a_token(stuck))
        clock.advance(2.0)
        (outcome,), _ = ask(loop, SASL, peer.address, [[b"x"]])
        assert outcome.replies
        assert not failed.is_over, "the endpoint has time until its own limit"
        endpoint.mood = ResponseMode.BROKEN
        run_until(loop, lambda: failed.is_over)

    assert endpoint.url in str(failed.failures[0]), "not the connection's own time-out"


def test_a_token_that_never_comes_ends_with_the_requests_time(
    loop: EventLoop, clock: ManualClock
) -> None:
    """Whatever the endpoint's limits are."""
    with TokenEndpoint({"me": "secret"}) as endpoint, SecureBroker(login=PLAIN) as peer:
        endpoint.mood = ResponseMode.SILENT
        limits = {"connect_timeout_seconds": 1.0, "request_timeout_seconds": 5.0}
        connection = BrokerConnection(
            loop, connection_settings(_tokens(endpoint), **limits), peer.address
        )
        outcome = Outcome()
        outcome.send(connection)
        run_until(loop, lambda: _waits_for_a_token(connection))
        clock.advance(4.0)
        loop.run_once(0.01)
        assert not outcome.is_over
        clock.advance(2.0)
        run_until(loop, lambda: outcome.is_over)

    assert "no credentials were available" in str(outcome.failures[0])
    assert connection.closed


@pytest.mark.parametrize("key", [API_VERSIONS, HANDSHAKE, AUTHENTICATE])
@pytest.mark.parametrize("body", [b"", b"\0", b"\0\x21\xff\xff\xff\xff", b"\xff" * 40])
def test_an_answer_to_a_login_that_cannot_be_read_ends_only_its_connection(
    loop: EventLoop, key: int, body: bytes
) -> None:
    """Whatever is at the other end, the task continues with its other brokers."""
    with SecureBroker(login=PLAIN, nonsense={key: body}) as peer:
        connection = BrokerConnection(loop, connection_settings(SASL), peer.address)
        outcome = Outcome()
        outcome.send(connection, [b"x"])
        run_until(loop, lambda: outcome.is_over)
        connection.close("the test is over")

    assert outcome.failures


def test_a_login_that_is_not_taken_once_more_is_no_refusal(
    loop: EventLoop, clock: ManualClock
) -> None:
    """Such a broker lets us in on a new connection; it does not count as one without logins."""
    owner = RecordingOwner()
    with SecureBroker(login=PLAIN, session_ms=SESSION_MS) as peer:
        peer.takes_once = True
        connection = BrokerConnection(loop, connection_settings(SASL), peer.address, owner)
        for is_last in (False, True):
            outcome = Outcome()
            outcome.send(connection, [b"x"])
            run_until(loop, lambda outcome=outcome: outcome.is_over)  # type: ignore[misc]
            assert bool(outcome.failures) == is_last
            clock.advance(0.99 * SESSION_SECONDS)

    assert "refused the re-authentication" in str(outcome.failures[0])
    assert not owner.refusals


@pytest.mark.usefixtures("clock")
def test_a_very_short_session_is_not_renewed_all_the_time(loop: EventLoop) -> None:
    """A broker takes a login a second: what was held back meanwhile follows it at once."""
    with SecureBroker(login=PLAIN, session_ms=1) as peer:
        outcomes, _ = ask(loop, SASL, peer.address, [[b"x"]] * 3)

    assert all(one.replies for one in outcomes)
    assert peer.logins == 1


def test_between_a_short_session_and_the_next_login_requests_wait(
    loop: EventLoop, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session of a token's last moments is shorter than the pause that brokers insist on."""
    monkeypatch.setattr("sparkmirror.wire.sasl_authenticator.MIN_REAUTHENTICATION_SECONDS", 2.4)
    with SecureBroker(login=PLAIN, session_ms=600) as peer:
        connection = BrokerConnection(loop, connection_settings(SASL), peer.address)
        first, second = Outcome(), Outcome()
        first.send(connection, [b"x"])
        run_until(loop, lambda: first.is_over)
        clock.advance(1.2)
        second.send(connection, [b"x"])
        for _ in range(10):
            loop.run_once(0.01)
        assert (peer.logins, second.is_over) == (1, False)
        clock.advance(1.3)
        run_until(loop, lambda: second.is_over)
        connection.close("the test is over")

    assert peer.broken_rules == []
    assert first.replies
    assert second.replies
    assert peer.logins == 2


@pytest.mark.parametrize(
    ("session", "soonest", "latest"),
    [
        (3600.0, 3060.0, 3420.0),  # as Java's clients
        (10.0, 8.5, 9.0),
        (2.0, 1.0, 1.0),
        (0.4, 0.2, 0.2),
    ],
)
def test_no_request_is_sent_at_the_very_end_of_a_session(
    session: float, soonest: float, latest: float
) -> None:
    """A broker that is busy with the one before would read it afterwards, and hang up."""
    assert reauthentication_seconds(session, 0.0) == pytest.approx(soonest)
    assert reauthentication_seconds(session, 1.0) == pytest.approx(latest)
