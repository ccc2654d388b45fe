# SPDX-License-Identifier: Apache-2.0
"""How much CPU a scrape takes: it holds the flow's lock for a part of that."""

from __future__ import annotations

import time

import pytest

from sparkmirror.metrics.exposition import render
from sparkmirror.metrics.process_view import FlowView, ProcessView
from sparkmirror.metrics.table import METRICS
from sparkmirror.model import TopicPartition
from sparkmirror.spark.flow_status import FlowState, FlowStatus
from sparkmirror.task.messages import PartitionProgress, PartitionTimes, Progress
from support.measurements import measured

SHOWN = 2_000
SECONDS = 0.1
_TRIES = 9


def busy_flow(partitions: int) -> FlowStatus:
    """A flow whose partitions all copy and are all behind."""
    flow = FlowStatus("a->b")
    flow.set_state(FlowState.RUNNING)
    places = [TopicPartition(f"topic-{n // 10:05}", n % 10) for n in range(partitions)]
    flow.begin_epoch(1, [(tp, 0, None) for tp in places], dict.fromkeys(places, 0))
    rows = tuple(
        PartitionProgress(tp.topic, tp.partition, 100, 100, 150, 100, 5_000, 0, "") for tp in places
    )
    times = tuple(
        PartitionTimes(n, 100, 500, 1, 9, 5, 1_500, 10, 20, 15) for n in range(partitions)
    )
    flow.on_progress(Progress(0, 1, rows, (), 64, 0.0, 1.5, (), times=times))
    return flow


@pytest.mark.thorough
@pytest.mark.parametrize("partitions", [SHOWN, 10 * SHOWN])
def test_a_scrape_takes_less_than_100_ms(partitions: int) -> None:
    """With 2,000 partitions one by one; the others are summed."""
    flow = busy_flow(partitions)
    taken = []
    for _ in range(_TRIES):
        began = time.thread_time()
        view = FlowView(
            flow.snapshot(),
            "a",
            "b",
            "a->b.MirrorSourceConnector",
            flow.figures(SHOWN),
            lambda topic: f"a.{topic}",
        )
        text = render(METRICS, ProcessView(flows=[view]))
        taken.append(time.thread_time() - began)
    best = min(taken)
    measured(f"a scrape of {partitions} partitions takes {best * 1000:.0f} ms, {len(text)} bytes")
    assert best < SECONDS
