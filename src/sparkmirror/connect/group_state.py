# SPDX-License-Identifier: Apache-2.0
"""What the workers of a group have agreed on: the config and the status topic, for any thread.

`configs` and `statuses` are as of the last look and never change afterwards; whoever writes has
read everything up to its own record when the call returns. What has happened (`take_events`) is
for one thread, the worker's.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from sparkmirror.config.keys.connector_classes import ConnectorClass, resolve_class_name
from sparkmirror.config.settings import InternalTopics
from sparkmirror.errors import ClusterError
from sparkmirror.formats.connect_fields import Config
from sparkmirror.formats.connect_status_records import StatusRecord
from sparkmirror.group.assignor import AssignableConnectors
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.state.connect_configs import ClusterConfigState, ConfigEvent, ConfigLog
from sparkmirror.state.connect_statuses import ClusterStatusState, StatusLog
from sparkmirror.wire.settings import ConnectionSettings

_REQUEST_SECONDS = 10.0
_BLIND_SECONDS = 5.0  # after a failure, for which whoever asks is told what is known
_log = logging.getLogger(__name__)


class GroupState:
    """Both topics of one group."""

    def __init__(
        self, connection: ConnectionSettings, topics: InternalTopics, on_news: Callable[[], None]
    ) -> None:
        """`on_news` is called by whatever thread has read a change; it must not wait."""
        own = _with_short_timeout(connection)
        self._clients = (ClusterClient(own), ClusterClient(own))
        self._config_log = ConfigLog(self._clients[0], topics.configs)
        self._status_log = StatusLog(self._clients[1], topics.status)
        self._config_read, self._status_read = _SingleFlight(), _SingleFlight()
        self._on_change = on_news
        self._events: list[ConfigEvent] = []
        self._retry_at = 0.0
        self.configs = ClusterConfigState()
        self.statuses = ClusterStatusState()

    def update_connection(self, connection: ConnectionSettings) -> None:
        """Connect anew, in another way, for the next questions."""
        for client in self._clients:
            client.update_connection(_with_short_timeout(connection))

    # --- reading

    def cached(self) -> AssignableConnectors:
        """The connectors that are known without asking."""
        configs = self.configs
        copying = (name for name, config in configs.configs.items() if _is_source_connector(config))
        return AssignableConnectors(configs.offset, tuple(configs.connectors), frozenset(copying))

    def latest(self) -> AssignableConnectors:
        """The connectors that there are now; ClusterError if that cannot be found out."""
        self.refresh_configs()
        return self.cached()

    def refresh_configs(self) -> None:
        """Read the config topic to its end."""
        self._read_configs(or_blind=False)

    def _read_configs(self, *, or_blind: bool) -> None:
        with self._config_read as is_due:
            if is_due and not (or_blind and self._is_unreachable):
                self._config_log.read_new()
                self._publish_configs()

    def refresh_statuses(self) -> None:
        """Read the status topic to its end."""
        self._read_statuses(or_blind=False)

    def _read_statuses(self, *, or_blind: bool) -> None:
        with self._status_read as is_due:
            if is_due and not (or_blind and self._is_unreachable):
                self._status_log.refresh()
                self.statuses = self._status_log.state.copy()

    def try_refresh(self) -> None:
        """Read both if they can be read; otherwise what is known has to do."""
        try:
            for refresh in (self._read_configs, self._read_statuses):
                refresh(or_blind=True)
        except ClusterError as error:
            self._retry_at = time.monotonic() + _BLIND_SECONDS
            _log.warning(f"What is told about connectors may be old: {error}")

    @property
    def _is_unreachable(self) -> bool:
        """Whether a reading has just failed: those who waited for it need not try as well."""
        return time.monotonic() < self._retry_at

    def drain_events(self) -> list[ConfigEvent]:
        """What has happened since the last time, in its order."""
        with self._config_read.lock:
            events, self._events = self._events, []
            return events

    # --- writing

    def write_configs(self, write: Callable[[ConfigLog], None]) -> None:
        """Let somebody write to the config topic, and read what there is by then."""
        with self._config_read.lock:
            try:
                write(self._config_log)
            finally:  # a commit that was refused may follow tasks that were written
                self._publish_configs()

    def write_statuses(
        self, records: Sequence[StatusRecord], *, certain: bool = False
    ) -> list[StatusRecord]:
        """Say what connectors do; those records come back that somebody else knows better.

        Whoever is certain knows best: a group that begins to count its generations anew must not
        keep its members from speaking.
        """
        with self._status_read.lock:
            refused = self._status_log.put(*records, certain=certain)
            self.statuses = self._status_log.state.copy()
            return refused

    def remove_connector_status(self, connector: str) -> None:
        """Make everybody forget what a connector did."""
        with self._status_read.lock:
            self._status_log.remove_connector(connector)
            self.statuses = self._status_log.state.copy()

    def close(self) -> None:
        """Hang up."""
        for turn, client in zip((self._config_read, self._status_read), self._clients, strict=True):
            with turn.lock:
                client.close()

    def _publish_configs(self) -> None:
        self._events += self._config_log.drain_events()
        if self._events or self._config_log.state.offset != self.configs.offset:
            self.configs = self._config_log.state.copy()
            self._on_change()


class _SingleFlight:
    """Whose turn it is to read; who has waited while somebody else began to read need not."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._began = 0.0

    def __enter__(self) -> bool:
        asked = time.monotonic()
        self.lock.acquire()
        if self._began > asked:
            return False
        self._begins = time.monotonic()
        return True

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._began = max(self._began, getattr(self, "_begins", 0.0))
        self.lock.release()


def _with_short_timeout(connection: ConnectionSettings) -> ConnectionSettings:
    seconds = min(connection.request_timeout_seconds, _REQUEST_SECONDS)
    return replace(connection, request_timeout_seconds=seconds)


def _is_source_connector(config: Config) -> bool:
    return resolve_class_name(config.get("connector.class") or "") is ConnectorClass.SOURCE
