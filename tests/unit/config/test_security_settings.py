# SPDX-License-Identifier: Apache-2.0
"""Security keys become the security of each client, and what is wrong with them a sentence."""

from __future__ import annotations

import datetime as dt
import pickle
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12

from sparkmirror.config.connector_config import read_connector
from sparkmirror.config.files.notices import NoticeLevel
from sparkmirror.config.mirror_client_config import read_client_properties
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.security import security_settings
from sparkmirror.config.settings import FlowSettings
from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.errors import ConfigError
from sparkmirror.model import Flow, Secret
from sparkmirror.security.certificates import parse_certificate
from sparkmirror.security.jaas import IAM_BEARER_HANDLER
from sparkmirror.security.settings import (
    AwsSettings,
    SaslMechanism,
    SaslSettings,
    SecurityProtocol,
    SecuritySettings,
)
from support.data.weak_certificates import EARLY, EXPIRED, weak_certificate

BASE = (
    "clusters=a,b",
    "a.bootstrap.servers=a1:9092",
    "b.bootstrap.servers=b1:9092",
    "a->b.enabled=true",
)
FLOW = Flow("a", "b")
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
HUSH = "hush-hush-hush"
WITH_PLAIN = (
    "a.security.protocol=SASL_PLAINTEXT",
    "a.sasl.mechanism=PLAIN",
    f'a.sasl.jaas.config={PLAIN} required username="me" password="{HUSH}";',
)


def settings(*lines: str) -> FlowSettings:
    """The settings of the flow in an ordinary file with these further lines."""
    return MirrorConfig.parse("\n".join((*BASE, *lines))).flow_settings(FLOW)


def said(level: NoticeLevel, *lines: str) -> list[str]:
    """The sentences about such a file."""
    found = MirrorConfig.parse("\n".join((*BASE, *lines))).all_notices()
    return [str(notice) for notice in found if notice.level is level]


@pytest.fixture(scope="module")
def identity(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A certificate that vouches for itself: as PEM, with its key, and as PKCS12 files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "here")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + dt.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("stores")
    encryption = serialization.BestAvailableEncryption(HUSH.encode())
    store = folder / "store.p12"
    store.write_bytes(
        pkcs12.serialize_key_and_certificates(b"x", key, certificate, None, encryption)
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM).decode()
    (folder / "trust.pem").write_text(pem)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
    return {
        "store": str(store),
        "pem_file": str(folder / "trust.pem"),
        "certificate": pem,
        "key": private,
    }


def inline(pem: str) -> str:
    """PEM as one writes it into a properties file."""
    return pem.replace("\n", "\\n")


def test_without_security_keys_nothing_is_secured() -> None:
    """As ever."""
    found = settings()
    clients = (found.consumer, found.producer, found.source_admin, found.target_admin)
    assert [one.security for one in clients] == [SecuritySettings()] * 4


def test_a_cluster_has_its_own_security() -> None:
    """Every client of one side, none of the other."""
    found = settings(*WITH_PLAIN)
    expected = SecuritySettings(
        SecurityProtocol.SASL_PLAINTEXT, None, SaslSettings(SaslMechanism.PLAIN, "me", Secret(HUSH))
    )
    assert found.consumer.security == found.source_admin.security == expected
    assert found.producer.security == found.target_admin.security == SecuritySettings()
    assert found.consumer.security.keys.login == "a.sasl.jaas.config"


def test_a_client_may_differ_from_its_cluster() -> None:
    """The layers are MM2's: flow and role win."""
    other = f'{SCRAM} required username="you" password="p";'
    found = settings(
        *WITH_PLAIN,
        "a->b.source.consumer.sasl.mechanism=SCRAM-SHA-512",
        f"a->b.source.consumer.sasl.jaas.config={other}",
        "b.producer.security.protocol=SSL",
        "a->b.producer.override.ssl.endpoint.identification.algorithm=",
    )
    assert found.consumer.security.sasl == SaslSettings(
        SaslMechanism.SCRAM_SHA_512, "you", Secret("p")
    )
    assert found.consumer.security.keys.login == "a->b.source.consumer.sasl.jaas.config"
    assert found.source_admin.security.sasl == SaslSettings(SaslMechanism.PLAIN, "me", Secret(HUSH))
    assert found.producer.security.protocol is SecurityProtocol.SSL
    assert found.producer.security.tls is not None
    assert not found.producer.security.tls.verifies_hostname
    assert found.target_admin.security.protocol is SecurityProtocol.PLAINTEXT


