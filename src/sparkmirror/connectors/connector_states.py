# SPDX-License-Identifier: Apache-2.0
"""Connect's states of a connector and its tasks, derived from what they report. Pure.

FAILED needs manual action; the trace is on the task whose partitions failed. A problem that is
retried is RUNNING with a warning. A connector that is starting is UNASSIGNED; the supervisor shows
PAUSED or RESTARTING instead if it was paused or is restarting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from sparkmirror.connectors.heartbeat_connector import HeartbeatState, HeartbeatStatus
from sparkmirror.errors import join_sentences
from sparkmirror.formats.connect_status_records import RunState
from sparkmirror.model import TopicPartition
from sparkmirror.spark.flow_status import FlowSnapshot, FlowState, TaskSnapshot

_STATES = {
    FlowState.STARTING: RunState.UNASSIGNED,
    FlowState.STANDBY: RunState.UNASSIGNED,
    FlowState.RUNNING: RunState.RUNNING,
    FlowState.RETRYING: RunState.RUNNING,
    FlowState.FAILED: RunState.FAILED,
    FlowState.DONE: RunState.RUNNING,
    FlowState.PAUSED: RunState.PAUSED,
    FlowState.STOPPED: RunState.UNASSIGNED,
}


@dataclass(frozen=True, slots=True)
class ReportedState:
    """A connector itself, or one of its tasks."""

    state: RunState
    trace: str = ""  # of FAILED
    warning: str = ""  # a problem that is retried
    partitions: tuple[TopicPartition, ...] = ()  # of a source connector's task
    topics: tuple[str, ...] = ()  # written by the task


@dataclass(frozen=True, slots=True)
class ConnectorState:
    """A connector and its tasks by number."""

    connector: ReportedState
    tasks: Mapping[int, ReportedState] = field(default_factory=dict)

    def with_state(self, state: RunState) -> ConnectorState:
        """Return the same connector and tasks, all in one state without errors."""
        tasks = {
            task: ReportedState(state, partitions=one.partitions, topics=one.topics)
            for task, one in self.tasks.items()
        }
        return ConnectorState(ReportedState(state), tasks)


def failed_state(trace: str) -> ConnectorState:
    """A connector that could not be built."""
    return ConnectorState(ReportedState(RunState.FAILED, trace))


def source_state(
    flow: FlowSnapshot,
    tasks: Iterable[TaskSnapshot],
    remote_name: Callable[[str], str] = str,
) -> ConnectorState:
    """A source connector: its flow, and the tasks of the current epoch."""
    connector = _connector(flow)
    return ConnectorState(
        connector, {one.split: _task(connector, one, remote_name) for one in tasks}
    )


def checkpoint_state(
    flow: FlowSnapshot,
    *,
    failure: str,
    refusals: Iterable[str],
    has_task: bool,
    topics: tuple[str, ...] = (),
) -> ConnectorState:
    """A checkpoint connector: `failure` ended it, `refusals` need manual action."""
    connector = replace(_connector(flow), warning=_retry_reason(flow))
    if not has_task or connector.state is not RunState.RUNNING:
        return ConnectorState(connector)
    trace = failure or "\n".join(refusals)
    task = ReportedState(RunState.FAILED if trace else RunState.RUNNING, trace, topics=topics)
    return ConnectorState(connector, {0: replace(task, warning=join_sentences(flow.flow_problems))})


def heartbeat_state(
    flow: FlowSnapshot, beats: HeartbeatStatus | None, topic: str = ""
) -> ConnectorState:
    """A heartbeat connector; None: heartbeats are disabled, and it has no task."""
    connector = _connector(flow)
    if beats is None or connector.state is not RunState.RUNNING:
        return ConnectorState(connector)
    error = beats.error or ""
    topics = (topic,) if beats.count and topic else ()
    if beats.state is HeartbeatState.FAILED or beats.is_refused:
        return ConnectorState(connector, {0: ReportedState(RunState.FAILED, error, topics=topics)})
    return ConnectorState(
        connector, {0: ReportedState(RunState.RUNNING, warning=error, topics=topics)}
    )


def _connector(flow: FlowSnapshot) -> ReportedState:
    state = _STATES[flow.state]
    trace = "\n".join(filter(None, (flow.reason, flow.trace))) if state is RunState.FAILED else ""
    return ReportedState(state, trace, join_sentences((_retry_reason(flow), *flow.flow_problems)))


def _retry_reason(flow: FlowSnapshot) -> str:
    return flow.reason if flow.state in (FlowState.RETRYING, FlowState.STANDBY) else ""


def _task(
    connector: ReportedState, one: TaskSnapshot, remote_name: Callable[[str], str]
) -> ReportedState:
    """Between two epochs a task has its connector's state."""
    state, trace = connector.state, connector.trace
    if state is RunState.RUNNING and one.failures:
        state, trace = RunState.FAILED, "\n".join(one.failures)
    elif state is RunState.RUNNING and not one.has_slot:
        state = RunState.UNASSIGNED
    topics = tuple(map(remote_name, one.copied))
    return ReportedState(state, trace, join_sentences(one.warnings), one.partitions, topics)
