# SPDX-License-Identifier: Apache-2.0
"""Deletes chunks of the offset map that the source has outlived, or above a maximum.

Chunks whose offsets the source no longer has are deleted, and so are chunks that newer ones
replaced: they would become valid again once the newer ones are deleted. A partition with more
chunks than the maximum loses its oldest ones; the flow's status says so.
"""

from __future__ import annotations

from collections.abc import Callable

from sparkmirror.formats.map_chunk import ChunkKey
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.map_builder import RUNS_PER_CHUNK
from sparkmirror.offsets.map_topic import MapTopic, removable_chunks

MAX_CHUNKS = 65_536  # of one topic partition: eight million gaps, about 30 MB of the topic
_CHUNKS_PER_REQUEST = 5_000


class OffsetMapCleaner:
    """Cleans the offset map of one flow."""

    def __init__(
        self,
        offsets: MapTopic,
        source: ClusterAdmin,
        set_problem: Callable[[str, str], None],
        max_chunks: int = MAX_CHUNKS,
    ) -> None:
        self._map = offsets
        self._source = source
        self._set_problem = set_problem
        self._max_chunks = max_chunks
        self._invalid: list[ChunkKey] = []
        self._truncated: set[TopicPartition] = set()  # those that lost the oldest part of their map

    def clean(self) -> int:
        """Delete chunks that are not needed. Returns their number."""
        several = [tp for tp, known in self._map.maps.items() if len(known) > 1]
        log_starts = self._source.earliest_offsets(several).found if several else {}
        above = {tp for tp in several if len(self._map.maps[tp]) > self._max_chunks}
        maps = {tp: self._map.maps[tp] for tp in several}
        found = removable_chunks(maps, log_starts, self._max_chunks)
        keys = [*self._confirmed_invalid(), *found]
        for at in range(0, len(keys), _CHUNKS_PER_REQUEST):
            self._map.delete(keys[at : at + _CHUNKS_PER_REQUEST])
        self._map.forget_finished_copies()
        self._truncated |= above
        for tp in [*self._truncated]:
            self._report(tp, log_starts.get(tp))
        return len(keys)

    def _confirmed_invalid(self) -> list[ChunkKey]:
        """Return chunks that were invalid last time and still are; tasks may rewrite some."""
        before, self._invalid = self._invalid, self._map.invalid
        self._map.invalid = []
        # A recreated map topic may not have a partition any more.
        alive = {tp: set(self._map.maps[tp].firsts) for tp, _ in before if tp in self._map.maps}
        return [key for key in before if key.first not in alive.get(key.topic_partition, ())]

    def _report(self, tp: TopicPartition, log_start: int | None) -> None:
        firsts = self._map.maps[tp].firsts if tp in self._map.maps else []
        first = firsts[0] if firsts else 0
        if log_start is None or log_start >= first:
            self._truncated.discard(tp)
            self._set_problem(f"map {tp}", "")
            return
        self._set_problem(
            f"map {tp}",
            f"the offset map of {tp} is full ({self._max_chunks * RUNS_PER_CHUNK:,} gaps): group "
            f"positions before source offset {first} cannot be translated exactly",
        )
