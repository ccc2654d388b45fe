# SPDX-License-Identifier: Apache-2.0
"""The process from which Spark forks its Python workers.

Spark runs `pyspark.daemon` with PySpark as a zip without compiled modules. Reading that, and each
worker's import of our modules, took 1.5 s of every start. Here PySpark comes from its installation,
and modules are imported once, before the first fork: workers start at once and share the memory.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.machinery
import os
import sys
from pathlib import Path

_ZIPPED = ("pyspark.zip", "py4j-")


def _without_zips() -> list[str]:
    return [
        one for one in sys.path if not (one.endswith(".zip") and Path(one).name.startswith(_ZIPPED))
    ]


def _is_same_pyspark() -> bool:
    """Whether the JVM's PySpark is the one that this Python would import without the zip."""
    found = importlib.machinery.PathFinder.find_spec("pyspark", _without_zips())
    home = os.environ.get("SPARK_HOME", "")
    if found is None or found.origin is None or not home:
        return False
    return Path(home).samefile(Path(found.origin).parent)


def prefer_installed_pyspark() -> None:
    """Import PySpark from its installation instead of the zip, if both are the same."""
    if _is_same_pyspark():
        sys.path[:] = _without_zips()


def main() -> None:
    """Run Spark's daemon."""
    prefer_installed_pyspark()
    import pyspark.worker  # noqa: F401, PLC0415 - after the path is in order; for the workers
    from pyspark.daemon import manager  # noqa: PLC0415 - as above

    # An executor may lack our packages, or run another Python: the first task reports that.
    with contextlib.suppress(ImportError, SyntaxError, TypeError, AttributeError):
        import sparkmirror.task.entry_point  # noqa: F401, PLC0415 - as above

    gc.collect()
    gc.freeze()  # the garbage collector ignores shared objects, which would otherwise be copied
    manager()


if __name__ == "__main__":
    main()
