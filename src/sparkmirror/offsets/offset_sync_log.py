# SPDX-License-Identifier: Apache-2.0
"""Reads MM2's offset syncs, for records that are not in the offset map.

Java MirrorMaker 2 copied them before the map was started. Not thread-safe.
"""

from __future__ import annotations

from sparkmirror.errors import WireError
from sparkmirror.formats.mm2_records import OffsetSync
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.topic_log import TopicLog
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.offset_map import Fit, Translation
from sparkmirror.offsets.offset_sync_store import OffsetSyncStore


class OffsetSyncLog:
    """The offset-syncs topic, on either cluster."""

    def __init__(self, client: ClusterClient, topic: str) -> None:
        self._log = TopicLog(client.connection, topic, "read_uncommitted", client)
        self._since: dict[TopicPartition, int] = {}
        # A checkpoint that would move backwards is never written, so older syncs are usable.
        self._store = OffsetSyncStore(must_read_to_end=False)
        self.unreadable = 0

    def refresh(self) -> None:
        """Read what was written since the last call."""
        with self._log as log:
            if log.was_replaced(self._since):
                self._since.clear()
                self._store = OffsetSyncStore(must_read_to_end=False)
            for record in log.read_to_end(since=self._since):
                if record.key is None or record.value is None:
                    continue
                try:
                    self._store.add(OffsetSync.from_record(record.key, record.value))
                except WireError:
                    self.unreadable += 1
        self._store.start_translation()

    def to_target(self, tp: TopicPartition, offset: int, since: int = 0) -> Translation | None:
        """Translate to a position at or before the true one; None if nothing is known.

        Ignores syncs of source offsets before `since`.
        """
        sync = self._store.nearest(tp, offset)
        if sync is None or sync.upstream_offset < since:
            return None
        found = self._store.translate(tp, offset)
        return Translation(found, Fit.NEAR) if found is not None and found >= 0 else None


def more_conservative(
    by_map: Translation | None, by_syncs: Translation | None
) -> Translation | None:
    """Combine both translations of an offset before the map: never after the true position.

    Syncs may refer to a remote topic that was deleted; the start of the map does not.
    """
    if by_map is None or by_syncs is None:
        return by_syncs or by_map
    return Translation(min(by_map.offset, by_syncs.offset), Fit.NEAR)
