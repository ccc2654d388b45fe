# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror worker`: a Connect worker until told to stop, and Connect's own script's name."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from rich.console import Console

from sparkmirror.cli.java_script import JavaScript
from sparkmirror.cli.run import FATAL, OK, START_FAILED, set_up_logging
from sparkmirror.cli.stop_signal import StopSignal
from sparkmirror.cli.view import choose_view
from sparkmirror.config.files_read import noting_files
from sparkmirror.config.notices import Level
from sparkmirror.config.worker_file import WorkerFile
from sparkmirror.connect.worker import ConnectWorker
from sparkmirror.errors import ConfigError, SparkmirrorError
from sparkmirror.metrics.connect_worker import WorkerCollector
from sparkmirror.metrics.prometheus import MetricsServer
from sparkmirror.rest.server import RestServer
from sparkmirror.worker_reload import WorkerReloader

_LOOK_SECONDS = 0.5
_SCRIPT = JavaScript("connect-distributed", "connect-distributed.properties", 1)
_log = logging.getLogger("sparkmirror.worker")


def run_worker(path: Path, *, master: str | None = None) -> int:
    """Run a worker; the exit code."""
    console = Console(stderr=True)
    set_up_logging(console)
    try:
        with noting_files() as files:
            file = WorkerFile.load(path)
        for notice in file.notices:
            if notice.level is not Level.ERROR:
                level = logging.WARNING if notice.level is Level.WARNING else logging.INFO
                _log.log(level, str(notice))
        settings = file.settings
    except ConfigError as error:
        console.print(f"sparkmirror: {error}", style="red", highlight=False, soft_wrap=True)
        return FATAL
    stop = StopSignal(reloads=True)
    view = choose_view(console)
    metrics: MetricsServer | None = None
    try:
        server = RestServer.for_worker(settings)
        worker = ConnectWorker(file, server.advertised_url, master=master)
        reloader = WorkerReloader(path, file, files, worker, server)
        if settings.metrics is not None:
            metrics = MetricsServer(
                settings.metrics,
                worker.snapshots,
                reloader.tally,
                WorkerCollector(worker.figures),
            )
        server.start(worker.requests)
        worker.start()
    except SparkmirrorError as error:
        view.say(f"sparkmirror: {error}")
        return START_FAILED
    code = OK
    with view:
        while not stop.wait(_LOOK_SECONDS):
            reloader.look(is_asked=stop.take_reload())
            view.show(worker.snapshots(), reloader.complaints)
            failure = worker.failure()
            if failure is not None:
                view.say(f"sparkmirror: {failure}")
                code = FATAL
                break
        view.show(worker.snapshots())
    # Others are told first: whoever asks meanwhile hears that this worker stops.
    if not worker.stop():
        view.say("Some positions were not written in time; whoever is next compares both sides.")
    server.stop()
    if metrics is not None:
        metrics.stop()
    view.conclude(worker.snapshots())
    return code


def main() -> None:
    """The console script `connect-distributed`."""
    file, *rest = _SCRIPT.arguments()
    if rest:
        _SCRIPT.refuse()
    sys.exit(run_worker(Path(file)))
