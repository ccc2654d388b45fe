# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror worker`: a Connect worker until told to stop, and Connect's own script's name."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from rich.console import Console

from sparkmirror.cli.kafka_scripts import KafkaScript
from sparkmirror.cli.process_signals import ProcessSignals
from sparkmirror.cli.run import FATAL, OK, START_FAILED, set_up_logging
from sparkmirror.cli.run_view import choose_view
from sparkmirror.config.files.notices import NoticeLevel
from sparkmirror.config.files.tracked_files import record_file_reads
from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.errors import ConfigError, SparkmirrorError
from sparkmirror.metrics.prometheus import MetricsServer
from sparkmirror.metrics.worker_metrics import WorkerCollector
from sparkmirror.rest.server import RestServer
from sparkmirror.runtime.reload import WorkerReloader
from sparkmirror.runtime.worker import ConnectWorker

_LOOK_SECONDS = 0.5
_SCRIPT = KafkaScript("connect-distributed", "connect-distributed.properties", 1)
_log = logging.getLogger("sparkmirror.worker")


def run_worker(path: Path, *, master: str | None = None) -> int:
    """Run a worker; the exit code."""
    console = Console(stderr=True)
    set_up_logging(console)
    try:
        with record_file_reads() as files:
            file = WorkerConfig.load(path)
        for notice in file.notices:
            if notice.level is not NoticeLevel.ERROR:
                level = logging.WARNING if notice.level is NoticeLevel.WARNING else logging.INFO
                _log.log(level, str(notice))
        settings = file.settings
    except ConfigError as error:
        console.print(f"sparkmirror: {error}", style="red", highlight=False, soft_wrap=True)
        return FATAL
    stop = ProcessSignals(reloads=True)
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
                WorkerCollector(worker.metrics),
            )
        server.start(worker.api)
        worker.start()
    except SparkmirrorError as error:
        view.print_line(f"sparkmirror: {error}")
        return START_FAILED
    code = OK
    with view:
        while not stop.wait(_LOOK_SECONDS):
            reloader.poll(is_asked=stop.consume_reload_request())
            view.update(worker.snapshots(), reloader.errors)
            failure = worker.failure()
            if failure is not None:
                view.print_line(f"sparkmirror: {failure}")
                code = FATAL
                break
        view.update(worker.snapshots())
    # Others are told first: whoever asks meanwhile hears that this worker stops.
    if not worker.stop():
        view.print_line(
            "Some positions were not written in time; whoever is next compares both sides."
        )
    server.stop()
    if metrics is not None:
        metrics.stop()
    view.print_summary(worker.snapshots())
    return code


def connect_distributed() -> None:
    """The console script `connect-distributed`."""
    file, *rest = _SCRIPT.arguments()
    if rest:
        _SCRIPT.exit_with_usage()
    sys.exit(run_worker(Path(file)))
