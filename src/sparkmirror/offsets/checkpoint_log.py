# SPDX-License-Identifier: Apache-2.0
"""The checkpoints topic: reads all checkpoints and appends new ones.

Not thread-safe. The owner of the client closes it.
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
from sparkmirror.quantities import counted

_RECORDS_PER_BATCH = 2_000  # about 200 KB: below the default max.message.bytes
_log = logging.getLogger(__name__)


class CheckpointLog:
    """The last checkpoint of every group and topic partition."""

    def __init__(self, client: ClusterClient, topic: str) -> None:
        self._alias = client.connection.alias
        self._topic = topic
        self._log = TopicLog(client.connection, topic, "read_uncommitted", client)
        self._since: dict[TopicPartition, int] = {}
        self._malformed = 0
        self.last: dict[GroupPartition, Checkpoint] = {}

    def refresh(self) -> None:
        """Read what was written since the last call, by any process."""
        before = self._malformed
        with self._log as log:
            if log.was_replaced(self._since):
                self._since.clear()
                self.last.clear()
            for record in log.read_to_end(since=self._since):
                try:
                    key = Checkpoint.parse_key(record.key or b"")
                    if record.value is None:
                        self.last.pop(key, None)
                    else:
                        self.last[key] = Checkpoint.from_record(record.key or b"", record.value)
                except WireError:
                    self._malformed += 1
        if self._malformed > before:
            _log.warning(
                f"Skipped {counted(self._malformed - before, 'record')} in topic '{self._topic}' "
                f"on cluster '{self._alias}' without a valid checkpoint: another program "
                "writes to it; stop that."
            )

    def write(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Append checkpoints. Blocks until all replicas have them."""
        with self._log as log:
            for at in range(0, len(checkpoints), _RECORDS_PER_BATCH):
                chunk = checkpoints[at : at + _RECORDS_PER_BATCH]
                log.append({0: [(one.key(), one.value()) for one in chunk]})
        for one in checkpoints:
            self.last[one.group, one.topic_partition] = one