def test_lines_for_all_clusters_reach_all_clients() -> None:
    """As MM2 spreads them."""
    lines = [line.removeprefix("a.") for line in WITH_PLAIN]
    found = settings(*lines)
    assert found.producer.security == found.consumer.security
    assert found.producer.security.sasl is not None


def test_connect_has_its_own_places() -> None:
    """Source and target in the connector, the worker's own client and producer in its file."""
    worker = WorkerConfig.parse(
        "bootstrap.servers=b1:9092\ngroup.id=g\nconfig.storage.topic=c\noffset.storage.topic=o\n"
        "status.storage.topic=s\nsecurity.protocol=SSL\nproducer.security.protocol=SSL\n"
        "listeners=http://127.0.0.1:8083\n"
    )
    assert worker.settings.connection.security.protocol is SecurityProtocol.SSL
    connector = {
        "name": "m",
        "connector.class": "MirrorSourceConnector",
        "source.cluster.alias": "a",
        "target.cluster.alias": "b",
        "source.cluster.bootstrap.servers": "a1:9092",
        "target.cluster.bootstrap.servers": "b1:9092",
        "source.cluster.security.protocol": "SASL_PLAINTEXT",
        "source.cluster.sasl.mechanism": "PLAIN",
        "source.cluster.sasl.jaas.config": f'{PLAIN} required username="me" password="p";',
        "producer.override.ssl.enabled.protocols": "TLSv1.3",
    }
    found = read_connector(connector, worker).unchecked_settings
    assert found.consumer.security.protocol is SecurityProtocol.SASL_PLAINTEXT
    assert found.target_admin.security.protocol is SecurityProtocol.PLAINTEXT
    assert found.producer.security.tls is not None
    assert found.producer.security.tls.protocols == ("TLSv1.3",)


def test_a_mirror_client_has_security() -> None:
    """A program's own properties."""
    properties = {"bootstrap.servers": "a1:9092"} | dict(
        line.removeprefix("a.").split("=", 1) for line in WITH_PLAIN
    )
    found = read_client_properties(properties)
    assert found.admin.security.sasl == SaslSettings(SaslMechanism.PLAIN, "me", Secret(HUSH))
    assert found.consumer.security == found.admin.security


def test_stores_are_read_into_settings(identity: dict[str, str]) -> None:
    """PKCS12 under the name of JKS, as keytool makes them; nothing needs a file any more."""
    found = settings(
        "a.security.protocol=SSL",
        f"a.ssl.truststore.location={identity['store']}",
        f"a.ssl.truststore.password={HUSH}",
        f"a.ssl.keystore.location={identity['store']}",
        f"a.ssl.keystore.password={HUSH}",
        f"a.ssl.key.password={HUSH}",
        "b.security.protocol=SSL",
        "b.ssl.truststore.type=PEM",
        f"b.ssl.truststore.location={identity['pem_file']}",
        "b.ssl.keystore.type=pem",
        f"b.ssl.keystore.key={inline(identity['key'])}",
        f"b.ssl.keystore.certificate.chain={inline(identity['certificate'])}",
    )
    source, target = found.consumer.security.tls, found.producer.security.tls
    assert source is not None
    assert source == target
    assert source.trusted == source.chain == identity["certificate"]
    assert source.key == Secret(identity["key"])


