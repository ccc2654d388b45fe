# SPDX-License-Identifier: Apache-2.0
"""Runs the `sparkmirror run` that follows on the command line with both of its views.

Log lines go to standard error, as without a terminal. The frames of the live view go to the file
FRAMES, each in place of the one before.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path

from rich.console import Console, Group

from sparkmirror.cli import main, run
from sparkmirror.cli.run_view import LineView, View, live_frame
from sparkmirror.spark.flow_status import FlowSnapshot

_WIDTH = 400  # so that no line is wrapped


class BothViews(LineView):
    """Logs, and writes the frames of the live view to a file."""

    def update(self, flows: Sequence[FlowSnapshot], remarks: Sequence[str] = ()) -> None:
        super().update(flows, remarks)
        shown = StringIO()
        Console(file=shown, width=_WIDTH).print(Group(*live_frame(flows, remarks)))
        frames = Path(os.environ["FRAMES"])
        frames.with_suffix(".new").write_text(shown.getvalue(), encoding="utf-8")
        frames.with_suffix(".new").replace(frames)


def choose_both(
    console: Console, *, once: bool = False, progress_seconds: Callable[[], float]
) -> View:
    """Stand in for `choose_view`."""
    del console, once
    return BothViews(progress_seconds)


if __name__ == "__main__":
    run.choose_view = choose_both  # type: ignore[assignment]
    sys.argv = sys.argv[1:]
    main.main()
