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

from sparkmirror.config.connector_classes import ConnectorClass, find_class
from sparkmirror.config.settings import ConnectionSettings, InternalTopics
from sparkmirror.connect.assignor import Configured
from sparkmirror.errors import ClusterError
from sparkmirror.formats.connect_fields import Config
from sparkmirror.formats.connect_statuses import StatusRecord
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.state.connect_configs import ConfigEvent, ConfigLog, ConfigState
from sparkmirror.state.connect_statuses import StatusLog, StatusState

_REQUEST_SECONDS = 10.0
_BLIND_SECONDS = 5.0  # after a failure, for which whoever asks is told what is known
_log = logging.getLogger(__name__)


class Board:
    """Both topics of one group."""

    def __init__(
        self, connection: ConnectionSettings, topics: InternalTopics, on_news: Callable[[], None]
    ) -> None:
        """`on_news` is called by whatever thread has read a change; it must not wait."""
        own = _hurried(connection)
        self._clients = (ClusterClient(own), ClusterClient(own))
        self._config_log = ConfigLog(self._clients[0], topics.configs)
        self._status_log = StatusLog(self._clients[1], topics.status)
        self._config_turn, self._status_turn = _Turn(), _Turn()
        self._on_news = on_news
        self._events: list[ConfigEvent] = []
        self._blind_until = 0.0
        self.configs = ConfigState()
        self.statuses = StatusState()

    def renew(self, connection: ConnectionSettings) -> None:
        """Connect anew, in another way, for the next questions."""
        for client in self._clients:
            client.renew(_hurried(connection))

    # --- reading

    def known(self) -> Configured:
        """The connectors that are known without asking."""
        configs = self.configs
        copying = (name for name, config in configs.configs.items() if _copies(config))
        return Configured(configs.offset, tuple(configs.connectors), frozenset(copying))

    def fresh(self) -> Configured:
        """The connectors that there are now; ClusterError if that cannot be found out."""
        self.refresh_configs()
        return self.known()

    def refresh_configs(self) -> None:
        """Read the config topic to its end."""
        self._read_configs(or_blind=False)

    def _read_configs(self, *, or_blind: bool) -> None:
        with self._config_turn as is_due:
            if is_due and not (or_blind and self._is_blind):
                self._config_log.read_on()
                self._take_configs()

    def refresh_statuses(self) -> None:
        """Read the status topic to its end."""
        self._read_statuses(or_blind=False)

    def _read_statuses(self, *, or_blind: bool) -> None:
        with self._status_turn as is_due:
            if is_due and not (or_blind and self._is_blind):
                self._status_log.refresh()
                self.statuses = self._status_log.state.copy()

    def look(self) -> None:
        """Read both if they can be read; otherwise what is known has to do."""
        try:
            for refresh in (self._read_configs, self._read_statuses):
                refresh(or_blind=True)
        except ClusterError as error:
            self._blind_until = time.monotonic() + _BLIND_SECONDS
            _log.warning(f"What is told about connectors may be old: {error}")

    @property
    def _is_blind(self) -> bool:
        """Whether a reading has just failed: those who waited for it need not try as well."""
        return time.monotonic() < self._blind_until

    def take_events(self) -> list[ConfigEvent]:
        """What has happened since the last time, in its order."""
        with self._config_turn.lock:
            events, self._events = self._events, []
            return events

    # --- writing

    def write_configs(self, write: Callable[[ConfigLog], None]) -> None:
        """Let somebody write to the config topic, and read what there is by then."""
        with self._config_turn.lock:
            try:
                write(self._config_log)
            finally:  # a commit that was refused may follow tasks that were written
                self._take_configs()

    def write_statuses(
        self, records: Sequence[StatusRecord], *, certain: bool = False
    ) -> list[StatusRecord]:
        """Say what connectors do; those records come back that somebody else knows better.

        Whoever is certain knows best: a group that begins to count its generations anew must not
        keep its members from speaking.
        """
        with self._status_turn.lock:
            refused = self._status_log.put(*records, certain=certain)
            self.statuses = self._status_log.state.copy()
            return refused

    def forget(self, connector: str) -> None:
        """Make everybody forget what a connector did."""
        with self._status_turn.lock:
            self._status_log.forget_connector(connector)
            self.statuses = self._status_log.state.copy()

    def close(self) -> None:
        """Hang up."""
        for turn, client in zip((self._config_turn, self._status_turn), self._clients, strict=True):
            with turn.lock:
                client.close()

    def _take_configs(self) -> None:
        self._events += self._config_log.take_events()
        if self._events or self._config_log.state.offset != self.configs.offset:
            self.configs = self._config_log.state.copy()
            self._on_news()


class _Turn:
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


def _hurried(connection: ConnectionSettings) -> ConnectionSettings:
    seconds = min(connection.request_timeout_seconds, _REQUEST_SECONDS)
    return replace(connection, request_timeout_seconds=seconds)


def _copies(config: Config) -> bool:
    return find_class(config.get("connector.class") or "") is ConnectorClass.SOURCE
