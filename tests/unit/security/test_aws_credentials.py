# SPDX-License-Identifier: Apache-2.0
"""Where AWS's keys come from: botocore itself, and an STS on this machine. It is an extra."""

from __future__ import annotations

import os
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from sparkmirror.errors import AuthenticationError
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.model import Secret
from sparkmirror.security import aws_credentials
from sparkmirror.security.aws_credentials import (
    AwsCredentials,
    AwsCredentialSource,
    credential_source,
)
from sparkmirror.security.settings import (
    AwsSettings,
    SaslMechanism,
    SaslSettings,
    SecurityProtocol,
    SecuritySettings,
)
from sparkmirror.wire.settings import ConnectionSettings
from support.log_capture import captured_log
from support.peers.secure_broker import API_VERSIONS, SecureBroker
from support.waiting import PATIENCE_SECONDS, eventually

REGION = "eu-central-1"
BROKER = f"b-1.x.kafka.{REGION}.amazonaws.com"
ARN = "arn:aws:iam::123456789012:role/mirror"
ROLE = AwsSettings(role=ARN)
ANSWER = """<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result>
<Credentials><AccessKeyId>ASIA{number}</AccessKeyId><SecretAccessKey>hush-key</SecretAccessKey>
<SessionToken>hush-session-{number}</SessionToken><Expiration>{ends}</Expiration></Credentials>
<AssumedRoleUser><Arn>arn</Arn><AssumedRoleId>id</AssumedRoleId></AssumedRoleUser>
</{action}Result></{action}Response>"""
DENIED = """<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>
<Code>AccessDenied</Code><Message>not you</Message></Error></ErrorResponse>"""


class Sts:
    """An STS that returns a role's keys and records all requests."""

    def __init__(self) -> None:
        self.asked: list[dict[str, list[str]]] = []
        self.signers: list[str] = []
        self.regions: list[str] = []
        self.lifetime = timedelta(hours=1)
        self.denies = False
        self.breaks_off = False  # in the middle of an answer


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine that knows nothing of AWS yet."""
    for name in [one for one in os.environ if one.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    return tmp_path


@pytest.fixture
def sts(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sts]:
    """An STS, and keys in the environment that may ask it."""
    assert home.is_dir()
    sts = Sts()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            sts.asked.append(parse_qs(body))
            proof = self.headers.get("Authorization", "Credential=/")  # none: by a web identity
            scope = proof.split("Credential=")[1].split("/")
            sts.signers.append(scope[0])
            sts.regions += scope[2:3]
            ends = f"{datetime.now(UTC) + sts.lifetime:%Y-%m-%dT%H:%M:%SZ}"
            action = sts.asked[-1]["Action"][0]
            text = ANSWER.format(action=action, number=len(sts.asked), ends=ends)
            text = DENIED if sts.denies else text[:-40] if sts.breaks_off else text
            self.send_response(403 if sts.denies else 200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDENV")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        yield sts
        server.shutdown()
        thread.join()


def test_a_role_is_requested_once(sts: Sts) -> None:
    """However many connections log in, until its keys are about to expire."""
    source = AwsCredentialSource(replace(ROLE, external_id="ext"))
    found: list[AwsCredentials] = []
    threads = [
        threading.Thread(target=lambda: found.append(source.credentials(REGION))) for _ in range(8)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()

    assert {one.access_key for one in found} == {"ASIA1"}
    assert len(found) == 8
    (asked,) = sts.asked
    assert asked["RoleSessionName"] == ["aws-msk-iam-auth"]
    assert (asked["RoleArn"], asked["ExternalId"]) == ([ARN], ["ext"])


def test_keys_of_a_role_are_renewed_in_time(sts: Sts) -> None:
    """A new login has new ones when the old ones are about to expire."""
    sts.lifetime = timedelta(minutes=5)
    source = AwsCredentialSource(ROLE)

    assert [source.credentials(REGION).access_key for _ in range(2)] == ["ASIA1", "ASIA2"]
    sts.lifetime = timedelta(hours=1)
    assert [source.credentials(REGION).access_key for _ in range(3)] == ["ASIA3"] * 3


def test_a_role_may_have_keys_of_its_own(sts: Sts) -> None:
    """The JAAS line names who asks."""
    settings = replace(ROLE, access_key="AKIDLINE", secret_key=Secret("s"), session_name="mine")
    AwsCredentialSource(settings).credentials(REGION)

    assert sts.signers == ["AKIDLINE"]
    assert sts.asked[0]["RoleSessionName"] == ["mine"]


def test_a_role_that_is_denied_is_an_error_message(sts: Sts) -> None:
    """The error has AWS's code and is retriable, because policies change."""
    sts.denies = True
    source = AwsCredentialSource(ROLE)
    with pytest.raises(
        AuthenticationError, match=r"ClientError, AccessDenied.*awsRoleArn"
    ) as caught:
        source.credentials(REGION)
    assert caught.value.retriable
    sts.denies = False
    assert source.credentials(REGION).access_key.startswith("ASIA")


