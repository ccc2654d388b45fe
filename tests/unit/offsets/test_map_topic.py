# SPDX-License-Identifier: Apache-2.0
"""While a reset copies records again, positions beyond the new copies are not translated."""

from __future__ import annotations

import pytest

from sparkmirror.formats.map_chunk import COPIED_BEFORE, ChunkKey, CopiedBefore, MapChunk, MappedRun
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.log_records import LogRecord
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.map_topic import MapTopic
from sparkmirror.offsets.offset_map import Fit, Translation
from sparkmirror.wire.settings import ConnectionSettings

TP = TopicPartition("orders", 0)
FIRST = MapChunk(0, 0, 200, 200, (MappedRun(0, 0, 200),))


@pytest.fixture
def offsets() -> MapTopic:
    """A map with 200 copied records, which are copied again from offset 50 on."""
    connection = ConnectionSettings("b", ("127.0.0.1:1",), "map-test")
    made = MapTopic(ClusterClient(connection), "mm2-offset-map.a.internal")
    add(made, FIRST)
    again = CopiedBefore(200, 200)
    assert CopiedBefore.from_value(again.value()) == again
    made._apply(LogRecord(0, 1, 0, ChunkKey(TP, COPIED_BEFORE).pack(), again.value()))
    return made


def add(offsets: MapTopic, chunk: MapChunk) -> None:
    offsets._apply(LogRecord(0, 2, 0, ChunkKey(TP, chunk.first).pack(), chunk.value()))


def test_the_first_copies_count_until_the_first_new_one(offsets: MapTopic) -> None:
    assert offsets.to_target(TP, 150) == Translation(150, Fit.EXACT)


def test_an_offset_beyond_the_new_copies_has_no_position(offsets: MapTopic) -> None:
    add(offsets, MapChunk(50, 200, 100, 250, (MappedRun(50, 200, 50),)))
    assert offsets.to_target(TP, 49) == Translation(49, Fit.EXACT)
    assert offsets.to_target(TP, 99) == Translation(249, Fit.EXACT)
    for offset in (100, 150, 200):
        found = offsets.to_target(TP, offset)
        assert found is not None
        assert found.fit is Fit.AGAIN


def test_all_translate_once_they_are_copied(offsets: MapTopic) -> None:
    add(offsets, MapChunk(50, 200, 210, 360, (MappedRun(50, 200, 160),)))
    assert offsets.to_target(TP, 150) == Translation(300, Fit.EXACT)
    assert offsets.to_target(TP, 210) == Translation(360, Fit.EXACT)
