# SPDX-License-Identifier: Apache-2.0
"""What metrics are about: each scope names its labels, and lists their values with a subject.

Scopes of Java's families quote label values as Kafka does in the names of its MBeans.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from sparkmirror.formats.mm2_records import Checkpoint
from sparkmirror.metrics.metric import Scope, jmx_value
from sparkmirror.metrics.process_view import FlowView, ProcessView, ReloadResult, WorkerMetrics
from sparkmirror.offsets.group_positions import GroupPositionState
from sparkmirror.spark.flow_figures import OTHERS, StatView, TaskView
from sparkmirror.spark.flow_status import FlowState
from sparkmirror.wire.error_codes import CONNECTION_LOST, name

TASK_STATES = ("running", "paused", "failed", "unassigned", "destroyed", "restarting")
SIDES = ("source", "target")
_NOT_LEADER_OR_FOLLOWER = 6
_USUAL_ERRORS = (CONNECTION_LOST, _NOT_LEADER_OR_FOLLOWER)  # shown as 0 before the first one
_Rows = Iterator[tuple[tuple[str, ...], Any]]


def _each_flow(*values: str) -> Callable[[ProcessView], _Rows]:
    def rows(process: ProcessView) -> _Rows:
        for flow in process.flows:
            yield (flow.snapshot.flow, *values), flow

    return rows


def _counted(
    pairs: Callable[[FlowView], Iterable[tuple[str, float]]],
) -> Callable[[ProcessView], _Rows]:
    """Return rows of a flow with one more label, whose subject is the value."""

    def rows(process: ProcessView) -> _Rows:
        for flow in process.flows:
            for label, value in pairs(flow):
                yield (flow.snapshot.flow, label), value

    return rows


def _traffic(process: ProcessView) -> _Rows:
    for flow in process.flows:
        totals = flow.figures.totals
        for cluster, received, sent in (
            (flow.source, totals.source_received, totals.source_sent),
            (flow.target, totals.target_received, totals.target_sent),
        ):
            yield (flow.snapshot.flow, cluster, "in"), received
            yield (flow.snapshot.flow, cluster, "out"), sent


def _errors(process: ProcessView) -> _Rows:
    for flow in process.flows:
        aliases = dict(zip(SIDES, (flow.source, flow.target), strict=True))
        counts = {(side, code): 0 for side in SIDES for code in _USUAL_ERRORS}
        for (side, code), count in {**counts, **flow.figures.request_errors}.items():
            yield (flow.snapshot.flow, aliases[side], name(code)), count


def _incidents(process: ProcessView) -> _Rows:
    for flow in process.flows:
        for (topic, partition, kind), count in sorted(flow.snapshot.incidents.items()):
            yield (flow.snapshot.flow, topic, str(partition), kind), count


def _loop_skipped(process: ProcessView) -> _Rows:
    for flow in process.flows:
        for (topic, partition), count in sorted(flow.snapshot.skipped_records.items()):
            yield (flow.snapshot.flow, topic, str(partition)), count


def _partitions(process: ProcessView) -> _Rows:
    for flow in process.flows:
        for one in flow.figures.partitions:
            yield (flow.snapshot.flow, one.topic, one.partition), one


def _heartbeats(process: ProcessView) -> _Rows:
    ages = {
        (flow.source, flow.target): flow.heartbeat_age_seconds
        for flow in process.flows
        if flow.heartbeat_age_seconds is not None
    }
    yield from ages.items()


def _certificates(process: ProcessView) -> _Rows:
    for one in process.certificates:
        yield (one.owner, one.subject), one.expires_at


def _reloads(process: ProcessView) -> _Rows:
    for result in ReloadResult:
        yield (result.value,), process.reloads.counts[result]


PROCESS = Scope("process", (), lambda process: [((), process)])
FLOW = Scope("flow", ("flow",), _each_flow())
FLOW_INFO = Scope(
    "flow info",
    ("flow", "source", "target", "connector"),
    lambda process: [
        ((one.snapshot.flow, one.source, one.target, one.connector), 1) for one in process.flows
    ],
)
FLOW_STATE = Scope(
    "state of a flow",
    ("flow", "state"),
    _counted(lambda flow: [(one.value, int(flow.snapshot.state is one)) for one in FlowState]),
)
FLOW_CLUSTERS = Scope(
    "clusters of a flow",
    ("flow", "cluster"),
    _counted(lambda flow: [(one, int(not why)) for one, why in flow.snapshot.unreachable.items()]),
)
FLOW_TRAFFIC = Scope("traffic of a flow", ("flow", "cluster", "direction"), _traffic)
FLOW_BATCHES = Scope(
    "record batches of a flow",
    ("flow", "treatment"),
    _counted(
        lambda flow: [
            ("raw", flow.figures.totals.raw_batches),
            ("reframed", flow.figures.totals.reframed_batches),
            ("merged", flow.figures.totals.merged_batches),
        ]
    ),
)
FLOW_ERRORS = Scope("request errors of a flow", ("flow", "cluster", "error"), _errors)
FLOW_INCIDENTS = Scope(
    "incidents of a flow",
    ("flow", "kind"),
    _counted(lambda flow: sorted(flow.snapshot.incident_kinds.items())),
)
FLOW_INCIDENT_RECORDS = Scope(
    "records of incidents",
    ("flow", "kind"),
    _counted(lambda flow: sorted(flow.snapshot.incident_records.items())),
)
INCIDENTS = Scope("incidents of a partition", ("flow", "topic", "partition", "kind"), _incidents)
LOOP_SKIPPED = Scope("partition of a cycle of flows", ("flow", "topic", "partition"), _loop_skipped)
FLOW_GROUPS = Scope(
    "group positions of a flow",
    ("flow", "state"),
    _counted(
        lambda flow: (
            [(one.value, flow.group_positions.get(one.value, 0)) for one in GroupPositionState]
            if flow.checkpoints is not None
            else []
        )
    ),
)
FLOW_TOPOLOGY = Scope(
    "topology changes of a flow",
    ("flow", "what"),
    _counted(lambda flow: sorted({"created": 0, **flow.snapshot.topology_changes}.items())),
)
PARTITION = Scope("partition", ("flow", "topic", "partition"), _partitions)
HEARTBEAT = Scope("heartbeats of a pair", ("source", "target"), _heartbeats)
CERTIFICATE = Scope("certificate", ("owner", "subject"), _certificates)
RELOAD = Scope("reload", ("result",), _reloads)

# --- Java's


class ClientView(NamedTuple):
    """A client of a task, as Java would have one."""

    task: TaskView


class ConnectorTask(NamedTuple):
    """A task of a connector, and its figures if it copies."""

    state: str
    task: TaskView | None


def _client(kind: Callable[[FlowView, int], str]) -> Callable[[ProcessView], _Rows]:
    def rows(process: ProcessView) -> _Rows:
        for flow in process.flows:
            for task in flow.figures.tasks:
                yield (kind(flow, task.split),), task

    return rows


def consumer_id(flow: FlowView, split: int) -> str:
    """Return the client id that Java's consumer would have under Strimzi's connector names."""
    pair = f"{flow.source}->{flow.target}"
    return jmx_value(f"{pair}|{flow.connector}-{max(split, 0)}|replication-consumer")


def producer_id(flow: FlowView, split: int) -> str:
    """Return the client id that Java's producer would have."""
    return jmx_value(f"connector-producer-{flow.connector}-{split}")


