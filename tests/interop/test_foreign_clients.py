# SPDX-License-Identifier: Apache-2.0
"""Clients of Connect's REST API that are not ours, with a worker whose connectors really copy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sparkmirror.local.cluster import LocalCluster
from support.foreign_client import drive
from support.kafka_ui import click_through
from support.witness import numbered, produce
from support.worker_process import WorkerProcess
from support.worker_relay import PARTITIONS, SOURCE, WorkerRelay

STATE_SECONDS = 30.0


@pytest.fixture(scope="module")
def relay(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> WorkerRelay:
    """A topic with records."""
    scratch = tmp_path_factory.mktemp("foreign")
    found = WorkerRelay.made(source_cluster, target_cluster, scratch)
    produce(source_cluster, found.topic, numbered(10 * PARTITIONS, PARTITIONS))
    return found


@pytest.fixture(scope="module")
def worker(relay: WorkerRelay) -> Iterator[WorkerProcess]:
    """One for both clients."""
    with relay.ours() as started:
        started.await_health()
        yield started


def test_a_foreign_client_takes_a_running_connector_through_its_life(
    relay: WorkerRelay, worker: WorkerProcess
) -> None:
    """kafka-connect-py: create, list, read, change, restart, pause, stop, delete."""
    config = relay.configs()[SOURCE]
    changes = {"refresh.topics.interval.seconds": 2, "tasks.max": 3}
    drive(f"http://{worker.worker_id}", "driven", config, changes, STATE_SECONDS)


@pytest.mark.parametrize("name", ["clicked", "a name / with ümlauts"])
def test_kafka_ui_can_read_every_answer_about_a_running_connector(
    relay: WorkerRelay, worker: WorkerProcess, name: str
) -> None:
    """Every request of its description of the API."""
    click_through(f"http://{worker.worker_id}", name, relay.configs()[SOURCE], STATE_SECONDS)
