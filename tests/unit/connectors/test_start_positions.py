# SPDX-License-Identifier: Apache-2.0
"""The producer id of a flow; start positions on real brokers: integration/test_stored_positions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.connectors.start_positions import StartPositions
from sparkmirror.formats.source_offsets import StoredPosition
from sparkmirror.model import NO_PRODUCER, Flow, ProducerState, TopicPartition


@pytest.fixture
def positions() -> Any:
    """Those of a flow; ids below 3 are registered for a flow from another cluster."""
    found: Any = object.__new__(StartPositions)
    found._flow = Flow("a", "b")
    found._loops = SimpleNamespace(is_taken=lambda producer_id: producer_id < 3)
    found._positions = {}
    found._producer = NO_PRODUCER
    return found


def test_an_id_of_another_flow_is_not_used_although_the_broker_issued_it(positions: Any) -> None:
    """The target was restored from an older copy."""
    ids = iter(range(1, 10))
    admin = SimpleNamespace(init_producer_id=lambda: ProducerState(next(ids), 0, 0))
    assert positions._new_producer(admin) == ProducerState(3, 0, 0)


@pytest.mark.parametrize(("stored", "continued"), [(2, -1), (4, 4)])
def test_a_stored_id_is_continued_unless_it_belongs_to_another_source(
    positions: Any, stored: int, continued: int
) -> None:
    """The source was rebuilt; its former records must stay recognizable."""
    position = StoredPosition(9, 9, ProducerState(stored, 0, 5))
    positions._register(TopicPartition("t", 0), position)
    assert positions._producer.producer_id == continued