def test_certificates_may_stand_in_the_file(identity: dict[str, str]) -> None:
    """With blanks in the place of line ends, as Kubernetes tools write them."""
    pem = identity["certificate"].replace("\n", " ")
    found = settings(
        "a.security.protocol=SSL",
        "a.ssl.truststore.type=PEM",
        f"a.ssl.truststore.certificates={pem}",
    )
    assert found.consumer.security.tls is not None
    assert found.consumer.security.tls.trusted == identity["certificate"]
    assert found.consumer.security.keys.trust == "a.ssl.truststore.certificates"


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("truststore.location=/not/there.jks", "names /not/there.jks, which cannot be read (No su"),
        ("truststore.location=${env:SPARKMIRROR_STORE}", "names [hidden], which cannot be read"),
        ("truststore.location={store}", "cannot be used: the PKCS12 store needs a password"),
        ("truststore.password=x", "has no file to open: "),
        ("truststore.type=JCEKS", "must be one of JKS, PKCS12, PEM"),
        ("truststore.certificates=x", "cannot be used: the store is not PEM"),
        ("keystore.location={store}", "needs a password: set a.ssl.keystore.password"),
        ("keystore.password=x", "has no file to open: "),
        ("keystore.key=x", "needs ssl.keystore.certificate.chain"),
        ("keystore.certificate.chain=x", "needs ssl.keystore.key"),
        ("enabled.protocols=TLSv1.1", "must list one or both of TLSv1.2 and TLSv1.3"),
        ("enabled.protocols=TLSv9", "must list one or both of TLSv1.2 and TLSv1.3"),
        ("cipher.suites=TLS_NONE_SUCH", "cipher suite"),
        ("endpoint.identification.algorithm=LDAPS", "must be one of https"),
        ("engine.factory.class=com.acme.Engine", "names com.acme.Engine, a Java class"),
    ],
)
def test_a_wrong_tls_line_is_one_error_message(
    line: str, part: str, identity: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the line and the key, whichever of the flow's clients found it."""
    monkeypatch.setenv("SPARKMIRROR_STORE", "/not/there/either.jks")
    key = f"a.ssl.{line.partition('=')[0]}"
    (sentence,) = said(
        NoticeLevel.ERROR,
        "a.security.protocol=SSL",
        f"a.ssl.{line.replace('{store}', identity['store'])}",
    )
    assert sentence.startswith(f"line 6: {key}")
    assert part in sentence
    assert sentence.endswith(".")


@pytest.mark.parametrize(
    ("extra", "part"),
    [
        ("a.ssl.truststore.password=wrong", "does not open with this password"),
        ("a.ssl.truststore.certificates=x", "conflicts with a.ssl.truststore.location"),
        ("a.ssl.truststore.type=PEM", "cannot be set for PEM"),
    ],
)
def test_stores_and_passwords_must_fit(extra: str, part: str, identity: dict[str, str]) -> None:
    """As Java's clients insist."""
    lines = {
        "a.ssl.truststore.location": f"a.ssl.truststore.location={identity['store']}",
        "a.ssl.truststore.password": f"a.ssl.truststore.password={HUSH}",
        extra.partition("=")[0]: extra,
    }
    (sentence,) = said(NoticeLevel.ERROR, "a.security.protocol=SSL", *lines.values())
    assert part in sentence
    assert HUSH not in sentence


@pytest.mark.parametrize(
    ("lines", "part"),
    [
        (("sasl.mechanism=PLAIN",), "a.sasl.jaas.config is missing: set it to org.apache.kafka"),
        (("sasl.mechanism=plain",), "must be one of PLAIN, SCRAM-SHA-256"),
        (("sasl.mechanism=PLAIN", "sasl.jaas.config=x"), "is not a JAAS line: "),
        (
            ("sasl.mechanism=PLAIN", f'sasl.jaas.config={PLAIN} required username="{HUSH}"'),
            "is not a JAAS line: it does not end with a semicolon",
        ),
        (
            ("sasl.mechanism=PLAIN", f'sasl.jaas.config={SCRAM} required username="{HUSH}";'),
            (
                f"names {SCRAM}, which does not fit a.sasl.mechanism=PLAIN: set "
                "a.sasl.mechanism=SCRAM-SHA-256"
            ),
        ),
        (
            (f'sasl.jaas.config={PLAIN} required username="{HUSH}";',),
            "does not fit a.sasl.mechanism=GSSAPI: set a.sasl.mechanism=PLAIN",
        ),
        (
            ("sasl.mechanism=PLAIN", f'sasl.jaas.config={PLAIN} required username="{HUSH}";'),
            'must have the option password="..."',
        ),
        (
            ("sasl.mechanism=OAUTHBEARER", f'sasl.jaas.config={OAUTH} required clientId="x";'),
            "sasl.oauthbearer.token.endpoint.url is missing",
        ),
        (
            (
                "sasl.mechanism=OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url=https://here/token",
                f'sasl.jaas.config={OAUTH} required clientId="{HUSH}";',
            ),
            "must have the options clientId and clientSecret",
        ),
        (
            (
                "sasl.mechanism=OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url=ftp://here/token",
                f'sasl.jaas.config={OAUTH} required clientId="x" clientSecret="{HUSH}";',
            ),
            "must be a URL such as https://host/path",
        ),
        (
            (
                "sasl.mechanism=OAUTHBEARER",
                "sasl.login.callback.handler.class=com.acme.Handler",
                f'sasl.jaas.config={OAUTH} required oauth.access.token="{HUSH}";',
            ),
            "names com.acme.Handler, a Java class that cannot run here",
        ),
        (
            (
                "sasl.mechanism=OAUTHBEARER",
                f'sasl.jaas.config={OAUTH} required oauth.access.token="{HUSH} {HUSH}";',
            ),
            "its option oauth.access.token gives an invalid token",
        ),
        (
            (
                "sasl.mechanism=OAUTHBEARER",
                (
                    f"sasl.jaas.config={OAUTH} required oauth.client.id=x oauth.client.secret=s "
                    'oauth.token.endpoint.uri="https://h/" '
                    'oauth.ssl.truststore.location="/no/where";'
                ),
            ),
            "its option oauth.ssl.truststore.location names /no/where, which cannot be read",
        ),
        (("sasl.mechanism=AWS_MSK_IAM",), "pip install 'sparkmirror[msk-iam]'"),
        ((), "a.sasl.mechanism is GSSAPI by default, which needs another package"),
    ],
)
def test_a_wrong_login_is_one_error_message(
    lines: tuple[str, ...], part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It never repeats what stands on the line."""
    monkeypatch.setattr(security_settings, "find_spec", lambda _package: None)
    (sentence,) = said(
        NoticeLevel.ERROR, "a.security.protocol=SASL_PLAINTEXT", *(f"a.{line}" for line in lines)
    )
    assert part in sentence
    assert HUSH not in sentence


@pytest.mark.parametrize(
    "place", ["kafka keys", "kafka options", "strimzi options", "strimzi keys"]
)
def test_tokens_mean_the_same_in_every_spelling(place: str, identity: dict[str, str]) -> None:
    """Kafka's keys, Kafka's options, Strimzi's options and Strimzi's names as keys."""
    url, scope, trust = "https://login.example.com/token", "kafka", identity["pem_file"]
    lines = {
        "kafka keys": (
            f"a.sasl.oauthbearer.token.endpoint.url={url}",
            "a.sasl.oauthbearer.client.credentials.client.id=me",
            f"a.sasl.oauthbearer.client.credentials.client.secret={HUSH}",
            f"a.sasl.oauthbearer.scope={scope}",
            (
                f"a.sasl.jaas.config={OAUTH} required ssl.truststore.type=PEM "
                f'ssl.truststore.location="{trust}";'
            ),
        ),
        "kafka options": (
            (
                "a.sasl.login.callback.handler.class="
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
            ),
            f"a.sasl.oauthbearer.token.endpoint.url={url}",
            (
                f'a.sasl.jaas.config={OAUTH} required clientId=me clientSecret="{HUSH}" '
                f'scope={scope} ssl.truststore.type=PEM ssl.truststore.location="{trust}";'
            ),
        ),
        "strimzi options": (
            (
                "a.sasl.login.callback.handler.class="
                "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"
            ),
            (
                f"a.sasl.jaas.config={OAUTH} required oauth.client.id=me "
                f'oauth.client.secret="{HUSH}" oauth.token.endpoint.uri="{url}" '
                f"oauth.scope={scope} oauth.ssl.truststore.type=PEM "
                f'oauth.ssl.truststore.location="{trust}";'
            ),
        ),
        "strimzi keys": (
            f"a.oauth.token.endpoint.uri={url}",
            "a.oauth.client.id=me",
            f"a.oauth.client.secret={HUSH}",
            f"a.oauth.scope={scope}",
            "a.oauth.ssl.truststore.type=PEM",
            f"a.oauth.ssl.truststore.location={trust}",
        ),
    }[place]
    found = settings("a.security.protocol=SASL_SSL", "a.sasl.mechanism=OAUTHBEARER", *lines)
    for client in (found.consumer, found.source_admin):
        sasl = client.security.sasl
        assert sasl is not None
        assert sasl.oauth is not None
        assert (sasl.oauth.endpoint, sasl.oauth.client_id, sasl.oauth.scope) == (url, "me", scope)
        assert sasl.oauth.client_secret == Secret(HUSH)
        assert sasl.oauth.tls.trusted == identity["certificate"]
        assert sasl.oauth.refresh_window_factor == 0.8
        assert client.security.tls is not None
        assert client.security.tls.trusted is None  # the brokers' trust is another one


def test_msk_iam_gets_its_options_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs TLS."""
    monkeypatch.setattr(security_settings, "find_spec", lambda _package: object())
    found = settings(
        "b.security.protocol=SASL_SSL",
        "b.sasl.mechanism=AWS_MSK_IAM",
        "b.sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler",
        "b.sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required awsProfileName=p;",
    )
    target = found.producer.security.sasl
    assert target == SaslSettings(SaslMechanism.AWS_MSK_IAM, aws=AwsSettings(profile="p"))
    (sentence,) = said(
        NoticeLevel.ERROR, "a.security.protocol=SASL_PLAINTEXT", "a.sasl.mechanism=AWS_MSK_IAM"
    )
    assert "a.security.protocol must be SASL_SSL" in sentence


IAM_LINES = (
    "a.security.protocol=SASL_SSL",
    "a.sasl.mechanism=OAUTHBEARER",
    f"a.sasl.login.callback.handler.class={IAM_BEARER_HANDLER}",
)


def test_amazons_tokens_need_no_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are signed with AWS's keys, whose options are those of the other mechanism."""
    monkeypatch.setattr(security_settings, "find_spec", lambda _package: None)
    jaas = f"a.sasl.jaas.config={OAUTH} required awsRoleArn=r awsDebugCreds=true;"
    (sentence,) = said(NoticeLevel.ERROR, *IAM_LINES, jaas)
    assert "a.sasl.login.callback.handler.class names Amazon's class for tokens" in sentence
    assert "pip install 'sparkmirror[msk-iam]'" in sentence
    monkeypatch.setattr(security_settings, "find_spec", lambda _package: object())
    expected = SaslSettings(SaslMechanism.OAUTHBEARER, aws=AwsSettings(role="r"))
    assert settings(*IAM_LINES, jaas).consumer.security.sasl == expected
    assert "a.sasl.jaas.config: its option awsDebugCreds has no effect" in "".join(
        said(NoticeLevel.INFO, *IAM_LINES, jaas)
    )


def test_a_delegation_token_is_recognised() -> None:
    """The option tokenauth of Kafka's ScramLoginModule, in any case of letters."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    for text, is_token in (("tokenauth=True", True), ("tokenauth=no", False), ("", False)):
        sasl = settings(
            "a.security.protocol=SASL_PLAINTEXT",
            "a.sasl.mechanism=SCRAM-SHA-256",
            f'a.sasl.jaas.config={module} required username=me password="{HUSH}" {text};',
        ).consumer.security.sasl
        expected = SaslSettings(SaslMechanism.SCRAM_SHA_256, "me", Secret(HUSH), is_token=is_token)
        assert sasl == expected


def test_what_a_line_says_of_a_role_is_read_and_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every option, each at its place; secrets are not in any text about it."""
    monkeypatch.setattr(security_settings, "find_spec", lambda _package: object())
    options = (
        "awsRoleArn=r awsRoleSessionName=n awsRoleExternalId=e awsStsRegion=eu-west-1 "
        f'awsRoleAccessKeyId=AKID awsRoleSecretAccessKey="{HUSH}" awsRoleSessionToken="{HUSH}2"'
    )
    jaas = f"a.sasl.jaas.config={OAUTH} required {options};"
    found = settings(*IAM_LINES, jaas).consumer.security.sasl
    expected = AwsSettings(
        role="r",
        session_name="n",
        external_id="e",
        sts_region="eu-west-1",
        access_key="AKID",
        secret_key=Secret(HUSH),
        session_token=Secret(f"{HUSH}2"),
    )
    assert found == SaslSettings(SaslMechanism.OAUTHBEARER, aws=expected)
    assert HUSH not in repr(found)


def test_a_profile_wins_against_a_role(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in Amazon's library, which does not say so."""
    monkeypatch.setattr(security_settings, "find_spec", lambda _package: object())
    jaas = f"a.sasl.jaas.config={OAUTH} required awsRoleArn=r awsProfileName=p;"
    assert "its option awsRoleArn has no effect" in "".join(
        said(NoticeLevel.INFO, *IAM_LINES, jaas)
    )


def test_further_token_settings_are_read() -> None:
    """Times, extensions and the audience."""
    found = settings(
        "a.security.protocol=SASL_PLAINTEXT",
        "a.sasl.mechanism=OAUTHBEARER",
        "a.sasl.oauthbearer.token.endpoint.url=http://127.0.0.1:1/token",
        f'a.sasl.jaas.config={OAUTH} required clientId=me clientSecret="{HUSH}" oauth.audience=k '
        'extension_logicalCluster="lkc" oauth.read.timeout.seconds=7;',
        "a.sasl.login.connect.timeout.ms=2500",
        "a.sasl.login.refresh.window.factor=0.5",
        "a.sasl.login.refresh.min.period.seconds=1",
        "a.sasl.login.refresh.buffer.seconds=2",
        "a.sasl.oauthbearer.header.urlencode=true",
    )
    sasl = found.consumer.security.sasl
    assert sasl is not None
    assert sasl.oauth is not None
    assert sasl.oauth.extensions == {"logicalCluster": "lkc"}
    assert sasl.oauth.audience == "k"
    assert sasl.oauth.connect_timeout_seconds == 2.5
    assert sasl.oauth.read_timeout_seconds == 7
    assert sasl.oauth.refresh_window_factor == 0.5
    assert (sasl.oauth.refresh_min_seconds, sasl.oauth.refresh_buffer_seconds) == (1, 2)
    assert sasl.oauth.urlencodes_header


def test_keys_without_use_are_reported() -> None:
    """Whoever wrote them thinks that the connection is safe."""
    (first, second) = said(
        NoticeLevel.WARNING, "a.ssl.truststore.location=/x", "a.sasl.mechanism=PLAIN"
    )
    assert (
        first == "line 5: a.ssl.truststore.location does nothing: a.security.protocol is PLAINTEXT."
    )
    assert second == "line 6: a.sasl.mechanism does nothing: a.security.protocol is PLAINTEXT."
    (note,) = said(NoticeLevel.INFO, *WITH_PLAIN[:2], f"{WITH_PLAIN[2][:-1]} debug=true;")
    assert note == "line 7: a.sasl.jaas.config: its option debug has no effect."


def test_defaults_of_what_is_not_used_are_not_shown() -> None:
    """`check` would be hundreds of lines longer."""
    config = MirrorConfig.parse("\n".join((*BASE, *WITH_PLAIN)))
    shown = {(one.section, one.key) for one in config.parsed_flow(FLOW).report.effective}
    assert ("source consumer", "sasl.mechanism") in shown
    assert ("source consumer", "security.protocol") in shown
    assert ("target producer", "sasl.mechanism") not in shown
    assert not any(key.startswith("ssl.") for _, key in shown)


def test_no_secret_is_shown_anywhere() -> None:
    """Not in settings, notices or values; and nothing with a secret in it can be pickled."""
    config = MirrorConfig.parse("\n".join((*BASE, *WITH_PLAIN)))
    found = config.flow_settings(FLOW)
    assert HUSH not in repr((found, config.all_notices(), config.parsed_flow(FLOW).report))
    with pytest.raises(TypeError, match="never pickled"):
        pickle.dumps(found.consumer)


def test_a_reference_in_a_jaas_line_is_resolved(tmp_path: Path) -> None:
    """Kubernetes mounts the password as a file."""
    (tmp_path / "password").write_text(HUSH)
    lines = (*WITH_PLAIN[:2], WITH_PLAIN[2].replace(HUSH, f"${{directory:{tmp_path}:password}}"))
    sasl = settings(*lines).consumer.security.sasl
    assert sasl is not None
    assert sasl.password == Secret(HUSH)


def test_a_password_may_look_like_a_reference() -> None:
    """As in Java; a remark says that it was seen, and shows nothing of it."""
    lines = (*WITH_PLAIN[:2], WITH_PLAIN[2].replace(HUSH, f"pre${{{HUSH}}}post"))
    sasl = settings(*lines).consumer.security.sasl
    assert sasl is not None
    assert sasl.password == Secret(f"pre${{{HUSH}}}post")
    remarks = said(NoticeLevel.WARNING, *lines)
    (remark,) = [one for one in remarks if "used as literal text" in one]
    assert remark.startswith("line 7: a.sasl.jaas.config has a ${...} that names no config")
    assert HUSH not in "".join(remarks)


@pytest.mark.parametrize(
    "line",
    [
        WITH_PLAIN[2].replace(HUSH, "${directory:/gone:password}"),
        "a.sasl.mechanism=${env:SURELY_NOT_SET}",
        "a.sasl.mechanism=MAGIC",
    ],
    ids=["password", "mechanism", "unknown"],
)
def test_what_is_wrong_already_is_reported_once(line: str) -> None:
    """What its default would lead to is not meant."""
    (sentence,) = said(NoticeLevel.ERROR, *WITH_PLAIN, line)
    assert sentence.startswith(f"line 8: {line.partition('=')[0]}")


def test_a_store_that_is_missing_stops_the_flow() -> None:
    """With a sentence about the line."""
    with pytest.raises(ConfigError, match=r"a\.ssl\.truststore\.location names /gone\.jks"):
        settings("a.security.protocol=SSL", "a.ssl.truststore.location=/gone.jks")


@pytest.mark.parametrize(
    ("servers", "protocol", "is_readable"),
    [
        ("b1:9092", "SASL_PLAINTEXT", True),
        ("b1:9092", "SASL_SSL", False),
        ("localhost:9092,127.0.0.2:9092,[::1]:9092", "SASL_PLAINTEXT", False),
        ("PLAINTEXT://localhost:9092", "SASL_PLAINTEXT", False),
        ("localhost:9092,10.0.0.1:9092", "SASL_PLAINTEXT", True),
    ],
)
def test_a_password_that_others_can_read_is_reported(
    servers: str, protocol: str, *, is_readable: bool
) -> None:
    """Not one that stays on this machine."""
    lines = (f"a.bootstrap.servers={servers}", f"a.security.protocol={protocol}", *WITH_PLAIN[1:])
    found = MirrorConfig.parse("\n".join((BASE[0], *BASE[2:], *lines))).all_notices()
    sentences = [str(one) for one in found]
    assert [("password is sent to brokers unencrypted" in one) for one in sentences] == (
        [True] * is_readable
    )
    with_scram = (*lines[:2], "a.sasl.mechanism=SCRAM-SHA-256", lines[3].replace(PLAIN, SCRAM))
    assert MirrorConfig.parse("\n".join((BASE[0], *BASE[2:], *with_scram))).all_notices() == []


@pytest.mark.parametrize(
    ("url", "is_readable"),
    [
        ("http://idp/token", True),
        ("HTTP://idp/token", True),
        ("https://idp/token", False),
        ("http://127.0.0.1:8080/token", False),
    ],
)
def test_a_token_endpoint_that_others_can_read_is_reported(url: str, *, is_readable: bool) -> None:
    """In every place where it may stand."""
    login = f'a.sasl.jaas.config={OAUTH} required clientId="x" clientSecret="{HUSH}"'
    common = ("a.security.protocol=SASL_SSL", "a.sasl.mechanism=OAUTHBEARER")
    for lines in (
        (f"{login};", f"a.sasl.oauthbearer.token.endpoint.url={url}"),
        (f'{login} oauth.token.endpoint.uri="{url}";',),
    ):
        sentences = said(NoticeLevel.WARNING, *common, *lines)
        assert len(sentences) == is_readable
        assert all("are sent unencrypted" in one for one in sentences)


def test_without_a_line_the_login_file_of_java_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its section KafkaClient, as in Java; a line in the file wins."""
    file = tmp_path / "jaas.conf"
    login = f'{PLAIN} required username="me" password="{HUSH}";'
    file.write_text(f"KafkaServer {{ {SCRAM} required; }};\nKafkaClient {{ {login} }};")
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={file}")
    protocol = "a.security.protocol=SASL_SSL"
    found = settings(protocol, "a.sasl.mechanism=PLAIN").consumer.security.sasl
    assert found == SaslSettings(SaslMechanism.PLAIN, "me", Secret(HUSH))
    (sentence,) = said(NoticeLevel.INFO, protocol, "a.sasl.mechanism=PLAIN")
    assert f"a.sasl.jaas.config is not set: the section KafkaClient of {file}" in sentence
    own = WITH_PLAIN[2].replace('"me"', '"you"')
    other = settings(protocol, "a.sasl.mechanism=PLAIN", own).consumer.security.sasl
    assert other is not None
    assert other.username == "you"


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("KafkaServer { };", "without a section KafkaClient"),
        (f"KafkaClient {{ {SCRAM} required password={HUSH}; }};", "names " + SCRAM),
        (f"KafkaClient {{ {PLAIN} required password={HUSH} }};", "is not a JAAS file"),
        (None, "cannot be read"),
    ],
)
def test_a_login_file_of_java_that_does_not_help_is_reported(
    content: str | None, part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence, which names the file and nothing that stands in it."""
    file = tmp_path / "jaas.conf"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={file}")
    lines = ("a.security.protocol=SASL_SSL", "a.sasl.mechanism=PLAIN")
    (sentence,) = said(NoticeLevel.ERROR, *lines)
    assert "a.sasl.jaas.config is missing" in sentence
    assert part in sentence
    assert str(file) in sentence
    assert HUSH not in sentence


def test_weak_and_expired_certificates_are_named(tmp_path: Path) -> None:
    """They are used, as in Java; somebody should know."""
    authority = weak_certificate("authority", digest="SHA-1")
    trusted = [
        authority,
        weak_certificate("old authority", days=EXPIRED),
        weak_certificate("small authority", bits=1024),
        weak_certificate("middle", by=authority, digest="SHA-1", days=EARLY),
    ]
    own = weak_certificate("me", by=authority, digest="SHA-1", bits=1024)
    trust, key = tmp_path / "trust.pem", tmp_path / "key.pem"
    trust.write_text("".join(one.pem for one in trusted))
    key.write_text(own.pem + own.key.reveal())
    lines = (
        "a.security.protocol=SSL",
        f"a.ssl.truststore.location={trust}",
        "a.ssl.truststore.type=PEM",
        f"a.ssl.keystore.location={key}",
        "a.ssl.keystore.type=PEM",
    )
    dates = [
        parse_certificate(trusted[1].der).not_after.date(),
        parse_certificate(trusted[3].der).not_before.date(),
    ]

    of_trust, of_key = said(NoticeLevel.WARNING, *lines)
    assert of_trust == (
        "line 6: a.ssl.truststore.location: weak or out of date, and trusted nevertheless, as in "
        f"Java: CN=old authority (expired on {dates[0]}), CN=small authority (RSA key of 1024 "
        f"bits), CN=middle (valid from {dates[1]} on, signed with SHA-1)."
    )
    assert of_key == (
        "line 8: a.ssl.keystore.location: weak or out of date, and brokers may refuse it: CN=me "
        "(RSA key of 1024 bits, signed with SHA-1)."
    )


def test_of_many_weak_certificates_some_are_named(tmp_path: Path) -> None:
    """A machine's own list may have dozens."""
    trust = tmp_path / "trust.pem"
    trust.write_text("".join(weak_certificate("old", days=EXPIRED).pem for _ in range(5)))
    lines = (f"a.ssl.truststore.location={trust}", "a.ssl.truststore.type=PEM")
    (warning,) = said(NoticeLevel.WARNING, "a.security.protocol=SSL", *lines)
    assert warning.count("CN=old") == 3
    assert warning.endswith(" and 2 more.")
