# SPDX-License-Identifier: Apache-2.0
"""`connect-mirror-maker FILE [--clusters C ...]`, as MM2's own script is called."""

from __future__ import annotations

import sys
from pathlib import Path

from sparkmirror.cli.java_script import JavaScript
from sparkmirror.cli.run import run_file

_SCRIPT = JavaScript("connect-mirror-maker", "mm2.properties [--clusters CLUSTER ...]", 255)


def main() -> None:
    """The console script."""
    file, *rest = _SCRIPT.arguments()
    if rest and (rest[0] != "--clusters" or len(rest) < 2):  # noqa: PLR2004 - option and a value
        _SCRIPT.refuse()
    sys.exit(run_file(Path(file), clusters=tuple(rest[1:])))
