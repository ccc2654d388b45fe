# SPDX-License-Identifier: Apache-2.0
"""Changed files are noticed however they were changed, and not before they are complete."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sparkmirror.config.files.tracked_files import FileWatcher, read_bounded, record_file_reads

MOST_BYTES = 1 << 20
NOTHING: tuple[Path, ...] = ()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with one line."""
    made = tmp_path / "mm2.properties"
    made.write_text("a=1\n")
    return made


def watched(*files: Path) -> FileWatcher:
    """Watches files that were just read."""
    with record_file_reads() as read:
        for one in files:
            read_bounded(one, MOST_BYTES)
    return FileWatcher(read)


def looks(watch: FileWatcher, count: int = 3) -> list[tuple[Path, ...]]:
    """What so many looks in a row see."""
    return [watch.poll() for _ in range(count)]


def write(file: Path, text: str, moment: int) -> None:
    """Write the file at its own moment: two writes may fall into one tick of the clock."""
    file.write_text(text)
    os.utime(file, ns=(moment, moment))


def test_a_change_is_seen_once_and_only_when_it_stayed_for_two_looks(file: Path) -> None:
    """Whoever still writes is waited for."""
    watch = watched(file)
    assert looks(watch) == [NOTHING] * 3
    write(file, "a=2\n", 1)
    assert watch.poll() == NOTHING
    write(file, "a=2\nb=3\n", 2)
    assert looks(watch, 4) == [NOTHING, (file,), NOTHING, NOTHING]


def test_a_file_that_was_only_touched_or_replaced_by_its_like_is_the_same(file: Path) -> None:
    """The content decides."""
    watch = watched(file)
    write(file, "a=1\n", 1)
    assert looks(watch) == [NOTHING] * 3
    other = file.with_suffix(".new")
    other.write_text("a=1\n")
    other.rename(file)
    assert looks(watch) == [NOTHING] * 3


def test_a_file_that_is_missing_for_a_moment_is_waited_for(file: Path) -> None:
    """As editors do it: away, then there again."""
    watch = watched(file)
    file.unlink()
    assert looks(watch) == [NOTHING] * 3
    write(file, "a=2\n", 1)
    assert looks(watch) == [NOTHING, (file,), NOTHING]


def test_a_file_that_stays_away_is_missed_once(file: Path) -> None:
    """Not by every look; when it comes back it is news, even unchanged: somebody missed it."""
    watch = watched(file)
    file.unlink()
    assert looks(watch, 60).count((file,)) == 1
    write(file, "a=1\n", 1)
    assert looks(watch) == [NOTHING, (file,), NOTHING]


def test_a_file_that_keeps_changing_delays_a_reload_for_a_limited_time(
    file: Path, tmp_path: Path
) -> None:
    """A change of another one is told some seconds later."""
    other = tmp_path / "log"
    other.write_text("0")
    watch = watched(file, other)
    write(file, "a=2\n", 1)
    told = []
    for number in range(30):
        write(other, str(number), number)
        told += watch.poll()
    assert file in told


def test_files_that_change_together_are_reported_together(file: Path, tmp_path: Path) -> None:
    """One store after the other, with a look in between."""
    other = tmp_path / "store"
    other.write_text("1")
    watch = watched(file, other)
    write(file, "a=2\n", 1)
    assert watch.poll() == NOTHING
    write(other, "2", 1)
    assert looks(watch) == [NOTHING, (file, other), NOTHING]


def test_a_swapped_link_is_a_change(tmp_path: Path) -> None:
    """Kubernetes: the file is a link into a directory that is a link, which is swapped."""
    for version in ("1", "2"):
        (tmp_path / version).mkdir()
        write(tmp_path / version / "mm2.properties", f"a={version}\n", 1)
    (tmp_path / "..data").symlink_to("1")
    file = tmp_path / "mm2.properties"
    file.symlink_to("..data/mm2.properties")
    watch = watched(file)
    (tmp_path / "..new").symlink_to("2")
    (tmp_path / "..new").rename(tmp_path / "..data")
    assert looks(watch) == [NOTHING, (file,), NOTHING]


def test_what_a_broken_reading_did_not_come_to_is_still_watched(file: Path, tmp_path: Path) -> None:
    """And does not make it read again as long as nothing changes."""
    other = tmp_path / "store"
    other.write_text("1")
    watch = watched(file, other)
    write(file, "broken", 1)
    write(other, "2", 1)
    assert looks(watch, 2)[-1] == (file, other)
    with record_file_reads() as read:
        read_bounded(file, MOST_BYTES)
    watch.watch(read, is_complete=False)
    assert looks(watch, 5) == [NOTHING] * 5
    write(other, "1", 2)
    assert looks(watch) == [NOTHING, (other,), NOTHING]


def test_what_a_reading_did_not_come_to_is_still_known_by_its_content(
    file: Path, tmp_path: Path
) -> None:
    """Kubernetes replaces all files of a mount together; one that is the same is no news."""
    other = tmp_path / "store"
    other.write_text("1")
    watch = watched(file, other)
    for moment in (1, 2):
        write(file, "a=1\n", moment)
        write(other, f"new {moment}", moment)
        assert looks(watch, 2)[-1] == (other,)
        with record_file_reads() as read:
            read_bounded(other, MOST_BYTES)
        watch.watch(read, is_complete=False)


def test_a_complete_reading_leaves_files_alone_that_it_did_not_need(
    file: Path, tmp_path: Path
) -> None:
    """Nobody names them any more."""
    other = tmp_path / "store"
    other.write_text("1")
    watch = watched(file, other)
    with record_file_reads() as read:
        read_bounded(file, MOST_BYTES)
    watch.watch(read, is_complete=True)
    write(other, "2", 1)
    assert looks(watch) == [NOTHING] * 3


def test_a_file_that_may_be_read_again_is_news(file: Path) -> None:
    """Its content is the same, but nobody has seen it."""
    with record_file_reads() as read, pytest.raises(OSError, match="Is a directory"):
        read_bounded(file.parent, MOST_BYTES)
    assert read[file.parent].stamp is None
    with record_file_reads() as read:
        assert read_bounded(file, 1) is None  # more than that: not read
    watch = FileWatcher(read)
    file.chmod(0o600)
    assert looks(watch) == [NOTHING, (file,), NOTHING]


def test_a_pipe_is_not_watched(tmp_path: Path) -> None:
    """Nobody could read it twice; who tried would wait for ever."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with record_file_reads() as read, pytest.raises(OSError, match="not a file"):
        read_bounded(pipe, MOST_BYTES, only_files=True)
    watch = FileWatcher(read)
    os.utime(pipe, ns=(1, 1))
    assert looks(watch) == [NOTHING] * 3
