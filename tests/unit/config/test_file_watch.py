# SPDX-License-Identifier: Apache-2.0
"""A changed file is noticed however it was changed, and not before it is complete."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sparkmirror.config.file_watch import FileWatch, Seen


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with one line."""
    made = tmp_path / "mm2.properties"
    made.write_text("a=1\n")
    return made


def looks(watch: FileWatch, count: int = 3) -> list[Seen]:
    """What so many looks in a row see."""
    return [watch.look() for _ in range(count)]


def write(file: Path, text: str, moment: int) -> None:
    """Write the file at a moment of its own: two writes may fall into one tick of the clock."""
    file.write_text(text)
    os.utime(file, ns=(moment, moment))


def test_a_change_is_seen_once_and_only_when_it_stayed_for_two_looks(file: Path) -> None:
    """Whoever still writes is waited for."""
    watch = FileWatch(file)
    assert looks(watch) == [Seen.SAME] * 3
    write(file, "a=2\n", 1)
    assert watch.look() is Seen.SAME
    write(file, "a=2\nb=3\n", 2)
    assert looks(watch, 4) == [Seen.SAME, Seen.CHANGED, Seen.SAME, Seen.SAME]


def test_a_file_that_was_only_touched_or_replaced_by_its_like_is_the_same(file: Path) -> None:
    """The content decides."""
    watch = FileWatch(file)
    write(file, "a=1\n", 1)
    assert looks(watch) == [Seen.SAME] * 3
    other = file.with_suffix(".new")
    other.write_text("a=1\n")
    other.rename(file)
    assert looks(watch) == [Seen.SAME] * 3


def test_a_file_that_is_missing_for_a_moment_is_waited_for(file: Path) -> None:
    """As editors do it: away, then there again."""
    watch = FileWatch(file)
    file.unlink()
    assert looks(watch) == [Seen.SAME] * 3
    write(file, "a=2\n", 1)
    assert looks(watch) == [Seen.SAME, Seen.CHANGED, Seen.SAME]


def test_a_file_that_stays_away_is_missed_once(file: Path) -> None:
    """Not by every look; when it comes back unchanged there is nothing to do."""
    watch = FileWatch(file)
    file.unlink()
    assert looks(watch, 60).count(Seen.GONE) == 1
    write(file, "a=1\n", 1)
    assert looks(watch) == [Seen.SAME] * 3


def test_a_swapped_link_is_a_change(tmp_path: Path) -> None:
    """Kubernetes: the file is a link into a directory that is a link, which is swapped."""
    for version in ("1", "2"):
        (tmp_path / version).mkdir()
        write(tmp_path / version / "mm2.properties", f"a={version}\n", 1)
    (tmp_path / "..data").symlink_to("1")
    file = tmp_path / "mm2.properties"
    file.symlink_to("..data/mm2.properties")
    watch = FileWatch(file)
    (tmp_path / "..new").symlink_to("2")
    (tmp_path / "..new").rename(tmp_path / "..data")
    assert looks(watch) == [Seen.SAME, Seen.CHANGED, Seen.SAME]
