# SPDX-License-Identifier: Apache-2.0
"""Every metric, once: the scrape and docs/metrics.md are made from this table.

Names of the first family are those of Strimzi's rules for the JMX exporter; a test compares them
with a capture of Java's MirrorMaker 2. `omitted.py` says which of Java's metrics are missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from sparkmirror.metrics import scopes
from sparkmirror.metrics.metric import Metric, MetricType, Scope
from sparkmirror.metrics.process_view import FlowView, ReloadResult
from sparkmirror.metrics.scopes import TASK_STATES, ConnectorTask
from sparkmirror.spark.flow_figures import PartitionView, StatView

_Value = Callable[[Any], Any]
_SOURCE = "kafka_connect_mirror_mirrorsourceconnector"
_CHECKPOINT = "kafka_connect_mirror_mirrorcheckpointconnector"
_WORKER = "kafka_connect_worker"
_WINDOW = "over a window of two samples of 30 s, as in Java"


def _counter(name: str, scope: Scope, help_: str, value: _Value, origin: str = "") -> Metric:
    return Metric(name, MetricType.COUNTER, scope, help_, value, origin)


def _gauge(name: str, scope: Scope, help_: str, value: _Value, origin: str = "") -> Metric:
    return Metric(name, MetricType.GAUGE, scope, help_, value, origin)


def _stats(
    name: str, scope: Scope, help_: str, stat: Callable[[Any], StatView], origin: str
) -> Iterator[Metric]:
    """MM2's four metrics of one measurement: the last value, and three of a window."""
    yield _gauge(name, scope, f"{help_}; the last one.", lambda one: stat(one).last, origin)
    yield _gauge(
        f"{name}_avg", scope, f"{help_}; average {_WINDOW}.", lambda one: stat(one).average, origin
    )
    yield _gauge(
        f"{name}_min", scope, f"{help_}; minimum {_WINDOW}.", lambda one: stat(one).minimum, origin
    )
    yield _gauge(
        f"{name}_max", scope, f"{help_}; maximum {_WINDOW}.", lambda one: stat(one).maximum, origin
    )


def _identity(value: float) -> float:
    return value


# --- Java's names

_AGE_ORIGIN = (
    "once per record batch, from its latest timestamp, when it was fetched; Java takes it per "
    "record"
)
_LATENCY_ORIGIN = (
    "once per record batch, from its latest timestamp, when it was acknowledged (in transactions: "
    "committed)"
)
_BYTES_ORIGIN = "record batches as on the target, compressed; Java counts uncompressed values only"


def _byte_count(one: PartitionView) -> int:
    return one.bytes


