# SPDX-License-Identifier: Apache-2.0
"""Connectors, their configurations and target states in Connect's config topic.

`ClusterConfigState` is a worker's view after some records, by the rules of Java's workers:

A  Tasks change together: their records wait until a commit counts them.
B  A commit that counts tasks whose records are missing (compaction removes them when a leader dies
   between two of them) leaves the connector *inconsistent*: it has no tasks until a leader has
   published all of them again.
C  A commit without a connector is left over from a deleted one.
D  Tasks that were committed after the last fencing may not write exactly once before the next.

Brokers reject the writes of a leader as soon as another one leads (`ConfigLog.become_leader`).

`ConfigLog` is not thread-safe. The owner of the client closes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TypeAlias

from sparkmirror.errors import ConfigError
from sparkmirror.formats.connect_config_records import (
    ConfigRecord,
    ConnectorConfig,
    ConnectorTargetState,
    LoggerLevel,
    RestartRequest,
    SessionKey,
    TargetState,
    TaskConfig,
    TasksCommit,
    TasksFencing,
    read_config_record,
)
from sparkmirror.formats.connect_fields import Config, UnreadableRecord
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.log_records import LogRecord
from sparkmirror.quantities import counted
from sparkmirror.state.connect_topic import READ_SECONDS, ConnectTopic


@dataclass(frozen=True, slots=True)
class ConnectorChanged:
    """A connector was created or has another configuration."""

    connector: str


@dataclass(frozen=True, slots=True)
class ConnectorRemoved:
    """A connector was deleted."""

    connector: str


@dataclass(frozen=True, slots=True)
class TargetChanged:
    """A connector has another target state."""

    connector: str


@dataclass(frozen=True, slots=True)
class TasksChanged:
    """A connector's tasks were committed; empty if some are missing."""

    connector: str
    tasks: tuple[int, ...]


ConfigEvent: TypeAlias = (
    ConnectorChanged
    | ConnectorRemoved
    | TargetChanged
    | TasksChanged
    | RestartRequest
    | SessionKey
    | LoggerLevel
)


