# SPDX-License-Identifier: Apache-2.0
"""Clients of Connect's REST API that are not ours, with a worker whose connectors really copy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from support.clients.kafka_connect_py import exercise_connector
from support.clients.kafka_ui import click_through
from support.clients.librdkafka import numbered, produce
from support.mirrors.worker_hand_over import PARTITIONS, SOURCE, WorkerHandOver
from support.mirrors.worker_process import WorkerProcess

STATE_SECONDS = 30.0


@pytest.fixture(scope="module")
def relay(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> WorkerHandOver:
    """A topic with records."""
    scratch = tmp_path_factory.mktemp("foreign")
    found = WorkerHandOver.made(source_cluster, target_cluster, scratch)
    produce(source_cluster, found.topic, numbered(10 * PARTITIONS, PARTITIONS))
    return found


@pytest.fixture(scope="module")
def worker(relay: WorkerHandOver) -> Iterator[WorkerProcess]:
    """One for both clients."""
    with relay.ours() as started:
        started.await_health()
        yield started


def test_a_foreign_client_takes_a_running_connector_through_its_life(
    relay: WorkerHandOver, worker: WorkerProcess
) -> None:
    """kafka-connect-py: create, list, read, change, restart, pause, stop, delete."""
    config = relay.configs()[SOURCE]
    changes = {"refresh.topics.interval.seconds": 2, "tasks.max": 3}
    exercise_connector(f"http://{worker.worker_id}", "driven", config, changes, STATE_SECONDS)


@pytest.mark.parametrize("name", ["clicked", "a name / with ümlauts"])
def test_kafka_ui_can_read_every_answer_about_a_running_connector(
    relay: WorkerHandOver, worker: WorkerProcess, name: str
) -> None:
    """Every request of its description of the API."""
    click_through(f"http://{worker.worker_id}", name, relay.configs()[SOURCE], STATE_SECONDS)
