# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror run`: start the flows of a file and show how they fare until told to stop."""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

from rich.console import Console

from sparkmirror.app import Application
from sparkmirror.cli.stop_signal import StopSignal
from sparkmirror.cli.view import View, choose_view
from sparkmirror.errors import ConfigError, SparkmirrorError
from sparkmirror.pipeline.status import FlowState
from sparkmirror.reload import Reloader
from sparkmirror.security.library_logs import let_through

OK, FATAL, START_FAILED = 0, 2, 3  # as MM2's
_LOOK_SECONDS = 0.5
_CHANGING_SECONDS = 0.1  # between looks while flows end that others follow
_HOPELESS_SECONDS = 30.0


def set_up_logging(console: Console) -> None:
    """Our own lines on standard error; kafka-python's complaints reach users as ours."""
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
    let_through("kafka", logging.INFO)  # whatever level somebody sets over REST
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)


def run_file(
    file: Path, *, clusters: tuple[str, ...] = (), once: bool = False, master: str | None = None
) -> int:
    """Run a configuration file; the exit code."""
    console = Console(stderr=True)
    set_up_logging(console)
    reloader = Reloader(file, clusters)
    try:
        with reloader.reading():
            application = Application(
                reloader.load(), targets=clusters, once=once, master=master, serves=not once
            )
    except ConfigError as error:
        console.print(f"sparkmirror: {error}", style="red", highlight=False, soft_wrap=True)
        return FATAL
    view = choose_view(console, once=once)
    return run_application(application, view, once=once, reloader=None if once else reloader)


def run_application(
    application: Application, view: View, *, once: bool = False, reloader: Reloader | None = None
) -> int:
    """Run until a signal or the end of a bounded run; the exit code."""
    stop = StopSignal(reloads=reloader is not None)
    try:
        application.start()
    except SparkmirrorError as error:
        view.say(f"sparkmirror: {error}")
        return START_FAILED
    code = OK
    ran = False
    hopeless_since: float | None = None
    with view:
        pause = _LOOK_SECONDS
        while not stop.wait(pause):
            if reloader is not None:
                reloader.look(application, is_asked=stop.take_reload())
            pause = _CHANGING_SECONDS if application.proceed() else _LOOK_SECONDS
            view.show(application.snapshots(), reloader.complaints if reloader else ())
            failure = application.failure()
            if failure is not None:
                view.say(f"sparkmirror: {failure}")
                code = START_FAILED if not ran else FATAL
                break
            ran = ran or any(one.epoch for one in application.snapshots())
            if once and application.is_done():
                break
            if once and _is_hopeless(application):
                hopeless_since = hopeless_since or time.monotonic()
                if time.monotonic() - hopeless_since > _HOPELESS_SECONDS:
                    view.say(f"sparkmirror: {_why_hopeless(application)}")
                    code = FATAL
                    break
            else:
                hopeless_since = None
        view.show(application.snapshots())
    if not application.stop():
        view.say("Some positions were not written in time; the next run compares both sides first.")
    view.conclude(application.snapshots())
    return code


def _is_hopeless(application: Application) -> bool:
    """A bounded run in which nothing moves and nothing will change by itself."""
    unfinished = [one for one in application.copying() if one.state is not FlowState.DONE]
    return bool(unfinished) and all(
        one.state in (FlowState.FAILED, FlowState.STANDBY, FlowState.PAUSED)
        or (one.troubles and not one.retriable_only and one.records_per_second == 0)
        for one in unfinished
    )


def _why_hopeless(application: Application) -> str:
    waiting = [one for one in application.copying() if one.state is FlowState.STANDBY]
    if not waiting:
        return "nothing moves, and the troubles shown need a person."
    listed = "; ".join(f"{one.flow} {one.reason}" for one in waiting)
    return f"nothing is left to do here: {listed}. Stop that process first, or let it copy."
