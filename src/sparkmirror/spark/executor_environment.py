# SPDX-License-Identifier: Apache-2.0
"""The Python and the JVM of executors: which interpreter they run, and how they start quickly.

Spark sends this package to executors as `sparkmirror.zip`, into their working directory, before
their first task. PYTHONPATH names it, so Python workers can start with our daemon even where the
package is not installed, and run the driver's version of it where another one is.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Mapping, Sequence
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER, source_hash
from marshal import dumps
from pathlib import Path

import sparkmirror

PACKAGE_ZIP = "sparkmirror.zip"
DAEMON_MODULE = "sparkmirror.spark.daemon"
PYTHON_KEYS = ("spark.pyspark.python", "spark.executorEnv.PYSPARK_PYTHON")
_QUIET = ("-Xlog:disable", "-Xlog:all=off")  # about archives that do not fit
QUICK_JAVA = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")
PYTHON_PATH = "spark.executorEnv.PYTHONPATH"
_DRIVER_ONLY = frozenset(
    [
        "cli",
        "client",
        "connect",
        "connectors",
        "devcluster",
        "group",
        "metrics",
        "rest",
        "rest_client",
        "runtime",
    ]
)
_UNCHECKED_HASH = 1  # PEP 552: the interpreter does not compare it with a source file


def executor_python(options: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """Return the Python of executors: Spark's keys, PYSPARK_PYTHON, else the running one.

    The running interpreter's path is right where all machines have the same image.
    """
    set_keys = [options[key] for key in PYTHON_KEYS if options.get(key)]
    return (set_keys or [environment.get("PYSPARK_PYTHON") or sys.executable])[0]


def driver_python_warning(options: Mapping[str, str]) -> str:
    """Return a warning if the file names a Python of the driver that is not the running one."""
    python = options.get("spark.pyspark.driver.python")
    if not python or Path(python) == Path(sys.executable):
        return ""
    return (
        f"spark.pyspark.driver.python={python} has no effect here: the driver is the Python that "
        f"runs sparkmirror ({sys.executable}). Only spark-submit reads it."
    )


def archive_flags(archive: Path | None, dump: Path | None = None) -> list[str]:
    """Return Java's options to use a class-data archive, or to write one at its end.

    A machine without the file starts without it.
    """
    if dump is None and archive is None:
        return []
    use = f"-XX:SharedArchiveFile={archive}"
    return [use if dump is None else f"-XX:ArchiveClassesAtExit={dump}", *_QUIET]


def executor_defaults(user: Mapping[str, str], java: Sequence[str] = ()) -> dict[str, str]:
    """Return the options of executors on a cluster. `user` has what the user set.

    `java` has more options of their JVM.
    """
    options = {
        # Tasks hold record batches in Python; the JVM only starts them. Spark rejects less.
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": " ".join([*QUICK_JAVA, *java]),
        "spark.python.unix.domain.socket.enabled": "true",
    }
    if "spark.python.daemon.module" not in user:
        # Relative to the working directory of an executor. Not absent if the user adds to it.
        path = [PACKAGE_ZIP, *filter(None, [user.get(PYTHON_PATH)])]
        options |= {"spark.python.daemon.module": DAEMON_MODULE, PYTHON_PATH: ":".join(path)}
    return options


def zip_package(path: Path) -> None:
    """Zip this package for executors: sources, and compiled modules for the driver's Python.

    Another Python ignores the compiled ones.
    """
    root = Path(sparkmirror.__file__).parent
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(root.rglob("*.py")):
            inner = file.relative_to(root)
            if inner.parts[0] not in _DRIVER_ONLY:
                name = str(Path("sparkmirror") / inner)
                source = file.read_bytes()
                archive.writestr(name, source)
                archive.writestr(f"{name}c", compiled_module(source, file, name))


def compiled_module(source: bytes, file: Path, name: str) -> bytes:
    """Return the content of a `.pyc` file that is valid whatever the time of its source."""
    # The loader uses the compiled file of the installation, if there is one.
    code = SourceFileLoader(file.stem, str(file)).get_code(file.stem) or compile(
        source, name, "exec", dont_inherit=True
    )
    flags = _UNCHECKED_HASH.to_bytes(4, "little")
    return MAGIC_NUMBER + flags + source_hash(source) + dumps(code)
