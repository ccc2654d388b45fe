# SPDX-License-Identifier: Apache-2.0
"""A topic that all Connect workers write to and read to its end.

Common part of the config and status topics. Not thread-safe. The owner of the client closes it.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest

from sparkmirror.errors import BrokerError
from sparkmirror.formats.connect_fields import UnreadableRecord
from sparkmirror.formats.primitives import partition_for_key
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.fenced_producer import CANNOT_FENCE, FencedProducer
from sparkmirror.kafka.log_records import LogRecord
from sparkmirror.kafka.topic_log import KeyValue, build_record_batch, split_into_batches
from sparkmirror.kafka.topic_tail import TopicTail
from sparkmirror.model import TopicPartition
from sparkmirror.quantities import counted
from sparkmirror.wire import error_codes

READ_SECONDS = 30.0  # Java's timeout for these topics

# Java's max.request.size, which also limits a record batch of one record.
_MAX_BYTES = 1024 * 1024
_OVERHEAD_BYTES = 128  # of a record batch, and of a request with the topic's name
_RECORD_BYTES = 32
_BATCH_BYTES = 512 * 1024

_log = logging.getLogger(__name__)


class ConnectTopic:
    """One topic, read up to an offset."""

    def __init__(
        self,
        client: ClusterClient,
        topic: str,
        *,
        apply: Callable[[LogRecord], UnreadableRecord | None],
        reset: Callable[[], None],
        check: Callable[[int], None] = lambda _partitions: None,
    ) -> None:
        """`apply` gets every record and returns undecodable ones; `check` gets the partitions."""
        self._client = client
        self._topic = topic
        self._name = f"Topic '{topic}' on cluster '{client.connection.alias}'"
        self._tail = TopicTail(client, topic, self._on_replaced)
        self._max_bytes = client.connection.max_request_bytes or _MAX_BYTES
        self._producer: FencedProducer | None = None
        self._has_warned = False
        self._apply = apply
        self._reset = reset
        self._check = check

    def fence(self, transactional_id: str) -> None:
        """Write with this id from now on; earlier producers with it are rejected.

        If the cluster does not permit it, logs a warning once and writes without fencing.
        """
        producer = FencedProducer(self._client, transactional_id)
        self._producer = None
        try:
            producer.acquire()
        except BrokerError as error:
            if error.code not in CANNOT_FENCE:
                raise
            self._warn_unfenced(transactional_id, error)
        else:
            self._producer = producer

    def unfence(self) -> None:
        """Write without a transactional id from now on."""
        self._producer = None

    def write_and_read(
        self,
        records: Iterable[KeyValue] = (),
        timeout_seconds: float = READ_SECONDS,
        *,
        atomic: bool = False,
    ) -> None:
        """Write records, then read to the end, which includes them.

        `atomic`: all or none of them. Writes nothing if one is too large. Both happen
        in one visit, because the topic may be recreated in between.
        """
        key_values = list(records)
        self._check_sizes([key_values] if atomic else [[one] for one in key_values])
        if key_values or not self._tail.partitions:
            self._tail.refresh_metadata()
        self._check(self._tail.partitions)
        reach: dict[TopicPartition, int] = {}
        for batches in self._partition_batches(
            key_values, self._max_bytes if atomic else _BATCH_BYTES
        ):
            reach |= self._write(batches)
        self._read_new(reach, timeout_seconds)

    def _read_new(self, reach: Mapping[TopicPartition, int], timeout_seconds: float) -> None:
        skipped: list[UnreadableRecord] = []
        for record in self._tail.read_new(reach, timeout_seconds):
            unreadable = self._apply(record)
            if unreadable is not None:
                skipped.append(unreadable)
        if skipped:
            _log.warning(
                f"{self._name}: skipped {counted(len(skipped), 'record')} not written by Connect. "
                f"The first one: {skipped[0].reason} Another program writes to this topic; stop it."
            )

    def _partition_batches(
        self, key_values: Sequence[KeyValue], max_bytes: int
    ) -> Iterator[dict[int, list[KeyValue]]]:
        """Use the partition that Java would choose, or compaction would keep a key twice."""
        by_partition: dict[int, list[KeyValue]] = defaultdict(list)
        for key, value in key_values:
            by_partition[partition_for_key(key or b"", self._tail.partitions)].append((key, value))
        batches = [
            [
                (index, batch)
                for batch in split_into_batches(records, min(max_bytes, self._max_bytes))
            ]
            for index, records in by_partition.items()
        ]
        if self._client.connection.max_request_bytes is not None:
            yield from ({index: batch} for row in batches for index, batch in row)
            return
        for row in zip_longest(*batches):
            yield dict(one for one in row if one is not None)

    def _write(self, batches: Mapping[int, Sequence[KeyValue]]) -> dict[TopicPartition, int]:
        """Write and return the offsets up to which to read."""
        producer = self._producer
        if producer is None:
            offsets = self._tail.append(
                {index: build_record_batch(records) for index, records in batches.items()}
            )
        else:
            try:
                offsets = {
                    TopicPartition(self._topic, index): producer.write(
                        partial(self._append, index), index, records
                    )
                    for index, records in batches.items()
                }
            except BrokerError as error:
                if error.code not in CANNOT_FENCE:
                    raise
                self._warn_unfenced(producer.transactional_id, error)
                self._producer = None
                return self._write(batches)
        return {tp: offset + len(batches[tp.partition]) for tp, offset in offsets.items()}

    def _append(self, index: int, batch: bytes) -> int:
        (offset,) = self._tail.append({index: batch}).values()
        return offset

    def _check_sizes(self, batches: Iterable[Sequence[KeyValue]]) -> None:
        for batch in batches:
            size = _OVERHEAD_BYTES + sum(
                _RECORD_BYTES + len(key or b"") + len(value or b"") for key, value in batch
            )
            if size > self._max_bytes:
                key = max(batch, key=lambda record: len(record[1] or b""))[0] or b""
                raise BrokerError(
                    f"{self._name} accepts records of at most {self._max_bytes} bytes "
                    f"({error_codes.name(error_codes.MESSAGE_TOO_LARGE)}): "
                    f"'{key.decode(errors='replace')}' needs {size}. Nothing was written; make it "
                    f"smaller.",
                    cluster=self._client.connection.alias,
                    code=error_codes.MESSAGE_TOO_LARGE,
                    retriable=False,
                    topic=self._topic,
                )

    def _warn_unfenced(self, transactional_id: str, error: BrokerError) -> None:
        if self._has_warned:
            return
        self._has_warned = True
        if error.code == error_codes.UNSUPPORTED_VERSION:
            remedy = "It needs brokers with transactions, Kafka 2.5 or newer."
        else:
            remedy = (
                f"Grant WRITE and DESCRIBE on the transactional id '{transactional_id}' (before "
                f"Kafka 2.8 also IDEMPOTENT_WRITE on the cluster)."
            )
        _log.warning(
            f"{self._name} is written without fencing: a suspended leader may still write when "
            f"it wakes up. {error} {remedy}"
        )

    def _on_replaced(self) -> None:
        _log.warning(
            f"{self._name} was recreated or truncated; reloading it from its current content"
        )
        self._reset()
