# SPDX-License-Identifier: Apache-2.0
"""What connectors and tasks do, and the topics they use, as Connect's status topic says.

Any worker writes there, also one that has lost its place in the group and does not know it yet.
Therefore (Java's rules):

A  Bad news (FAILED, UNASSIGNED) is written only about what nobody is known to do, what this worker
   does itself, or what was done in a generation of the group that is not newer.
B  A task's UNASSIGNED does not replace a RUNNING of the same or a newer generation.
C  A connector that is gone takes its tasks with it. Partitions are read in no order among each
   other, so what was written about a task after that stays (Java would lose it).

`StatusLog` belongs to one thread, and to whoever owns the client.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sparkmirror.formats.connect_fields import UnreadableRecord
from sparkmirror.formats.connect_status_records import (
    ConnectorStatus,
    RunState,
    Status,
    StatusRecord,
    TaskStatus,
    TopicSeen,
    TopicStatus,
    read_status_record,
)
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.log_records import LogRecord
from sparkmirror.state.connect_topic import READ_SECONDS, ConnectTopic

_BAD_NEWS = frozenset({RunState.FAILED, RunState.UNASSIGNED})


@dataclass(slots=True)
class ClusterStatusState:
    """What the records read so far say."""

    connectors: dict[str, Status] = field(default_factory=dict)
    skipped_records: int = 0  # records that could not be read
    _tasks: dict[str, dict[int, Status]] = field(default_factory=dict)
    _topics: dict[str, dict[str, TopicSeen]] = field(default_factory=dict)
    _written_ms: dict[tuple[str, int], int] = field(default_factory=dict)

    def tasks(self, connector: str) -> dict[int, Status]:
        """What a connector's tasks do, in the order of their numbers."""
        return dict(sorted(self._tasks.get(connector, {}).items()))

    def topics(self, connector: str) -> dict[str, TopicSeen]:
        """The topics that a connector has used, sorted."""
        return dict(sorted(self._topics.get(connector, {}).items()))

    def copy(self) -> ClusterStatusState:
        """The same for another thread."""
        return ClusterStatusState(
            dict(self.connectors),
            self.skipped_records,
            {name: dict(tasks) for name, tasks in self._tasks.items()},
            {name: dict(topics) for name, topics in self._topics.items()},
            dict(self._written_ms),
        )

    def may_write(self, record: StatusRecord) -> bool:
        """Rule A, by what is known here."""
        match record:
            case ConnectorStatus(connector, Status() as status):
                known = self.connectors.get(connector)
            case TaskStatus(connector, task, Status() as status):
                known = self._tasks.get(connector, {}).get(task)
            case _:
                return True
        return (
            not _is_bad_news(record)
            or known is None
            or known.worker_id == status.worker_id
            or known.generation <= status.generation
        )

    def removal_records(self, connector: str) -> list[StatusRecord]:
        """The records that make everybody forget a connector: its tasks, its topics, itself."""
        return [
            *(TaskStatus(connector, task, None) for task in self.tasks(connector)),
            *(TopicStatus(connector, topic, None) for topic in self.topics(connector)),
            ConnectorStatus(connector, None),
        ]

    def apply(self, record: LogRecord) -> UnreadableRecord | None:
        """Take one more record in; a record that could not be read comes back."""
        match read_status_record(record.key, record.value):
            case ConnectorStatus(connector, None):
                self.connectors.pop(connector, None)
                self._forget_tasks(connector, record.timestamp_ms)
            case ConnectorStatus(connector, Status() as status):
                self.connectors[connector] = status
            case TaskStatus(connector, task, None):
                self._forget_task(connector, task)
            case TaskStatus(connector, task, Status() as status):
                self._task(connector, task, status, record.timestamp_ms)
            case TopicStatus(connector, topic, None):
                self._topics.get(connector, {}).pop(topic, None)
            case TopicStatus(connector, topic, TopicSeen() as seen):
                self._topics.setdefault(connector, {})[topic] = seen
            case UnreadableRecord() as foreign:
                self.skipped_records += 1
                return foreign
        return None

    def _task(self, connector: str, task: int, status: Status, time_ms: int) -> None:
        known = self._tasks.get(connector, {}).get(task)
        is_stale = (  # B
            known is not None
            and status.state is RunState.UNASSIGNED
            and known.state is RunState.RUNNING
            and status.generation <= known.generation
        )
        if not is_stale:
            self._tasks.setdefault(connector, {})[task] = status
            self._written_ms[connector, task] = time_ms

    def _forget_tasks(self, connector: str, time_ms: int) -> None:
        for task in self.tasks(connector):
            if self._written_ms[connector, task] <= time_ms:  # C
                self._forget_task(connector, task)

    def _forget_task(self, connector: str, task: int) -> None:
        self._tasks.get(connector, {}).pop(task, None)
        self._written_ms.pop((connector, task), None)


class StatusLog:
    """The status topic: `state` is what was read so far, every `put` reads itself back."""

    def __init__(self, client: ClusterClient, topic: str) -> None:
        self.topic = topic
        self.state = ClusterStatusState()
        self._connect_topic = ConnectTopic(client, topic, take=self._apply, forget_all=self._reset)

    def refresh(self, timeout_seconds: float = READ_SECONDS) -> None:
        """Read on to the end."""
        self._connect_topic.write_and_read((), timeout_seconds)

    def put(self, *records: StatusRecord, certain: bool = False) -> list[StatusRecord]:
        """Write what rule A allows; returns when every replica has it, with what was left out.

        Certain is a member of the group about what it runs itself: all of it is written.
        """
        if certain:
            self._write_and_read(records)
            return []
        if any(_is_bad_news(record) for record in records):
            self.refresh()
        refused = [record for record in records if not self.state.may_write(record)]
        self._write_and_read(record for record in records if record not in refused)
        return refused

    def remove_connector(self, connector: str) -> None:
        """Make everybody forget a connector that was deleted, its tasks and its topics."""
        self.refresh()
        self._write_and_read(self.state.removal_records(connector))

    def _write_and_read(self, records: Iterable[StatusRecord]) -> None:
        self._connect_topic.write_and_read((record.key(), record.value()) for record in records)

    def _apply(self, record: LogRecord) -> UnreadableRecord | None:
        return self.state.apply(record)

    def _reset(self) -> None:
        self.state = ClusterStatusState()


def _is_bad_news(record: StatusRecord) -> bool:
    match record:
        case ConnectorStatus(_, Status(state)) | TaskStatus(_, _, Status(state)):
            return state in _BAD_NEWS
    return False
