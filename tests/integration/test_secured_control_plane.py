# SPDX-License-Identifier: Apache-2.0
"""From the lines of a file to a real broker: every kind of security, and every way it fails.

The control plane's clients only: what tasks do over the same settings has tests of its own.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from sparkmirror.cli.check import check
from sparkmirror.client import MirrorClient
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.errors import AuthenticationError, ClusterError, UnreachableError
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.security import oauth
from sparkmirror.security.settings import AwsSettings, SaslMechanism, SaslSettings
from sparkmirror.wire.sasl_authenticator import SaslAuthenticator
from sparkmirror.wire.settings import ConnectionSettings
from support.clusters.secure_cluster import (
    MASTER,
    MECHANISMS,
    STORE_PASSWORD,
    USERS,
    SecureCluster,
    jaas_line,
    secure_cluster,
)
from support.data.certificates import Authority, key_store, trust_store
from support.peers.token_endpoint import ResponseMode
from support.waiting import PATIENCE_SECONDS, eventually

SESSION_MS = 3000
TIMEOUT = "a.admin.socket.connection.setup.timeout.ms"
PATIENT_SECONDS = 2 * PATIENCE_SECONDS  # whoever tries again and again does so for as long
PATIENT = (f"{TIMEOUT}={PATIENT_SECONDS * 1000:.0f}",)
IMPATIENT = (f"{TIMEOUT}=5000",)
WRONG = "wr0ng-secret"
SECRETS = (*USERS.values(), STORE_PASSWORD, WRONG)

app = typer.Typer()
app.command()(check)


@pytest.fixture(scope="module")
def secured(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[SecureCluster]:
    """A broker that wants to be told again every few seconds who its clients are."""
    version = request.config.getoption("--kafka")
    directory = tmp_path_factory.mktemp("secured")
    with secure_cluster(directory, version=version, reauthenticates_ms=SESSION_MS) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def stores(secured: SecureCluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What keytool and openssl make: who is trusted, and who we are."""
    folder = tmp_path_factory.mktemp("stores")
    us = secured.authority.identity(MASTER)
    stranger = Authority("nobody knows")
    password = STORE_PASSWORD
    return {
        "JKS": trust_store(folder / "trust.jks", "JKS", secured.authority, password=password),
        "PKCS12": trust_store(folder / "trust.p12", "PKCS12", secured.authority, password=password),
        "PEM": trust_store(folder / "trust.pem", "PEM", secured.authority),
        "stranger": trust_store(folder / "stranger.pem", "PEM", stranger),
        "us": key_store(folder / "us.p12", "PKCS12", us, password=password),
        "strange us": key_store(folder / "strange.pem", "PEM", stranger.identity(MASTER)),
    }


def properties(servers: str, *lines: str) -> str:
    """A file with one secured cluster."""
    return "\n".join(
        (
            "clusters=a,b",
            f"a.bootstrap.servers={servers}",
            "b.bootstrap.servers=127.0.0.1:1",
            "a->b.enabled=true",
            *(line.replace("\\", "\\\\") for line in lines),
        )
    )


def connection(servers: str, *lines: str) -> ConnectionSettings:
    """The admin client of the secured cluster."""
    config = MirrorConfig.parse(properties(servers, *lines))
    return config.flow_settings(config.flows()[0]).source_admin


def ask(settings: ConnectionSettings) -> None:
    """Ask something that every broker answers."""
    with ClusterAdmin(settings) as admin:
        assert admin.topics().failed == {}


def trusting(stores: dict[str, Path], kind: str = "PEM") -> tuple[str, ...]:
    """Lines that trust the broker's authority."""
    lines = [f"a.ssl.truststore.location={stores[kind]}"]
    if kind in ("JKS", "PKCS12"):
        lines.append(f"a.ssl.truststore.password={STORE_PASSWORD}")
    return (*lines, f"a.ssl.truststore.type={kind if kind in ('JKS', 'PKCS12') else 'PEM'}")


