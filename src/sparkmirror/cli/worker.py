# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror worker` and `connect-distributed`: run a Connect worker until a stop signal."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from rich.console import Console

from sparkmirror.cli.kafka_scripts import LOG_LEVEL_USAGE, KafkaScript
from sparkmirror.cli.logging_setup import LogLevelName, print_failure, set_up_logging
from sparkmirror.cli.run_loop import (
    FATAL,
    START_FAILED,
    Ending,
    run_until_stopped,
)
from sparkmirror.cli.run_view import choose_view
from sparkmirror.config.files.notices import NoticeLevel
from sparkmirror.config.files.tracked_files import record_file_reads
from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.errors import ConfigError, SparkmirrorError
from sparkmirror.runtime.reload import Reloader, ReloadRules
from sparkmirror.runtime.worker import Worker

_SCRIPT = KafkaScript("connect-distributed", f"connect-distributed.properties {LOG_LEVEL_USAGE}", 1)
_log = logging.getLogger("sparkmirror.worker")


def run_worker(
    path: Path, *, master: str | None = None, log_level: LogLevelName = LogLevelName.INFO
) -> int:
    """Run a worker. Returns the exit code."""
    console = Console(stderr=True)
    log_output = set_up_logging(console, log_level)
    try:
        with record_file_reads() as files:
            file = WorkerConfig.load(path)
        log_output.apply(file.log)
        for notice in file.notices:
            if notice.level is not NoticeLevel.ERROR:
                level = logging.WARNING if notice.level is NoticeLevel.WARNING else logging.INFO
                _log.log(level, str(notice))
        _ = file.settings
    except SparkmirrorError as error:
        print_failure(console, log_output, error)
        return FATAL if isinstance(error, ConfigError) else START_FAILED
    try:
        worker = Worker(file, master=master)
    except SparkmirrorError as error:
        print_failure(console, log_output, error)
        return START_FAILED
    view = choose_view(console, progress_seconds=lambda: file.log.progress_seconds)
    refused = f"The files of {path.name} were rejected; the previous ones stay in use."
    rules = ReloadRules(rereads_own_file=False, refused=refused)
    reloader = Reloader(path, files, worker, worker.reloads, rules)

    def check_end() -> Ending | None:
        failure = worker.failure()
        return None if failure is None else Ending(FATAL, str(failure))

    return run_until_stopped(worker, view, reloader, check_end)


def connect_distributed() -> None:
    file, *rest = _SCRIPT.arguments()
    if rest:
        _SCRIPT.exit_with_usage()
    sys.exit(run_worker(Path(file), log_level=_SCRIPT.log_level))
