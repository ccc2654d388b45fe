# SPDX-License-Identifier: Apache-2.0
"""Long-poll a topic of one partition and invoke a callback on new records.

Two threads. `<topic>/poll` fetches at the end of the log, so the leader responds when a record
arrives: one small request every few seconds while idle. `<topic>/notify` invokes the callback, also
every few seconds while the leader does not respond. A call may be for many records, or for none.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from sparkmirror.errors import SparkmirrorError
from sparkmirror.kafka.cluster_client import (
    LEADER_NOT_AVAILABLE,
    ClusterClient,
    TopicLeaders,
    find_topic_leaders,
)
from sparkmirror.kafka.error_mapping import REQUEST_ERRORS
from sparkmirror.kafka.topic_requests import LATEST, list_offsets_request, log_fetch_request
from sparkmirror.model import TopicPartition
from sparkmirror.wire import error_codes
from sparkmirror.wire.backoff import Backoff
from sparkmirror.wire.settings import ConnectionSettings

_WAIT_SECONDS = 5.0  # max_wait_ms of a fetch
_GRACE_SECONDS = 5.0  # how much longer its response may take
_SILENT_SECONDS = _WAIT_SECONDS + 1.0  # without a response, the callback is invoked periodically
_POLL_SECONDS = 3.0
_STOP_SECONDS = 0.8  # a thread that is blocked in a connect ends later
_WARN_AFTER = 3  # consecutive failures; a leader change causes fewer
_ISOLATION = "read_committed"

_log = logging.getLogger(__name__)


class TopicWatcher:
    """Runs from `start` to `stop`; call each once."""

    def __init__(
        self, connection: ConnectionSettings, topic: str, callback: Callable[[], None]
    ) -> None:
        """`callback` must not raise; it may call `stop`."""
        self._client = ClusterClient(connection)
        self._tp = TopicPartition(topic, 0)
        self._callback = callback
        self._offset = 0
        self._topic_id: uuid.UUID | None = None
        self._last_response_at = float("-inf")
        self._has_records = threading.Event()
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=target, name=f"{topic}/{role}", daemon=True)
            for role, target in (("poll", self._poll_loop), ("notify", self._notify_loop))
        ]

    def update_connection(self, connection: ConnectionSettings) -> None:
        """Reconnect with new settings at the next request."""
        self._client.update_connection(connection)

    def start(self, offset: int) -> None:
        """Start the threads; watch for records at or after an offset."""
        self._offset = max(0, offset)
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop; a callback that is running in another thread may still complete."""
        self._stopping.set()
        self._has_records.set()
        self._client.interrupt()
        deadline = time.monotonic() + _STOP_SECONDS
        for thread in self._threads:
            if thread is not threading.current_thread() and thread.ident is not None:
                thread.join(max(0.0, deadline - time.monotonic()))

    def _notify_loop(self) -> None:
        while True:
            has_records = self._has_records.wait(_POLL_SECONDS)
            if self._stopping.is_set():
                return
            self._has_records.clear()
            if has_records or time.monotonic() > self._last_response_at + _SILENT_SECONDS:
                self._callback()

    def _poll_loop(self) -> None:
        leaders: TopicLeaders | None = None
        backoff = Backoff()
        failures = 0
        while not self._stopping.is_set():
            try:
                leaders = leaders or self._find_topic()
                self._last_response_at = time.monotonic()
                self._long_poll(leaders)
            except SparkmirrorError as error:
                leaders = None
                failures += 1
                if self._stopping.is_set():
                    break
                if failures == _WARN_AFTER:
                    self._log_failure(error)
                self._client.close()
                self._stopping.wait(backoff.next_pause())
            else:
                if failures >= _WARN_AFTER:
                    _log.info(f"Long-polling {self._description()} again")
                if failures:
                    self._has_records.set()  # records may have arrived meanwhile
                failures = 0
                backoff.reset()
        self._client.close()

    def _find_topic(self) -> TopicLeaders:
        leaders = find_topic_leaders(self._client, self._tp.topic)
        if self._topic_id not in (None, leaders.topic_id):
            self._seek_to_end(leaders)
        self._topic_id = leaders.topic_id
        return leaders

    def _long_poll(self, leaders: TopicLeaders) -> None:
        request = log_fetch_request(
            {self._tp: self._offset},
            _ISOLATION,
            topic_id=leaders.topic_id,
            wait_ms=round(_WAIT_SECONDS * 1000),
            partition_bytes=1,  # the response still has at least one record batch
        )
        answer = self._client.send(request, self._leader(leaders), _WAIT_SECONDS + _GRACE_SECONDS)
        (partition,) = (one for topic in answer.responses for one in topic.partitions)
        if partition.error_code == error_codes.OFFSET_OUT_OF_RANGE:
            self._seek_to_end(leaders)
        elif partition.error_code:
            raise self._error(partition.error_code)
        elif partition.records:
            # One callback covers all records up to there.
            self._offset = max(partition.last_stable_offset, self._offset + 1)
            self._has_records.set()

    def _seek_to_end(self, leaders: TopicLeaders) -> None:
        request = list_offsets_request([self._tp], LATEST, _ISOLATION)
        answer: Any = self._client.send(request, self._leader(leaders))
        (found,) = (one for topic in answer.topics for one in topic.partitions)
        if found.error_code:
            raise self._error(found.error_code)
        self._offset = found.offset
        self._has_records.set()

    def _leader(self, leaders: TopicLeaders) -> int:
        if not leaders.has_all_leaders:
            raise self._error(LEADER_NOT_AVAILABLE)
        return leaders.leaders[0]

    def _error(self, code: int) -> SparkmirrorError:
        return self._client.broker_error(f"long-polling {self._tp}", code, self._tp.topic)

    def _log_failure(self, error: Exception) -> None:
        if isinstance(error, REQUEST_ERRORS):
            error = self._client.failure(f"long-polling {self._tp}", error)
        _log.warning(
            f"Cannot long-poll {self._description()}; polling every {_POLL_SECONDS:g} s "
            f"instead: {error}"
        )

    def _description(self) -> str:
        return f"topic '{self._tp.topic}' on cluster '{self._client.connection.alias}'"