def test_a_profile_is_read_again(home: Path) -> None:
    """Keys that do not expire may be changed in their file at any time."""
    file = home / "credentials"
    source = AwsCredentialSource(replace(ROLE, profile="p"))
    with pytest.raises(AuthenticationError, match="ProfileNotFound"):
        source.credentials(REGION)
    for name in ("AKIDONE", "AKIDTWO"):
        file.write_text(f"[p]\naws_access_key_id={name}\naws_secret_access_key=s\n")
        assert source.credentials(REGION).access_key == name


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("own", ["", "region = us-west-2\n"])
def test_the_role_of_a_profile_is_requested_where_the_brokers_are(
    sts: Sts, home: Path, own: str
) -> None:
    """Unless the profile says where; without any region botocore would ask the whole world's."""
    profile = f"[profile mirror]\nrole_arn = {ARN}\ncredential_source = Environment\n{own}"
    (home / "config").write_text(profile)
    keys = AwsCredentialSource(AwsSettings(profile="mirror")).credentials(REGION)
    assert keys.access_key == "ASIA1"
    assert sts.regions == ["us-west-2" if own else REGION]


def test_missing_aws_credentials_are_a_retriable_error() -> None:
    """The error is retriable: the metadata service may be down for a moment."""
    with pytest.raises(AuthenticationError, match="No AWS credentials") as caught:
        AwsCredentialSource(AwsSettings()).credentials(REGION)
    assert caught.value.retriable


@pytest.mark.usefixtures("home")
def test_the_region_is_known_from_name_or_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Amazon's names first, then any name with a region in it, then what is set."""
    source = AwsCredentialSource(AwsSettings())
    with pytest.raises(AuthenticationError, match="Set AWS_REGION"):
        source.region("kafka.my-test-1.example.com")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    assert source.region("localhost") == "us-west-2"
    monkeypatch.setenv("AWS_REGION", "us-east-2")
    assert source.region("localhost") == "us-east-2"
    assert source.region("kafka.eu-west-1.example.com") == "eu-west-1"
    assert source.region("b-1.x.kafka.eu-west-3.amazonaws.com") == "eu-west-3"


@pytest.fixture
def in_a_pod(home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """What EKS does to the environment, from then on."""

    def enter() -> None:
        file = home / "token"
        file.write_text("hush-web-identity")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(file))
        monkeypatch.setenv("AWS_ROLE_ARN", ARN)
        monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)

    return enter


def test_no_key_is_in_any_log(sts: Sts, in_a_pod: Callable[[], None]) -> None:
    """Neither those that ask nor those that come; warnings are heard, without what they quote."""
    asks = {"access_key": "AKID", "secret_key": Secret("s"), "session_token": Secret("hush-token")}
    settings = replace(ROLE, **asks)
    sts.lifetime = timedelta(minutes=12)  # to be renewed, but not yet a must
    source = AwsCredentialSource(settings)
    with captured_log() as text:
        first = source.credentials(REGION)
        sts.breaks_off = True
        assert source.credentials(REGION) == first
        with pytest.raises(AuthenticationError, match="ResponseParserError") as caught:
            AwsCredentialSource(settings).credentials(REGION)
        sts.breaks_off = False
        in_a_pod()
        AwsCredentialSource(AwsSettings()).credentials(REGION)

    assert sts.asked[-1]["WebIdentityToken"] == ["hush-web-identity"]
    assert "failed during advisory refresh period. (ResponseParserError)" in text.getvalue()
    assert "hush" not in text.getvalue() + "".join(traceback.format_exception(caught.value))


