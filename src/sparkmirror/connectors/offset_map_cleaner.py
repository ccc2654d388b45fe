# SPDX-License-Identifier: Apache-2.0
"""Keeps the offset map as deep as the source, and no deeper than its cap.

Chunks of which the source has nothing left are deleted, so are those that newer ones made invalid:
they would come back to life once the newer ones are gone. A partition with more chunks than the
cap loses its oldest ones, which the flow's status says.
"""

from __future__ import annotations

from collections.abc import Callable

from sparkmirror.formats.map_chunk import ChunkKey
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.map_builder import RUNS_PER_CHUNK
from sparkmirror.offsets.map_topic import MapTopic, removable_chunks

MOST_CHUNKS = 65_536  # of one topic partition: eight million gaps, some 30 MB of the topic
_A_REQUEST = 5_000


class OffsetMapCleaner:
    """Looks after the offset map of one flow, now and then."""

    def __init__(
        self,
        offsets: MapTopic,
        source: ClusterAdmin,
        say: Callable[[str, str], None],
        most_chunks: int = MOST_CHUNKS,
    ) -> None:
        self._map = offsets
        self._source = source
        self._note = say
        self._most = most_chunks
        self._invalid: list[ChunkKey] = []
        self._cut: set[TopicPartition] = set()  # those that lost the oldest part of their map

    def clean(self) -> int:
        """Delete what is not needed; how many chunks that were."""
        several = [tp for tp, known in self._map.maps.items() if len(known) > 1]
        log_starts = self._source.earliest_offsets(several).found if several else {}
        above = {tp for tp in several if len(self._map.maps[tp]) > self._most}
        found = removable_chunks({tp: self._map.maps[tp] for tp in several}, log_starts, self._most)
        keys = [*self._confirmed_invalid(), *found]
        for at in range(0, len(keys), _A_REQUEST):
            self._map.delete(keys[at : at + _A_REQUEST])
        self._cut |= above
        for tp in [*self._cut]:
            self._report(tp, log_starts.get(tp))
        return len(keys)

    def _confirmed_invalid(self) -> list[ChunkKey]:
        """Those that were invalid the last time, and are still: a task may write one anew."""
        before, self._invalid = self._invalid, self._map.invalid
        self._map.invalid = []
        # A map that was made anew may not know a partition any more.
        alive = {tp: set(self._map.maps[tp].firsts) for tp, _ in before if tp in self._map.maps}
        return [key for key in before if key.first not in alive.get(key.topic_partition, ())]

    def _report(self, tp: TopicPartition, log_start: int | None) -> None:
        firsts = self._map.maps[tp].firsts if tp in self._map.maps else []
        first = firsts[0] if firsts else 0
        if log_start is None or log_start >= first:
            self._cut.discard(tp)
            self._note(f"map {tp}", "")
            return
        self._note(
            f"map {tp}",
            f"the offset map of {tp} is full ({self._most * RUNS_PER_CHUNK:,} gaps): groups that "
            f"stand before offset {first} on the source cannot be translated exactly",
        )
