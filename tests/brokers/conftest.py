# SPDX-License-Identifier: Apache-2.0
"""Prints at the end which check passed on which versions."""

from __future__ import annotations

from typing import Any

CHECKS = (
    "flow", "groups", "configs", "heartbeats", "kills", "exactly-once", "no warnings",
)  # fmt: skip


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One row for each direction, one column for each check."""
    cells: dict[str, dict[str, str]] = {}
    for result in ("passed", "failed", "error"):
        for report in terminalreporter.stats.get(result, []):
            for name, value in getattr(report, "user_properties", ()):
                if name == "cell":
                    row, check = value
                    cells.setdefault(row, {})[check] = "ok" if result == "passed" else "FAILED"
    if not cells:
        return
    width = max(map(len, cells)) + 2
    terminalreporter.write_line("")
    terminalreporter.write_line(" " * width + "".join(f"{check:<14}" for check in CHECKS))
    for row, found in sorted(cells.items()):
        marks = "".join(f"{found.get(check, '-'):<14}" for check in CHECKS)
        terminalreporter.write_line(f"{row:<{width}}{marks}")
