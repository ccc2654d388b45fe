# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror run`: start the flows of a file and show how they fare until told to stop."""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

from rich.console import Console

from sparkmirror.cli.process_signals import ProcessSignals
from sparkmirror.cli.run_view import View, choose_view
from sparkmirror.errors import ConfigError, SparkmirrorError
from sparkmirror.runtime.mirror import Mirror
from sparkmirror.runtime.reload import MirrorReloader
from sparkmirror.spark.flow_status import FlowState

OK, FATAL, START_FAILED = 0, 2, 3  # as MM2's
_LOOK_SECONDS = 0.5
_CHANGING_SECONDS = 0.1  # between looks while flows end that others follow
_STUCK_SECONDS = 30.0


def set_up_logging(console: Console) -> None:
    """Log to standard error: our own lines from INFO on, those of libraries from WARNING on."""
    handler: logging.Handler
    if console.is_terminal:
        from rich.logging import RichHandler  # noqa: PLC0415 - terminals only

        handler = RichHandler(console=console, show_path=False, markup=False)
    else:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("sparkmirror").setLevel(logging.INFO)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)


def run_file(
    file: Path, *, clusters: tuple[str, ...] = (), once: bool = False, master: str | None = None
) -> int:
    """Run a configuration file; the exit code."""
    console = Console(stderr=True)
    set_up_logging(console)
    reloader = MirrorReloader(file, clusters)
    try:
        with reloader.recording_files():
            application = Mirror(
                reloader.load(), targets=clusters, once=once, master=master, serves=not once
            )
    except ConfigError as error:
        console.print(f"sparkmirror: {error}", style="red", highlight=False, soft_wrap=True)
        return FATAL
    view = choose_view(console, once=once)
    return run_application(application, view, once=once, reloader=None if once else reloader)


def run_application(
    application: Mirror, view: View, *, once: bool = False, reloader: MirrorReloader | None = None
) -> int:
    """Run until a signal or the end of a bounded run; the exit code."""
    stop = ProcessSignals(reloads=reloader is not None)
    try:
        application.start()
    except SparkmirrorError as error:
        view.print_line(f"sparkmirror: {error}")
        return START_FAILED
    code = OK
    ran = False
    hopeless_since: float | None = None
    with view:
        pause = _LOOK_SECONDS
        while not stop.wait(pause):
            if reloader is not None:
                reloader.poll(application, is_asked=stop.consume_reload_request())
            pause = _CHANGING_SECONDS if application.advance() else _LOOK_SECONDS
            view.update(application.snapshots(), reloader.errors if reloader else ())
            failure = application.failure()
            if failure is not None:
                view.print_line(f"sparkmirror: {failure}")
                code = START_FAILED if not ran else FATAL
                break
            ran = ran or any(one.epoch for one in application.snapshots())
            if once and application.is_done():
                break
            if once and _is_stuck(application):
                hopeless_since = hopeless_since or time.monotonic()
                if time.monotonic() - hopeless_since > _STUCK_SECONDS:
                    view.print_line(f"sparkmirror: {_stuck_reason(application)}")
                    code = FATAL
                    break
            else:
                hopeless_since = None
        view.update(application.snapshots())
    if not application.stop():
        view.print_line(
            "Some positions were not written in time; the next run compares both sides first."
        )
    view.print_summary(application.snapshots())
    return code


def _is_stuck(application: Mirror) -> bool:
    """A bounded run in which nothing moves and nothing will change by itself."""
    unfinished = [one for one in application.copying_snapshots() if one.state is not FlowState.DONE]
    return bool(unfinished) and all(
        one.state in (FlowState.FAILED, FlowState.STANDBY, FlowState.PAUSED)
        or (one.problems and not one.retriable_only and one.records_per_second == 0)
        for one in unfinished
    )


def _stuck_reason(application: Mirror) -> str:
    waiting = [one for one in application.copying_snapshots() if one.state is FlowState.STANDBY]
    if not waiting:
        return "nothing moves, and the troubles shown need a person."
    listed = "; ".join(f"{one.flow} {one.reason}" for one in waiting)
    return f"nothing is left to do here: {listed}. Stop that process first, or let it copy."
