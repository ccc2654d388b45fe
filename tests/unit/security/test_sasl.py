# SPDX-License-Identifier: Apache-2.0
"""Every mechanism follows its standard, and SCRAM verifies the broker."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.errors import AuthenticationError
from sparkmirror.model import Secret
from sparkmirror.security.sasl import SaslClient, create_sasl_client
from sparkmirror.security.settings import (
    AwsSettings,
    KerberosSettings,
    OAuthSettings,
    SaslMechanism,
    SaslSettings,
)
from sparkmirror.security.tokens import Token

PASSWORD = "hunter2-hunter2"
TOKEN = Token(Secret("token-text-1"), 2e9)
OAUTH = OAuthSettings("http://localhost/token", "me", Secret(PASSWORD))
NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
SCRAMS = [SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512]


def client(
    mechanism: SaslMechanism, username: str = "user", password: str = PASSWORD
) -> SaslClient:
    """A client that wants to log in."""
    aws = AwsSettings() if mechanism is SaslMechanism.AWS_MSK_IAM else None
    given_settings = SaslSettings(
        mechanism, username, Secret(password), OAUTH, kerberos=KerberosSettings(), aws=aws
    )
    return create_sasl_client(given_settings, "localhost", TOKEN)


def test_plain_is_one_message() -> None:
    """RFC 4616, without an identity to act as: that is how Java's client does it."""
    plain = client(SaslMechanism.PLAIN, "üser", "p:w")

    assert plain.initial_response() == b"\0" + "üser".encode() + b"\0p:w"
    assert plain.evaluate_challenge(b"") is None


@pytest.mark.parametrize(("username", "password"), [("a\0b", "c"), ("a", "b\0c"), ("", "c")])
def test_plain_refuses_what_it_cannot_say(username: str, password: str) -> None:
    """A NUL would end the name."""
    with pytest.raises(AuthenticationError, match="PLAIN"):
        client(SaslMechanism.PLAIN, username, password)


@pytest.fixture
def of_the_standard(monkeypatch: pytest.MonkeyPatch) -> SaslClient:
    """The client in the example of RFC 7677."""
    monkeypatch.setattr(secrets, "token_hex", lambda _: NONCE)
    return client(SaslMechanism.SCRAM_SHA_256, "user", "pencil")


def test_scram_messages_match_the_rfc(of_the_standard: SaslClient) -> None:
    """The example of RFC 7677, byte for byte."""
    assert of_the_standard.initial_response() == f"n,,n=user,r={NONCE}".encode()
    assert (
        of_the_standard.evaluate_challenge(FIRST)
        == (
            f"c=biws,r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
            "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        ).encode()
    )
    assert of_the_standard.evaluate_challenge(FINAL) is None


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        ([b""], "not SCRAM"),
        ([FIRST.replace(NONCE[:4].encode(), b"xxxx")], "a nonce that does not start"),
        ([FIRST.replace(b"4096", b"4095")], "count of 4095"),
        ([FIRST.replace(b"4096", b"100000000")], "count of 100000000"),
        ([FIRST.replace(b"gQ==", b"gQ=")], "not base64"),
        ([FIRST, b"e=invalid-proof"], "username and password"),
        ([FIRST, b""], "not SCRAM"),
        ([FIRST, FINAL.replace(b"6rri", b"6rrj")], "did not prove"),
    ],
)
def test_scram_rejects_a_broker_without_a_proof(
    of_the_standard: SaslClient, answers: list[bytes], sentence: str
) -> None:
    """The broker has to know the password as well."""
    *before, last = answers
    for answer in before:
        of_the_standard.evaluate_challenge(answer)
    with pytest.raises(AuthenticationError, match=sentence) as caught:
        of_the_standard.evaluate_challenge(last)
    assert not caught.value.retriable
    assert "pencil" not in str(caught.value)


@pytest.mark.parametrize("mechanism", SCRAMS)
@given(username=st.text(min_size=1, max_size=20), password=st.text(max_size=20))
@settings(max_examples=8, deadline=None)
def test_a_broker_recognises_any_name_and_password(
    mechanism: SaslMechanism, username: str, password: str
) -> None:
    """Also names with commas and equals signs; the test implements the broker's side."""
    digest = mechanism.value.removeprefix("SCRAM-").replace("-", "").lower()
    scram = client(mechanism, username, password)
    bare = scram.initial_response().removeprefix(b"n,,")
    name, nonce = bare.removeprefix(b"n=").decode().split(",r=")
    server_first = f"r={nonce}server,s={base64.b64encode(b'salt').decode()},i=4096".encode()
    answer = scram.evaluate_challenge(server_first)
    assert answer is not None
    without_proof, proof = answer.rsplit(b",p=", 1)
    spoken = b",".join((bare, server_first, without_proof))
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), b"salt", 4096)
    stored_key = hashlib.new(digest, hmac.digest(salted, b"Client Key", digest)).digest()
    signature = hmac.digest(stored_key, spoken, digest)
    key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))

    assert name.replace("=2C", ",").replace("=3D", "=") == username
    assert hashlib.new(digest, key).digest() == stored_key
    proved = hmac.digest(hmac.digest(salted, b"Server Key", digest), spoken, digest)
    assert scram.evaluate_challenge(b"v=" + base64.b64encode(proved)) is None


