# SPDX-License-Identifier: Apache-2.0
"""Our worker writes down what Java's does for the same requests: keys, values and their order.

Java's records are those of tests/contract/golden/connect.json; nothing of Java runs here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from support.data.connector_lifecycles import run_lifecycles, topic_records
from support.mirrors.java_connect import ConnectTopics
from support.mirrors.worker_process import WorkerProcess
from support.unique_names import unique_name

GOLDEN = json.loads(
    (Path(__file__).parent.parent / "contract" / "golden" / "connect.json").read_text("utf-8")
)
# A connector with a port that is no number is created by Java and fails; ours refuses it at once.
REFUSED = ("created broken", "broken one deleted")
STEPS = [step["step"] for step in GOLDEN["steps"] if step["step"] not in REFUSED]
# Of these Java writes one more or less, depending on which thread is faster.
IN_BETWEEN = frozenset({"UNASSIGNED", "RESTARTING"})


class Written(NamedTuple):
    """What was added in one step: config records in their order, statuses by key."""

    configs: list[tuple[str, Any]]
    statuses: dict[str, list[Any]]


def plain(key: str, value: str | None) -> Any:
    """A value without what differs from run to run, and without the order of its fields."""
    if value is None:
        return None
    found = json.loads(value)
    if key == "session-key":
        return sorted(found)
    if "properties" in found:
        found["properties"]["target.cluster.bootstrap.servers"] = "<servers>"
    if "worker_id" in found:
        found |= {"worker_id": "<worker>", "generation": found["generation"] > 0}
        found["trace"] = bool(found["trace"])
    if "topic" in found:
        found["topic"]["discoverTimestamp"] = "<time>"
    return found


def by_step(steps: list[dict[str, Any]], records: list[dict[str, Any]]) -> dict[str, Written]:
    """What was written in each step."""
    before: dict[str, list[int]] = {"config": [0], "status": [0] * 5}
    found = {}
    for step in steps:
        added: dict[str, list[tuple[str, Any]]] = {"config": [], "status": []}
        for kind, counts in step["records"].items():
            for partition, (first, end) in enumerate(zip(before[kind], counts, strict=True)):
                there = [r for r in records if (r["kind"], r["partition"]) == (kind, partition)]
                new = [(r["key"], plain(r["key"], r["value"])) for r in there[first:end]]
                added[kind] += new
        statuses: dict[str, list[Any]] = {}
        for key, value in added["status"]:
            statuses.setdefault(key, []).append(value)
        found[step["step"]] = Written(added["config"], statuses)
        before = step["records"]
    return found


def lasting(values: list[Any]) -> list[Any]:
    """Statuses without those in between, and each once."""
    kept: list[Any] = []
    for value in values:
        is_between = value is not None and value.get("state") in IN_BETWEEN
        if not is_between and kept[-1:] != [value]:
            kept.append(value)
    return kept


JAVA = by_step(GOLDEN["steps"], GOLDEN["records"])


@pytest.fixture(scope="module")
def ours(
    tmp_path_factory: pytest.TempPathFactory, target_cluster: LocalCluster
) -> Iterator[dict[str, Written]]:
    """What our worker has written."""
    topics = ConnectTopics(unique_name("lives"))
    scratch = tmp_path_factory.mktemp("lives")
    with WorkerProcess(
        target_cluster, scratch, topics, exactly_once_source_support="enabled"
    ) as worker:
        worker.await_health()
        steps = run_lifecycles(worker, target_cluster, topics, REFUSED)
        yield by_step(steps, topic_records(target_cluster, topics))


@pytest.mark.parametrize("step", STEPS)
def test_the_config_topic_gets_the_same_records(step: str, ours: dict[str, Written]) -> None:
    """In the same order, value for value."""
    assert ours[step].configs == JAVA[step].configs


@pytest.mark.parametrize("step", STEPS)
def test_the_status_topic_gets_the_same_states(step: str, ours: dict[str, Written]) -> None:
    """For every connector, task and topic, in the same order."""
    mine, javas = (
        {key: lasting(values) for key, values in one.statuses.items() if lasting(values)}
        for one in (ours[step], JAVA[step])
    )
    assert mine == javas
