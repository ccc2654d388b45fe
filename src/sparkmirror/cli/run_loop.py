# SPDX-License-Identifier: Apache-2.0
"""The main loop of `run` and `worker`: signals, reloads and progress output."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from sparkmirror.cli.process_signals import ProcessSignals
from sparkmirror.cli.run_view import View
from sparkmirror.errors import SparkmirrorError
from sparkmirror.runtime.reload import Reloader
from sparkmirror.spark.flow_status import FlowSnapshot

OK, FATAL, START_FAILED = 0, 2, 3  # as MM2's
UNCLEAN = "Some positions were not written in time; the next start compares both clusters first."
_POLL_SECONDS = 0.5
_log = logging.getLogger("sparkmirror.process")


class Runtime(Protocol):
    """`Mirror` or `Worker`."""

    def start(self) -> None:
        """Start everything. Raises SparkmirrorError."""

    def snapshots(self) -> Sequence[FlowSnapshot]: ...

    def stop(self) -> bool:
        """Stop everything. Returns whether all positions were written in time."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The reason to exit without a signal, and the exit code."""

    code: int
    message: str = ""


def run_until_stopped(
    runtime: Runtime,
    view: View,
    reloader: Reloader | None,
    check_end: Callable[[], Ending | None],
) -> int:
    """Run until a signal or until `check_end` returns an ending. Returns the exit code."""
    signals = ProcessSignals(reloads=reloader is not None)
    try:
        runtime.start()
    except SparkmirrorError as error:
        _log.error(str(error))
        return START_FAILED
    ending = Ending(OK)
    with view:
        while not signals.wait(_POLL_SECONDS):
            if reloader is not None:
                reloader.poll(is_requested=signals.consume_reload_request())
            view.update(runtime.snapshots(), reloader.errors if reloader else ())
            found = check_end()
            if found is not None:
                ending = found
                break
        if ending.message:
            _log.error(ending.message)
        view.update(runtime.snapshots())
    if not runtime.stop():
        _log.warning(UNCLEAN)
    view.print_summary(runtime.snapshots())
    return ending.code