def test_a_delegation_token_sends_tokenauth() -> None:
    """The option tokenauth of Kafka's ScramLoginModule."""
    wanted = SaslSettings(SaslMechanism.SCRAM_SHA_256, "id", Secret("hmac"), is_token=True)

    assert (
        create_sasl_client(wanted, "localhost", None)
        .initial_response()
        .endswith(b",tokenauth=true")
    )


def test_a_token_is_carried_with_its_extensions() -> None:
    """RFC 7628; Confluent Cloud wants logicalCluster and identityPoolId."""
    with_extensions = SaslSettings(
        SaslMechanism.OAUTHBEARER,
        oauth=replace(OAUTH, extensions={"logicalCluster": "lkc-1", "identityPoolId": "pool-1"}),
    )
    bearer = create_sasl_client(with_extensions, "localhost", TOKEN)

    assert (
        client(SaslMechanism.OAUTHBEARER).initial_response()
        == b"n,,\x01auth=Bearer token-text-1\x01\x01"
    )
    assert bearer.initial_response() == (
        b"n,,\x01auth=Bearer token-text-1\x01logicalCluster=lkc-1\x01identityPoolId=pool-1\x01\x01"
    )
    assert bearer.evaluate_challenge(b"") is None


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        (b'{"status":"invalid_token","scope":"x"}', "invalid_token"),
        (b'{"status":"token-text-1 is wrong"}', "hidden"),
        (b"{}", "without a reason"),
        (b"[" * 100_000, "without a reason"),
    ],
)
def test_a_refused_token_is_an_error_message(challenge: bytes, reason: str) -> None:
    """The broker says why, we say that we heard it, and the error has the reason."""
    bearer = client(SaslMechanism.OAUTHBEARER)
    assert bearer.evaluate_challenge(challenge) == b"\x01"
    with pytest.raises(AuthenticationError, match=reason) as caught:
        bearer.evaluate_challenge(b"")
    assert "token-text-1" not in str(caught.value)


@pytest.mark.parametrize("extensions", [{"auth": "x"}, {"a1": "x"}, {"a": ""}, {"a": "\x01"}])
def test_extensions_that_cannot_be_sent_are_refused(extensions: dict[str, str]) -> None:
    """An extension could otherwise replace the token."""
    wanted = SaslSettings(SaslMechanism.OAUTHBEARER, oauth=replace(OAUTH, extensions=extensions))
    with pytest.raises(AuthenticationError, match="extension"):
        create_sasl_client(wanted, "localhost", TOKEN)


@pytest.mark.parametrize("mechanism", SaslMechanism)
def test_what_is_missing_is_named(mechanism: SaslMechanism) -> None:
    """A login needs a password, a token, a ticket or keys."""
    with pytest.raises(AuthenticationError, match="needs"):
        create_sasl_client(SaslSettings(mechanism, "user"), "localhost", None)


@pytest.mark.parametrize(
    ("mechanism", "package", "extra"),
    [
        (SaslMechanism.GSSAPI, "gssapi", r"sparkmirror\[kerberos\]"),
        (SaslMechanism.AWS_MSK_IAM, "botocore", r"sparkmirror\[msk-iam\]"),
    ],
)
def test_an_extra_that_is_missing_is_named(
    mechanism: SaslMechanism, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the command that installs it."""
    for module in [one for one in sys.modules if one.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    with pytest.raises(AuthenticationError, match=extra):
        client(mechanism)


@settings(max_examples=50, deadline=None)
@given(
    mechanism=st.sampled_from([SaslMechanism.PLAIN, *SCRAMS, SaslMechanism.OAUTHBEARER]),
    challenges=st.lists(
        st.one_of(
            st.binary(max_size=60),
            st.builds(
                lambda nonce, salt, rounds: b"r=%s,s=%s,i=%s" % (nonce, salt, rounds),
                st.sampled_from([b"NONCE", b"NONCEmore", b"other"]),
                st.sampled_from([b"c2FsdA==", b"=", b"c2Fs,"]),
                st.sampled_from([b"4096", b"-1", b"99999999999", b"4096,x=y"]),
            ),
            st.sampled_from([b"v=AAAA", b"e=x", b"v=", b'{"status":[]}', b'{"status":{"a":1}}']),
        ),
        max_size=4,
    ),
)
def test_any_challenge_is_answered_or_refused(
    mechanism: SaslMechanism, challenges: list[bytes]
) -> None:
    """AuthenticationError or an answer; neither password nor token in a sentence."""
    sasl = client(mechanism)
    own = sasl.initial_response().rsplit(b"r=", 1)[-1]
    try:
        for challenge in challenges:
            if sasl.evaluate_challenge(challenge.replace(b"NONCE", own)) is None:
                break
    except AuthenticationError as error:
        assert PASSWORD not in str(error)  # noqa: PT017 - either outcome is right
        assert "token-text-1" not in str(error)  # noqa: PT017
