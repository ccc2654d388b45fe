# SPDX-License-Identifier: Apache-2.0
"""The machine's settings as Ivy's URL and Java's options."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.devcluster.maven_repository import maven_repository
from sparkmirror.errors import SetupError

_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "DEFAULT_ARTIFACT_REPOSITORY")


@pytest.fixture(autouse=True)
def _bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def settings(home: Path, body: str) -> None:
    """Write Maven's settings.xml."""
    (home / ".m2").mkdir()
    (home / ".m2" / "settings.xml").write_text(body)


def test_bare_machine_uses_the_default() -> None:
    assert maven_repository().root is None
    assert maven_repository().java_options == ()


@pytest.mark.parametrize(
    ("mirror_of", "expected"),
    [("central", "http://mirror/m2"), ("*", "http://mirror/m2"), ("*,!central", None), ("x", None)],
)
def test_mirror_of_central_is_taken(tmp_path: Path, mirror_of: str, expected: str | None) -> None:
    """By Maven's rules for mirrors."""
    settings(
        tmp_path,
        '<settings xmlns="http://maven.apache.org/SETTINGS/1.0.0"><mirrors><mirror>'
        f"<mirrorOf>{mirror_of}</mirrorOf><url>http://mirror/m2</url>"
        "</mirror></mirrors></settings>",
    )
    assert expected == maven_repository().root


def test_broken_settings_are_named(tmp_path: Path) -> None:
    """An invalid settings.xml is not ignored."""
    settings(tmp_path, "<settings>")
    with pytest.raises(SetupError, match=r"Cannot read .*settings\.xml"):
        maven_repository()


def test_sparks_variable_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mirror that is configured for Spark is used."""
    settings(tmp_path, "<settings/>")
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", "http://spark-mirror/")
    assert maven_repository().root == "http://spark-mirror/"


def test_proxies_become_java_properties(monkeypatch: pytest.MonkeyPatch) -> None:
    """Java does not read the usual proxy variables."""
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "localhost,.example")
    assert maven_repository().java_options == (
        "-Dhttps.proxyHost=proxy.example",
        "-Dhttps.proxyPort=3128",
        "-Dhttp.nonProxyHosts=localhost|*.example",
    )
