# SPDX-License-Identifier: Apache-2.0
"""MirrorHeartbeatConnector: writes a heartbeat per second and flow to the target.

One thread calls `run`; any thread may call `status` and `stop`. As in MM2 the first heartbeat is
written after one interval. Failures are retried with back-off; only the first failure and the
recovery are logged.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from sparkmirror.errors import ClusterError
from sparkmirror.formats.mm2_records import Heartbeat
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.topic_writer import TopicWriter
from sparkmirror.wire.batch_builder import NewRecord, build_batch
from sparkmirror.wire.record_batch import stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from sparkmirror.model import Flow
    from sparkmirror.wire.settings import ConnectionSettings

log = logging.getLogger(__name__)

_PARTITION = 0
_DELIVERY_SECONDS = 5.0
_STOP_SECONDS = 1.0
_LONGEST_BACK_OFF_SECONDS = 10.0


class HeartbeatState(Enum):
    """Whether heartbeats are written."""

    RUNNING = "RUNNING"
    RETRYING = "RETRYING"
    STOPPED = "STOPPED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class HeartbeatStatus:
    """A snapshot for status views; `error` explains RETRYING."""

    state: HeartbeatState
    count: int = 0
    error: str | None = None
    is_refused: bool = False  # needs manual action


class MirrorHeartbeatConnector:
    """Writes the heartbeats of one flow."""

    def __init__(
        self,
        flow: Flow,
        target: ConnectionSettings,
        *,
        topic: str,
        interval_seconds: float,
        on_written: Callable[[], None] = lambda: None,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._flow = flow
        self._target = target
        self._interval_seconds = interval_seconds
        self._on_written = on_written
        self._clock_ms = clock_ms
        self._stopping = threading.Event()
        self._status = HeartbeatStatus(HeartbeatState.RUNNING)
        hurried = replace(
            target,
            request_timeout_seconds=_DELIVERY_SECONDS,
            connect_timeout_seconds=min(target.connect_timeout_seconds, _DELIVERY_SECONDS),
        )
        self._client = ClusterClient(hurried, self._stopping)
        self._writer = TopicWriter(self._client, topic)

    @property
    def status(self) -> HeartbeatStatus:
        """The current state. Thread-safe."""
        if self._stopping.is_set():
            return replace(self._status, state=HeartbeatState.STOPPED)
        return self._status

    def stop(self) -> None:
        """Request the end; takes at most a second unless a connection is being opened."""
        self._stopping.set()
        self._client.interrupt()

    @property
    def is_running(self) -> bool:
        """Always False: it has no helper threads."""
        return False

    def run(self, ready_topics: Container[str]) -> None:  # noqa: ARG002 - each attempt reports missing topics
        """Write heartbeats until `stop`."""
        try:
            self._loop()
        except Exception as error:
            # A thread's root: report it in the status.
            log.exception(f"{self._flow}: heartbeats ended unexpectedly; restart the connector.")
            self._status = replace(self._status, state=HeartbeatState.FAILED, error=repr(error))
        finally:
            self._client.close()

    def _loop(self) -> None:
        wait_seconds = self._interval_seconds
        failures = 0
        while not self._stopping.wait(wait_seconds):
            started = time.monotonic()
            try:
                self._emit()
            except ClusterError as error:
                if self._stopping.is_set():
                    return
                failures += 1
                self._failed(error)
                back_off = self._interval_seconds * 2.0 ** min(failures, 10)
                wait_seconds = min(back_off, _LONGEST_BACK_OFF_SECONDS)
            else:
                failures = 0
                wait_seconds = max(0.0, self._interval_seconds - (time.monotonic() - started))

    def _emit(self) -> None:
        heartbeat = Heartbeat(self._flow, self._clock_ms())
        record = NewRecord(heartbeat.key(), heartbeat.value())
        batch = build_batch([record], heartbeat.timestamp_ms)
        stamp(memoryview(batch), -1, -1, -1)  # no producer id: a duplicate heartbeat is harmless
        self._writer.append({_PARTITION: bytes(batch)})
        self._succeeded()

    def _succeeded(self) -> None:
        before = self._status
        if before.state is HeartbeatState.RETRYING:
            log.info(f"{self._flow}: heartbeats reach '{self._target.alias}' again")
        self._status = HeartbeatStatus(HeartbeatState.RUNNING, before.count + 1)
        self._on_written()

    def _failed(self, error: ClusterError) -> None:
        if self._status.state is HeartbeatState.RUNNING:
            log.warning(f"{self._flow}: heartbeats: {error} Retrying.")
        self._status = replace(
            self._status,
            state=HeartbeatState.RETRYING,
            error=str(error),
            is_refused=not error.retriable,
        )
