# SPDX-License-Identifier: Apache-2.0
"""What a Java worker really wrote to its topics: we read what it says of it, and write the same.

`tools/capture_connect.py` has written the file, and says how.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.formats.connect_config_records import (
    ConnectorConfig,
    ConnectorTargetState,
    LoggerLevel,
    RestartRequest,
    SessionKey,
    TargetState,
    TaskConfig,
    TasksCommit,
    TasksFencing,
    read_config_record,
)
from sparkmirror.formats.connect_fields import UnreadableRecord
from sparkmirror.formats.connect_status_records import (
    ConnectorStatus,
    RunState,
    Status,
    TaskStatus,
    TopicStatus,
    read_status_record,
)
from sparkmirror.formats.primitives import partition_for_key
from sparkmirror.kafka.log_records import LogRecord
from sparkmirror.state.connect_configs import ClusterConfigState
from sparkmirror.state.connect_statuses import ClusterStatusState

GOLDEN = json.loads((Path(__file__).parent / "golden" / "connect.json").read_text(encoding="utf-8"))
READERS = {"config": read_config_record, "status": read_status_record}
STATUS_PARTITIONS = 5


def raw(golden: dict[str, Any]) -> tuple[bytes, bytes | None]:
    value = golden["value"]
    return golden["key"].encode(), None if value is None else value.encode()


def log(kind: str, counts: list[int]) -> list[LogRecord]:
    """The first records of each partition, in the order of their times."""
    found = []
    for partition, count in enumerate(counts):
        there = [
            LogRecord(partition, one["offset"], one["time"], *raw(one))
            for one in GOLDEN["records"]
            if (one["kind"], one["partition"]) == (kind, partition)
        ]
        found += there[:count]
    return sorted(found, key=lambda record: record.timestamp_ms)


def told_status(answer: dict[str, Any]) -> tuple[str, str, str | None, str | None]:
    """A status as the worker's API tells it."""
    return answer["state"], answer["worker_id"], answer.get("trace"), answer.get("version")


def known_status(status: Status) -> tuple[str, str, str | None, str | None]:
    """The same of ours."""
    return status.state, status.worker_id, status.trace, status.version


@pytest.mark.parametrize(
    "golden", GOLDEN["records"], ids=lambda one: f"{one['key']} at {one['offset']}"
)
def test_records_are_understood_and_written_with_the_same_bytes(golden: dict[str, Any]) -> None:
    """Every one of them, in the partition where it was."""
    key, value = raw(golden)
    record = READERS[golden["kind"]](key, value)
    assert not isinstance(record, UnreadableRecord)
    assert (record.key(), record.value()) == (key, value)
    partitions = 1 if golden["kind"] == "config" else STATUS_PARTITIONS
    assert partition_for_key(key, partitions) == golden["partition"]


@pytest.mark.parametrize("step", GOLDEN["steps"], ids=lambda step: step["step"])
def test_after_every_step_we_know_what_the_worker_knows(step: dict[str, Any]) -> None:
    """Connectors, tasks, statuses and topics, as its API has told them."""
    configs, statuses = ClusterConfigState(), ClusterStatusState()
    for record in log("config", step["records"]["config"]):
        configs.apply(record)
    for record in log("status", step["records"]["status"]):
        statuses.apply(record)
    told = step["told"]
    assert configs.connectors == sorted(told)
    for name, answer in told.items():
        assert configs.configs[name] == answer["info"]["config"]
        assert configs.tasks(name) == [task["config"] for task in answer["tasks"]]
        status = answer["status"]
        assert known_status(statuses.connectors[name]) == told_status(status["connector"])
        assert {task: known_status(one) for task, one in statuses.tasks(name).items()} == {
            task["id"]: told_status(task) for task in status["tasks"]
        }
        assert list(statuses.topics(name)) == sorted(answer["topics"])
    assert (configs.skipped_records, statuses.skipped_records) == (0, 0)


def test_every_kind_of_record_was_captured() -> None:
    """Without one the golden file would prove less."""
    found = [READERS[one["kind"]](*raw(one)) for one in GOLDEN["records"]]
    assert {type(one) for one in found} == {
        ConnectorConfig, ConnectorTargetState, LoggerLevel, RestartRequest, SessionKey, TaskConfig,
        TasksFencing, TasksCommit, ConnectorStatus, TaskStatus, TopicStatus,
    }  # fmt: skip
    deleted = {type(one) for one in found if one.value() is None}  # type: ignore[union-attr]
    assert deleted == {
        ConnectorConfig,
        ConnectorTargetState,
        ConnectorStatus,
        TaskStatus,
        TopicStatus,
    }
    assert {one.state for one in found if isinstance(one, ConnectorTargetState)} == {
        None,
        *TargetState,
    }
    states = {
        one.status.state
        for one in found
        if isinstance(one, ConnectorStatus | TaskStatus) and one.status is not None
    }
    assert states == set(RunState)
    assert any(step["told"] == {} for step in GOLDEN["steps"])
    assert GOLDEN["kafka"] == "4.3.1"
