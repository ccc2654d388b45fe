# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror submit-script`: the program to pass to spark-submit.

spark-submit takes a program with the ending `.py`, which the console script does not have.
"""

from __future__ import annotations

from pathlib import Path

import typer

import sparkmirror


def submit_script() -> None:
    """Print the path of the program to pass to spark-submit (client mode)."""
    typer.echo(Path(sparkmirror.__file__).parent / "cli" / "submitted_app.py")
