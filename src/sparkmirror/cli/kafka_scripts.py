# SPDX-License-Identifier: Apache-2.0
"""Commands with the names of Kafka's shell scripts: `connect-mirror-maker` and its options."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

from sparkmirror.cli.logging_setup import LogLevelName
from sparkmirror.cli.run import run_file

LOG_LEVEL_USAGE = f"[--log-level {{{'|'.join(LogLevelName)}}}]"
_LOG_LEVEL = "--log-level"


class KafkaScript:
    """One script: its name, its arguments, and its exit code for wrong usage.

    `log_level` is set by `arguments`.
    """

    def __init__(self, name: str, arguments: str, usage_exit_code: int) -> None:
        self._name = name
        self._usage = f"usage: {name} {arguments}"
        self._usage_exit_code = usage_exit_code
        self.log_level = LogLevelName.INFO

    def arguments(self) -> list[str]:
        """Return the file and the arguments after it. Ignores `-daemon`; prints usage and exits."""
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
        found = self._without_log_level(found)
        if not found or found[0].startswith("-"):
            self.exit_with_usage()
        return found

    def _without_log_level(self, found: list[str]) -> list[str]:
        if _LOG_LEVEL not in found:
            return found
        at = found.index(_LOG_LEVEL)
        name = found[at + 1].lower() if at + 1 < len(found) else ""
        if name not in set(LogLevelName):
            self.exit_with_usage()
        self.log_level = LogLevelName(name)
        return [*found[:at], *found[at + 2 :]]

    def exit_with_usage(self) -> NoReturn:
        print(self._usage, file=sys.stderr)  # noqa: T201 - a command
        sys.exit(self._usage_exit_code)


_SCRIPT = KafkaScript(
    "connect-mirror-maker",
    f"mm2.properties [--clusters CLUSTER ...] {LOG_LEVEL_USAGE}",
    255,
)


def connect_mirror_maker() -> None:
    file, *rest = _SCRIPT.arguments()
    if rest and (rest[0] != "--clusters" or len(rest) < 2):  # noqa: PLR2004 - option and a value
        _SCRIPT.exit_with_usage()
    sys.exit(run_file(Path(file), clusters=tuple(rest[1:]), log_level=_SCRIPT.log_level))