_MIRROR_SOURCE = (
    _gauge(f"{_SOURCE}_record_count", scopes.MIRROR_PARTITION, "Records copied.",
           lambda one: one.records, "acknowledged records since the process started"),
    _gauge(f"{_SOURCE}_record_rate", scopes.MIRROR_PARTITION, f"Records per second {_WINDOW}.",
           lambda one: one.record_rate, "acknowledged records"),
    _gauge(f"{_SOURCE}_byte_count", scopes.MIRROR_PARTITION, "Bytes copied.", _byte_count,
           _BYTES_ORIGIN),
    _gauge(f"{_SOURCE}_byte_rate", scopes.MIRROR_PARTITION, f"Bytes per second {_WINDOW}.",
           lambda one: one.byte_rate, _BYTES_ORIGIN),
    *_stats(f"{_SOURCE}_record_age_ms", scopes.MIRROR_PARTITION,
            "Age of records when they were fetched, in ms", lambda one: one.age, _AGE_ORIGIN),
    *_stats(f"{_SOURCE}_replication_latency_ms", scopes.MIRROR_PARTITION,
            "From a record's timestamp until the target has it, in ms", lambda one: one.latency,
            _LATENCY_ORIGIN),
)  # fmt: skip
_MIRROR_CHECKPOINT = tuple(
    _stats(
        f"{_CHECKPOINT}_checkpoint_latency_ms",
        scopes.CHECKPOINT,
        "From making a checkpoint until it is written, in ms",
        lambda one: one,
        "at most 2,000 positions of groups per flow; Java mixes all of them into each",
    )
)
_CLIENTS = (
    _gauge("kafka_consumer_fetch_manager_records_lag", scopes.CONSUMER_PARTITION,
           "Records still to be copied.", lambda one: one.lag_records,
           "as sparkmirror_partition_lag_records, in every state of the connector; a partition "
           "without a task is shown under task 0. Java shows each topic with a dot twice, with "
           "dots and with underscores; here it is shown once, with dots"),
    _counter("kafka_consumer_incoming_byte_total", scopes.CONSUMER,
             "Bytes received from the source cluster.", lambda one: one.figures.source_received,
             "since the epoch began; before TLS"),
    _counter("kafka_consumer_outgoing_byte_total", scopes.CONSUMER,
             "Bytes sent to the source cluster.", lambda one: one.figures.source_sent,
             "since the epoch began; before TLS"),
    _counter("kafka_producer_incoming_byte_total", scopes.PRODUCER,
             "Bytes received from the target cluster.", lambda one: one.figures.target_received,
             "since the epoch began; before TLS"),
    _counter("kafka_producer_outgoing_byte_total", scopes.PRODUCER,
             "Bytes sent to the target cluster.", lambda one: one.figures.target_sent,
             "since the epoch began; before TLS"),
    _gauge("kafka_producer_buffer_available_bytes", scopes.PRODUCER,
           "Free memory of the task.", lambda one: one.figures.available_bytes,
           "the rest of the task's buffer, which holds fetched and unacknowledged record batches; "
           "there is no separate buffer of a producer"),
)  # fmt: skip


def _tasks_in(state: str) -> _Value:
    return lambda one: one[1][state]


_CONNECT = (
    _gauge(f"{_WORKER}_connector_count", scopes.WORKER, "Connectors on this worker.",
           lambda one: len(one.tasks)),
    _gauge(f"{_WORKER}_task_count", scopes.WORKER, "Tasks on this worker.",
           lambda one: sum(map(len, one.tasks.values()))),
    _gauge(f"{_WORKER}_connector_total_task_count", scopes.WORKER_CONNECTOR,
           "Tasks of a connector.", lambda one: one[0]),
    *(
        _gauge(f"{_WORKER}_connector_{state}_task_count", scopes.WORKER_CONNECTOR,
               f"Tasks in state {state}.", _tasks_in(state))
        for state in TASK_STATES
    ),
    _gauge(f"{_WORKER}_rebalance_rebalancing", scopes.WORKER,
           "1 while the group is rebalancing.", lambda one: int(one.is_rebalancing),
           "of `run`: 1 while the group of a flow is rebalancing"),
    _gauge(f"{_WORKER}_rebalance_epoch", scopes.WORKER, "The group's generation.",
           lambda one: one.generation, "not of `run`, whose flows have a group each"),
    _gauge("kafka_connect_coordinator_assigned_connectors", scopes.COORDINATOR,
           "Connectors assigned to this worker.", lambda one: len(one.tasks)),
    _gauge("kafka_connect_coordinator_assigned_tasks", scopes.COORDINATOR,
           "Tasks assigned to this worker.", lambda one: sum(map(len, one.tasks.values())),
           "a worker runs all tasks of its connectors"),
    _gauge("kafka_connect_connector_status", scopes.TASK_STATUS, "1 for the state of a task.",
           _identity),
    _gauge("kafka_connect_connector_task_offset_commit_avg_time_ms", scopes.CONNECTOR_TASK,
           "Average time to store positions, in ms.",
           lambda one: _per_commit(one, lambda f: f.commit_ms / f.commits),
           "since the epoch began; in transactions, the time of a commit. NaN before the first one "
           "and of other connectors, which store none"),
    _gauge("kafka_connect_connector_task_offset_commit_max_time_ms", scopes.CONNECTOR_TASK,
           "Maximum time to store positions, in ms.",
           lambda one: _per_commit(one, lambda f: f.commit_max_ms), "as the average"),
    _gauge("kafka_connect_source_task_source_record_active_count", scopes.CONNECTOR_TASK,
           "Records that were fetched and are not acknowledged.",
           lambda one: 0 if one.task is None else one.task.figures.unacked_records,
           "0 of other connectors, which have no such queue"),
)  # fmt: skip


