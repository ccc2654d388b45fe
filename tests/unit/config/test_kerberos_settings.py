# SPDX-License-Identifier: Apache-2.0
"""The options of Java's Krb5LoginModule mean what they mean in Java."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from sparkmirror.config.files.notices import NoticeLevel
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.security import security_settings
from sparkmirror.model import Flow, Secret
from sparkmirror.security.settings import KerberosSettings
from support.data.keytabs import keytab

MODULE = "com.sun.security.auth.module.Krb5LoginModule"
CONTENT = keytab("mirror@HERE", "kafka/broker@HERE")
KEYTAB = Secret(base64.b64encode(CONTENT).decode())
BASE = (
    "clusters=a,b",
    "a.bootstrap.servers=a1:9092",
    "b.bootstrap.servers=b1:9092",
    "a->b.enabled=true",
    "a.security.protocol=SASL_PLAINTEXT",
)


@pytest.fixture(autouse=True)
def _with_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security_settings, "find_spec", lambda _package: object())
    monkeypatch.delenv("KAFKA_OPTS", raising=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A keytab for mirror@HERE."""
    path = tmp_path / "mirror.keytab"
    path.write_bytes(CONTENT)
    return path


def config(options: str | None, *lines: str) -> MirrorConfig:
    """A file with one JAAS line, or none."""
    jaas = () if options is None else (f"a.sasl.jaas.config={MODULE} required {options};",)
    return MirrorConfig.parse("\n".join((*BASE, *jaas, *lines)))


def read(options: str | None, *lines: str) -> KerberosSettings:
    """What a client of the cluster does."""
    sasl = config(options, *lines).flow_settings(Flow("a", "b")).consumer.security.sasl
    assert sasl is not None
    assert sasl.kerberos is not None
    return sasl.kerberos


def said(level: NoticeLevel, options: str | None, *lines: str) -> list[str]:
    """The sentences about such a file."""
    found = config(options, *lines).all_notices()
    return [str(notice) for notice in found if notice.level is level]


@pytest.mark.parametrize("prefix", ["", "FILE:", "file:"])
def test_a_keytab_is_read_where_the_program_starts(file: Path, prefix: str) -> None:
    """Its content counts from there on, and is a secret."""
    line = f'useKeyTab=true storeKey=true keyTab="{prefix}{file}" principal="mirror@HERE"'
    found = read(line, "a.sasl.kerberos.service.name=bus")
    assert found == KerberosSettings("bus", "mirror@HERE", KEYTAB, uses_ticket_cache=False)
    assert KEYTAB.reveal() not in repr(found)
    assert said(NoticeLevel.WARNING, line) == []


def test_a_ticket_cache_comes_before_the_keytab(file: Path) -> None:
    """Alone it needs no principal; without a word the system's own is looked at."""
    assert read("useTicketCache=TRUE") == KerberosSettings()
    assert read('useTicketCache=true ticketCache="/c" serviceName=bus') == KerberosSettings(
        "bus", ticket_cache="/c"
    )
    both = read(f'useTicketCache=true useKeyTab=true keyTab="{file}" principal=mirror')
    assert both == KerberosSettings(principal="mirror", keytab=KEYTAB)
    assert read(None) == KerberosSettings()


def test_a_keytab_at_home_needs_no_name(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java looks for krb5.keytab there, unless krb5.conf names another one: that is said."""
    monkeypatch.setenv("HOME", str(file.parent))
    line = "useKeyTab=true principal=mirror"
    (sentence,) = said(NoticeLevel.ERROR, line)
    assert "useKeyTab names krb5.keytab in the home directory" in sentence
    assert "default_keytab_name in krb5.conf" in sentence
    file.rename(file.parent / "krb5.keytab")
    assert read(line).keytab == KEYTAB


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ('keyTab="{file}" principal=mirror', "keyTab needs useKeyTab=true"),
        ('ticketCache="/c"', "ticketCache needs useTicketCache=true"),
        ("renewTGT=true", "renewTGT needs useTicketCache=true"),
        ('useKeyTab=true keyTab="{file}"', 'useKeyTab needs principal="..."'),
        (
            'useKeyTab=true keyTab="/no/where" principal=m',
            "keyTab names /no/where, which cannot be",
        ),
        ('useKeyTab=true keyTab="/dev/zero" principal=m', "it is not a file"),
        ('useKeyTab=true keyTab="{file}" principal="m@HERE"', "which has no key for m@HERE"),
        ('useKeyTab=true keyTab="{other}" principal=m', "cannot be used: it is not a keytab"),
        ("useTicketCache=true serviceName=other", "a.sasl.kerberos.service.name differs from"),
    ],
)
def test_what_does_not_go_together_is_one_error_message(
    file: Path, options: str, part: str
) -> None:
    """Before anything connects; it names the option, and most of them Java refuses, too."""
    other = file.parent / "other"
    other.write_text("no keytab")
    line = options.replace("{file}", str(file)).replace("{other}", str(other))
    (sentence,) = said(NoticeLevel.ERROR, line, "a.sasl.kerberos.service.name=bus")
    assert part in sentence
    assert "a.sasl.jaas.config" in sentence


def test_what_is_done_otherwise_is_a_remark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Options that change nothing here are accepted in silence."""
    assert said(NoticeLevel.WARNING, "useTicketCache=true debug=true doNotPrompt=true") == []
    (sentence,) = said(NoticeLevel.WARNING, "useTicketCache=true useKeytab=x credsType=both")
    assert "a.sasl.jaas.config: its option credsType, useKeytab is not used here" in sentence
    (sentence,) = said(NoticeLevel.WARNING, "useTicketCache=true renewTGT=true")
    assert "renewTGT does nothing" in sentence
    monkeypatch.setenv("KAFKA_OPTS", "-Djava.security.krb5.conf=/etc/our.conf")
    (sentence,) = said(NoticeLevel.WARNING, "useTicketCache=true")
    assert "set KRB5_CONFIG=/etc/our.conf" in sentence
    monkeypatch.setenv("KRB5_CONFIG", "/etc/our.conf")
    assert said(NoticeLevel.WARNING, "useTicketCache=true") == []


def test_the_login_file_of_java_is_read_as_a_line_is(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most clusters with Kerberos have one, named in KAFKA_OPTS."""
    login = file.parent / "jaas.conf"
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={login}")
    options = f'useKeyTab=true keyTab="{file}" principal="mirror@HERE" serviceName="bus"'
    login.write_text(f"KafkaClient {{ {MODULE} required {options}; }};", encoding="utf-8")
    assert read(None) == KerberosSettings("bus", "mirror@HERE", KEYTAB, uses_ticket_cache=False)
    login.write_text(f"KafkaClient {{ {MODULE} required keyTab=x; }};", encoding="utf-8")
    (sentence,) = said(NoticeLevel.ERROR, None)
    assert "a.sasl.jaas.config: its option keyTab needs useKeyTab=true" in sentence
