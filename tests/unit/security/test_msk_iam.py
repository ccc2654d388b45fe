# SPDX-License-Identifier: Apache-2.0
"""Our signed requests are those that Amazon's own library made; golden/README.md says how."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sparkmirror.errors import AuthenticationError
from sparkmirror.model import Secret
from sparkmirror.security import msk_iam
from sparkmirror.security.aws_credentials import AwsCredentials, region_of
from sparkmirror.security.msk_iam import (
    LIFETIME_SECONDS,
    sign_login_message,
    sign_token,
)
from sparkmirror.security.sasl import create_sasl_client
from sparkmirror.security.settings import AwsSettings, SaslMechanism, SaslSettings

GOLDEN = Path(__file__).parent / "golden"
REGION = "eu-central-1"
KEYS = AwsCredentials(
    "AKIDEXAMPLE", Secret("wJalr/XUtn+FEMI=K7MDENG"), Secret("IQoJb3/JpZ2+luX2Vj==")
)


def set_clock(monkeypatch: pytest.MonkeyPatch, text: str) -> datetime:
    """Let botocore sign at the moment that a signed request names."""
    now = datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: now)
    return now


def opened(token: str) -> list[str]:
    """The address in a token, cut where its parameters begin."""
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode().split("&")


def test_a_signed_request_is_amazons(monkeypatch: pytest.MonkeyPatch) -> None:
    """All but who made it, the signature included."""
    theirs = json.loads((GOLDEN / "msk-iam.json").read_text())
    set_clock(monkeypatch, theirs["x-amz-date"])
    ours = json.loads(sign_login_message("localhost", REGION, KEYS))

    assert {**theirs, "user-agent": ours["user-agent"]} == ours
    assert ours["user-agent"].startswith("sparkmirror/")


def test_a_signed_token_is_amazons(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same as an address in base64, for as long as MSK takes it."""
    theirs = opened((GOLDEN / "msk-iam-token.txt").read_text().strip())
    date = next(one for one in theirs if one.startswith("X-Amz-Date=")).partition("=")[2]
    now = set_clock(monkeypatch, date)
    token = sign_token(REGION, KEYS)

    *fields, agent = opened(token.text.reveal())
    assert sorted(theirs[:-1]) == sorted(fields)
    assert agent.startswith("User-Agent=sparkmirror%2F")
    assert token.expires_at == now.timestamp() + LIFETIME_SECONDS


def test_the_host_is_sent_as_it_is_signed() -> None:
    """SigV4 signs host names in lower case."""
    assert json.loads(sign_login_message("B-1.Kafka", REGION, KEYS))["host"] == "b-1.kafka"


def test_keys_without_a_session_token_send_none() -> None:
    """Those of a user; keys of a role have one."""
    of_a_user = AwsCredentials(KEYS.access_key, KEYS.secret_key, None)
    assert "x-amz-security-token" not in json.loads(sign_login_message("b", REGION, of_a_user))


def test_no_secret_key_is_in_what_is_sent() -> None:
    """It signs and stays here; the session token goes along, as it must."""
    for made in (
        sign_login_message("b-1.kafka", REGION, KEYS).decode(),
        "".join(opened(sign_token(REGION, KEYS).text.reveal())),
    ):
        assert KEYS.secret_key.reveal() not in made
        assert KEYS.access_key in made
    assert KEYS.secret_key.reveal() not in repr(KEYS)


def test_the_region_is_in_the_name_of_the_broker() -> None:
    """Of provisioned, serverless and privately linked clusters."""
    expected = {
        "b-1.demo.abc123.c2.kafka.eu-central-1.amazonaws.com": "eu-central-1",
        "boot-x1.c1.kafka-serverless.us-gov-west-1.amazonaws.com": "us-gov-west-1",
        "b-3.demo.abc.c4.kafka.cn-north-1.amazonaws.com.cn": "cn-north-1",
        "vpce-0a.kafka.us-east-1.vpce.amazonaws.com": "us-east-1",
        "localhost": None,
    }

    assert {host: region_of(host) for host in expected} == expected


class _Source:
    """Keys without AWS."""

    def region(self, _host: str) -> str:
        return REGION

    def credentials(self, _region: str) -> AwsCredentials:
        return KEYS


@pytest.fixture
def _with_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(msk_iam, "credential_source", lambda _options: _Source())


@pytest.mark.usefixtures("_with_keys")
@pytest.mark.parametrize("answer", [b"", b"no JSON", b"[]", b"{}", b"[" * 100_000])
def test_a_cluster_that_is_not_msk_is_noticed(answer: bytes) -> None:
    """MSK answers with the id of the request, and so ends the login."""
    sasl = SaslSettings(SaslMechanism.AWS_MSK_IAM, aws=AwsSettings())
    good = b'{"version":"2020_10_22","request-id":"1"}'

    assert create_sasl_client(sasl, "b-1.kafka", None).evaluate_challenge(good) is None
    with pytest.raises(AuthenticationError, match="Is it an MSK broker"):
        create_sasl_client(sasl, "b-1.kafka", None).evaluate_challenge(answer)


@pytest.mark.usefixtures("_with_keys")
def test_a_signed_token_goes_the_way_of_tokens() -> None:
    """A broker that refuses it says why, and the sentence does not repeat it."""
    sasl = SaslSettings(SaslMechanism.OAUTHBEARER, aws=AwsSettings())
    bearer = create_sasl_client(sasl, "b-1.kafka", None)

    sent = bearer.initial_response().decode()
    assert sent.startswith("n,,\x01auth=Bearer ")
    token = sent.removeprefix("n,,\x01auth=Bearer ").rstrip("\x01")
    assert opened(token)[0].startswith(f"https://kafka.{REGION}.amazonaws.com?Action=")
    assert (
        bearer.evaluate_challenge(json.dumps({"status": f"Access denied: {token}"}).encode())
        == b"\x01"
    )
    with pytest.raises(AuthenticationError, match=r"Access denied: \[hidden\].*IAM"):
        bearer.evaluate_challenge(b"")
