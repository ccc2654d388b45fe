# SPDX-License-Identifier: Apache-2.0
"""A bounded run ends where the source ends; on real brokers: thorough/test_moved_logs.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Self

import pytest

from sparkmirror.connectors import source_connector as source
from sparkmirror.connectors.source_connector import MirrorSourceConnector
from sparkmirror.kafka.descriptions import LogEnd, PartialResults
from sparkmirror.model import TopicPartition
from sparkmirror.spark.slots import FlowCapacity

ORDERS = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    ("planned", "now", "expected"),
    [
        (FlowCapacity(2), FlowCapacity(2), False),
        (FlowCapacity(2), FlowCapacity(3), True),
        (FlowCapacity(8), FlowCapacity(5), False),  # there are only four partitions
        (FlowCapacity(2), FlowCapacity(0), True),
        (FlowCapacity(1), FlowCapacity(1, is_time_shared=True), True),  # a flow waits for the slot
        (FlowCapacity(1, is_time_shared=True), FlowCapacity(1), False),  # the turn is short
    ],
)
def test_an_epoch_ends_when_another_plan_would_be_better(
    planned: FlowCapacity, now: FlowCapacity, *, expected: bool
) -> None:
    assert source._is_outdated(planned, now, 4) == expected


@pytest.mark.parametrize(("end", "expected"), [(80, 80), (100, 100), (120, 100)])
def test_the_end_only_moves_back_when_partitions_remain_after_an_epoch(
    monkeypatch: pytest.MonkeyPatch, end: int, expected: int
) -> None:
    """The run was planned up to 100; records that came later are not part of it."""

    class Admin:
        def __init__(self, _connection: object) -> None: ...

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_error: object) -> None: ...

        def log_ends(
            self, _wanted: object, _isolation: str
        ) -> PartialResults[TopicPartition, LogEnd]:
            return PartialResults({ORDERS: LogEnd(end, 0)}, {})

    monkeypatch.setattr(source, "ClusterAdmin", Admin)
    asked: list[int] = []

    def starts(_mirrored: object, ends: dict[TopicPartition, LogEnd], _most: int) -> list[str]:
        asked.append(ends[ORDERS].offset)
        return ["a partition that remains"]

    connector: Any = object.__new__(MirrorSourceConnector)
    connector._settings = SimpleNamespace(
        source_admin=None, fetch=SimpleNamespace(isolation_level="read_committed")
    )
    connector._topics = SimpleNamespace(current=(SimpleNamespace(source=ORDERS),))
    connector._start_positions = SimpleNamespace(starts=starts)
    connector._loops = SimpleNamespace(prepare=lambda _mirrored, _ready: True)
    connector._ready_topics = ()
    connector._once = True
    connector._ends = {ORDERS: LogEnd(100, 0)}

    connector._epochs = SimpleNamespace(number=0)
    connector._partition_starts(1)
    assert asked == [100]
    connector._epochs = SimpleNamespace(number=1)
    connector._partition_starts(1)
    assert asked == [100, 100, expected]
