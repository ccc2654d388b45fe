# SPDX-License-Identifier: Apache-2.0
"""`connect-mirror-maker FILE [--clusters C ...]`, as MM2's own script is called."""

from __future__ import annotations

import sys
from pathlib import Path

from sparkmirror.cli.run import run_file

_USAGE = "usage: connect-mirror-maker mm2.properties [--clusters CLUSTER ...]"
_BAD_ARGUMENTS = 255


def main() -> None:
    """The console script; `-daemon` is for a service manager to do."""
    arguments = sys.argv[1:]
    if arguments in (["-h"], ["--help"]):
        print(_USAGE)  # noqa: T201 - a command
        sys.exit(0)
    if arguments and arguments[0] == "-daemon":
        print(  # noqa: T201 - a command
            "connect-mirror-maker: -daemon is ignored; run it under systemd, nohup or a container.",
            file=sys.stderr,
        )
        arguments = arguments[1:]
    if not arguments or arguments[0].startswith("-"):
        print(_USAGE, file=sys.stderr)  # noqa: T201 - a command
        sys.exit(_BAD_ARGUMENTS)
    file, rest = Path(arguments[0]), arguments[1:]
    if rest and (rest[0] != "--clusters" or len(rest) < 2):  # noqa: PLR2004 - option and a value
        print(_USAGE, file=sys.stderr)  # noqa: T201 - a command
        sys.exit(_BAD_ARGUMENTS)
    sys.exit(run_file(file, clusters=tuple(rest[1:])))
