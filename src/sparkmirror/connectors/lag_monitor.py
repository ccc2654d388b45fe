# SPDX-License-Identifier: Apache-2.0
"""Reads the source's end offsets of partitions that no task reports on, so that lag stays true.

Tasks report end offsets with their progress. A partition without a task, or with a problem, has
none that is recent: the driver reads it. Runs on its own thread; writes only the flow's status.
"""

from __future__ import annotations

import threading

from sparkmirror.config.settings import FlowSettings
from sparkmirror.errors import ClusterError, WireError, join_sentences
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.wire.backoff import Backoff

_POLL_SECONDS = 3.0
_STALE_SECONDS = 5.0  # tasks report every second
_PROBLEM = "lag"  # its key in the status


class LagMonitor:
    """From `start` to `stop`; `stop` returns at once."""

    def __init__(self, settings: FlowSettings, status: FlowStatus) -> None:
        self._settings = settings
        self._status = status
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"{settings.flow}/source/lag", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        backoff = Backoff()
        pause = _POLL_SECONDS
        while not self._stop.wait(pause):
            try:
                self._read()
                backoff.reset()
                pause = _POLL_SECONDS
            except (ClusterError, WireError) as error:
                self._status.set_problem(_PROBLEM, f"The lag is not up to date: {error}")
                pause = max(_POLL_SECONDS, backoff.next_pause(slow=not error.retriable))

    def _read(self) -> None:
        unreported = self._status.unreported_partitions(_STALE_SECONDS)
        if not unreported:
            self._status.set_problem(_PROBLEM, "")
            return
        with ClusterAdmin(self._settings.source_admin) as admin:
            result = admin.end_offsets(unreported, self._settings.fetch.isolation_level)
        self._status.set_end_offsets(result.found)
        reasons = dict.fromkeys(str(error) for error in result.failed.values())
        self._status.set_problem(_PROBLEM, join_sentences(reasons))
