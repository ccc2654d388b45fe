# SPDX-License-Identifier: Apache-2.0
"""The checkpoints topic, read from its beginning and appended to.

Belongs to one thread, and to whoever owns the client.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from sparkmirror.errors import WireError
from sparkmirror.formats.mm2_records import Checkpoint
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.topic_log import TopicLog
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.group_positions import GroupPartition

_A_RECORD_BATCH = 2_000  # some 200 KB: below what a topic takes by default
_log = logging.getLogger(__name__)


class CheckpointLog:
    """The last checkpoint of every group and topic partition, as the target keeps it."""

    def __init__(self, client: ClusterClient, topic: str) -> None:
        self._alias = client.connection.alias
        self._topic = topic
        self._log = TopicLog(client.connection, topic, "read_uncommitted", client)
        self._since: dict[TopicPartition, int] = {}
        self._malformed = 0
        self.last: dict[GroupPartition, Checkpoint] = {}

    def refresh(self) -> None:
        """Read what has been written since the last time, by whomever."""
        before = self._malformed
        with self._log as log:
            if log.was_replaced(self._since):
                self._since.clear()
                self.last.clear()
            for record in log.read_to_end(since=self._since):
                try:
                    place = Checkpoint.parse_key(record.key or b"")
                    if record.value is None:
                        self.last.pop(place, None)
                    else:
                        self.last[place] = Checkpoint.from_record(record.key or b"", record.value)
                except WireError:
                    self._malformed += 1
        if self._malformed > before:
            _log.warning(
                f"Topic '{self._topic}' on cluster '{self._alias}' holds "
                f"{self._malformed - before} records that are no checkpoints; they were passed over"
            )

    def write(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Append checkpoints; returns when every replica has them."""
        with self._log as log:
            for at in range(0, len(checkpoints), _A_RECORD_BATCH):
                some = checkpoints[at : at + _A_RECORD_BATCH]
                log.append({0: [(one.key(), one.value()) for one in some]})
        for one in checkpoints:
            self.last[one.group, one.topic_partition] = one
