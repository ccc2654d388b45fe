# SPDX-License-Identifier: Apache-2.0
"""What an executor imports with its task: nothing that only the driver or the CLI needs."""

from __future__ import annotations

import subprocess
import sys

_DRIVER_ONLY = ("pydantic", "fastapi", "botocore", "httpx", "httpcore", "typer", "rich", "pyspark")


def test_a_task_imports_no_library_of_the_driver() -> None:
    """Every forked Python worker would pay for it in time and memory."""
    code = (
        "import sys, sparkmirror.task.entry_point;"
        f"found = set({_DRIVER_ONLY!r}) & {{name.split('.')[0] for name in sys.modules}};"
        "sys.exit(', '.join(sorted(found)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True
    )
    assert not result.stderr.strip()
