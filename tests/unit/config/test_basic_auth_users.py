# SPDX-License-Identifier: Apache-2.0
"""Users of the REST API come from Connect's own files, and every mistake has its sentence."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkmirror.config.rest_settings import read_basic_auth_users
from sparkmirror.errors import ConfigError
from sparkmirror.model import Secret

MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"


@pytest.fixture
def jaas(tmp_path: Path) -> Path:
    """A login file for `users.properties` beside it."""
    file = tmp_path / "jaas.conf"
    users = tmp_path / "users.properties"
    file.write_text(f'KafkaConnect {{\n  {MODULE} required\n  file="{users}";\n}};\n')
    return file


def test_users_and_passwords_are_read_as_java_reads_them(jaas: Path) -> None:
    """A properties file: comments, escapes, colons; nothing is resolved in it."""
    (jaas.parent / "users.properties").write_text(
        "# people\nann=s3cret\nbob : two words \nc\\=d=\\u00fc\nnobody=\nref=${env:HOME}\n"
    )
    users = read_basic_auth_users(str(jaas))
    assert users == {
        "ann": Secret("s3cret"),
        "bob": Secret("two words "),
        "c=d": Secret("ü"),
        "nobody": Secret(""),
        "ref": Secret("${env:HOME}"),
    }
    assert "s3cret" not in repr(users)


def test_an_empty_users_file_is_an_error(jaas: Path) -> None:
    """Java lets everybody in, which nobody who asks for passwords means."""
    (jaas.parent / "users.properties").write_text("# later\n")
    with pytest.raises(ConfigError, match="names no user"):
        read_basic_auth_users(str(jaas))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "no section KafkaConnect"),
        (f'KafkaClient {{ {MODULE} required file="x"; }};', "no section KafkaConnect"),
        ("KafkaConnect { a.B required; };", "must contain one login module"),
        (f"KafkaConnect {{ {MODULE} required; }};", "names no file"),
        ("KafkaConnect", "is not a JAAS file"),
        ("\xff", "is not a JAAS file"),
    ],
)
def test_a_login_file_that_does_not_fit_is_reported(
    tmp_path: Path, text: str, sentence: str
) -> None:
    """With its name."""
    file = tmp_path / "jaas.conf"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=f"jaas.conf.*{sentence}|{sentence}.*jaas.conf"):
        read_basic_auth_users(str(file))


def test_files_that_are_not_there_are_named(jaas: Path) -> None:
    """Both of them."""
    with pytest.raises(ConfigError, match=r"users\.properties"):
        read_basic_auth_users(str(jaas))
    with pytest.raises(ConfigError, match=r"nowhere\.conf.*cannot be read"):
        read_basic_auth_users(str(jaas.parent / "nowhere.conf"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.binary(max_size=200))
def test_any_bytes_are_users_or_an_error(jaas: Path, data: bytes) -> None:
    """Nothing else comes out."""
    (jaas.parent / "users.properties").write_bytes(data)
    with contextlib.suppress(ConfigError):
        assert read_basic_auth_users(str(jaas))
