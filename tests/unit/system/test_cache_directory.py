# SPDX-License-Identifier: Apache-2.0
"""The cache directory, and the error if it is not writable."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.errors import SetupError
from sparkmirror.system.cache_directory import cache_directory, ensure_writable


def test_own_variable_wins_over_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """SPARKMIRROR_CACHE is the directory itself."""
    monkeypatch.setenv("SPARKMIRROR_CACHE", str(tmp_path / "mine"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert tmp_path / "mine" == cache_directory()


def test_xdg_variable_gets_our_own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """XDG_CACHE_HOME is shared, so a subdirectory is used."""
    monkeypatch.delenv("SPARKMIRROR_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert tmp_path / "sparkmirror" == cache_directory()


def test_home_is_the_last_resort(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without variables the cache is under the home directory."""
    monkeypatch.delenv("SPARKMIRROR_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tmp_path / ".cache" / "sparkmirror" == cache_directory()


def test_unwritable_directory_is_named(tmp_path: Path) -> None:
    """A path that cannot become a directory is an error with its name and a remedy."""
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SetupError, match=r"file/below .*SPARKMIRROR_CACHE"):
        ensure_writable(tmp_path / "file" / "below")


def test_writable_directory_is_made(tmp_path: Path) -> None:
    """Missing parents are made as well."""
    assert ensure_writable(tmp_path / "a" / "b").is_dir()