def _mirror_partitions(process: ProcessView) -> _Rows:
    for flow in process.flows:
        source, target = jmx_value(flow.source), jmx_value(flow.target)
        names: dict[str, str] = {OTHERS: OTHERS}
        for one in flow.figures.partitions:
            remote = names.get(one.topic)
            if remote is None:
                remote = names[one.topic] = flow.remote_topic(one.topic)
            yield (source, target, remote, one.partition), one


def _consumer_partitions(process: ProcessView) -> _Rows:
    for flow in process.flows:
        ids: dict[int, str] = {}
        for one in flow.figures.partitions:
            client = ids.get(one.split)
            if client is None:
                client = ids[one.split] = consumer_id(flow, one.split)
            yield (client, one.topic, one.partition), one


def _checkpoints(process: ProcessView) -> _Rows:
    for flow in process.flows:
        found: Iterable[tuple[Checkpoint, StatView]] = (
            flow.checkpoints.checkpoints if flow.checkpoints is not None else ()
        )
        for one, latency in found:
            topic, partition = one.topic_partition
            labels = (flow.source, flow.target, one.group, topic, str(partition))
            yield tuple(map(jmx_value, labels)), latency


def _worker_connectors(process: ProcessView) -> _Rows:
    for connector, tasks in process.worker.tasks.items():
        yield (jmx_value(connector),), (len(tasks), Counter(tasks))


def _connector_tasks(process: ProcessView) -> Iterator[tuple[tuple[str, str], ConnectorTask]]:
    figures = {
        (flow.connector, task.split): task for flow in process.flows for task in flow.figures.tasks
    }
    for connector, tasks in process.worker.tasks.items():
        for number, state in enumerate(tasks):
            one = ConnectorTask(state, figures.get((connector, number)))
            yield (jmx_value(connector), str(number)), one


def _task_states(process: ProcessView) -> _Rows:
    for labels, one in _connector_tasks(process):
        yield (*labels, one.state), 1


def _worker(process: ProcessView) -> WorkerMetrics:
    return process.worker


def _jvm_areas(process: ProcessView) -> _Rows:
    if process.jvm is not None:
        for area, memory in process.jvm.memory.items():
            yield (area,), memory


def _jvm_collectors(process: ProcessView) -> _Rows:
    if process.jvm is not None:
        for collector, figures in process.jvm.collections.items():
            yield (collector,), figures


_PAIR = ("source", "target")
MIRROR_PARTITION = Scope("mirrored partition", (*_PAIR, "topic", "partition"), _mirror_partitions)
CHECKPOINT = Scope("checkpoint", (*_PAIR, "group", "topic", "partition"), _checkpoints)
CONSUMER = Scope("consumer", ("clientid",), _client(consumer_id))
PRODUCER = Scope("producer", ("clientid",), _client(producer_id))
CONSUMER_PARTITION = Scope(
    "consumer's partition", ("clientid", "topic", "partition"), _consumer_partitions
)
WORKER = Scope("worker", (), lambda process: [((), process.worker)])
COORDINATOR = Scope(
    "worker as a group member",
    ("clientid",),
    lambda process: [((jmx_value(f"connect-{process.worker.worker_id}"),), process.worker)],
)
WORKER_CONNECTOR = Scope("connector", ("connector",), _worker_connectors)
CONNECTOR_TASK = Scope("task", ("connector", "task"), _connector_tasks)
TASK_STATUS = Scope("status of a task", ("connector", "task", "status"), _task_states)
JVM = Scope("JVM", (), lambda process: [] if process.jvm is None else [((), process.jvm)])
JVM_AREA = Scope("JVM memory area", ("area",), _jvm_areas)
JVM_COLLECTOR = Scope("JVM collector", ("gc",), _jvm_collectors)
