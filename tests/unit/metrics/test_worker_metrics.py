# SPDX-License-Identifier: Apache-2.0
"""A worker's metrics have the names that dashboards use."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from sparkmirror.metrics.worker_metrics import WorkerCollector, WorkerMetrics


def scraped(figures: WorkerMetrics) -> set[str]:
    """The lines of a scrape that are not comments."""
    registry = CollectorRegistry()
    registry.register(WorkerCollector(lambda: figures))
    lines = generate_latest(registry).decode().splitlines()
    return {line for line in lines if not line.startswith("#")}


def test_connectors_and_tasks_are_counted() -> None:
    """By state, and one by one."""
    found = scraped(
        WorkerMetrics({"a": ["running", "failed"], "b": []}, "http://x:8083/", 4, is_leader=True)
    )
    assert found >= {
        "kafka_connect_worker_connector_count 2.0",
        "kafka_connect_worker_task_count 2.0",
        'kafka_connect_worker_connector_total_task_count{connector="b"} 0.0',
        'kafka_connect_worker_connector_failed_task_count{connector="a"} 1.0',
        'kafka_connect_connector_status{connector="a",status="failed",task="1"} 1.0',
        "kafka_connect_worker_rebalance_epoch 4.0",
        "kafka_connect_worker_rebalance_is_leader 1.0",
        'kafka_connect_worker_rebalance_leader_name{leader_name="http://x:8083/"} 1.0',
    }


def test_a_worker_without_a_place_can_be_scraped() -> None:
    """Its counts are zero."""
    assert "kafka_connect_worker_connector_count 0.0" in scraped(WorkerMetrics())
