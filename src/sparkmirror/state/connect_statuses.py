# SPDX-License-Identifier: Apache-2.0
"""Status of connectors and tasks, and the topics they use, in Connect's status topic.

Any worker writes there, also one that has lost its group membership without noticing yet.
Therefore (Java's rules):

A  FAILED and UNASSIGNED are written only about a connector or task without a status, of this
   worker, or of a generation that is not newer.
B  A task's UNASSIGNED does not replace a RUNNING of the same or a newer generation.
C  A deleted connector removes its tasks. Partitions have no common order, so a task status that was
   written after the deletion stays (Java would lose it).

`StatusLog` is not thread-safe. The owner of the client closes it.
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
    """The content of the records read so far."""

    connectors: dict[str, Status] = field(default_factory=dict)
    skipped_records: int = 0  # undecodable records
    _tasks: dict[str, dict[int, Status]] = field(default_factory=dict)
    _topics: dict[str, dict[str, TopicSeen]] = field(default_factory=dict)
    _written_ms: dict[tuple[str, int], int] = field(default_factory=dict)

    def tasks(self, connector: str) -> dict[int, Status]:
        """The status of a connector's tasks, by number."""
        return dict(sorted(self._tasks.get(connector, {}).items()))

    def topics(self, connector: str) -> dict[str, TopicSeen]:
        """The sorted topics that a connector has used."""
        return dict(sorted(self._topics.get(connector, {}).items()))

    def copy(self) -> ClusterStatusState:
        """Return a copy for another thread."""
        return ClusterStatusState(
            dict(self.connectors),
            self.skipped_records,
            {name: dict(tasks) for name, tasks in self._tasks.items()},
            {name: dict(topics) for name, topics in self._topics.items()},
            dict(self._written_ms),
        )

    def may_write(self, record: StatusRecord) -> bool:
        """Whether rule A allows the record, as far as this state knows."""
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
        """Return the records that remove a connector: its tasks, its topics, itself."""
        return [
            *(TaskStatus(connector, task, None) for task in self.tasks(connector)),
            *(TopicStatus(connector, topic, None) for topic in self.topics(connector)),
            ConnectorStatus(connector, None),
        ]

    def apply(self, record: LogRecord) -> UnreadableRecord | None:
        """Apply one record; returns it if it cannot be decoded."""
        match read_status_record(record.key, record.value):
            case ConnectorStatus(connector, None):
                self.connectors.pop(connector, None)
                self._remove_tasks(connector, record.timestamp_ms)
            case ConnectorStatus(connector, Status() as status):
                self.connectors[connector] = status
            case TaskStatus(connector, task, None):
                self._remove_task(connector, task)
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

    def _remove_tasks(self, connector: str, time_ms: int) -> None:
        for task in self.tasks(connector):
            if self._written_ms[connector, task] <= time_ms:  # C
                self._remove_task(connector, task)

    def _remove_task(self, connector: str, task: int) -> None:
        self._tasks.get(connector, {}).pop(task, None)
        self._written_ms.pop((connector, task), None)


class StatusLog:
    """The status topic. `state` is what was read so far; every `put` reads its own records."""

    def __init__(self, client: ClusterClient, topic: str) -> None:
        self.topic = topic
        self.state = ClusterStatusState()
        self._connect_topic = ConnectTopic(client, topic, apply=self._apply, reset=self._reset)

    def refresh(self, timeout_seconds: float = READ_SECONDS) -> None:
        """Read to the end."""
        self._connect_topic.write_and_read((), timeout_seconds)

    def put(self, *records: StatusRecord, authoritative: bool = False) -> list[StatusRecord]:
        """Write what rule A allows. Blocks until all replicas have it; returns what was skipped.

        With `authoritative` everything is written: a group member about what it runs itself.
        """
        if authoritative:
            self._write_and_read(records)
            return []
        if any(_is_bad_news(record) for record in records):
            self.refresh()
        rejected = [record for record in records if not self.state.may_write(record)]
        self._write_and_read(record for record in records if record not in rejected)
        return rejected

    def remove_connector(self, connector: str) -> None:
        """Remove a deleted connector with its tasks and topics."""
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
