# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror init` without brokers: options, prompts on a terminal, permissions."""

from __future__ import annotations

import os
import pty
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparkmirror.cli.main import app
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.model import Flow
from support.waiting import PATIENCE_SECONDS

OPTIONS = (
    *("--source", "primary", "--source-servers", "p1:9092"),
    *("--target", "backup", "--target-servers", "b1:9092", "--topics", "orders"),
)
SASL = ("--source-security", "SASL_SSL", "--source-mechanism", "SCRAM-SHA-512")


def init(file: Path, *options: str) -> tuple[int, str]:
    """Exit code and output, without a terminal."""
    done = CliRunner().invoke(app, ["init", str(file), "--no-check", *options])
    return done.exit_code, done.output


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def test_options_are_enough_without_a_terminal(tmp_path: Path) -> None:
    """Only the owner can read the file; the next commands are named."""
    file = tmp_path / "mm2.properties"
    code, output = init(file, *OPTIONS)
    assert code == 0
    assert mode(file) == 0o600
    MirrorConfig.load(file).validate()
    assert f"sparkmirror check {file} --connect" in output
    assert f"sparkmirror run {file}" in output
    assert list(tmp_path.iterdir()) == [file]


def test_an_existing_file_is_kept_without_force(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text("precious")
    code, output = init(file, *OPTIONS)
    assert (code, file.read_text()) == (1, "precious")
    assert f"{file} exists already" in output
    assert init(file, *OPTIONS, "--force")[0] == 0
    assert "primary->backup.topics = orders" in file.read_text()
    assert mode(file) == 0o600


def test_missing_options_are_named(tmp_path: Path) -> None:
    """Nothing is written."""
    code, output = init(tmp_path / "f", "--source", "a", "--target", "b")
    assert code == 2
    assert "pass --source-servers, --target-servers, --topics." in output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (("--source-security", "TLS"), 2, "--source-security TLS is not valid: use PLAINTEXT"),
        (SASL, 1, "Cluster primary has no user name"),
        (("--target", "primary"), 1, "Both clusters have the alias primary"),
    ],
)
def test_wrong_answers_are_refused_in_a_sentence(
    tmp_path: Path, options: tuple[str, ...], code: int, sentence: str
) -> None:
    found, output = init(tmp_path / "f", *OPTIONS, *options)
    assert found == code
    assert sentence in output
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_does_not_exist_is_a_sentence(tmp_path: Path) -> None:
    code, output = init(tmp_path / "no" / "f", *OPTIONS)
    assert code == 1
    assert "No such file or directory" in output


def test_a_password_stays_in_the_environment(tmp_path: Path) -> None:
    """The variable to set is named."""
    file = tmp_path / "mm2.properties"
    code, output = init(file, *OPTIONS, *SASL, "--source-user", "me")
    assert code == 0
    assert "${env:PRIMARY_PASSWORD}" in file.read_text()
    assert "Set the environment variable PRIMARY_PASSWORD" in output


def test_a_password_that_is_typed_is_not_echoed_and_goes_to_its_own_file(tmp_path: Path) -> None:
    """On a terminal every question has an answer; the file works."""
    file = tmp_path / "mm2.properties"
    answers = ("primary", "p1:9092", "SASL_PLAINTEXT", "PLAIN", "me", "open sesame")
    answers += ("backup", "b1:9092", "", "orders")
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "sparkmirror.cli.main", "init", str(file), "--no-check"]
    with subprocess.Popen(
        command, stdin=follower, stdout=follower, stderr=follower, start_new_session=True
    ) as process:
        os.close(follower)
        shown, asked = b"", 0
        for answer in answers:
            while not shown[asked:].endswith(b": "):
                shown += os.read(leader, 1024)
            asked = len(shown)
            os.write(leader, f"{answer}\n".encode())
        with suppress(OSError):  # the terminal has no more users
            while piece := os.read(leader, 1024):
                shown += piece
        assert process.wait(PATIENCE_SECONDS) == 0, shown
    os.close(leader)
    assert b"open sesame" not in shown
    secrets = tmp_path / "mm2.secrets.properties"
    assert mode(secrets) == 0o600
    assert "open sesame" not in file.read_text()
    sasl = (
        MirrorConfig.load(file).flow_settings(Flow("primary", "backup")).source_admin.security.sasl
    )
    assert sasl is not None
    assert sasl.password is not None
    assert sasl.password.reveal() == "open sesame"
