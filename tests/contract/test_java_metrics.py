# SPDX-License-Identifier: Apache-2.0
"""Metrics under Java's names, compared with a capture of Java's MirrorMaker 2.

tests/contract/golden/metrics.json says how it was captured.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.formats.mm2_records import Checkpoint
from sparkmirror.metrics.exposition import render
from sparkmirror.metrics.omitted import OMITTED
from sparkmirror.metrics.process_view import FlowView, ProcessView, WorkerMetrics
from sparkmirror.metrics.table import JAVA_METRICS, METRICS
from sparkmirror.model import TopicPartition
from sparkmirror.spark.flow_status import FlowState, FlowStatus
from sparkmirror.spark.jvm_figures import JvmFigures, JvmMemory
from sparkmirror.task.messages import PartitionProgress, Progress, TaskFigures
from support.mirrors.jmx_exporter import captured_names

GOLDEN = json.loads((Path(__file__).parent / "golden" / "metrics.json").read_text("utf-8"))
JAVA: dict[str, dict[str, Any]] = GOLDEN["metrics"]
OURS = tuple(name for metric in JAVA_METRICS for name in metric.sample_names)
# The exporter adds it where several attributes of Java get one name.
_AMBIGUOUS = "_objectname"


def the_captured_flow() -> ProcessView:
    """The flow of the capture, as our worker shows it."""
    status = FlowStatus("primary->backup")
    status.set_state(FlowState.RUNNING)
    partitions = [TopicPartition("orders.v1", number) for number in range(2)]
    status.begin_epoch(1, [(tp, 0, None) for tp in partitions], dict.fromkeys(partitions, 0))
    rows = tuple(
        PartitionProgress(tp.topic, tp.partition, 150, 149, 150, 150, 900, 0, "")
        for tp in partitions
    )
    figures = TaskFigures(source_received=1, target_sent=1, commits=1, commit_ms=3)
    status.on_progress(Progress(0, 1, rows, (), 0, 0.0, 0.0, (), figures=figures))
    checkpoints = [
        Checkpoint("billing", TopicPartition("primary.orders.v1", n), 50, 50) for n in range(2)
    ]
    status.add_checkpoints(checkpoints, 4.0)
    kinds = ("Checkpoint", "Heartbeat", "Source")
    return ProcessView(
        flows=[
            FlowView(
                status.snapshot(),
                "primary",
                "backup",
                "primary->backup.MirrorSourceConnector",
                status.figures(10),
                lambda topic: f"primary.{topic}",
                checkpoints=status.figures(0),
            )
        ],
        worker=WorkerMetrics(
            {f"primary->backup.Mirror{kind}Connector": ["running"] for kind in kinds},
            "127.0.0.1:8083",
            generation=3,
        ),
        jvm=JvmFigures(
            {"heap": JvmMemory(1, 2, 3), "nonheap": JvmMemory(1, 2, -1)}, {"Copy": (1, 0.5)}, 9, 1
        ),
    )


FOUND = captured_names(render(METRICS, the_captured_flow()).decode())


@pytest.mark.parametrize("name", OURS)
def test_a_name_of_javas_has_javas_type_and_labels(name: str) -> None:
    """And the scrape of a flow has it."""
    java, ours = JAVA[name], FOUND[name]
    assert ours["type"] == java["type"]
    assert ours["labels"].keys() == java["labels"].keys() - {_AMBIGUOUS}


@pytest.mark.parametrize(
    ("metric", "label"),
    sorted(
        {
            (metric, label)
            for metric in OURS
            for label in JAVA[metric]["labels"]
            if label not in {_AMBIGUOUS, "gc"}
        }
    ),
)
def test_label_values_are_those_of_java(metric: str, label: str) -> None:
    """With the same quotes, for the same connectors, topics and groups."""
    assert set(FOUND[metric]["labels"][label]) <= set(JAVA[metric]["labels"][label])


def test_each_metric_of_java_is_here_or_left_out_for_a_reason() -> None:
    """Docs/metrics.md lists the reasons; none is stale."""
    missing = JAVA.keys() - set(OURS)
    used = {
        next((one for one in OMITTED if re.fullmatch(one.pattern, name)), None) for name in missing
    }
    unexplained = [
        name for name in missing if not any(re.fullmatch(one.pattern, name) for one in OMITTED)
    ]
    assert unexplained == []
    assert used == set(OMITTED)
