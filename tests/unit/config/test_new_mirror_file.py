# SPDX-License-Identifier: Apache-2.0
"""A new properties file parses to exactly the answers, and contains no password."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkmirror.config.files.notices import NoticeLevel
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.new_mirror_file import (
    ClusterAnswers,
    MirrorAnswers,
    check_answers,
    mirror_file_text,
    secrets_file_text,
)
from sparkmirror.errors import ConfigError
from sparkmirror.model import Flow, Secret
from sparkmirror.security.settings import SaslMechanism, SecurityProtocol

PLAIN = MirrorAnswers(
    ClusterAnswers("primary", "p1:9092, p2:9092"),
    ClusterAnswers("backup", "b1:9092"),
    r"orders, payments\..*",
    "/secrets",
)
# What a properties file can hold: printable characters.
TEXTS = st.text(
    st.characters(categories=("L", "N", "P", "S", "Zs")), min_size=1, max_size=20
).filter(str.isprintable)


def secured(user: str, password: Secret | None, secrets: str = "/secrets") -> MirrorAnswers:
    """A source with SCRAM over TLS."""
    source = ClusterAnswers(
        "primary",
        "p1:9092",
        SecurityProtocol.SASL_SSL,
        SaslMechanism.SCRAM_SHA_512,
        user,
        password,
    )
    return MirrorAnswers(source, PLAIN.target, "orders", secrets)


def credentials(text: str) -> tuple[str, str]:
    """User and password of the source."""
    found = MirrorConfig.parse(text).flow_settings(Flow("primary", "backup"))
    sasl = found.source_admin.security.sasl
    assert sasl is not None
    assert sasl.password is not None
    return sasl.username, sasl.password.reveal()


def test_the_file_has_the_answers_and_no_notice() -> None:
    config = MirrorConfig.parse(mirror_file_text(PLAIN))
    assert [one for one in config.all_notices() if one.level is not NoticeLevel.INFO] == []
    found = config.flow_settings(Flow("primary", "backup"))
    assert found.enabled
    assert found.source_admin.bootstrap_servers == ("p1:9092", "p2:9092")
    assert found.policy.topics == ("orders", r"payments\..*")
    assert secrets_file_text(PLAIN) == ""


def test_the_suggested_lines_are_valid() -> None:
    """Without their '#' the file is still without errors."""
    text = mirror_file_text(PLAIN)
    lines = [
        line.removeprefix("#") if line[:1] == "#" and line[1:2] != " " else line
        for line in text.splitlines()
    ]
    assert len([one for one in lines if one.startswith("#")]) < len(lines)
    MirrorConfig.parse("\n".join(lines)).validate()
    assert "\n".join(lines) != text.rstrip()


def test_a_password_from_the_environment_is_a_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a cluster without a truststore trusts what the system trusts."""
    monkeypatch.setenv("PRIMARY_PASSWORD", "open sesame")
    text = mirror_file_text(secured("me", None))
    assert "${env:PRIMARY_PASSWORD}" in text
    sasl = (
        MirrorConfig.parse(text).flow_settings(Flow("primary", "backup")).source_admin.security.sasl
    )
    assert sasl is not None
    assert sasl.password.reveal() == "open sesame"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(user=TEXTS, password=TEXTS)
def test_any_user_and_password_survive_the_two_files(
    tmp_path: Path, user: str, password: str
) -> None:
    """Quotes, backslashes and spaces too; the password is only in the second file."""
    secrets = tmp_path / "mm2.secrets.properties"
    answers = secured(user, Secret(password), str(secrets))
    check_answers(answers)
    secrets.write_text(secrets_file_text(answers), encoding="utf-8")
    text = mirror_file_text(answers)
    assert mirror_file_text(secured(user, Secret("other"), str(secrets))) == text
    sasl = (
        MirrorConfig.parse(text).flow_settings(Flow("primary", "backup")).source_admin.security.sasl
    )
    assert sasl is not None
    assert (sasl.username, sasl.password.reveal()) == (user, password)


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        (MirrorAnswers(PLAIN.source, PLAIN.source, "t", "/s"), "Both clusters have the alias"),
        (
            MirrorAnswers(ClusterAnswers("a.b", "h:1"), PLAIN.target, "t", "/s"),
            "The alias 'a.b' is not valid",
        ),
        (secured("", None), "Cluster primary has no user name, which SASL_SSL needs"),
        (secured("me\nenabled=true", None), "control character"),
        (secured("me", None, "/with:colon"), "The path /with:colon"),
    ],
)
def test_answers_that_cannot_be_written_are_refused(answers: MirrorAnswers, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        check_answers(answers)
