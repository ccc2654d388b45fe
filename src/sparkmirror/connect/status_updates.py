# SPDX-License-Identifier: Apache-2.0
"""Plans status records for states that differ from the status topic. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sparkmirror.config.connector_config import PLUGIN_VERSION
from sparkmirror.connectors.connector_states import ConnectorState, ReportedState
from sparkmirror.formats.connect_status_records import (
    ConnectorStatus,
    RunState,
    Status,
    StatusRecord,
    TaskStatus,
    TopicSeen,
    TopicStatus,
)
from sparkmirror.state.connect_statuses import ClusterStatusState

# Connect writes these without a version.
_WITHOUT_VERSION = frozenset({RunState.UNASSIGNED, RunState.RESTARTING})
# A connector that has not run here yet has no known tasks; they get its state.
_WITHOUT_TASKS = _WITHOUT_VERSION | {RunState.PAUSED}
_MOST_CHARACTERS = 32 * 1024  # a trace may name thousands of topics; a record takes 1 MiB


@dataclass(frozen=True, slots=True)
class StatusOrigin:
    """The worker that writes a status, and its generation of the group."""

    worker_id: str
    generation: int

    def status(self, part: ReportedState) -> Status:
        """The status of a connector or task of this worker."""
        return Status(
            part.state,
            self.worker_id,
            self.generation,
            _truncated(part.trace) or None,
            None if part.state in _WITHOUT_VERSION else PLUGIN_VERSION,
            _truncated(part.warning),
        )


def status_updates(
    name: str,
    now: ConnectorState,
    known: ClusterStatusState,
    origin: StatusOrigin,
    *,
    renews_warnings: bool,
) -> list[StatusRecord]:
    """Records for states that differ from the topic's, tombstones for removed tasks.

    `renews_warnings`: also write a warning whose text has changed.
    """
    before = known.tasks(name)
    tasks = dict(now.tasks)
    if not tasks and now.connector.state in _WITHOUT_TASKS:
        tasks = {number: ReportedState(now.connector.state) for number in before}
    records: list[StatusRecord] = []
    whole = origin.status(now.connector)
    if _differs(known.connectors.get(name), whole, renews_warnings):
        records.append(ConnectorStatus(name, whole))
    for number, part in tasks.items():
        status = origin.status(part)
        if _differs(before.get(number), status, renews_warnings):
            records.append(TaskStatus(name, number, status))
    records += [TaskStatus(name, number, None) for number in before if number not in tasks]
    return records


def topic_updates(
    name: str, now: ConnectorState, known: ClusterStatusState, time_ms: int
) -> list[StatusRecord]:
    """Records for topics that a connector uses and the status topic lacks."""
    seen = known.topics(name)
    new: dict[str, int] = {}
    for number, part in now.tasks.items():
        for topic in part.topics:
            if topic not in seen:
                new.setdefault(topic, number)
    return [TopicStatus(name, topic, TopicSeen(task, time_ms)) for topic, task in new.items()]


def unassigned_updates(
    names: Iterable[str], known: ClusterStatusState, origin: StatusOrigin
) -> list[StatusRecord]:
    """Records for connectors that this worker no longer runs."""
    status = origin.status(ReportedState(RunState.UNASSIGNED))
    records: list[StatusRecord] = []
    for name in names:
        if _is_mine(known.connectors.get(name), origin):
            records.append(ConnectorStatus(name, status))
        tasks: Mapping[int, Status] = known.tasks(name)
        records += [
            TaskStatus(name, number, status)
            for number, one in tasks.items()
            if _is_mine(one, origin)
        ]
    return records


def _truncated(text: str) -> str:
    if len(text) <= _MOST_CHARACTERS:
        return text
    return f"{text[:_MOST_CHARACTERS]} ... ({len(text) - _MOST_CHARACTERS} more characters)"


def _is_mine(known: Status | None, origin: StatusOrigin) -> bool:
    return known is not None and known.worker_id == origin.worker_id


def _differs(known: Status | None, wanted: Status, renews_warnings: bool) -> bool:
    if known is None:
        return True
    if bool(known.warning) != bool(wanted.warning):
        return True
    if renews_warnings and known.warning != wanted.warning:
        return True
    return (known.state, known.worker_id, known.trace, known.version) != (
        wanted.state,
        wanted.worker_id,
        wanted.trace,
        wanted.version,
    )
