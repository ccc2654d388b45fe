# SPDX-License-Identifier: Apache-2.0
"""A worker that keeps everything in memory and copies nothing, for tests of the REST API.

Connectors, states and offsets are stored and configurations validated as in a real worker. Every
state is reached immediately.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sparkmirror.config.connector_config import PLUGIN_VERSION, connector_class, read_connector
from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.settings import FlowSettings
from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.connect import api_errors
from sparkmirror.connect.api import (
    ApiError,
    ConnectorInfo,
    ConnectorLag,
    ConnectorStateInfo,
    ParseTasks,
    SignedBody,
    StateInfo,
)
from sparkmirror.connect.config_cache import ConnectorConfigCache
from sparkmirror.connect.connector_queries import ConnectorQueries, as_restarting
from sparkmirror.connect.log_levels import LogLevels
from sparkmirror.connect.offset_alterations import OffsetEntry, offset_records
from sparkmirror.connect.signatures import verify_signature
from sparkmirror.connectors.offset_reset_plan import PlannedReset, ResetWish
from sparkmirror.errors import ArgumentError
from sparkmirror.formats.connect_json import Json
from sparkmirror.formats.connect_status_records import RunState
from sparkmirror.model import TopicPartition
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.state.offset_resets import OffsetReset

Texts = Mapping[str, str | None]

KEY = b"the key of the group"
_BEGINNINGS = {"PAUSED": RunState.PAUSED, "STOPPED": RunState.STOPPED}
_FILE = """\
bootstrap.servers=kafka:9092
group.id=memory
config.storage.topic=c
offset.storage.topic=o
status.storage.topic=s
listeners=http://127.0.0.1:0
"""


@dataclass(slots=True)
class _StoredConnector:
    """A connector."""

    config: dict[str, str | None]
    state: RunState
    tasks: list[dict[str, str | None]] = field(default_factory=list)
    failures: dict[int, str] = field(default_factory=dict)  # by task; -1 the connector itself
    topics: list[str] = field(default_factory=list)


class MemoryWorker(ConnectorQueries):
    """Implements ConnectApi; `worker_id` is what its statuses name."""

    def __init__(self, *more: str, worker_id: str = "127.0.0.1:8083") -> None:
        super().__init__(LogLevels(logging.Manager(logging.RootLogger(logging.WARNING))))
        self.file = WorkerConfig.parse(_FILE + "\n".join(more))
        self.worker_id = worker_id
        self._config_cache = ConnectorConfigCache(self.file)
        self.calls: list[str] = []  # names of the calls that changed something
        self._kept: dict[str, _StoredConnector] = {}
        self._offsets: dict[str, dict[bytes, bytes]] = {}
        self._resets: Mapping[TopicPartition, OffsetReset] = {}
        self._lock = threading.RLock()

    def fail(self, name: str, task: int, trace: str) -> None:
        """Set the failed state of a task (-1: the connector)."""
        self._kept[name].failures[task] = trace

    def refresh(self) -> None: ...

    def server_info(self) -> Mapping[str, str]:
        """As a worker of the captured version."""
        return {"version": PLUGIN_VERSION, "commit": "0", "kafka_cluster_id": "memory"}

    def health(self) -> tuple[int, Mapping[str, str]]:
        message = "Worker has completed startup and is ready to handle requests."
        return 200, {"status": "healthy", "message": message}

    def readiness(self) -> tuple[int, Mapping[str, str]]:
        return 200, {"status": "ready", "message": "All flows of this process can work."}

    def stage(self) -> str:
        """Nothing is ever under way."""
        return ""

    def _configs(self) -> Mapping[str, Texts]:
        with self._lock:
            return {name: kept.config for name, kept in self._kept.items()}

    def _state(self, name: str) -> ConnectorStateInfo | None:
        with self._lock:
            kept = self._kept.get(name)
            if kept is None:
                return None
            tasks = {task: self._state_info(kept, task) for task in range(len(kept.tasks))}
            return ConnectorStateInfo(name, self._state_info(kept, -1), tasks)

    def _tasks(self, name: str) -> Sequence[Texts]:
        return self._kept[name].tasks

    def _worker_config(self) -> WorkerConfig:
        return self.file

    def _source_settings(self, name: str) -> FlowSettings:
        config = self.info(name).config
        if connector_class(config) is not ConnectorClass.SOURCE:
            raise api_errors.no_source_connector(name)
        return read_connector(config, self.file).settings

    def plan_offset_reset(self, name: str, wish: ResetWish) -> Sequence[PlannedReset]:
        """Of a topic with ten records, five of them copied."""
        self._source_settings(name)
        tp = TopicPartition(wish.topic, 0)
        start = {"earliest": 0, "latest": 10}.get(wish.start)
        offset = int(wish.start) if start is None else start
        return [PlannedReset(tp, tp, offset, 5, 0, 10, 0, 5)]

    def request_offset_reset(self, name: str, wish: ResetWish) -> Sequence[PlannedReset]:
        found = self.plan_offset_reset(name, wish)
        self._resets = {one.tp: OffsetReset(one.next_offset, 0) for one in found}
        return found

    def pending_offset_resets(self, name: str) -> Mapping[TopicPartition, OffsetReset]:
        self._source_settings(name)
        return self._resets

    def lag(self, name: str) -> ConnectorLag:
        """Nothing is known of what is never copied."""
        if name not in self._kept:
            raise api_errors.connector_not_found(name)
        copies = connector_class(self._kept[name].config) is ConnectorClass.SOURCE
        if not copies:
            raise api_errors.copies_nothing(name)
        return ConnectorLag(name, FlowStatus(name).snapshot(), ())

    def create(self, name: str, config: Texts, initial_state: str | None) -> ConnectorInfo:
        with self._lock:
            self._config_cache.check(name, config)
            if name in self._kept:
                raise api_errors.connector_exists(name)
            self._keep(name, config, _BEGINNINGS.get(initial_state or "", RunState.RUNNING))
            return replace(self.info(name), tasks=())

    def put_config(self, name: str, config: Texts) -> tuple[ConnectorInfo, bool]:
        """A new one or a new configuration."""
        with self._lock:
            self._config_cache.check(name, config)
            old = self._kept.get(name)
            before = () if old is None else self.info(name).tasks
            self._keep(name, config, RunState.RUNNING if old is None else old.state)
            return replace(self.info(name), tasks=before), old is None

    def patch_config(self, name: str, changes: Texts) -> ConnectorInfo:
        with self._lock:
            merged = {**self.info(name).config, **changes}
            config = {key: text for key, text in merged.items() if text is not None}
            return self.put_config(name, config)[0]

    def delete(self, name: str) -> None:
        """Delete it; its offsets are kept."""
        with self._lock:
            if self._kept.pop(name, None) is None:
                raise api_errors.connector_not_found(name)
            self.calls.append("delete")

    def pause(self, name: str) -> None:
        self._set(name, RunState.PAUSED)

    def resume(self, name: str) -> None:
        self._set(name, RunState.RUNNING)

    def stop(self, name: str) -> None:
        self._set(name, RunState.STOPPED)

    def restart(
        self, name: str, *, include_tasks: bool, only_failed: bool
    ) -> ConnectorStateInfo | None:
        with self._lock:
            kept = self._to_restart(name)
            self.calls.append(f"restart {include_tasks=} {only_failed=}")
            affected = {-1, *(range(len(kept.tasks)) if include_tasks else ())}
            if only_failed:
                affected &= kept.failures.keys()
            before = self.status(name)
            for place in affected:
                kept.failures.pop(place, None)
            if not include_tasks and not only_failed:
                return None
            return as_restarting(before, include_tasks=include_tasks, only_failed=only_failed)

    def restart_task(self, name: str, task: int) -> None:
        """The same for one task."""
        with self._lock:
            kept = self._to_restart(name)
            if task not in range(len(kept.tasks)):
                raise api_errors.unknown_task(name, task)
            kept.failures.pop(task, None)
            self.calls.append(f"restart task {task}")

    def topics(self, name: str) -> list[str]:
        """None but those a test has put there."""
        with self._lock:
            return list(self._kept[name].topics) if name in self._kept else []

    def reset_topics(self, name: str) -> None:
        with self._lock:
            if name in self._kept:
                self._kept[name].topics.clear()

    def use_topic(self, name: str, topic: str) -> None:
        """Add a topic as if the connector had written to it."""
        self._kept[name].topics.append(topic)

    def offsets(self, name: str) -> list[dict[str, Mapping[str, Json] | None]]:
        with self._lock:
            self.info(name)
            found = self._offsets.get(name, {})
            return [
                {"partition": json.loads(key)[1], "offset": json.loads(value)}
                for key, value in found.items()
            ]

    def alter_offsets(self, name: str, entries: Sequence[OffsetEntry]) -> str:
        """Set them, all or none."""
        with self._lock:
            kind = connector_class(self._stopped(name).config)
            try:
                changes = offset_records(kind, name, entries)
            except ArgumentError as error:
                raise ApiError(500, str(error)) from error
            known = self._offsets.setdefault(name, {})
            for change in changes:
                known.pop(change.key, None)
                if change.value is not None:
                    known[change.key] = change.value
            return api_errors.OFFSETS_ALTERED

    def reset_offsets(self, name: str) -> str:
        with self._lock:
            self._stopped(name)
            self._offsets.pop(name, None)
            return api_errors.OFFSETS_RESET

    def set_logger(self, name: str, level: str, *, cluster: bool) -> list[str]:
        """Set a level; there is no other worker."""
        self.calls.append(f"set logger {cluster=}")
        return self._levels.set(name, level)

    def put_tasks(self, name: str, signed: SignedBody, read: ParseTasks) -> None:
        """Only with the group's signature."""
        verify_signature(signed, KEY, ("HmacSHA256",))
        self._known(name).tasks = [dict(one) for one in read(signed.body)]

    def fence(self, name: str, signed: SignedBody) -> None:
        """Only with the group's signature."""
        verify_signature(signed, KEY, ("HmacSHA256",))
        self.calls.append(f"fence {name}")

    def _keep(self, name: str, config: Texts, state: RunState) -> None:
        self.calls.append("keep")
        self._kept[name] = _StoredConnector(dict(config), state)
        self._set(name, state, is_new=True)

    def _set(self, name: str, state: RunState, *, is_new: bool = False) -> None:
        """Create tasks when a connector first runs; remove them when it is stopped."""
        with self._lock:
            kept = self._known(name)
            kept.state = state
            if state is RunState.STOPPED:
                kept.tasks = []
            elif state is RunState.RUNNING:
                task = connector_class(kept.config).java_name.replace("Connector", "Task")
                kept.tasks = [{**kept.config, "task.class": task}]
            if not is_new:
                self.calls.append(f"set {state}")

    def _known(self, name: str) -> _StoredConnector:
        kept = self._kept.get(name)
        if kept is None:
            raise api_errors.unknown_connector(name)
        return kept

    def _to_restart(self, name: str) -> _StoredConnector:
        kept = self._kept.get(name)
        if kept is None:
            raise api_errors.restart_target_not_found(name)
        return kept

    def _stopped(self, name: str) -> _StoredConnector:
        self.info(name)
        kept = self._kept[name]
        if kept.state is not RunState.STOPPED or kept.tasks:
            raise api_errors.not_stopped(name)
        return kept

    def _state_info(self, kept: _StoredConnector, place: int) -> StateInfo:
        trace = kept.failures.get(place, "")
        state = RunState.FAILED if trace else kept.state
        return StateInfo(state, self.worker_id, trace, PLUGIN_VERSION)
