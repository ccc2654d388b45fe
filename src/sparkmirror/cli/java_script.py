# SPDX-License-Identifier: Apache-2.0
"""What Kafka's own shell scripts have in common, for the commands that go by their names."""

from __future__ import annotations

import sys
from typing import NoReturn


class JavaScript:
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
            self.refuse()
        return found

    def refuse(self) -> NoReturn:
        """Say how it is used, and end."""
        print(self._usage, file=sys.stderr)  # noqa: T201 - a command
        sys.exit(self._wrong_use)