def _per_commit(one: ConnectorTask, value: Callable[[Any], float]) -> float:
    figures = None if one.task is None else one.task.figures
    return math.nan if figures is None or not figures.commits else value(figures)


_SPARK_JVM = (
    _gauge("jvm_memory_used_bytes", scopes.JVM_AREA, "Memory in use.", lambda one: one.used,
           "Spark's driver JVM, at most 5 s old; so are the other jvm_ metrics"),
    _gauge("jvm_memory_committed_bytes", scopes.JVM_AREA, "Memory that the JVM has.",
           lambda one: one.committed),
    _gauge("jvm_memory_max_bytes", scopes.JVM_AREA, "Memory that the JVM may use; -1: no limit.",
           lambda one: one.maximum),
    Metric("jvm_gc_collection_seconds", MetricType.SUMMARY, scopes.JVM_COLLECTOR,
           "Garbage collections and their time.", _identity),
    _gauge("jvm_threads_current", scopes.JVM, "Threads.", lambda one: one.threads),
)  # fmt: skip

# --- ours


def _if_copies(value: Callable[[FlowView], Any]) -> _Value:
    return lambda flow: value(flow) if flow.snapshot.copies else None


def _lag(flow: FlowView) -> float:
    now = flow.snapshot
    lag = now.known_lag if now.lag is None else now.lag
    return math.nan if lag is None else lag


def _lag_bytes(flow: FlowView) -> float:
    known = [one.lag_bytes for one in flow.figures.partitions if not math.isnan(one.lag_bytes)]
    return sum(known) if known else math.nan


def _lag_seconds(flow: FlowView) -> float:
    known = [one.lag_seconds for one in flow.figures.partitions if not math.isnan(one.lag_seconds)]
    return max(known, default=math.nan)


def _is_blocked(flow: FlowView) -> bool:
    return bool(flow.snapshot.reason) and not flow.snapshot.can_work


