# SPDX-License-Identifier: Apache-2.0
"""The state that the workers of a group share: Connect's config topic and status topic.

Any thread may read and write. `configs` and `statuses` are snapshots of the last read and never
change. A write returns after the topic has been read up to the written record. One thread drains
the events.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from sparkmirror.config.keys.connector_classes import ConnectorClass, resolve_class_name
from sparkmirror.config.settings import InternalTopics
from sparkmirror.errors import ClusterError, SparkmirrorError
from sparkmirror.formats.connect_fields import Config
from sparkmirror.formats.connect_status_records import StatusRecord
from sparkmirror.group.assignor import AssignableConnectors
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.state.connect_configs import ClusterConfigState, ConfigEvent, ConfigLog
from sparkmirror.state.connect_statuses import ClusterStatusState, StatusLog
from sparkmirror.state.connect_topic import READ_SECONDS
from sparkmirror.wire.settings import ConnectionSettings

_REQUEST_SECONDS = 10.0
_BLIND_SECONDS = 5.0  # after a failed read, `try_refresh` does not read for this long
_log = logging.getLogger(__name__)


class ConfigTopic:
    """The config topic. Thread-safe: one reader or writer at a time, snapshots for the others."""

    def __init__(
        self, connection: ConnectionSettings, topic: str, on_change: Callable[[], None]
    ) -> None:
        """`on_change` runs on the thread that has read a change; it must not block."""
        self._client = ClusterClient(connection)
        self._config_log = ConfigLog(self._client, topic)
        self._flight = _SingleFlight()
        self._on_change = on_change
        self._events: deque[ConfigEvent] = deque()
        self.state = ClusterConfigState()

    def update_connection(self, connection: ConnectionSettings) -> None:
        """Use other connection settings from the next request on."""
        self._client.update_connection(connection)

    def refresh(self, timeout_seconds: float = READ_SECONDS) -> None:
        """Read to the end; ClusterError if that fails."""
        with self._flight as is_due:
            if is_due:
                self._config_log.read_new(timeout_seconds)
                self._publish()

    @contextmanager
    def writing(self, timeout_seconds: float | None = None) -> Iterator[ConfigLog]:
        """Exclusive use of the log; the snapshot is published at the end.

        TimeoutError if others use it for longer than the timeout.
        """
        seconds = -1.0 if timeout_seconds is None else timeout_seconds
        if not self._flight.lock.acquire(timeout=seconds):
            raise TimeoutError
        try:
            try:
                yield self._config_log
            finally:  # a rejected commit may follow tasks that were written
                self._publish()
        finally:
            self._flight.lock.release()

    def drain_events(self) -> list[ConfigEvent]:
        """The events since the last call, in order. One thread; does not block."""
        return [self._events.popleft() for _ in range(len(self._events))]

    def close(self) -> None:
        """Close the connection."""
        with self._flight.lock:
            self._client.close()

    def _publish(self) -> None:
        events = self._config_log.drain_events()
        if events or self._config_log.state.offset != self.state.offset:
            self.state = self._config_log.state.copy()
            self._events += events
            self._on_change()


class GroupState:
    """The config topic and the status topic of one group."""

    def __init__(self, connection: ConnectionSettings, topics: InternalTopics) -> None:
        own = _with_short_timeout(connection)
        self._subscribers: tuple[Callable[[], None], ...] = ()
        self._config_topic = ConfigTopic(own, topics.configs, self._on_config_change)
        self._status_client = ClusterClient(own)
        self._status_log = StatusLog(self._status_client, topics.status)
        self._status_flight, self._refresh_flight = _SingleFlight(), _SingleFlight()
        self._retry_at = 0.0
        self.cluster = connection.alias
        self.statuses = ClusterStatusState()

    def subscribe(self, *callbacks: Callable[[], None]) -> None:
        """Add callbacks for changes of the config topic, called on the thread that read the change.

        They must not block.
        """
        self._subscribers += callbacks

    def _on_config_change(self) -> None:
        for callback in self._subscribers:
            callback()

    @property
    def configs(self) -> ClusterConfigState:
        """The config topic as of the last read."""
        return self._config_topic.state

    def update_connection(self, connection: ConnectionSettings) -> None:
        """Use other connection settings from the next request on."""
        own = _with_short_timeout(connection)
        self._config_topic.update_connection(own)
        self._status_client.update_connection(own)

    # --- reading

    def cached(self) -> AssignableConnectors:
        """The connectors as of the last read."""
        configs = self.configs
        copying = (name for name, config in configs.configs.items() if _is_source_connector(config))
        return AssignableConnectors(configs.offset, tuple(configs.connectors), frozenset(copying))

    def latest(self) -> AssignableConnectors:
        """The connectors after a read; ClusterError if that fails."""
        self.refresh_configs()
        return self.cached()

    def refresh_configs(self) -> None:
        """Read the config topic to its end; ClusterError if that fails."""
        self._config_topic.refresh()

    def on_config_records(self) -> None:
        """Read new records of the config topic; if that fails, the next read gets them."""
        try:
            self.refresh_configs()
        except SparkmirrorError as error:
            _log.debug(f"The config topic could not be read: {error}")

    def refresh_statuses(self) -> None:
        """Read the status topic to its end; ClusterError if that fails."""
        with self._status_flight as is_due:
            if is_due:
                self._status_log.refresh()
                self.statuses = self._status_log.state.copy()

    def try_refresh(self) -> None:
        """Read both topics; keep the last snapshots if that fails."""
        with self._refresh_flight as is_due:
            if not is_due or time.monotonic() < self._retry_at:
                return
            try:
                self.refresh_configs()
                self.refresh_statuses()
            except ClusterError as error:
                self._retry_at = time.monotonic() + _BLIND_SECONDS
                _log.warning(
                    f"Cannot read the topics of the group, retrying; answers may be old: {error}"
                )

    def drain_events(self) -> list[ConfigEvent]:
        """The events of the config topic since the last call, in order."""
        return self._config_topic.drain_events()

    # --- writing

    def writing(self) -> AbstractContextManager[ConfigLog]:
        """Exclusive use of the config topic; the snapshot is published at the end."""
        return self._config_topic.writing()

    def write_statuses(
        self, records: Sequence[StatusRecord], *, certain: bool = False
    ) -> list[StatusRecord]:
        """Write statuses. Returns those that were skipped because of a newer generation.

        `certain` writes them anyway, for a group whose generations have started again.
        """
        with self._status_flight.lock:
            refused = self._status_log.put(*records, authoritative=certain)
            self.statuses = self._status_log.state.copy()
            return refused

    def remove_connector_status(self, connector: str) -> None:
        """Delete the statuses of a connector and its tasks."""
        with self._status_flight.lock:
            self._status_log.remove_connector(connector)
            self.statuses = self._status_log.state.copy()

    def close(self) -> None:
        """Close the connections."""
        self._config_topic.close()
        with self._status_flight.lock:
            self._status_client.close()


class _SingleFlight:
    """A lock for reads. A caller that waited for a read that began after its call need not read."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._started: float | None = None  # the read in progress; None: this caller need not read
        self._last_success = 0.0  # the start of the last read that succeeded

    def __enter__(self) -> bool:
        called = time.monotonic()
        self.lock.acquire()
        self._started = None if self._last_success > called else time.monotonic()
        return self._started is not None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._started is not None:
            self._last_success = self._started
        self.lock.release()


def _with_short_timeout(connection: ConnectionSettings) -> ConnectionSettings:
    seconds = min(connection.request_timeout_seconds, _REQUEST_SECONDS)
    return replace(connection, request_timeout_seconds=seconds)


def _is_source_connector(config: Config) -> bool:
    return resolve_class_name(config.get("connector.class") or "") is ConnectorClass.SOURCE