@dataclass(slots=True)
class ClusterConfigState:
    """The content of the records up to `offset`."""

    offset: int = -1  # one past the last JSON record, as workers exchange it; -1: none was read
    configs: dict[str, Config] = field(default_factory=dict, repr=False)
    target_states: dict[str, TargetState] = field(default_factory=dict)
    task_counts: dict[str, int] = field(default_factory=dict)
    inconsistent: set[str] = field(default_factory=set)
    applied_configs: dict[str, Config] = field(default_factory=dict, repr=False)  # at the commit
    task_generations: dict[str, int] = field(default_factory=dict)  # number of commits, minus one
    fenced_counts: dict[str, int] = field(default_factory=dict)  # tasks at the last fencing
    unfenced: set[str] = field(default_factory=set)
    session_key: SessionKey | None = None
    skipped_records: int = 0  # undecodable records
    _tasks: dict[str, dict[int, Config]] = field(default_factory=dict, repr=False)
    _pending_tasks: dict[str, dict[int, Config]] = field(default_factory=dict, repr=False)

    @property
    def connectors(self) -> list[str]:
        """The sorted names."""
        return sorted(self.configs)

    def target_state(self, connector: str) -> TargetState:
        """Return the target state; STARTED by default."""
        return self.target_states.get(connector, TargetState.STARTED)

    def tasks(self, connector: str) -> list[Config]:
        """Return the configurations of its tasks; none while it is inconsistent."""
        if connector in self.inconsistent:
            return []
        known = self._tasks.get(connector, {})
        return [known[task] for task in range(self.task_counts.get(connector, 0))]

    def copy(self) -> ClusterConfigState:
        """Return a copy for another thread; configurations are immutable."""
        copied = ClusterConfigState()
        for one in fields(self):
            value = getattr(self, one.name)
            setattr(copied, one.name, value.copy() if isinstance(value, dict | set) else value)
        copied._tasks = {name: dict(tasks) for name, tasks in self._tasks.items()}
        copied._pending_tasks = {name: dict(tasks) for name, tasks in self._pending_tasks.items()}
        return copied

    def apply(self, record: LogRecord) -> ConfigEvent | UnreadableRecord | None:
        """Apply one record. Returns an event if a worker must act on it."""
        found = read_config_record(record.key, record.value)
        if not isinstance(found, UnreadableRecord) or found.is_json:
            # Java does not count records that are not JSON, and workers compare their offsets.
            self.offset = record.offset + 1
        event: ConfigEvent | UnreadableRecord | None = None
        match found:
            case ConnectorConfig(connector, config):
                event = self._connector(connector, config)
            case ConnectorTargetState(connector, state):
                event = self._target(connector, state)
            case TaskConfig(connector, task, config):
                self._pending_tasks.setdefault(connector, {})[task] = config
            case TasksCommit(connector, count):
                event = self._commit(connector, count)
            case TasksFencing(connector, count):
                self.fenced_counts[connector] = count
                self.unfenced.discard(connector)  # D
            case SessionKey():
                event = self.session_key = found
            case RestartRequest() | LoggerLevel():
                event = found
            case UnreadableRecord():
                self.skipped_records += 1
                event = found
        return event

    def _connector(self, connector: str, config: Config | None) -> ConfigEvent | None:
        if config is not None:
            self.configs[connector] = config
            return ConnectorChanged(connector)
        was_there = connector in self.configs
        self._remove(connector)
        return ConnectorRemoved(connector) if was_there else None

    def _target(self, connector: str, state: TargetState | None) -> ConfigEvent | None:
        before = self.target_state(connector)
        if state is None:
            self.target_states.pop(connector, None)
        else:
            self.target_states[connector] = state
        is_new = self.target_state(connector) is not before
        # Before its connector exists this is the initial state.
        return TargetChanged(connector) if is_new and connector in self.configs else None

    def _commit(self, connector: str, count: int) -> ConfigEvent | None:
        config = self.configs.get(connector)
        if config is None:  # C
            self._remove(connector)
            return None
        pending = self._pending_tasks.pop(connector, {})
        self.task_counts[connector] = count
        self.unfenced.add(connector)  # D
        if any(task not in pending for task in range(count)):  # B
            self.inconsistent.add(connector)
            return TasksChanged(connector, ())
        self._tasks[connector] = pending  # A
        self.inconsistent.discard(connector)
        self.applied_configs[connector] = config
        self.task_generations[connector] = self.task_generations.get(connector, -1) + 1
        return TasksChanged(connector, tuple(range(count)))

    def _remove(self, connector: str) -> None:
        """Remove everything except the target state, which has its own record, and fencing."""
        for known in (
            self.configs,
            self.task_counts,
            self._tasks,
            self._pending_tasks,
            self.applied_configs,
        ):
            known.pop(connector, None)
        self.inconsistent.discard(connector)


