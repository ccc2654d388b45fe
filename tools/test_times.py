# SPDX-License-Identifier: Apache-2.0
"""Write the table of test times in CONTRIBUTING.md, from the durations of the last `make test`."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

from run_tests import KEPT, ROOT, SCORE

PAGE = ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- test times: make test-times -->\n", "<!-- end of test times -->\n"
_MOST_FILES = 15


def table(results: list[Path], score: str) -> str:
    """Return rows of test files, longest first, with the seconds of tests and fixtures."""
    seconds, tests = Counter[str](), Counter[str]()
    for file in results:
        for case in ET.parse(file).getroot().iter("testcase"):  # noqa: S314 - pytest wrote it
            parts = case.get("classname", "").split(".")
            name = "/".join(parts[1 : 3 if file.stem != "unit" else 2])
            seconds[name] += float(case.get("time", 0))
            tests[name] += 1
    total = sum(seconds.values())
    rows = [
        f"| `{name}` | {tests[name]} | {took:.0f} | {took / total:.0%} |"
        for name, took in seconds.most_common(_MOST_FILES)
    ]
    others = [name for name, _ in seconds.most_common()[_MOST_FILES:]]
    rest = sum(seconds[name] for name in others)
    rows.append(
        f"| {len(others)} others | {sum(tests[name] for name in others)} | {rest:.0f} "
        f"| {rest / total:.0%} |"
    )
    return "\n".join(
        [
            "| tests | count | seconds, set-up included | share |",
            "|---|---|---|---|",
            *rows,
            "",
            f"{total:.0f} s of tests, several at a time, at a CPU score of {score}.",
            "",
        ]
    )


def main() -> int:
    results = [KEPT / f"{part}.xml" for part in ("unit", "integration")]
    missing = [str(file.relative_to(ROOT)) for file in results if not file.is_file()]
    if missing:
        print(f"sparkmirror: {', '.join(missing)} is missing; run make test first", file=sys.stderr)
        return 1
    text = PAGE.read_text(encoding="utf-8")
    head, found, rest = text.partition(BEGIN)
    _old, closed, tail = rest.partition(END)
    if not found or not closed:
        print(f"sparkmirror: {PAGE.name} has no place for the table", file=sys.stderr)
        return 1
    PAGE.write_text(
        f"{head}{BEGIN}{table(results, SCORE.read_text())}{END}{tail}", encoding="utf-8"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
