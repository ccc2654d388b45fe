# SPDX-License-Identifier: Apache-2.0
"""Long-polls a topic of one partition and invokes a callback on new records.

Two threads. `<topic>/poll` fetches what is not there yet, and the leader responds when it is: one
small request every few seconds while idle. `<topic>/notify` invokes the callback, also every few
seconds while the leader does not respond. One call may stand for many records, and some for none.
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

_WAIT_SECONDS = 5.0  # how long the leader keeps a question
_GRACE_SECONDS = 5.0  # how much longer its answer may take
_DEAF_SECONDS = _WAIT_SECONDS + 1.0
_SUSPECT_SECONDS = 3.0
_STOP_SECONDS = 0.8  # a thread that hangs in a connect ends by itself
_NEWS_AFTER = 3  # failures in a row: a leader that moves is none
_ISOLATION = "read_committed"

_log = logging.getLogger(__name__)


class TopicWatcher:
    """Listens from `start` to `stop`, each of which is called once."""

    def __init__(
        self, connection: ConnectionSettings, topic: str, ring: Callable[[], None]
    ) -> None:
        """`ring` must not raise; it may call `stop`."""
        self._client = ClusterClient(connection)
        self._tp = TopicPartition(topic, 0)
        self._callback = ring
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
        """Connect anew, in another way, for the next question."""
        self._client.update_connection(connection)

    def start(self, offset: int) -> None:
        """Ring for whatever is at or after an offset."""
        self._offset = max(0, offset)
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """No more calls after this, but for one that is being made in another thread."""
        self._stopping.set()
        self._has_records.set()
        self._client.interrupt()
        deadline = time.monotonic() + _STOP_SECONDS
        for thread in self._threads:
            if thread is not threading.current_thread() and thread.ident is not None:
                thread.join(max(0.0, deadline - time.monotonic()))

    def _notify_loop(self) -> None:
        while True:
            has_news = self._has_records.wait(_SUSPECT_SECONDS)
            if self._stopping.is_set():
                return
            self._has_records.clear()
            if has_news or time.monotonic() > self._last_response_at + _DEAF_SECONDS:
                self._callback()

    def _poll_loop(self) -> None:
        place: TopicLeaders | None = None
        backoff = Backoff()
        failures = 0
        while not self._stopping.is_set():
            try:
                place = place or self._find_topic()
                self._last_response_at = time.monotonic()
                self._long_poll(place)
            except SparkmirrorError as error:
                place = None
                failures += 1
                if self._stopping.is_set():
                    break
                if failures == _NEWS_AFTER:
                    self._log_failure(error)
                self._client.close()
                self._stopping.wait(backoff.next_pause())
            else:
                if failures >= _NEWS_AFTER:
                    _log.info(f"Long-polling {self._description()} again")
                if failures:
                    self._has_records.set()  # it may have come when nobody listened
                failures = 0
                backoff.reset()
        self._client.close()

    def _find_topic(self) -> TopicLeaders:
        place = find_topic_leaders(self._client, self._tp.topic)
        if self._topic_id not in (None, place.topic_id):
            self._seek_to_end(place)
        self._topic_id = place.topic_id
        return place

    def _long_poll(self, place: TopicLeaders) -> None:
        """Wait for something new."""
        request = log_fetch_request(
            {self._tp: self._offset},
            _ISOLATION,
            topic_id=place.topic_id,
            wait_ms=round(_WAIT_SECONDS * 1000),
            partition_bytes=1,  # which still gets the next record batch
        )
        answer = self._client.send(request, self._leader(place), _WAIT_SECONDS + _GRACE_SECONDS)
        (partition,) = (one for topic in answer.responses for one in topic.partitions)
        if partition.error_code == error_codes.OFFSET_OUT_OF_RANGE:
            self._seek_to_end(place)
        elif partition.error_code:
            raise self._error(partition.error_code)
        elif partition.records:
            # All up to there is what this call is about.
            self._offset = max(partition.last_stable_offset, self._offset + 1)
            self._has_records.set()

    def _seek_to_end(self, place: TopicLeaders) -> None:
        request = list_offsets_request([self._tp], LATEST, _ISOLATION)
        answer: Any = self._client.send(request, self._leader(place))
        (found,) = (one for topic in answer.topics for one in topic.partitions)
        if found.error_code:
            raise self._error(found.error_code)
        self._offset = found.offset
        self._has_records.set()

    def _leader(self, place: TopicLeaders) -> int:
        if not place.has_all_leaders:
            raise self._error(LEADER_NOT_AVAILABLE)
        return place.leaders[0]

    def _error(self, code: int) -> SparkmirrorError:
        return self._client.broker_error(f"listening to {self._tp}", code, self._tp.topic)

    def _log_failure(self, error: Exception) -> None:
        if isinstance(error, REQUEST_ERRORS):
            error = self._client.failure(f"listening to {self._tp}", error)
        _log.warning(
            f"Cannot long-poll {self._description()}; polling every {_SUSPECT_SECONDS:g} s "
            f"instead: {error}"
        )

    def _description(self) -> str:
        return f"topic '{self._tp.topic}' on cluster '{self._client.connection.alias}'"
