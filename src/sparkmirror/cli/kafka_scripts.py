# SPDX-License-Identifier: Apache-2.0
"""What Kafka's own shell scripts have in common, for the commands that go by their names.

`connect-mirror-maker FILE [--clusters C ...]`, as MM2's own script is called.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

from sparkmirror.cli.run import run_file


class KafkaScript:
    """One script: its name, what follows it, and its exit code for wrong use."""

    def __init__(self, name: str, what: str, wrong_use: int) -> None:
        self._name = name
        self._usage = f"usage: {name} {what}"
        self._wrong_use = wrong_use

    def arguments(self) -> list[str]:
        """The file and what follows it; `-daemon` is for a service manager to do."""
        found = sys.argv[1:]
        if found in (["-h"], ["--help"]):
            print(self._usage)  # noqa: T201 - a command
            sys.exit(0)
        if found and found[0] == "-daemon":
            print(  # noqa: T201 - a command
                f"{self._name}: -daemon is ignored; run it under systemd, nohup or a container.",
                file=sys.stderr,
            )
            found = found[1:]
        if not found or found[0].startswith("-"):
            self.exit_with_usage()
        return found

    def exit_with_usage(self) -> NoReturn:
        """Say how it is used, and end."""
        print(self._usage, file=sys.stderr)  # noqa: T201 - a command
        sys.exit(self._wrong_use)


_SCRIPT = KafkaScript("connect-mirror-maker", "mm2.properties [--clusters CLUSTER ...]", 255)


def connect_mirror_maker() -> None:
    """The console script."""
    file, *rest = _SCRIPT.arguments()
    if rest and (rest[0] != "--clusters" or len(rest) < 2):  # noqa: PLR2004 - option and a value
        _SCRIPT.exit_with_usage()
    sys.exit(run_file(Path(file), clusters=tuple(rest[1:])))
