# SPDX-License-Identifier: Apache-2.0
"""Which class-data archives stay in the cache."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sparkmirror.spark import class_archive


def test_room_is_made_by_removing_those_unused_for_longest(tmp_path: Path) -> None:
    """Seven remain beside the new one; other files are not touched."""
    for age, name in enumerate(["newest", *"bcdefgh", "oldest"]):
        (tmp_path / f"{name}.jsa").touch()
        os.utime(tmp_path / f"{name}.jsa", (1000 - age, 1000 - age))
    (tmp_path / "note.txt").touch()
    class_archive.evict_old_archives(tmp_path)
    assert {found.name for found in tmp_path.iterdir()} == {
        "newest.jsa",
        *(f"{name}.jsa" for name in "bcdefg"),
        "note.txt",
    }


def test_what_a_killed_build_left_is_removed_later(tmp_path: Path) -> None:
    """A build takes less than an hour."""
    for name in ("build-old", "build-new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "spark.log").touch()
    os.utime(tmp_path / "build-old", (1, 1))
    class_archive.evict_old_archives(tmp_path)
    assert [found.name for found in tmp_path.iterdir()] == ["build-new"]


def test_each_jvm_has_its_archive() -> None:
    driver, executor = (class_archive.archive_path(jvm) for jvm in class_archive.SparkJvm)
    assert driver != executor


def test_an_archive_in_use_counts_as_used_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing archive is no error."""
    monkeypatch.setenv("SPARKMIRROR_CACHE", str(tmp_path))
    assert class_archive.existing_archive() is None
    path = class_archive.archive_path()
    path.parent.mkdir(parents=True)
    path.touch()
    os.utime(path, (1, 1))
    assert class_archive.existing_archive() == path
    assert path.stat().st_mtime > 1


def test_nothing_is_built_under_spark_submit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that builds would use, and then end, the JVM that runs the flows."""
    started: list[object] = []
    monkeypatch.setattr(
        class_archive.subprocess, "Popen", lambda *given, **_: started.append(given)
    )
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    class_archive.build_in_background()
    assert started == []
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT")
    class_archive.build_in_background()
    assert len(started) == 1
