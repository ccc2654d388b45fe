# SPDX-License-Identifier: Apache-2.0
"""Clients of Connect's REST API that are not ours work with a worker of ours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.clients.kafka_connect_py import exercise_connector
from support.clients.kafka_ui import CONNECTOR, STATUS, click_through, schema_errors
from support.clients.served_rest import ServedRest
from support.peers.memory_worker import MemoryWorker

# As people write them: numbers and truth values are no texts.
CONFIG = {
    "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "source.cluster.alias": "primary",
    "target.cluster.alias": "backup",
    "source.cluster.bootstrap.servers": "primary:9092",
    "target.cluster.bootstrap.servers": "kafka:9092",
    "topics": "orders",
    "tasks.max": 1,
    "sync.topic.acls.enabled": False,
}


@pytest.fixture
def url() -> Iterator[str]:
    """Where a worker listens."""
    with ServedRest(MemoryWorker()) as client:
        yield client.url


def test_a_foreign_client_takes_a_connector_through_its_life(url: str) -> None:
    """kafka-connect-py: create, list, read, change, restart, pause, stop, delete."""
    exercise_connector(url, "mirror", CONFIG, {"topics": "orders,payments", "tasks.max": 2})


@pytest.mark.parametrize("name", ["mirror", "a name / with ümlauts"])
def test_kafka_uis_requests_get_answers_that_it_can_read(url: str, name: str) -> None:
    """Every request of its description of the API, each answer in the shape that it reads."""
    click_through(url, name, CONFIG)


@pytest.mark.parametrize(
    ("change", "misfit"),
    [
        ({"type": "mirror"}, "$.type is 'mirror'"),
        ({"tasks": [{"connector": "c", "task": "0"}]}, "$.tasks[0].task is '0', not of int"),
        ({"tasks": {}}, "$.tasks is no list"),
        ({"config": []}, "$.config is no object"),
        ({"name": 7}, "$.name is 7, not of str"),
    ],
)
def test_a_shape_that_kafka_ui_cannot_read_is_noticed(
    change: dict[str, object], misfit: str
) -> None:
    """Or the test above could not fail."""
    good = {"name": "c", "config": {"a": 1}, "tasks": [], "type": "source", "more": 1}
    assert schema_errors(good, CONNECTOR) == []
    assert schema_errors(good | change, CONNECTOR) == [misfit]
    assert schema_errors(
        {"connector": {"state": "RUNNING"}, "tasks": [{"state": "STOPPED"}]}, STATUS
    ) == ["$.tasks[0].state is 'STOPPED'"]
