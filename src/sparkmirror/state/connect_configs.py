# SPDX-License-Identifier: Apache-2.0
"""Which connectors there are and what they are meant to do, as Connect's config topic says.

`ClusterConfigState` is what a worker knows after some records, by the rules of Java's workers:

A  Tasks change as one: their records wait until a commit counts them.
B  A commit that counts tasks whose records are missing (the cleaner takes them when a leader dies
   between two of them) leaves the connector *inconsistent*: it has no tasks until a leader has
   published all of them anew.
C  A commit without a connector is left over from one that was deleted.
D  Tasks that were committed after the last fencing may not write exactly once before the next.

What a leader writes is refused by the brokers as soon as another one leads (`ConfigLog.lead`).

`ConfigLog` belongs to one thread, and to whoever owns the client.
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
from sparkmirror.state.connect_topic import READ_SECONDS, ConnectTopic


@dataclass(frozen=True, slots=True)
class ConnectorChanged:
    """A connector is new or has another configuration."""

    connector: str


@dataclass(frozen=True, slots=True)
class ConnectorRemoved:
    """A connector was deleted."""

    connector: str


@dataclass(frozen=True, slots=True)
class TargetChanged:
    """A connector is meant to do something else."""

    connector: str


@dataclass(frozen=True, slots=True)
class TasksChanged:
    """A connector's tasks were committed, and which are new; none if some are missing."""

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
    """What the records up to `offset` say."""

    offset: int = -1  # one past the last record, as workers tell each other; -1: none was read
    configs: dict[str, Config] = field(default_factory=dict, repr=False)
    target_states: dict[str, TargetState] = field(default_factory=dict)
    task_counts: dict[str, int] = field(default_factory=dict)
    inconsistent: set[str] = field(default_factory=set)
    applied_configs: dict[str, Config] = field(
        default_factory=dict, repr=False
    )  # when tasks were committed
    task_generations: dict[str, int] = field(default_factory=dict)  # how often that was, less one
    fenced_counts: dict[str, int] = field(default_factory=dict)  # tasks at the last fencing
    unfenced: set[str] = field(default_factory=set)
    session_key: SessionKey | None = None
    skipped_records: int = 0  # records that could not be read
    _tasks: dict[str, dict[int, Config]] = field(default_factory=dict, repr=False)
    _pending_tasks: dict[str, dict[int, Config]] = field(default_factory=dict, repr=False)

    @property
    def connectors(self) -> list[str]:
        """Their names, sorted."""
        return sorted(self.configs)

    def target_state(self, connector: str) -> TargetState:
        """What a connector is meant to do; to run, unless somebody has said otherwise."""
        return self.target_states.get(connector, TargetState.STARTED)

    def tasks(self, connector: str) -> list[Config]:
        """The configurations of its tasks; none while it is inconsistent."""
        if connector in self.inconsistent:
            return []
        known = self._tasks.get(connector, {})
        return [known[task] for task in range(self.task_counts.get(connector, 0))]

    def copy(self) -> ClusterConfigState:
        """The same for another thread; configurations themselves never change."""
        twin = ClusterConfigState()
        for one in fields(self):
            value = getattr(self, one.name)
            setattr(twin, one.name, value.copy() if isinstance(value, dict | set) else value)
        twin._tasks = {name: dict(tasks) for name, tasks in self._tasks.items()}
        twin._pending_tasks = {name: dict(tasks) for name, tasks in self._pending_tasks.items()}
        return twin

    def apply(self, record: LogRecord) -> ConfigEvent | UnreadableRecord | None:
        """Take one more record in; what has happened, if a worker must do something about it."""
        found = read_config_record(record.key, record.value)
        if not isinstance(found, UnreadableRecord) or found.is_json:
            # What is no JSON does not count for Java, and workers compare their offsets.
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
        # Before its connector is there it is the state to begin with.
        return TargetChanged(connector) if is_new and connector in self.configs else None

    def _commit(self, connector: str, count: int) -> ConfigEvent | None:
        config = self.configs.get(connector)
        if config is None:  # C
            self._remove(connector)
            return None
        waiting = self._pending_tasks.pop(connector, {})
        self.task_counts[connector] = count
        self.unfenced.add(connector)  # D
        if any(task not in waiting for task in range(count)):  # B
            self.inconsistent.add(connector)
            return TasksChanged(connector, ())
        self._tasks[connector] = waiting  # A
        self.inconsistent.discard(connector)
        self.applied_configs[connector] = config
        self.task_generations[connector] = self.task_generations.get(connector, -1) + 1
        return TasksChanged(connector, tuple(range(count)))

    def _remove(self, connector: str) -> None:
        """All but the target state, which has a record of its own, and whom to fence."""
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
    """The config topic: `state` is what was read so far, every `put` reads itself back."""

    def __init__(self, client: ClusterClient, topic: str) -> None:
        self.topic = topic
        self.state = ClusterConfigState()
        self._alias = client.connection.alias
        self._connect_topic = ConnectTopic(
            client, topic, take=self._apply, forget_all=self._reset, check=self._check
        )
        self._events: list[ConfigEvent] = []
        self._lost: set[str] = set()  # connectors of a topic that was deleted
        self._is_started = False
        self._is_rereading = False  # what is read was asked for long ago

    def refresh(self, timeout_seconds: float = READ_SECONDS) -> list[ConfigEvent]:
        """Read on to the end; what has happened since the last time, `put` by others or by us.

        Nothing the first time, when all is new: restarts that were asked for before are over.
        """
        self.read_new(timeout_seconds)
        return self.drain_events()

    def read_new(self, timeout_seconds: float = READ_SECONDS) -> None:
        """Read on to the end; `take_events` tells what has happened."""
        self._write_and_read((), timeout_seconds)

    def drain_events(self) -> list[ConfigEvent]:
        """What has happened in what was read since the last time."""
        events, self._events = self._events, []
        return events

    def become_leader(self, transactional_id: str, key: SessionKey) -> None:
        """Write as the leader from now on, beginning with the key that workers sign with.

        The brokers refuse what earlier leaders write from that record on: with LeadershipLostError
        from every `put`, until this log is told to `lead` or `follow`. Nothing but the group
        decides who leads: a worker that still does leads again. What a leader of Java's left in
        an open transaction is aborted if it used the same id.
        """
        self._connect_topic.fence(transactional_id)
        self.put_session_key(key)

    def resign(self) -> None:
        """Write as any worker may; the place of a leader is somebody else's."""
        self._connect_topic.unfence()

    def put_connector(
        self, connector: str, config: Config, target_state: TargetState | None = None
    ) -> None:
        """A new connector, or another configuration; with a target state only if one is given."""
        records: list[ConfigRecord] = [ConnectorConfig(connector, config)]
        if target_state is not None:
            records.insert(0, ConnectorTargetState(connector, target_state))
        self._write_and_read(records)

    def remove_connector(self, connector: str) -> None:
        """Delete a connector; its tasks go with it."""
        self._write_and_read(
            [ConnectorConfig(connector, None), ConnectorTargetState(connector, None)]
        )

    def put_tasks(self, connector: str, configs: Sequence[Config]) -> None:
        """A connector's tasks, all of them; the commit follows when all are known to be there."""
        self._write_and_read(())
        tasks = [TaskConfig(connector, task, config) for task, config in enumerate(configs)]
        if tasks:
            self._write_and_read(tasks, at_once=False)
        self._write_and_read([TasksCommit(connector, len(tasks))])

    def put_target_state(self, connector: str, state: TargetState) -> None:
        """What a connector is meant to do."""
        self._write_and_read([ConnectorTargetState(connector, state)])

    def put_restart_request(self, request: RestartRequest) -> None:
        """Ask whoever runs the connector to restart it."""
        self._write_and_read([request])

    def put_task_count(self, connector: str, tasks: int) -> None:
        """Every earlier writer of a connector with so many tasks is fenced."""
        self._write_and_read([TasksFencing(connector, tasks)])

    def put_session_key(self, key: SessionKey) -> None:
        """The key that workers sign with from now on."""
        self._write_and_read([key])

    def put_logger_level(self, level: LoggerLevel) -> None:
        """How much all workers say about something."""
        self._write_and_read([level])

    def _write_and_read(
        self,
        records: Sequence[ConfigRecord],
        timeout_seconds: float = READ_SECONDS,
        *,
        at_once: bool = True,
    ) -> None:
        pairs = [(record.key(), record.value()) for record in records]
        self._connect_topic.write_and_read(pairs, timeout_seconds, at_once=at_once)
        self._events += map(ConnectorRemoved, sorted(self._lost - self.state.configs.keys()))
        self._lost.clear()
        self._is_started, self._is_rereading = True, False

    def _apply(self, record: LogRecord) -> UnreadableRecord | None:
        event = self.state.apply(record)
        if isinstance(event, UnreadableRecord):
            return event
        is_over = self._is_rereading and isinstance(event, RestartRequest | LoggerLevel)
        if event is not None and self._is_started and not is_over:
            self._events.append(event)
        return None

    def _reset(self) -> None:
        self._lost |= self.state.configs.keys()
        self.state = ClusterConfigState()
        self._is_rereading = True

    def _check(self, partitions: int) -> None:
        if partitions != 1:
            raise ConfigError(
                f"Topic '{self.topic}' on cluster '{self._alias}' has {partitions} partitions, but "
                f"connectors are kept in order, which takes exactly 1. Name another topic in "
                f"config.storage.topic, or delete this one.",
                key="config.storage.topic",
            )