def login(mechanism: str, secured: SecureCluster, password: str = "") -> tuple[str, ...]:
    """Lines that say who we are."""
    trusted: dict[str, str] = {}
    if mechanism == "OAUTHBEARER":  # whom to trust at its endpoint
        authority = secured.directory / "endpoint-authority.pem"
        authority.write_text(secured.authority.pem, encoding="utf-8")
        trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority)}
    line = jaas_line(mechanism, MASTER, password or USERS[MASTER], **trusted)
    endpoint = (f"a.sasl.oauthbearer.token.endpoint.url={secured.tokens.url}",)
    return (
        f"a.sasl.mechanism={mechanism}",
        f"a.sasl.jaas.config={line}",
        *(endpoint if mechanism == "OAUTHBEARER" else ()),
    )


@pytest.mark.parametrize("kind", ["JKS", "PKCS12", "PEM"])
def test_tls_with_every_kind_of_trust_store(
    kind: str, secured: SecureCluster, stores: dict[str, Path]
) -> None:
    """As people have them."""
    ask(connection(secured.servers("TLS"), "a.security.protocol=SSL", *trusting(stores, kind)))


def test_mutual_tls(secured: SecureCluster, stores: dict[str, Path]) -> None:
    """With a certificate of our own."""
    ask(
        connection(
            secured.servers("MUTUAL"),
            "a.security.protocol=SSL",
            *trusting(stores),
            f"a.ssl.keystore.location={stores['us']}",
            f"a.ssl.keystore.password={STORE_PASSWORD}",
        )
    )