_FLOWS = (
    _gauge("sparkmirror_flow_info", scopes.FLOW_INFO, "1; the clusters and connector of a flow.",
           _identity),
    _gauge("sparkmirror_flow_state", scopes.FLOW_STATE, "1 for the state that a flow is in.",
           _identity),
    _gauge("sparkmirror_cluster_reachable", scopes.FLOW_CLUSTERS,
           "0 while the source or the target of a flow does not answer.", _identity),
    _gauge("sparkmirror_problems", scopes.FLOW, "Problems that the status of the flow shows.",
           lambda flow: len(flow.snapshot.problems) + _is_blocked(flow)),
    _counter("sparkmirror_records_total", scopes.FLOW, "Records copied.",
             lambda flow: flow.snapshot.records),
    _counter("sparkmirror_bytes_total", scopes.FLOW, "Bytes of record batches copied.",
             lambda flow: flow.snapshot.bytes),
    _gauge("sparkmirror_lag_records", scopes.FLOW,
           "Records still to be copied, of the partitions whose lag is known; NaN if unknown.",
           _if_copies(_lag), "read in every state of the connector, also while it is stopped"),
    _gauge("sparkmirror_lag_known", scopes.FLOW,
           "1 if the lag of every topic partition in the flow is known.",
           _if_copies(lambda flow: int(flow.snapshot.lag is not None))),
    _gauge("sparkmirror_lag_unknown_partitions", scopes.FLOW,
           "Topic partitions in the flow whose lag is unknown.",
           _if_copies(lambda flow: flow.snapshot.unknown_lags)),
    _gauge("sparkmirror_lag_bytes", scopes.FLOW,
           "Bytes still to be copied, of the partitions where this is known.",
           _if_copies(_lag_bytes), "records times the average size of the copied ones"),
    _gauge("sparkmirror_lag_seconds", scopes.FLOW,
           "For how long the oldest uncopied record has been in the source; the longest partition.",
           _if_copies(_lag_seconds), "see sparkmirror_partition_lag_seconds"),
    _gauge("sparkmirror_partitions", scopes.FLOW, "Topic partitions in the flow.",
           lambda flow: flow.snapshot.partitions),
    _gauge("sparkmirror_partitions_summed", scopes.FLOW,
           "Topic partitions that metrics show as one, with the topic (other).",
           lambda flow: flow.figures.summed_partitions, "beyond metrics.max.partitions"),
    _gauge("sparkmirror_quarantined_partitions", scopes.FLOW,
           "Topic partitions that do not make progress and need manual action.",
           lambda flow: flow.snapshot.quarantined),
    _gauge("sparkmirror_epoch", scopes.FLOW,
           "Number of the Spark job that copies now, counted from the start of the process.",
           lambda flow: flow.snapshot.epoch or None),
    _gauge("sparkmirror_splits", scopes.FLOW, "Splits of the current epoch.",
           lambda flow: flow.figures.splits),
    _gauge("sparkmirror_waiting_splits", scopes.FLOW, "Splits for which Spark runs no task.",
           lambda flow: flow.figures.waiting_splits),
    _gauge("sparkmirror_flow_slots", scopes.FLOW, "Spark's task slots that the flow may use.",
           _if_copies(lambda flow: flow.slots)),
    _gauge("sparkmirror_held_bytes", scopes.FLOW, "Record data in the memory of tasks.",
           lambda flow: flow.snapshot.held_bytes),
    _gauge("sparkmirror_unacked_records", scopes.FLOW,
           "Records that were fetched and are not acknowledged.",
           lambda flow: flow.figures.totals.unacked_records),
    _counter("sparkmirror_wire_bytes_total", scopes.FLOW_TRAFFIC,
             "Bytes that tasks received from a cluster (in) and sent to it (out).", _identity,
             "whole requests and responses, before TLS; without positions on a third cluster"),
    _counter("sparkmirror_batches_total", scopes.FLOW_BATCHES,
             "Record batches of the source, by what was done: sent raw, reframed, or merged.",
             _identity, "decided when they are fetched; a batch that is read again counts again"),
    _counter("sparkmirror_skipped_records_total", scopes.FLOW,
             "Records of aborted transactions, which are not copied.",
             lambda flow: flow.figures.totals.skipped_records),
    _counter("sparkmirror_loop_skipped_records_total", scopes.LOOP_SKIPPED,
             "Records that were not copied because another flow had copied them to the source.",
             _identity, "appears with the first one"),
    Metric("sparkmirror_replication_latency_seconds", MetricType.HISTOGRAM, scopes.FLOW,
           "From a record's timestamp to the target's acknowledgement.",
           _if_copies(lambda flow: flow.figures.replication_latency),
           "once per record batch, counted as often as it has records; each bucket's limit is "
           "exact to 10 %"),
    Metric("sparkmirror_copy_latency_seconds", MetricType.HISTOGRAM, scopes.FLOW,
           "From the fetch to the target's acknowledgement.",
           _if_copies(lambda flow: flow.figures.copy_latency), "as the replication latency"),
    _counter("sparkmirror_request_errors_total", scopes.FLOW_ERRORS,
             "Errors of fetch and produce requests, by cluster and Kafka's name of the error.",
             _identity, "one for each partition and attempt"),
    _gauge("sparkmirror_take_over_partitions", scopes.FLOW,
           "Topic partitions whose task has not taken over from its predecessor yet.",
           lambda flow: flow.figures.totals.waiting_partitions),
    _gauge("sparkmirror_comparing_partitions", scopes.FLOW,
           "Topic partitions whose ends on both clusters are being compared.",
           lambda flow: flow.figures.totals.comparing_partitions),
    _counter("sparkmirror_comparisons_total", scopes.FLOW, "Comparisons that were started.",
             lambda flow: flow.figures.totals.comparisons),
    _counter("sparkmirror_incidents_total", scopes.INCIDENTS,
             "Incidents by partition and kind; see `sparkmirror ledger`.", _identity,
             "appears with the first incident"),
    _counter("sparkmirror_flow_incidents_total", scopes.FLOW_INCIDENTS,
             "Incidents of a flow by kind, for rules: 0 before the first one.", _identity,
             "every kind of docs/incidents.md"),
    _counter("sparkmirror_incident_records_total", scopes.FLOW_INCIDENT_RECORDS,
             "Records that incidents are about, as far as they are known.", _identity,
             "of kind dead-letter: records in the dead-letter topic; of kind gap: records that are "
             "missing"),
    _counter("sparkmirror_ledger_entries_total", scopes.FLOW,
             "Incidents that are recorded in the ledger: source and target differ there.",
             lambda flow: flow.snapshot.ledger_entries),
    _gauge("sparkmirror_group_positions", scopes.FLOW_GROUPS,
           "Committed offsets of consumer groups, by state; see `sparkmirror groups`.", _identity),
    _gauge("sparkmirror_checkpoint_age_seconds", scopes.FLOW,
           "Since the last successful round of checkpoints; since the start if there was none.",
           lambda flow: flow.checkpoint_age_seconds,
           "also while the checkpoint connector is stopped; not on standby"),
    _gauge("sparkmirror_heartbeat_age_seconds", scopes.HEARTBEAT,
           "Since the last heartbeat was written; since the start if there was none.", _identity,
           "also while the heartbeat connector is stopped; not on standby"),
    _counter("sparkmirror_topology_changes_total", scopes.FLOW_TOPOLOGY,
             "Changes to topics, configs and ACLs on the target, applied or rejected.", _identity),
)  # fmt: skip
_PARTITIONS = (
    _gauge("sparkmirror_partition_lag_records", scopes.PARTITION,
           "Records still to be copied; NaN if unknown.", lambda one: one.lag_records),
    _gauge("sparkmirror_partition_lag_bytes", scopes.PARTITION,
           "Bytes still to be copied; NaN if unknown.", lambda one: one.lag_bytes,
           "records times the average size of the partition's copied records"),
    _gauge("sparkmirror_partition_lag_seconds", scopes.PARTITION,
           "For how long the next record to copy has been in the source; NaN if unknown.",
           lambda one: one.lag_seconds,
           "from when the end of the log was seen to pass it; if that was before the start, from "
           "the timestamp of the last copied record"),
    _counter("sparkmirror_partition_records_total", scopes.PARTITION, "Records copied.",
             lambda one: one.records),
    _counter("sparkmirror_partition_bytes_total", scopes.PARTITION,
             "Bytes of record batches copied.", lambda one: one.bytes),
)  # fmt: skip
_PROCESS = (
    _gauge("sparkmirror_executors", scopes.PROCESS, "Spark's executors.",
           lambda process: None if process.jvm is None else process.jvm.executors,
           "a local Spark has one"),
    _gauge("sparkmirror_slots", scopes.PROCESS, "Tasks that Spark's executors can run at a time.",
           lambda process: process.slots),
    _gauge("sparkmirror_worker_is_leader", scopes.WORKER, "1 on the leader of the Connect group.",
           lambda one: None if one.generation is None else int(one.is_leader), "not of `run`"),
    _gauge("sparkmirror_certificate_expiry_timestamp_seconds", scopes.CERTIFICATE,
           "When a certificate that this process presents expires, in seconds since 1970.",
           _identity, "of keystores, by alias of the cluster, or `listeners` for the REST API"),
    _counter("sparkmirror_config_reloads_total", scopes.RELOAD,
             "Configuration reloads while running, by result.", _identity),
    _gauge("sparkmirror_config_in_use_since_seconds", scopes.PROCESS,
           "When the configuration in use was loaded, in seconds since 1970.",
           lambda process: process.reloads.in_use_since),
    _gauge("sparkmirror_config_last_reload_successful", scopes.PROCESS,
           "0 while the current file is rejected and the previous configuration stays in use.",
           lambda process: int(process.reloads.last is not ReloadResult.REFUSED)),
)  # fmt: skip
JAVA_METRICS = (*_MIRROR_SOURCE, *_MIRROR_CHECKPOINT, *_CLIENTS, *_CONNECT, *_SPARK_JVM)
OWN_METRICS = (*_FLOWS, *_PARTITIONS, *_PROCESS)
METRICS = (*JAVA_METRICS, *OWN_METRICS)
