# SPDX-License-Identifier: Apache-2.0
"""Model of one topic that flows in all directions mirror under one name, and their offset maps.

Each flow copies the records that are local to its source, in order, and skips the others. Offset
maps know what was flushed. A log holds (origin, number), or None for a transaction marker.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sparkmirror.formats.map_chunk import MapChunk
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.map_builder import MapBuilder
from sparkmirror.offsets.map_topic import MapTopic
from sparkmirror.offsets.offset_map import OffsetMap
from sparkmirror.offsets.two_way_translation import OtherOrigin, TwoWayTranslation

TP = TopicPartition("t", 0)
LogEntry = tuple[str, int] | None


class MapInMemory(MapTopic):
    """A map topic without a cluster."""

    def __init__(self) -> None:
        self.maps = {}
        self._copied_before = {}
        self._chunks: dict[int, MapChunk] = {}

    def add(self, chunk: MapChunk) -> None:
        place = len(self._chunks)
        self._chunks[place] = chunk
        record = chunk.runs[0].source if chunk.runs else None
        known = self.maps.setdefault(TP, OffsetMap())
        known.add_chunk(chunk.first, chunk.target_first, place, record)

    @property
    def chunks(self) -> list[MapChunk]:
        """All chunks in the order of the log."""
        return [*self._chunks.values()]

    def _load(self, tp: TopicPartition, first: int, log_offset: int) -> MapChunk:  # noqa: ARG002
        return self._chunks[log_offset]


@dataclass
class ModelFlow:
    """One flow: its position, and what its offset map says."""

    source: str
    target: str
    position: int = 0
    downstream: int = 0  # the next target offset after its last record
    builder: MapBuilder | None = None
    map: MapInMemory = field(default_factory=MapInMemory)


class MirroredClusters:
    """The logs of all clusters, and a flow for each pair of them."""

    def __init__(self, names: str = "ab") -> None:
        self.logs: dict[str, list[LogEntry]] = {name: [] for name in names}
        self.flows = {(s, t): ModelFlow(s, t) for s in names for t in names if s != t}
        self._count = 0
        self._translations: dict[tuple[str, str], TwoWayTranslation] = {}

    def produce(self, cluster: str, records: int) -> None:
        for _ in range(records):
            self.logs[cluster].append((cluster, self._count))
            self._count += 1

    def mark(self, cluster: str) -> None:
        """A transaction of a local producer ends."""
        self.logs[cluster].append(None)

    def copy(self, source: str, target: str, offsets: int) -> None:
        """Read some offsets of the source."""
        flow, into = self.flows[source, target], self.logs[target]
        if flow.builder is None:
            flow.downstream = len(into)
            flow.builder = MapBuilder(flow.position, flow.downstream)
        for _ in range(offsets):
            if flow.position == len(self.logs[source]):
                break
            entry = self.logs[source][flow.position]
            if entry is not None and entry[0] == source:
                flow.builder.add(flow.position, len(into), 1)
                into.append(entry)
                flow.downstream = len(into)
            flow.position += 1

    def flush(self, source: str, target: str) -> None:
        flow = self.flows[source, target]
        for chunk in (
            flow.builder.drain(flow.position, flow.downstream) if flow.builder is not None else ()
        ):
            flow.map.add(chunk)

    def settle(self) -> None:
        """Copy and flush everything."""
        for source, target in self.flows:
            self.copy(source, target, len(self.logs[source]))
            self.flush(source, target)
        for pair, flow in self.flows.items():
            self.copy(*pair, len(self.logs[flow.source]))  # what the others have appended
            self.flush(*pair)

    def translation(self, source: str, target: str) -> TwoWayTranslation:
        """The translation from one cluster to another; it lives as long as the model."""
        if (source, target) not in self._translations:
            others = [
                OtherOrigin(self.flows[other, source].map, self.flows[other, target].map)
                for other in self.logs
                if other not in (source, target)
            ]
            self._translations[source, target] = TwoWayTranslation(
                self.flows[source, target].map, self.flows[target, source].map, others
            )
        return self._translations[source, target]

    def first_unread(self, source: str, target: str, position: int) -> int:
        """The true first offset on the target whose record is not before a source position."""
        read = {*self.logs[source][:position], None}
        for offset, entry in enumerate(self.logs[target]):
            if entry not in read:
                return offset
        return len(self.logs[target])

    def take(self, step: tuple[Any, ...]) -> None:
        """One step by name."""
        getattr(self, step[0])(*step[1:])