@pytest.mark.parametrize("listener", ["LOGIN", "TLSLOGIN"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism_with_and_without_tls(
    mechanism: str, listener: str, secured: SecureCluster, stores: dict[str, Path]
) -> None:
    """Passwords with quotes, blanks and backslashes among them."""
    has_tls = listener == "TLSLOGIN"
    ask(
        connection(
            secured.servers(listener),
            f"a.security.protocol={'SASL_SSL' if has_tls else 'SASL_PLAINTEXT'}",
            *(trusting(stores, "JKS") if has_tls else ()),
            *login(mechanism, secured),
        )
    )


def test_a_token_may_be_given(
    secured: SecureCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a file, or as it is; when it has expired a sentence names cluster and key."""
    file = tmp_path / "token"
    good = secured.tokens.token(MASTER)
    monkeypatch.setattr(secured.tokens, "lifetime_seconds", -1)
    for token, is_good in ((good, True), (secured.tokens.token(MASTER), False)):
        file.write_text(f"{token}\n")
        for line in (
            f"a.sasl.oauthbearer.token.endpoint.url={file.as_uri()}",
            f"a.oauth.access.token={token}",
        ):
            settings = connection(
                secured.servers("LOGIN"),
                "a.security.protocol=SASL_PLAINTEXT",
                "a.sasl.mechanism=OAUTHBEARER",
                line,
            )
            if is_good:
                ask(settings)
                continue
            error = failure(settings)
            assert str(error).startswith("Cluster 'a': The ")
            assert "has expired" in str(error)
            assert str(error).endswith(f"Check {line.partition('=')[0]}.")
            assert error.retriable == ("endpoint" in line)


def test_a_session_is_renewed_on_the_same_connection(
    secured: SecureCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker would hang up on whoever does not say again who they are."""
    logins: Counter[SaslAuthenticator] = Counter()
    authenticate = SaslAuthenticator.authenticate

    def counted(self: SaslAuthenticator, versions: Mapping[int, tuple[int, int]]) -> None:
        logins[self] += 1
        authenticate(self, versions)

    monkeypatch.setattr(SaslAuthenticator, "authenticate", counted)
    mechanism = "OAUTHBEARER"
    settings = connection(
        secured.servers("LOGIN"), "a.security.protocol=SASL_PLAINTEXT", *login(mechanism, secured)
    )

    with ClusterAdmin(settings) as admin:

        def has_renewed() -> bool:
            admin.topics()
            return max(logins.values()) > 1

        eventually(has_renewed, PATIENCE_SECONDS, "a second login on one of its connections")


def test_a_users_own_program_reaches_a_secured_cluster(secured: SecureCluster) -> None:
    """MirrorClient, with the properties that Java's takes."""
    lines = ("a.security.protocol=SASL_PLAINTEXT", *login("PLAIN", secured))
    given = dict(line.removeprefix("a.").split("=", 1) for line in lines)
    with MirrorClient({"bootstrap.servers": secured.servers("LOGIN")} | given) as client:
        assert client.heartbeat_topics() == set()


def failure(settings: ConnectionSettings) -> ClusterError:
    """What a client that cannot get in raises; it takes no secret along."""
    with pytest.raises(ClusterError) as caught:
        ask(settings)
    assert caught.value.cluster == "a"
    assert "'a'" in str(caught.value)
    assert not any(secret in str(caught.value) for secret in SECRETS)
    return caught.value


@pytest.mark.parametrize(
    ("listener", "trust", "parts"),
    [
        ("TLS", "stranger", ["has an untrusted issuer", "a.ssl.truststore.location"]),
        ("EXPIRED", "PEM", ["has expired"]),
        ("ELSEWHERE", "PEM", ["another host", "a.ssl.endpoint.identification.algorithm"]),
        ("MUTUAL", "PEM", ["requires a client certificate", "a.ssl.keystore.location"]),
    ],
)
def test_tls_that_fails_is_reported_at_once(
    listener: str, trust: str, parts: list[str], secured: SecureCluster, stores: dict[str, Path]
) -> None:
    """Trying again would not help, so nobody waits."""
    settings = connection(
        secured.servers(listener), "a.security.protocol=SSL", *trusting(stores, trust), *PATIENT
    )
    assert settings.connect_timeout_seconds == PATIENT_SECONDS
    began = time.monotonic()
    error = failure(settings)
    assert time.monotonic() - began < PATIENT_SECONDS / 2
    assert isinstance(error, AuthenticationError)
    assert not error.retriable
    assert all(part in str(error) for part in (*parts, secured.servers(listener)))


def test_the_host_is_not_checked_if_the_file_disables_it(
    secured: SecureCluster, stores: dict[str, Path]
) -> None:
    """An empty value, as Java has it."""
    ask(
        connection(
            secured.servers("ELSEWHERE"),
            "a.security.protocol=SSL",
            *trusting(stores),
            "a.ssl.endpoint.identification.algorithm=",
        )
    )


def test_an_untrusted_client_certificate_is_rejected(
    secured: SecureCluster, stores: dict[str, Path]
) -> None:
    """The broker says so, and which key to look at is said here."""
    error = failure(
        connection(
            secured.servers("MUTUAL"),
            "a.security.protocol=SSL",
            *trusting(stores),
            f"a.ssl.keystore.location={stores['strange us']}",
            "a.ssl.keystore.type=PEM",
        )
    )
    assert "rejects the client certificate" in str(error)
    assert "a.ssl.keystore.location" in str(error)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_reported_at_once(mechanism: str, secured: SecureCluster) -> None:
    """One attempt, and the key to look at."""
    settings = connection(
        secured.servers("LOGIN"),
        "a.security.protocol=SASL_PLAINTEXT",
        *login(mechanism, secured, WRONG),
        *PATIENT,
    )
    began = time.monotonic()
    error = failure(settings)
    assert time.monotonic() - began < PATIENT_SECONDS / 2
    assert isinstance(error, AuthenticationError)
    assert not error.retriable
    assert "a.sasl.jaas.config" in str(error)


def test_a_token_endpoint_that_is_down_is_tried_again(
    secured: SecureCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may come back: then all is well, though not in the same moment."""
    monkeypatch.setattr(oauth, "RETRY_SECONDS", 0.1)
    settings = connection(
        secured.servers("LOGIN"),
        "a.security.protocol=SASL_PLAINTEXT",
        *login("OAUTHBEARER", secured),
        "a.sasl.oauthbearer.scope=another-one",  # which nobody has a token for yet
    )
    secured.tokens.mood = ResponseMode.BROKEN
    try:
        error = failure(settings)
    finally:
        secured.tokens.mood = ResponseMode.WILLING
    assert error.retriable
    assert "token endpoint" in str(error)
    assert "a.sasl.oauthbearer.token.endpoint.url" in str(error)
    time.sleep(0.1)
    ask(settings)


@pytest.mark.parametrize(
    ("protocol", "listener", "parts", "limit"),
    [
        ("PLAINTEXT", "TLS", ["speaks TLS", "must be SSL or SASL_SSL"], PATIENT),
        ("SASL_PLAINTEXT", "TLSLOGIN", ["speaks TLS", "must be SSL or SASL_SSL"], PATIENT),
        (
            "SASL_PLAINTEXT",
            "PLAINTEXT",
            ["has no SASL listener", "security.protocol=PLAINTEXT"],
            PATIENT,
        ),
        ("PLAINTEXT", "LOGIN", ["If this listener uses TLS or SASL"], IMPATIENT),
        ("SSL", "PLAINTEXT", ["this listener uses a.security.protocol=SSL"], IMPATIENT),
    ],
)
def test_the_wrong_protocol_is_reported(
    protocol: str,
    listener: str,
    parts: list[str],
    limit: tuple[str, ...],
    secured: SecureCluster,
    stores: dict[str, Path],
) -> None:
    """At once where the broker gives it away, when the time is up where it only hangs up."""
    is_plain = listener == "PLAINTEXT"
    servers = secured.bootstrap_servers if is_plain else secured.servers(listener)
    sasl = login("PLAIN", secured) if protocol.startswith("SASL") else ()
    error = failure(
        connection(servers, f"a.security.protocol={protocol}", *trusting(stores), *sasl, *limit)
    )
    assert "a.security.protocol" in str(error)
    assert all(part in str(error) for part in parts)
    assert error.retriable == isinstance(error, UnreachableError)


def test_a_mechanism_that_is_not_offered_is_reported(
    secured: SecureCluster, stores: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package that it needs would come first, so the settings are made by hand."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.setenv(name, "test")
    settings = connection(
        secured.servers("TLSLOGIN"),
        "a.security.protocol=SASL_SSL",
        *trusting(stores),
        *login("PLAIN", secured),
    )
    sasl = SaslSettings(SaslMechanism.AWS_MSK_IAM, aws=AwsSettings())
    security = replace(settings.security, sasl=sasl)
    error = failure(replace(settings, security=security))
    assert "does not offer AWS_MSK_IAM" in str(error)
    assert "a.sasl.mechanism" in str(error)


@pytest.mark.parametrize("password", [USERS[MASTER], WRONG])
def test_check_reaches_a_secured_cluster(
    password: str, secured: SecureCluster, stores: dict[str, Path], tmp_path: Path
) -> None:
    """`--connect` logs in for real, and shows no secret."""
    file = tmp_path / "mm2.properties"
    text = properties(
        secured.servers("TLSLOGIN"),
        "a.security.protocol=SASL_SSL",
        *trusting(stores, "JKS"),
        *login("SCRAM-SHA-256", secured, password),
    ).replace("b.bootstrap.servers=127.0.0.1:1", f"b.bootstrap.servers={secured.bootstrap_servers}")
    file.write_text(text, encoding="utf-8")
    for option in ("--json", "--connect"):
        done = CliRunner().invoke(app, [str(file), "--connect", option])
        is_right = password != WRONG
        assert (done.exit_code == 0) == is_right, done.output
        assert not any(secret in done.output for secret in SECRETS)
        assert ("refused the login" in done.output) != is_right
        if option == "--json":
            found = {one["alias"]: one for one in json.loads(done.output)["clusters"]}
            assert found["a"]["security"] == "SASL_SSL"
            assert (found["a"]["error"] == "") == is_right
            assert found["b"]["ok"]
