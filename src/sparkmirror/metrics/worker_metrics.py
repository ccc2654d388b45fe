# SPDX-License-Identifier: Apache-2.0
"""Metrics of a Connect worker for Prometheus, under the names that dashboards for Connect use.

Strimzi's rules for the JMX exporter give these names to Connect's own metrics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_TASK_STATES = ("running", "paused", "failed", "unassigned", "destroyed", "restarting")
_WORKER = "kafka_connect_worker"


@dataclass(frozen=True, slots=True)
class WorkerMetrics:
    """A worker at one moment: the tasks of its connectors, and its group membership."""

    tasks: Mapping[str, Sequence[str]] = field(default_factory=dict)  # lower-case states
    leader: str = ""
    generation: int = -1
    is_rebalancing: bool = False
    is_leader: bool = False


class WorkerCollector(Collector):
    """Collects the worker's metrics at every scrape."""

    def __init__(self, metrics: Callable[[], WorkerMetrics]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        now = self._metrics()
        yield _gauge("connector_count", "Connectors on this worker.", len(now.tasks))
        yield _gauge("task_count", "Tasks on this worker.", sum(map(len, now.tasks.values())))
        total = _by_connector("connector_total_task_count", "Tasks of a connector.")
        by_state = {
            state: _by_connector(f"connector_{state}_task_count", f"Tasks in state {state}.")
            for state in _TASK_STATES
        }
        status = GaugeMetricFamily(
            "kafka_connect_connector_status",
            "1 for the current state of a task.",
            labels=["connector", "task", "status"],
        )
        for name, tasks in now.tasks.items():
            total.add_metric([name], len(tasks))
            counts = Counter(tasks)
            for state, family in by_state.items():
                family.add_metric([name], counts[state])
            for number, state in enumerate(tasks):
                status.add_metric([name, str(number), state], 1)
        yield total
        yield from by_state.values()
        yield status
        yield _gauge("rebalance_epoch", "The group's generation.", now.generation)
        yield _gauge(
            "rebalance_rebalancing", "1 while the group is rebalancing.", int(now.is_rebalancing)
        )
        yield _gauge("rebalance_is_leader", "1 on the leader.", int(now.is_leader))
        leader = GaugeMetricFamily(
            f"{_WORKER}_rebalance_leader_name", "URL of the group leader.", labels=["leader_name"]
        )
        if now.leader:
            leader.add_metric([now.leader], 1)
        yield leader


def _gauge(name: str, documentation: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{_WORKER}_{name}", documentation, value=value)


def _by_connector(name: str, documentation: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{_WORKER}_{name}", documentation, labels=["connector"])