class CountingClock:
    """The clock that tells who came before an answer; counts how often it is read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reads = 0
        self._lock = threading.Lock()
        monkeypatch.setattr(aws_credentials, "time", self)

    def monotonic(self) -> float:
        """The real time."""
        with self._lock:
            self.reads += 1
        return time.monotonic()


def test_an_sts_that_is_silent_is_queried_once_for_all(
    home: Path, in_a_pod: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by botocore's own clients; all waiting callers get the same error."""
    monkeypatch.setattr(aws_credentials, "_STS_TIMEOUT_SECONDS", 0.3)
    clock = CountingClock(monkeypatch)
    in_a_pod()
    source = AwsCredentialSource(AwsSettings())
    heard: list[str] = []

    def ask() -> None:
        with pytest.raises(AuthenticationError) as caught:
            source.credentials(REGION)
        heard.append(str(caught.value))

    assert home.is_dir()
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{silent.getsockname()[1]}")
        threads = [threading.Thread(target=ask, daemon=True) for _ in range(8)]
        with source._fetch_lock:
            for one in threads:
                one.start()
            eventually(lambda: clock.reads == 8, PATIENCE_SECONDS, "all have come")
        for one in threads:
            one.join(PATIENCE_SECONDS)
        silent.settimeout(0)
        calls = 0
        with suppress(BlockingIOError):
            while True:
                silent.accept()[0].close()
                calls += 1

    assert len(heard) == 8
    assert "ReadTimeoutError" in heard[0]
    assert len(set(heard)) == 1
    assert calls == 2  # one more try, and not one for each


def test_a_hanging_program_is_ended_by_a_timeout(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A profile may name one that gives keys, and botocore sets it no limit."""
    monkeypatch.setattr(aws_credentials, "_FETCH_TIMEOUT_SECONDS", 0.2)
    script, ready = home / "slow", home / "ready"
    script.write_text(f"while [ ! -e {ready} ]; do sleep 0.05; done\n")
    (home / "config").write_text(f"[profile p]\ncredential_process = sh {script}\n")
    source = AwsCredentialSource(AwsSettings(profile="p"))
    sentences: list[str] = []

    def ask() -> None:
        with pytest.raises(AuthenticationError) as caught:
            source.credentials(REGION)
        sentences.append(str(caught.value))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for one in threads:
        one.start()
    eventually(lambda: sentences, PATIENCE_SECONDS, "one has waited long enough")
    ready.touch()
    for one in threads:
        one.join()
    assert ["timed out" in one for one in sentences] == [True, False]


@pytest.mark.parametrize(("lifetime", "is_there"), [(-1, True), (1, False)])
def test_other_errors_of_botocore_are_error_messages_too(
    lifetime: int, is_there: bool, sts: Sts, home: Path, in_a_pod: Callable[[], None]
) -> None:
    """Keys that are over when they come; a token that is not where the environment says."""
    in_a_pod()
    sts.lifetime = timedelta(hours=lifetime)
    if not is_there:
        (home / "token").unlink()
    with pytest.raises(AuthenticationError, match=r"RuntimeError|FileNotFoundError") as caught:
        AwsCredentialSource(AwsSettings()).credentials(REGION)
    assert caught.value.retriable


def test_keys_that_sts_denies_are_an_error_of_the_cluster(
    sts: Sts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker gets no login."""
    sts.denies = True
    monkeypatch.setenv("AWS_REGION", REGION)
    denied = SaslSettings(SaslMechanism.OAUTHBEARER, aws=replace(ROLE, session_name="denied"))
    security = SecuritySettings(SecurityProtocol.SASL_PLAINTEXT, sasl=denied)
    with SecureBroker(login=b"") as broker:
        settings = ConnectionSettings("a", (str(broker.address),), "test", security=security)
        client = ClusterClient(settings)
        with pytest.raises(AuthenticationError, match=r"Cluster 'a'.*AccessDenied"):
            client.retry("looking", lambda: client.metadata([]))
        assert broker.seen == [API_VERSIONS]


def test_one_source_for_the_same_settings() -> None:
    """Equal settings share the keys."""
    assert credential_source(replace(ROLE)) is credential_source(replace(ROLE))
    assert credential_source(replace(ROLE, session_name="a")) is not credential_source(ROLE)
