# SPDX-License-Identifier: Apache-2.0
"""The program for spark-submit: the command line of sparkmirror with spark-submit's master.

Python puts the directory of a program on its path, where our modules would hide others.
"""

from __future__ import annotations

import sys
from pathlib import Path

_MASTER_COMMANDS = (["run"], ["worker"])


def main() -> None:
    """Run sparkmirror."""
    here = Path(__file__).parent
    sys.path[:] = [one for one in sys.path if not one or Path(one).resolve() != here]
    try:
        from sparkmirror.cli.main import main as command_line  # noqa: PLC0415 - after the path
        from sparkmirror.spark.daemon import prefer_installed_pyspark  # noqa: PLC0415 - as above
        from sparkmirror.spark.submitted_conf import submitted_master  # noqa: PLC0415 - as above
    except ImportError as error:
        sys.exit(
            f"{sys.executable} cannot import sparkmirror ({error}). Pass the Python of its "
            "environment: spark-submit --conf spark.pyspark.driver.python=/path/venv/bin/python."
        )
    prefer_installed_pyspark()
    master = submitted_master()
    if master and sys.argv[1:2] in _MASTER_COMMANDS and "--master" not in sys.argv:
        sys.argv += ["--master", master]
    command_line()


if __name__ == "__main__":
    main()
