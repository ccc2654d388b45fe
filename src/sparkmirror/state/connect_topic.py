# SPDX-License-Identifier: Apache-2.0
"""A topic in which Connect's workers tell each other things: all write, all read to the end.

Shared by the config and the status topic, which differ in what their records mean. Belongs to one
thread, and to whoever owns the client.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable

from sparkmirror.formats.connect_fields import Foreign
from sparkmirror.formats.murmur2 import partition_for
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.records import LogRecord
from sparkmirror.kafka.topic_log import KeyValue, TopicLog, record_batches
from sparkmirror.model import TopicPartition

READ_SECONDS = 30.0  # Java's patience with these topics

_log = logging.getLogger(__name__)


class ConnectTopic:
    """One such topic, read up to somewhere."""

    def __init__(
        self,
        client: ClusterClient,
        topic: str,
        *,
        take: Callable[[LogRecord], Foreign | None],
        forget_all: Callable[[], None],
        check: Callable[[int], None] = lambda _partitions: None,
    ) -> None:
        """`take` gets every record and returns one that it cannot read; `check` the partitions."""
        self._name = f"Topic '{topic}' on cluster '{client.connection.alias}'"
        self._topic_log = TopicLog(client.connection, topic, client=client)
        self._since: dict[TopicPartition, int] = {}
        self._take = take
        self._forget_all = forget_all
        self._check = check

    def exchange(
        self, records: Iterable[KeyValue] = (), timeout_seconds: float = READ_SECONDS
    ) -> None:
        """Write records, then read on to the end, which includes them."""
        strange: list[Foreign] = []
        with self._topic_log as log:
            self._check(log.partitions)
            if log.is_another(self._since):
                self._begin_anew()
            _append(log, records)
            for record in log.read_to_end(timeout_seconds, self._since):
                foreign = self._take(record)
                if foreign is not None:
                    strange.append(foreign)
        if strange:
            _log.warning(
                f"{self._name} holds {len(strange)} records that are not Connect's; they were "
                f"passed over. The first one: {strange[0].reason}"
            )

    def _begin_anew(self) -> None:
        _log.warning(
            f"{self._name} was deleted and created again, or has lost records; what it says now "
            f"counts"
        )
        self._since.clear()
        self._forget_all()


def _append(log: TopicLog, records: Iterable[KeyValue]) -> None:
    """Each to the partition that Java would choose, or compaction would leave two of a key."""
    by_partition: dict[int, list[KeyValue]] = defaultdict(list)
    for key, value in records:
        by_partition[partition_for(key or b"", log.partitions)].append((key, value))
    for partition, all_of_it in by_partition.items():
        for some in record_batches(all_of_it):
            log.append({partition: some})