class ConfigLog:
    """The config topic. `state` is what was read so far; every `put` reads its own record."""

    def __init__(self, client: ClusterClient, topic: str) -> None:
        self.topic = topic
        self.state = ClusterConfigState()
        self._alias = client.connection.alias
        self._connect_topic = ConnectTopic(
            client, topic, apply=self._apply, reset=self._reset, check=self._check
        )
        self._events: list[ConfigEvent] = []
        self._lost: set[str] = set()  # connectors of a deleted topic
        self._is_started = False
        self._is_rereading = False  # the records read now were handled before

    def refresh(self, timeout_seconds: float = READ_SECONDS) -> list[ConfigEvent]:
        """Read to the end. Returns the events since the last call, from any worker.

        The first call returns none: earlier restart requests are obsolete.
        """
        self.read_new(timeout_seconds)
        return self.drain_events()

    def read_new(self, timeout_seconds: float = READ_SECONDS) -> None:
        """Read to the end; `drain_events` returns the events."""
        self._write_and_read((), timeout_seconds)

    def drain_events(self) -> list[ConfigEvent]:
        """Return and clear the events of what was read."""
        events, self._events = self._events, []
        return events

    def become_leader(self, transactional_id: str, key: SessionKey) -> None:
        """Write as the leader from now on, starting with a new session key.

        Brokers reject writes of earlier leaders from that record on: their `put` raises
        LeadershipLostError until `become_leader` or `resign` is called. An epoch fences only
        after it has written, hence the record. The group decides who leads: a worker that still
        does calls this again. An open transaction of a Java leader with the same id is aborted.
        """
        self._connect_topic.fence(transactional_id)
        self.put_session_key(key)

    def resign(self) -> None:
        """Write without fencing: another worker leads."""
        self._connect_topic.unfence()

    def put_connector(
        self, connector: str, config: Config, target_state: TargetState | None = None
    ) -> None:
        """Create or update a connector; writes a target state only if one is given."""
        records: list[ConfigRecord] = [ConnectorConfig(connector, config)]
        if target_state is not None:
            records.insert(0, ConnectorTargetState(connector, target_state))
        self._write_and_read(records)

    def remove_connector(self, connector: str) -> None:
        """Delete a connector and its tasks."""
        self._write_and_read(
            [ConnectorConfig(connector, None), ConnectorTargetState(connector, None)]
        )

    def put_tasks(self, connector: str, configs: Sequence[Config]) -> None:
        """Write all tasks of a connector, then the commit."""
        self._write_and_read(())
        tasks = [TaskConfig(connector, task, config) for task, config in enumerate(configs)]
        if tasks:
            self._write_and_read(tasks, atomic=False)
        self._write_and_read([TasksCommit(connector, len(tasks))])

    def put_target_state(self, connector: str, state: TargetState) -> None:
        self._write_and_read([ConnectorTargetState(connector, state)])

    def put_restart_request(self, request: RestartRequest) -> None:
        """Request a restart from the worker that runs the connector."""
        self._write_and_read([request])

    def put_task_count(self, connector: str, tasks: int) -> None:
        """Record that all earlier producers of a connector with this many tasks are fenced."""
        self._write_and_read([TasksFencing(connector, tasks)])

    def put_session_key(self, key: SessionKey) -> None:
        """Write the key with which workers sign requests from now on."""
        self._write_and_read([key])

    def put_logger_level(self, level: LoggerLevel) -> None:
        """Write the level of a logger for all workers."""
        self._write_and_read([level])

    def _write_and_read(
        self,
        records: Sequence[ConfigRecord],
        timeout_seconds: float = READ_SECONDS,
        *,
        atomic: bool = True,
    ) -> None:
        key_values = [(record.key(), record.value()) for record in records]
        self._connect_topic.write_and_read(key_values, timeout_seconds, atomic=atomic)
        self._events += map(ConnectorRemoved, sorted(self._lost - self.state.configs.keys()))
        self._lost.clear()
        self._is_started, self._is_rereading = True, False

    def _apply(self, record: LogRecord) -> UnreadableRecord | None:
        event = self.state.apply(record)
        if isinstance(event, UnreadableRecord):
            return event
        is_obsolete = self._is_rereading and isinstance(event, RestartRequest | LoggerLevel)
        if event is not None and self._is_started and not is_obsolete:
            self._events.append(event)
        return None

    def _reset(self) -> None:
        self._lost |= self.state.configs.keys()
        self.state = ClusterConfigState()
        self._is_rereading = True

    def _check(self, partitions: int) -> None:
        if partitions != 1:
            raise ConfigError(
                f"Topic '{self.topic}' on cluster '{self._alias}' has "
                f"{counted(partitions, 'partition')}; the "
                f"config topic must have exactly 1, to keep its order. Name another topic in "
                f"config.storage.topic, or delete this one.",
                key="config.storage.topic",
            )
