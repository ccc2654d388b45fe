# SPDX-License-Identifier: Apache-2.0
"""The flows' figures for Prometheus, made from their snapshots when somebody asks.

Nothing is counted here, so copying pays nothing for being watched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sparkmirror.config.settings import MetricsSettings
from sparkmirror.errors import SetupError
from sparkmirror.metrics.reloads import ReloadTally
from sparkmirror.pipeline.status import FlowSnapshot, FlowState

Snapshots = Callable[[], Sequence[FlowSnapshot]]
Figure = Callable[[FlowSnapshot], float | None]

_COUNTERS: dict[str, tuple[str, Figure]] = {
    "sparkmirror_records": ("Records copied.", lambda one: one.records),
    "sparkmirror_bytes": ("Bytes of record batches copied.", lambda one: one.bytes),
}
_GAUGES: dict[str, tuple[str, Figure]] = {
    "sparkmirror_lag_records": ("Records still to be copied.", lambda one: one.lag),
    "sparkmirror_epoch": (
        "Number of the Spark job that copies now, counted from the start of the process.",
        lambda one: one.epoch or None,
    ),
    "sparkmirror_partitions": ("Topic partitions in the flow.", lambda one: one.partitions),
    "sparkmirror_quarantined_partitions": (
        "Topic partitions that do not move and will not by themselves.",
        lambda one: one.quarantined,
    ),
    "sparkmirror_held_bytes": ("Record data in the memory of tasks.", lambda one: one.held_bytes),
    "sparkmirror_latency_p99_seconds": (
        "Age of records when the target acknowledged them, lately.",
        lambda one: None if one.latency_p99_ms is None else one.latency_p99_ms / 1000,
    ),
}


class FlowCollector(Collector):
    """Asks for snapshots at every scrape."""

    def __init__(self, snapshots: Snapshots, reloads: ReloadTally) -> None:
        self._snapshots = snapshots
        self._reloads = reloads

    def collect(self) -> Iterator[Metric]:
        """Every figure of every flow."""
        flows = self._snapshots()
        for name, (doc, figure) in _COUNTERS.items():
            yield _filled(CounterMetricFamily(name, doc, labels=["flow"]), flows, figure)
        for name, (doc, figure) in _GAUGES.items():
            yield _filled(GaugeMetricFamily(name, doc, labels=["flow"]), flows, figure)
        yield _states(flows)
        yield _incidents(flows)
        yield _groups(flows)
        yield _topology(flows)
        yield from self._reloads.families()


def _filled(
    family: CounterMetricFamily | GaugeMetricFamily, flows: Sequence[FlowSnapshot], figure: Figure
) -> Metric:
    for one in flows:
        value = figure(one)
        if value is not None:
            family.add_metric([one.flow], value)
    return family


def _states(flows: Sequence[FlowSnapshot]) -> Metric:
    family = GaugeMetricFamily(
        "sparkmirror_flow_state", "1 for the state that a flow is in.", labels=["flow", "state"]
    )
    for one in flows:
        for state in FlowState:
            family.add_metric([one.flow, state.value], float(one.state is state))
    return family


def _groups(flows: Sequence[FlowSnapshot]) -> Metric:
    family = GaugeMetricFamily(
        "sparkmirror_group_positions",
        "Offsets that consumer groups committed, by what has become of them; see `groups`.",
        labels=["flow", "state"],
    )
    for one in flows:
        for state, count in sorted(one.group_positions.items()):
            family.add_metric([one.flow, state], count)
    return family


def _topology(flows: Sequence[FlowSnapshot]) -> Metric:
    family = CounterMetricFamily(
        "sparkmirror_topology_changes",
        "Topics, configs and rights on the target: what was done about them, or refused.",
        labels=["flow", "what"],
    )
    for one in flows:
        for what, count in sorted(one.topology_changes.items()):
            family.add_metric([one.flow, what], count)
    return family


def _incidents(flows: Sequence[FlowSnapshot]) -> Metric:
    family = CounterMetricFamily(
        "sparkmirror_incidents",
        "Things that must not happen silently, by kind; see `sparkmirror ledger`.",
        labels=["flow", "topic", "partition", "kind"],
    )
    for one in flows:
        for (topic, partition, kind), count in sorted(one.incidents.items()):
            family.add_metric([one.flow, topic, str(partition), kind], count)
    return family


class MetricsServer:
    """An HTTP listener for scrapes, on threads of its own."""

    def __init__(
        self,
        settings: MetricsSettings,
        snapshots: Snapshots,
        reloads: ReloadTally,
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
                f"Metrics cannot be served at {settings.host}:{settings.port}: {error}.",
                remedy="Choose another metrics.port, or leave the line out.",
            ) from error

    def stop(self) -> None:
        """Close the listener."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
