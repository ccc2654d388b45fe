# SPDX-License-Identifier: Apache-2.0
"""The archive of the executors' environment works wherever it is unpacked."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from sparkmirror.errors import SetupError
from sparkmirror.spark import environment_archive
from sparkmirror.spark.environment_archive import (
    archive_entries,
    base_interpreter,
    distribution_names,
    write_archive,
)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Without the large optional packages that a developer's environment has."""
    monkeypatch.setattr(environment_archive, "OPTIONAL_PACKAGES", ())
    return distribution_names()


def test_dependencies_of_dependencies_are_packed(names: list[str]) -> None:
    assert {"cryptography", "cffi", "kafka-python", "cramjam"} <= set(names)
    assert not {"pyspark", "pytest", "fastapi"} & set(names)


def test_the_unpacked_archive_imports_the_task_from_itself(
    names: list[str], tmp_path: Path
) -> None:
    path, folder = tmp_path / "env.tar.gz", tmp_path / "elsewhere"
    done: list[None] = []
    entries = archive_entries(names)
    write_archive(path, entries, base_interpreter(), lambda: done.append(None))
    assert len(done) == len(entries)
    folder.mkdir()
    subprocess.run(["tar", "-xzf", path, "-C", folder], check=True)  # as Spark does
    program = (
        "import sys, kafka, sparkmirror.task.entry_point as task, cryptography; "
        "print(sys.prefix, kafka.__file__, task.__file__, sep='\\n')"
    )
    output = subprocess.run(
        [folder / "bin" / "python", "-c", program], capture_output=True, check=True, cwd="/"
    )
    paths = output.stdout.decode().split()
    assert all(one.startswith(str(folder)) for one in paths)
    assert not [one for one in tmp_path.iterdir() if one.name.endswith(".partial")]


def test_the_interpreter_of_the_nodes_can_be_named(names: list[str], tmp_path: Path) -> None:
    path = tmp_path / "env.tar.gz"
    write_archive(path, archive_entries(names[:1]), Path("/opt/python/bin/python3"))
    with tarfile.open(path) as archive:
        assert archive.getmember("bin/python").linkname == "/opt/python/bin/python3"


def test_files_outside_of_the_environment_are_not_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Extraction would write to the absolute path, or fail."""
    outside = tmp_path / "outside.txt"
    outside.write_text("x", encoding="utf-8")
    metadata = tmp_path / "site" / "odd-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n")
    (metadata / "RECORD").write_text(
        f"{outside},,\n../outside.txt,,\nodd-1.0.dist-info/METADATA,,\n"
    )
    monkeypatch.syspath_prepend(tmp_path / "site")
    packed = {entry.name for entry in archive_entries(["odd"])}
    assert any(one.endswith("odd-1.0.dist-info/METADATA") for one in packed)
    assert not [one for one in packed if one.endswith("outside.txt")]


def test_a_package_that_is_not_installed_is_named() -> None:
    with pytest.raises(SetupError, match=f"no-such-package is not installed in {sys.prefix}"):
        distribution_names(["no-such-package"])


def test_an_archive_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="No such file or directory"):
        write_archive(tmp_path / "no" / "env.tar.gz", [], base_interpreter())
