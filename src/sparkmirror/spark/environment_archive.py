# SPDX-License-Identifier: Apache-2.0
"""The Python environment of executors as an archive, for `spark.archives`.

A virtual environment is a directory with `pyvenv.cfg` and a link to an interpreter; Python finds
its packages relative to the path it was called by. So an archive of the packages, with a new link
and `pyvenv.cfg`, works wherever Spark unpacks it. The interpreter itself is not in it.

It contains what tasks import: sparkmirror, its dependencies on executors, and the optional ones
that are installed here. PySpark comes from the nodes' Spark.
"""

from __future__ import annotations

import io
import os
import re
import sys
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

import sparkmirror
from sparkmirror.errors import SetupError
from sparkmirror.spark.executor_environment import compiled_module

# What `sparkmirror.task` imports, and what optional features of it import.
EXECUTOR_PACKAGES = ("kafka-python", "crc32c", "cramjam", "lz4", "cryptography", "httpx")
OPTIONAL_PACKAGES = ("botocore", "gssapi")
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_MARKERS_OF_OTHERS = re.compile(r";.*\bextra\s*==")
_COMPRESSION = 6
_PROGRAM_MODE, _FILE_MODE = 0o755, 0o644


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of the archive: its path there and where its content is."""

    name: str
    file: Path


def distribution_names(extra: Sequence[str] = ()) -> list[str]:
    """Return the distributions to pack, with their dependencies. Raises SetupError."""
    installed = [one for one in OPTIONAL_PACKAGES if _find(one) is not None]
    found: dict[str, None] = {}
    waiting = [*EXECUTOR_PACKAGES, *installed, *extra]
    while waiting:
        name = _normalized(waiting.pop())
        if name in found:
            continue
        package = _find(name)
        if package is None:
            if name in map(_normalized, (*EXECUTOR_PACKAGES, *extra)):
                raise SetupError(
                    f"The package {name} is not installed in {sys.prefix}.",
                    remedy="Install it there, or leave it out.",
                )
            continue  # a dependency of another platform
        found[name] = None
        for requirement in package.requires or ():
            matched = _NAME.match(requirement)
            if matched and not _MARKERS_OF_OTHERS.search(requirement):
                waiting.append(matched[0])
    found.pop("pyspark", None)
    return sorted(found)


def archive_entries(names: Sequence[str]) -> list[Entry]:
    """Return the files of these distributions and of sparkmirror. Raises SetupError."""
    folder = PurePosixPath(f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages")
    entries = {
        name: Entry(str(folder / name), file)
        for one in names
        for name, file in _distribution_files(one)
    }
    root = Path(sparkmirror.__file__).parent
    for file in sorted(root.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            name = str(PurePosixPath("sparkmirror") / file.relative_to(root).as_posix())
            entries[name] = Entry(str(folder / name), file)
    return list(entries.values())


def write_archive(
    path: Path, entries: Sequence[Entry], python: Path, on_file: Callable[[], None] = lambda: None
) -> None:
    """Write the archive; `python` is the interpreter's path on the nodes. Raises SetupError."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        with tarfile.open(partial, "w:gz", compresslevel=_COMPRESSION) as archive:
            _add(archive, "pyvenv.cfg", _pyvenv(python).encode())
            _add_link(archive, "bin/python", str(python))
            _add_link(archive, "bin/python3", "python")
            for entry in entries:
                content = entry.file.read_bytes()
                _add(archive, entry.name, content)
                if entry.name.endswith(".py"):
                    _add_compiled(archive, entry, content)
                on_file()
        partial.replace(path)
    except OSError as error:
        raise SetupError(f"Cannot write {path}: {error.strerror or error}.") from error
    finally:
        partial.unlink(missing_ok=True)


def base_interpreter() -> Path:
    """Return the interpreter that the running virtual environment was made from."""
    found = Path(sys.base_exec_prefix) / "bin" / "python{}.{}".format(*sys.version_info)
    return found if found.exists() else Path(sys.executable).resolve()


def _find(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _distribution_files(name: str) -> Iterator[tuple[str, Path]]:
    """Yield the files of a distribution by their path in site-packages."""
    package = distribution(name)
    files = package.files or []
    if not files or any(file.name.startswith("__editable__") for file in files):
        raise SetupError(
            f"{name} is installed in editable mode, or without a list of its files.",
            remedy="Install it as a package (`pip install .`), then pack again.",
        )
    for file in files:
        is_outside = file.is_absolute() or ".." in file.parts
        is_inside = not is_outside and "__pycache__" not in file.parts
        located = Path(str(file.locate()))
        if is_inside and located.is_file():
            yield file.as_posix(), located


def _pyvenv(python: Path) -> str:
    return (
        f"home = {python.parent}\n"
        "include-system-site-packages = false\n"
        f"version = {'.'.join(map(str, sys.version_info[:3]))}\n"
    )


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    member.mode = _PROGRAM_MODE if name.endswith(".so") else _FILE_MODE
    member.mtime = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    archive.addfile(member, io.BytesIO(content))


def _add_link(archive: tarfile.TarFile, name: str, target: str) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.mode = tarfile.SYMTYPE, target, _PROGRAM_MODE
    archive.addfile(member)


def _add_compiled(archive: tarfile.TarFile, entry: Entry, source: bytes) -> None:
    """Add the compiled module: nodes unpack the archive for each application."""
    path = PurePosixPath(entry.name)
    name = path.parent / "__pycache__" / f"{path.stem}.{sys.implementation.cache_tag}.pyc"
    try:
        _add(archive, str(name), compiled_module(source, entry.file, entry.name))
    except SyntaxError:
        return  # templates and files for other versions of Python
