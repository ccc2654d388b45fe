# SPDX-License-Identifier: Apache-2.0
"""Logins at MSK, judged by Amazon's own library in Kafka's Java client: what it says, we say.

No MSK is reached: a peer of ours takes the login. The credentials are made up.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from sparkmirror.devcluster.jars import DEFAULT_KAFKA
from sparkmirror.devcluster.jvm import KafkaJvm
from sparkmirror.devcluster.kafka_tools import TOPICS
from sparkmirror.model import Secret
from sparkmirror.security import msk_iam
from sparkmirror.security.aws_credentials import AwsCredentials
from sparkmirror.security.msk_iam import (
    LIFETIME_SECONDS,
    sign_login_message,
    sign_token,
)
from support.data.maven_jar import maven_jar
from support.peers.secure_broker import ECHO, SecureBroker
from support.waiting import eventually

LIBRARY = ("software.amazon.msk", "aws-msk-iam-auth", "2.3.9", "all")
DIGEST = "922064f312ddc8a5f3dbe65fcef3d02ddbd588a02e3a6f0fca4b5a4dbec1ba43"
REGION = "eu-central-1"
KEYS = AwsCredentials(
    "AKIDEXAMPLE", Secret("wJalr/XUtn+FEMI=K7MDENG"), Secret("IQoJb3/JpZ2+luX2Vj==")
)
WITHOUT_TOKEN = AwsCredentials(KEYS.access_key, KEYS.secret_key)
ANSWER = b'{"version":"2020_10_22","request-id":"47f8f8e6-c08f-4e4d-a2c5-4e6e4c5a7b3c"}'
SECONDS = 60.0
AMAZON = "software.amazon.msk.auth.iam"
IAM = f"""
sasl.mechanism=AWS_MSK_IAM
sasl.jaas.config={AMAZON}.IAMLoginModule required;
sasl.client.callback.handler.class={AMAZON}.IAMClientCallbackHandler
"""
OAUTH = f"""
sasl.mechanism=OAUTHBEARER
sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;
sasl.login.callback.handler.class={AMAZON}.IAMOAuthBearerLoginCallbackHandler
"""


@contextmanager
def java(peer: SecureBroker, settings: str, keys: AwsCredentials, scratch: Path) -> Iterator[None]:
    """Kafka's tool that lists topics tries to log in at the peer."""
    jvm = KafkaJvm.of(DEFAULT_KAFKA, heap="256m", plugins=[maven_jar(*LIBRARY, sha256=DIGEST)])
    logging, file = scratch / "logging.properties", scratch / "client.properties"
    logging.write_text(jvm.logging_text("error"), encoding="utf-8")
    file.write_text(f"security.protocol=SASL_PLAINTEXT\n{settings}", encoding="utf-8")
    command = jvm.command(
        TOPICS,
        f"--bootstrap-server=localhost:{peer.address.port}",
        f"--command-config={file}",
        "--list",
        logging=logging,
    )
    environment = os.environ | {
        "AWS_ACCESS_KEY_ID": keys.access_key,
        "AWS_SECRET_ACCESS_KEY": keys.secret_key.reveal(),
        "AWS_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    if keys.session_token is not None:
        environment["AWS_SESSION_TOKEN"] = keys.session_token.reveal()
    with (scratch / "java.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.kill()
            process.wait()


def sign_as(date: str, lifetime: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sign at the moment of Java's request. Java reads the clock twice and may lose a second."""
    assert LIFETIME_SECONDS - int(lifetime) in (0, 1)
    now = datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: now)
    monkeypatch.setattr(msk_iam, "LIFETIME_SECONDS", int(lifetime))


@pytest.mark.parametrize("keys", [KEYS, WITHOUT_TOKEN])
def test_our_signed_request_is_amazons(
    keys: AwsCredentials, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every field, the signature included, of one that was signed in the same second."""
    with SecureBroker(
        login=b"", mechanism="AWS_MSK_IAM", takes=lambda _proof: True, answer=ANSWER
    ) as peer:
        with java(peer, IAM, keys, tmp_path):
            eventually(lambda: ECHO in peer.seen, SECONDS, "Java goes on after its login")
        theirs: dict[str, Any] = json.loads(peer.proofs[0])
    sign_as(theirs["x-amz-date"], theirs["x-amz-expires"], monkeypatch)
    ours = json.loads(sign_login_message("localhost", REGION, keys))

    assert theirs.pop("user-agent").startswith("aws-msk-iam-auth/")
    assert ours.pop("user-agent").startswith("sparkmirror/")
    assert theirs == ours


def test_our_signed_token_is_amazons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address in it, its signature included."""
    with SecureBroker(login=b"", mechanism="OAUTHBEARER", takes=lambda _proof: True) as peer:
        with java(peer, OAUTH, KEYS, tmp_path):
            eventually(lambda: ECHO in peer.seen, SECONDS, "Java goes on after its login")
        proof = peer.proofs[0].decode()
    bearer = proof.removeprefix("n,,\x01auth=Bearer ").removesuffix("\x01\x01")
    theirs, fields = parts(bearer)
    sign_as(fields["X-Amz-Date"], fields["X-Amz-Expires"], monkeypatch)
    ours = parts(sign_token(REGION, KEYS).text.reveal())

    assert fields.pop("User-Agent").startswith("aws-msk-iam-auth/")
    assert ours[1].pop("User-Agent").startswith("sparkmirror/")
    assert (theirs, fields) == ours


def parts(token: str) -> tuple[str, dict[str, str]]:
    """The address in a token without its query, and the query."""
    address = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    return f"{address.scheme}://{address.netloc}{address.path}", dict(parse_qsl(address.query))
