# SPDX-License-Identifier: Apache-2.0
"""Every file that a configuration leads to is noted, whoever reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.config.config_changes import parse_run
from sparkmirror.config.files.tracked_files import record_file_reads
from sparkmirror.config.mirror_config import MirrorConfig
from support.data.certificates import Authority, key_store, trust_store

BASIC = "org.apache.kafka.connect.rest.basic.auth.extension"


def test_stores_providers_and_logins_are_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what the REST API reads, what a token endpoint needs, and a file inside a file."""
    authority = Authority()
    trust = trust_store(tmp_path / "trust.pem", "PEM", authority)
    identity = key_store(tmp_path / "me.pem", "PEM", authority.identity())
    endpoint = trust_store(tmp_path / "endpoint.pem", "PEM", authority)
    served = key_store(tmp_path / "served.pem", "PEM", authority.identity())
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("id=me\n")
    (tmp_path / "mounted").mkdir()
    password = tmp_path / "mounted" / "password"
    password.write_text("pssst")
    users = tmp_path / "users.properties"
    users.write_text("ann=pssst\n")
    logins = tmp_path / "jaas.conf"
    logins.write_text(
        f'KafkaConnect {{ {BASIC}.PropertyFileLoginModule required file="{users}"; }};\n'
        "KafkaClient { org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="me" password="pssst"; };\n'
    )
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={logins}")
    port = tmp_path / "port.properties"
    port.write_text("port=9404\n")
    file = tmp_path / "mm2.properties"
    file.write_text(
        f"""clusters = a, b, c
a->b.enabled = true
b->c.enabled = true
metrics.port = ${{file:{port}:port}}
a.bootstrap.servers = a:1
a.security.protocol = SSL
a.ssl.truststore.type = PEM
a.ssl.truststore.location = {trust}
a.ssl.keystore.type = PEM
a.ssl.keystore.location = {identity}
b.bootstrap.servers = b:1
b.security.protocol = SASL_SSL
b.sasl.mechanism = OAUTHBEARER
b.sasl.oauthbearer.token.endpoint.url = https://localhost/token
b.sasl.jaas.config = org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required \\
    clientId="${{file:{secrets}:id}}" clientSecret="${{directory:{password.parent}:password}}" \\
    oauth.ssl.truststore.type="PEM" oauth.ssl.truststore.location="{endpoint}";
c.bootstrap.servers = 127.0.0.1:1
c.security.protocol = SASL_PLAINTEXT
c.sasl.mechanism = PLAIN
listeners = https://127.0.0.1:0
listeners.https.ssl.keystore.type = PEM
listeners.https.ssl.keystore.location = {served}
rest.extension.classes = {BASIC}.BasicAuthSecurityRestExtension
"""
    )
    with record_file_reads() as files:
        parse_run(MirrorConfig.load(file))
    expected = {file, trust, identity, endpoint, served, secrets, password, users, logins, port}
    assert files.keys() == expected
    assert all(one.stamp is not None and one.digest for one in files.values())


def test_a_file_that_is_not_there_yet_is_noted(tmp_path: Path) -> None:
    """It may come; whoever waits for it should not have to say so."""
    missing = [tmp_path / "me.p12", tmp_path / "secrets.properties", tmp_path / "mounted" / "key"]
    lines = [
        "clusters = a, b",
        "a->b.enabled = true",
        "a.bootstrap.servers = a:1",
        "b.bootstrap.servers = b:1",
        "security.protocol = SSL",
        f"ssl.truststore.location = {missing[0]}",
        f"a.client.id = ${{file:{missing[1]}:id}}",
        f"b.client.id = ${{directory:{missing[2].parent}:key}}",
    ]
    with record_file_reads() as files:
        problems = MirrorConfig.parse("\n".join(lines)).all_notices()
    assert files.keys() == set(missing)
    assert all(one.stamp is None for one in files.values())
    assert problems


def test_reads_are_recorded_only_within_record_file_reads(tmp_path: Path) -> None:
    """What is read before and after belongs to nobody."""
    file = tmp_path / "mm2.properties"
    file.write_text("clusters = a, b\n")
    MirrorConfig.load(file)
    with record_file_reads() as files:
        pass
    MirrorConfig.load(file)
    assert files == {}
