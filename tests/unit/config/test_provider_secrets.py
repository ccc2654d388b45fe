# SPDX-License-Identifier: Apache-2.0
"""What came through a config provider is in no answer and no error, whatever key it was given to.

Somebody who may ask the REST API, or read a log, could else have every value that the process can
look up.
"""

from __future__ import annotations

import pytest

from sparkmirror.config.connector_validation import validate_connector
from sparkmirror.config.keys.connector_classes import CONNECTOR_CLASS_KEYS
from sparkmirror.config.keys.rest_keys import HTTPS_KEYS
from sparkmirror.config.keys.security_keys import ALL_SECURITY_KEYS
from sparkmirror.config.keys.table import CLIENT
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.security import security_settings
from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.connect.config_cache import without_providers

WORKER_TEXT = (
    "bootstrap.servers=b:9092\ngroup.id=g\nconfig.storage.topic=c\noffset.storage.topic=o\n"
    "status.storage.topic=s\n"
)
WORKER = WorkerConfig.parse(f"{WORKER_TEXT}config.providers=env")
MODULES = "org.apache.kafka.common.security."
PLAIN = f"{MODULES}plain.PlainLoginModule"
OAUTH = f"{MODULES}oauthbearer.OAuthBearerLoginModule"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
MARK = "zebra"
VALUES = {
    "secret": "wJalrZEBRA/K7MDENG+bPx=Rfi",
    "list": "zebra4711, TLS_zebra,/zebra",
    "class": "com.zebra.Zebra",
    "options": 'zebra required zebra="zebra";',
}
REFERENCE = "${env:PROVIDED}"
BASE: dict[str, str | None] = {
    "name": "n",
    "connector.class": "MirrorSourceConnector",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "a:9092",
    "target.cluster.bootstrap.servers": "b:9092",
}
FILE = (
    "clusters=A,B",
    "A.bootstrap.servers=a:9092",
    "B.bootstrap.servers=b:9092",
    "A->B.enabled=true",
)
LOGINS = {
    "PLAIN": f'{PLAIN} required username="u" password="p";',
    "OAUTHBEARER": f'{OAUTH} required clientId="i" clientSecret="s" '
    'oauth.token.endpoint.uri="https://h/x";',
}
REACH_NAMES = [key.name for key in ALL_SECURITY_KEYS]
OTHERS = [
    *(set().union(*CONNECTOR_CLASS_KEYS.values()) - {"connector.class", *REACH_NAMES}),
    *(f"source.consumer.{name}" for name in CLIENT["consumer"] if name not in REACH_NAMES),
    *(f"producer.override.{name}" for name in CLIENT["producer"] if name not in REACH_NAMES),
    *(f"target.admin.{name}" for name in CLIENT["admin"] if name not in REACH_NAMES),
]
AT_ONCE = 10
LINES = {
    "module": f"{REFERENCE} required;",
    "several modules": f'{PLAIN} required username="u" password="p"; {REFERENCE}',
    "whole": REFERENCE,
    "option's name": f'{PLAIN} required username="u" password="p" {REFERENCE}="x";',
    "option's value": f'{PLAIN} required username="{REFERENCE}";',
    "flag": f"{PLAIN} {REFERENCE};",
    "of OAuth": f'{OAUTH} required clientId="a" clientSecret="b" {REFERENCE}="x" '
    f'oauth.connect.timeout.seconds="{REFERENCE}" ssl.truststore.location="{REFERENCE}";',
    "of Kerberos": f'{KERBEROS} required useKeyTab=true keyTab="{REFERENCE}" '
    f'principal="{REFERENCE}" {REFERENCE}="x";',
}
MECHANISMS = ("PLAIN", "OAUTHBEARER", "GSSAPI")


@pytest.fixture(params=VALUES.values(), ids=VALUES)
def provided(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The value that the reference leads to."""
    monkeypatch.setenv("PROVIDED", request.param)
    return str(request.param)


def answer(config: dict[str, str | None]) -> str:
    """All that a client of the REST API sees which is not the same for everybody."""
    found = validate_connector(without_providers(config), WORKER)
    return str([one.value for one in found.configs]).lower()


def login(mechanism: str) -> dict[str, str | None]:
    """A source that is logged in to."""
    return {
        "source.cluster.security.protocol": "SASL_SSL",
        "source.cluster.sasl.mechanism": mechanism,
        "source.cluster.sasl.jaas.config": LOGINS.get(mechanism),
    }


@pytest.mark.usefixtures("provided")
def test_no_answer_about_a_connectors_keys_holds_it() -> None:
    """Alone, or as one of several items; nothing is said about one of them that hides another."""
    names = sorted(OTHERS)
    for text in (REFERENCE, f"x,{REFERENCE}"):
        for at in range(0, len(names), AT_ONCE):
            config = BASE | dict.fromkeys(names[at : at + AT_ONCE], text)
            assert MARK not in answer(config), config


@pytest.mark.parametrize("mechanism", LOGINS)
@pytest.mark.usefixtures("provided")
def test_no_answer_about_the_keys_of_security_holds_it(mechanism: str) -> None:
    """One by one, since only the first that is wrong is named."""
    for name in REACH_NAMES:
        config = BASE | login(mechanism) | {f"source.cluster.{name}": REFERENCE}
        assert MARK not in answer(config), name


@pytest.mark.parametrize(
    ("names", "value"),
    [
        (("source.cluster.alias", "target.cluster.alias"), "zebra4711"),
        (("source.cluster.bootstrap.servers", "producer.override.bootstrap.servers"), "zebra:9092"),
    ],
    ids=["aliases", "servers"],
)
def test_no_sentence_about_two_keys_holds_it(
    monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], value: str
) -> None:
    """Whoever wrote the sentence."""
    monkeypatch.setenv("PROVIDED", value)
    said = answer(BASE | dict.fromkeys(names, REFERENCE))
    assert "[hidden]" in said
    assert MARK not in said


@pytest.mark.usefixtures("provided")
def test_no_sentence_about_a_file_holds_it() -> None:
    """What `check` and the log say about a mirror's file and a worker's."""
    keys = login("PLAIN").items()
    lines = [f"A.{key.removeprefix('source.cluster.')}={text}" for key, text in keys]
    for name in REACH_NAMES:
        file = MirrorConfig.parse("\n".join((*FILE, *lines, f"A.{name}={REFERENCE}")))
        assert MARK not in "\n".join(map(str, file.all_notices())).lower(), name
    for key in HTTPS_KEYS:
        line = f"listeners=https://:1\nlisteners.https.{key.name}={REFERENCE}"
        worker = WorkerConfig.parse(f"{WORKER_TEXT}{line}")
        assert MARK not in "\n".join(map(str, worker.notices)).lower(), key.name


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
@pytest.mark.usefixtures("provided")
def test_no_sentence_about_a_jaas_line_holds_it(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither over REST nor in what `check` says, remarks included."""
    monkeypatch.setattr(security_settings, "find_spec", lambda _: True)  # no extra is missing
    for mechanism in MECHANISMS:
        keys = login(mechanism) | {"source.cluster.sasl.jaas.config": line}
        assert MARK not in answer(BASE | keys), mechanism
        lines = [f"A.{key.removeprefix('source.cluster.')}={text}" for key, text in keys.items()]
        file = MirrorConfig.parse("\n".join((*FILE, *lines)))
        said = "\n".join(map(str, file.all_notices())).lower()
        assert "jaas.config" in said
        assert MARK not in said, mechanism
