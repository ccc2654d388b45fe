# SPDX-License-Identifier: Apache-2.0
"""TLS and logins of the REST API are Connect's keys, in a worker's file and in a mirror's."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.config.files.notices import NoticeLevel
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.config.worker_settings import RestListener, RestSettings
from sparkmirror.errors import ConfigError
from sparkmirror.model import Secret
from sparkmirror.security.settings import TlsSettings
from support.data.certificates import Authority
from support.data.weak_certificates import weak_certificate

WORKER = """\
bootstrap.servers=t:9092
group.id=g
config.storage.topic=c
offset.storage.topic=o
status.storage.topic=s
"""
MIRROR = "clusters=a,b\na.bootstrap.servers=a:1\nb.bootstrap.servers=b:1\na->b.enabled=true\n"
EXTENSION = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"


@pytest.fixture(scope="module")
def identity() -> TlsSettings:
    """Of a worker."""
    return Authority().tls()


@pytest.fixture
def stores(tmp_path: Path, identity: TlsSettings) -> list[str]:
    """The lines of a file, without Connect's prefix."""
    assert identity.key is not None
    (tmp_path / "key.pem").write_text(identity.key.reveal() + identity.chain)
    (tmp_path / "ca.pem").write_text(identity.trusted or "")
    return [
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={tmp_path / 'key.pem'}",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={tmp_path / 'ca.pem'}",
        "ssl.client.auth=required",
    ]


@pytest.fixture
def jaas(tmp_path: Path) -> Path:
    """A login file with one user."""
    (tmp_path / "users").write_text("ann=s3cret\n")
    file = tmp_path / "jaas.conf"
    file.write_text(f'KafkaConnect {{ {MODULE} required file="{tmp_path / "users"}"; }};')
    return file


def of_worker(*lines: str) -> RestSettings:
    """Of a worker's file that has nothing to remark on, save that nobody else reaches it."""
    file = WorkerConfig.parse(WORKER + "\n".join(lines))
    assert {one.key for one in file.notices} <= {"listeners"}
    return file.settings.rest


def of_mirror(*lines: str) -> RestSettings:
    """Of a mirror's."""
    config = MirrorConfig.parse(MIRROR + "\n".join(lines))
    assert config.all_notices() == []
    assert config.rest is not None
    return config.rest.settings


@pytest.mark.parametrize("read", [of_worker, of_mirror])
def test_https_has_its_own_stores(read: type, stores: list[str], identity: TlsSettings) -> None:
    """Behind Connect's prefix; nothing is read from files later."""
    lines = [f"listeners.https.{line}" for line in stores]
    found: RestSettings = read("listeners=https://:8443,http://:8083", *lines)
    assert found.listeners == (RestListener("https", "", 8443), RestListener("http", "", 8083))
    assert found.tls.chain.strip() == identity.chain.strip()
    assert found.tls.trusted
    assert found.client_auth == "required"
    assert "PRIVATE" not in repr(found)


def test_without_the_prefix_kafkas_stores_serve(stores: list[str]) -> None:
    """Though Kafka itself is reached without TLS."""
    found = of_worker("listeners=https://:8443", *stores)
    assert found.tls.chain
    assert found.client_auth == "required"


def test_a_protocol_from_a_provider_keeps_the_stores(
    stores: list[str], identity: TlsSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keys serve https and Kafka: whether Kafka has TLS is known only once it is resolved."""
    monkeypatch.setenv("REACHED_BY", "SSL")
    provider = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    lines = [
        "config.providers=env",
        f"config.providers.env.class={provider}",
        "security.protocol=${env:REACHED_BY}",
        "listeners=https://:8443",
    ]
    file = WorkerConfig.parse(WORKER + "\n".join([*lines, *stores]))
    tls = file.settings.connection.security.tls
    assert tls is not None
    assert tls.chain.strip() == identity.chain.strip()
    assert tls.trusted


def test_one_key_with_the_prefix_hides_all_without(stores: list[str]) -> None:
    """As in Connect: all or nothing."""
    lines = ["listeners=https://:8443", "security.protocol=SSL", *stores]
    file = WorkerConfig.parse(WORKER + "\n".join([*lines, "listeners.https.ssl.client.auth=none"]))
    (error,) = [str(one) for one in file.notices if one.level is NoticeLevel.ERROR]
    assert "listeners names https, and there is no certificate" in error
    assert file.notices[0].where == "line 6"


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (["listeners=https://:1"], "listeners names https"),
        (["admin.listeners=https://:1"], "admin.listeners names https"),
        (
            ["listeners=https://:1", "listeners.https.ssl.keystore.location=/nowhere"],
            "listeners.https.ssl.keystore.location",
        ),
        (["listeners.https.ssl.client.auth=maybe"], "none, requested, required"),
        (["listeners.https.ssl.client.auth=required"], "ssl.truststore.location"),
        ([f"rest.extension.classes={EXTENSION}"], "KAFKA_OPTS"),
        (["rest.extension.classes=acme.Guard", "listeners=http://:1"], "acme.Guard does not run"),
        (
            ["rest.extension.classes=acme.Guard", "listeners=http://[::1]:1,http://10.0.0.1:1"],
            "acme.Guard does not run",
        ),
        (
            [f"rest.extension.classes={EXTENSION}", "rest.basic.auth.login.config=/nowhere"],
            "rest.basic.auth.login.config: /nowhere",
        ),
    ],
)
def test_what_is_wrong_is_reported_once(
    lines: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing is served."""
    monkeypatch.delenv("KAFKA_OPTS", raising=False)
    file = WorkerConfig.parse(WORKER + "\n".join(lines))
    (error,) = [str(one) for one in file.notices if one.level is NoticeLevel.ERROR]
    assert sentence in error
    assert error.startswith("line ")
    if not lines[0].startswith("admin."):
        mirror = MirrorConfig.parse(MIRROR + "\n".join(lines))
        (error,) = [str(one) for one in mirror.all_notices() if one.level is NoticeLevel.ERROR]
        assert sentence in error
        with pytest.raises(ConfigError, match="line"):
            _ = mirror.rest


@pytest.mark.parametrize("read", [of_worker, of_mirror])
def test_basic_auth_users_come_from_the_jaas_file(
    read: type, jaas: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In KAFKA_OPTS, or in the file itself, which wins; nobody is asked unless the file says so."""
    options = f"-Xmx1g -Djava.security.auth.login.config={jaas}"
    monkeypatch.setenv("KAFKA_OPTS", options)
    assert read().users is None
    line = f"rest.extension.classes={EXTENSION}"
    assert read(line).users == {"ann": Secret("s3cret")}
    monkeypatch.setenv("KAFKA_OPTS", "-Djava.security.auth.login.config=/nowhere")
    found = read(line, f"rest.basic.auth.login.config={jaas}")
    assert found.users == {"ann": Secret("s3cret")}
    assert "s3cret" not in repr(found)


def test_a_weak_certificate_cannot_be_served(tmp_path: Path) -> None:
    """Which is known before anything is opened; as a client one could show it."""
    weak = weak_certificate(bits=1024)
    file = tmp_path / "weak.pem"
    file.write_text(weak.pem + weak.key.reveal())
    lines = f"ssl.keystore.type=PEM\nssl.keystore.location={file}\n"
    found = WorkerConfig.parse(f"{WORKER}{lines}listeners=https://:1").notices
    (error,) = [str(one) for one in found if one.level is NoticeLevel.ERROR]
    assert "ssl.keystore.location cannot be used: OpenSSL rejects" in error
    assert "too small" in error
