# SPDX-License-Identifier: Apache-2.0
"""Classifies other producers on a flow's remote topics: another flow, or a foreign writer.

The registry of the target has the producer ids of all flows into it. Applications may write to a
topic that flows copy in both directions.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.loop_protection import LoopProtection
from sparkmirror.errors import ClusterError, WireError
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.state.incidents import Incident, IncidentKind
from sparkmirror.state.remedies import with_command
from sparkmirror.system.log_scope import ScopedThread
from sparkmirror.task.messages import OtherWriter

_INTERVAL_SECONDS = 30.0
_RETRY_SECONDS = 5.0


class ForeignWriters:
    """Called from the control channel's thread; reads on its own threads."""

    def __init__(self, settings: FlowSettings, status: FlowStatus, loops: LoopProtection) -> None:
        self._flow = settings.flow
        self._status = status
        self._loops = loops
        self._lock = threading.Lock()
        self._classified: set[OtherWriter] = set()
        self._is_running = False
        self._not_before = 0.0

    def report(self, writers: Iterable[OtherWriter]) -> None:
        """Report foreign writers; does not block."""
        with self._lock:
            new = [one for one in writers if one not in self._classified]
            if not new or self._is_running or time.monotonic() < self._not_before:
                return
            self._is_running = True
        ScopedThread(
            target=self._classify, args=(new,), name=f"{self._flow}/foreign-writers", daemon=True
        ).start()

    def _classify(self, writers: list[OtherWriter]) -> None:
        pause = _RETRY_SECONDS
        try:
            causes = self._loops.foreign_writers(writers)
        except (ClusterError, WireError) as error:
            self._status.set_problem("writers", f"{self._flow.target}: other producers: {error}")
        else:
            pause = _INTERVAL_SECONDS
            now_ms = int(time.time() * 1000)
            self._status.add_incidents(
                [self._incident(one, cause, now_ms) for one, cause in causes.items()]
            )
            self._status.set_problem("writers", "")
            with self._lock:
                self._classified.update(writers)
        with self._lock:
            self._is_running = False
            self._not_before = time.monotonic() + pause

    def _incident(self, writer: OtherWriter, cause: str, time_ms: int) -> Incident:
        found = Incident(
            IncidentKind.FOREIGN_WRITER,
            writer.topic,
            writer.partition,
            -1,
            -1,
            -1,
            f"{self._flow.target}: {cause}",
            time_ms,
        )
        return with_command(found, str(self._flow))
