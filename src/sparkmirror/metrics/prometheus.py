# SPDX-License-Identifier: Apache-2.0
"""Metrics of flows and configuration reloads for Prometheus.

Metrics are computed from snapshots at each scrape; copying pays nothing for them. The reloading
thread writes ReloadMetrics, scrapes read it.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from enum import Enum

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sparkmirror.config.settings import MetricsSettings
from sparkmirror.errors import SetupError
from sparkmirror.spark.flow_status import FlowSnapshot, FlowState
from sparkmirror.spark.latency_window import LatencyPercentiles

Snapshots = Callable[[], Sequence[FlowSnapshot]]
MetricValue = Callable[[FlowSnapshot], float | None]

_COUNTERS: dict[str, tuple[str, MetricValue]] = {
    "sparkmirror_records": ("Records copied.", lambda one: one.records),
    "sparkmirror_bytes": ("Bytes of record batches copied.", lambda one: one.bytes),
}
_GAUGES: dict[str, tuple[str, MetricValue]] = {
    "sparkmirror_lag_records": (
        "Records still to be copied, of the partitions whose lag is known; NaN if it is unknown.",
        lambda one: _number(one.known_lag if one.lag is None else one.lag) if one.copies else None,
    ),
    "sparkmirror_lag_known": (
        "1 if the lag of every topic partition in the flow is known.",
        lambda one: float(one.lag is not None) if one.copies else None,
    ),
    "sparkmirror_lag_unknown_partitions": (
        "Topic partitions in the flow whose lag is unknown.",
        lambda one: one.unknown_lags if one.copies else None,
    ),
    "sparkmirror_epoch": (
        "Number of the Spark job that copies now, counted from the start of the process.",
        lambda one: one.epoch or None,
    ),
    "sparkmirror_partitions": ("Topic partitions in the flow.", lambda one: one.partitions),
    "sparkmirror_quarantined_partitions": (
        "Topic partitions that do not make progress and need manual action.",
        lambda one: one.quarantined,
    ),
    "sparkmirror_problems": (
        "Problems that the status of the flow shows.",
        lambda one: len(one.problems) + bool(one.reason and not one.can_work),
    ),
    "sparkmirror_held_bytes": ("Record data in the memory of tasks.", lambda one: one.held_bytes),
}
_LATENCIES: dict[str, tuple[str, Callable[[FlowSnapshot], LatencyPercentiles | None]]] = {
    "sparkmirror_replication_latency_seconds": (
        "From a record's timestamp to the target's acknowledgement, over the last 10 s.",
        lambda one: one.replication_latency,
    ),
    "sparkmirror_copy_latency_seconds": (
        "From the fetch to the target's acknowledgement, over the last 10 s.",
        lambda one: one.copy_latency,
    ),
}


class FlowCollector(Collector):
    """Collects the metrics of all flows at every scrape."""

    def __init__(self, snapshots: Snapshots, reloads: ReloadMetrics) -> None:
        self._snapshots = snapshots
        self._reloads = reloads

    def collect(self) -> Iterator[Metric]:
        flows = self._snapshots()
        for name, (doc, value) in _COUNTERS.items():
            yield _with_samples(CounterMetricFamily(name, doc, labels=["flow"]), flows, value)
        for name, (doc, value) in _GAUGES.items():
            yield _with_samples(GaugeMetricFamily(name, doc, labels=["flow"]), flows, value)
        for name, (doc, latency) in _LATENCIES.items():
            yield _percentiles(
                GaugeMetricFamily(name, doc, labels=["flow", "quantile"]), flows, latency
            )
        yield _states(flows)
        yield _clusters(flows)
        yield _incidents(flows)
        yield _skipped(flows)
        yield _groups(flows)
        yield _topology(flows)
        yield from self._reloads.collect()


def _number(value: int | None) -> float:
    return math.nan if value is None else value


def _with_samples(
    family: CounterMetricFamily | GaugeMetricFamily,
    flows: Sequence[FlowSnapshot],
    value_of: MetricValue,
) -> Metric:
    for one in flows:
        value = value_of(one)
        if value is not None:
            family.add_metric([one.flow], value)
    return family


def _percentiles(
    family: GaugeMetricFamily,
    flows: Sequence[FlowSnapshot],
    latency_of: Callable[[FlowSnapshot], LatencyPercentiles | None],
) -> Metric:
    for one in flows:
        found = latency_of(one)
        if found is not None:
            family.add_metric([one.flow, "0.5"], found.p50_ms / 1000)
            family.add_metric([one.flow, "0.99"], found.p99_ms / 1000)
    return family


def _states(flows: Sequence[FlowSnapshot]) -> Metric:
    family = GaugeMetricFamily(
        "sparkmirror_flow_state", "1 for the state that a flow is in.", labels=["flow", "state"]
    )
    for one in flows:
        for state in FlowState:
            family.add_metric([one.flow, state.value], float(one.state is state))
    return family


def _clusters(flows: Sequence[FlowSnapshot]) -> Metric:
    family = GaugeMetricFamily(
        "sparkmirror_cluster_reachable",
        "0 while the source or the target of a flow does not answer.",
        labels=["flow", "cluster"],
    )
    for one in flows:
        for cluster, reason in one.unreachable.items():
            family.add_metric([one.flow, cluster], float(not reason))
    return family


def _groups(flows: Sequence[FlowSnapshot]) -> Metric:
    family = GaugeMetricFamily(
        "sparkmirror_group_positions",
        "Committed offsets of consumer groups, by state; see `sparkmirror groups`.",
        labels=["flow", "state"],
    )
    for one in flows:
        for state, count in sorted(one.group_positions.items()):
            family.add_metric([one.flow, state], count)
    return family


def _topology(flows: Sequence[FlowSnapshot]) -> Metric:
    family = CounterMetricFamily(
        "sparkmirror_topology_changes",
        "Changes to topics, configs and ACLs on the target, applied or rejected.",
        labels=["flow", "what"],
    )
    for one in flows:
        for what, count in sorted(one.topology_changes.items()):
            family.add_metric([one.flow, what], count)
    return family


def _incidents(flows: Sequence[FlowSnapshot]) -> Metric:
    family = CounterMetricFamily(
        "sparkmirror_incidents",
        "Incidents by kind; see `sparkmirror ledger`.",
        labels=["flow", "topic", "partition", "kind"],
    )
    for one in flows:
        for (topic, partition, kind), count in sorted(one.incidents.items()):
            family.add_metric([one.flow, topic, str(partition), kind], count)
    return family


def _skipped(flows: Sequence[FlowSnapshot]) -> Metric:
    family = CounterMetricFamily(
        "sparkmirror_loop_skipped_records",
        "Records that were not copied because another flow had copied them to the source.",
        labels=["flow", "topic", "partition"],
    )
    for one in flows:
        for (topic, partition), count in sorted(one.skipped_records.items()):
            family.add_metric([one.flow, topic, str(partition)], count)
    return family


class MetricsServer:
    """An HTTP listener for scrapes, on its own threads."""

    def __init__(
        self,
        settings: MetricsSettings,
        snapshots: Snapshots,
        reloads: ReloadMetrics,
        *more: Collector,
    ) -> None:
        self.settings = settings
        registry = CollectorRegistry()
        for one in (FlowCollector(snapshots, reloads), *more):
            registry.register(one)
        try:
            self._server, self._thread = start_http_server(
                settings.port, settings.host, registry=registry
            )
        except OSError as error:
            raise SetupError(
                f"Cannot serve metrics at {settings.host}:{settings.port}: {error}.",
                remedy="Choose another metrics.port, or leave the line out.",
            ) from error

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class ReloadResult(Enum):
    """The result of a configuration reload."""

    APPLIED = "applied"
    REFUSED = "refused"
    UNCHANGED = "unchanged"


class ReloadMetrics:
    """Reload counters of one process."""

    def __init__(self) -> None:
        self.counts: Counter[ReloadResult] = Counter()
        self.in_use_since = time.time()
        self.last = ReloadResult.APPLIED  # the file at start

    def record(self, result: ReloadResult) -> None:
        self.counts[result] += 1
        self.last = result
        if result is ReloadResult.APPLIED:
            self.in_use_since = time.time()

    def collect(self) -> Iterator[Metric]:
        reloads = CounterMetricFamily(
            "sparkmirror_config_reloads",
            "Configuration reloads while running, by result.",
            labels=["result"],
        )
        for result in ReloadResult:
            reloads.add_metric([result.value], self.counts[result])
        yield reloads
        yield GaugeMetricFamily(
            "sparkmirror_config_in_use_since_seconds",
            "When the configuration in use was loaded, in seconds since 1970.",
            value=self.in_use_since,
        )
        yield GaugeMetricFamily(
            "sparkmirror_config_last_reload_successful",
            "0 while the current file is rejected and the previous configuration stays in use.",
            value=float(self.last is not ReloadResult.REFUSED),
        )
