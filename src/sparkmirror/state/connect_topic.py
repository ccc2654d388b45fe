# SPDX-License-Identifier: Apache-2.0
"""A topic in which Connect's workers tell each other things: all write, all read to the end.

Shared by the config and the status topic, which differ in what their records mean. Belongs to one
thread, and to whoever owns the client.
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
from sparkmirror.wire import error_codes

READ_SECONDS = 30.0  # Java's patience with these topics

# What Java's producer sends at most (max.request.size), a record batch of one record included.
_MOST_BYTES = 1024 * 1024
_OVERHEAD_BYTES = 128  # of a record batch, and of a request that has a topic's name
_RECORD_BYTES = 32
_A_RECORD_BATCH = 512 * 1024

_log = logging.getLogger(__name__)


class ConnectTopic:
    """One such topic, read up to somewhere."""

    def __init__(
        self,
        client: ClusterClient,
        topic: str,
        *,
        take: Callable[[LogRecord], UnreadableRecord | None],
        forget_all: Callable[[], None],
        check: Callable[[int], None] = lambda _partitions: None,
    ) -> None:
        """`take` gets every record and returns one that it cannot read; `check` the partitions."""
        self._client = client
        self._topic = topic
        self._name = f"Topic '{topic}' on cluster '{client.connection.alias}'"
        self._tail = TopicTail(client, topic, self._on_replaced)
        self._most_bytes = client.connection.max_request_bytes or _MOST_BYTES
        self._producer: FencedProducer | None = None
        self._has_warned = False
        self._apply = take
        self._reset = forget_all
        self._check = check

    def fence(self, transactional_id: str) -> None:
        """Write as this id from now on, which nobody who did before can do any more.

        Of a cluster that does not let us, the log says so, once, and writes are as before.
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
        """Write as anybody from now on."""
        self._producer = None

    def write_and_read(
        self,
        records: Iterable[KeyValue] = (),
        timeout_seconds: float = READ_SECONDS,
        *,
        at_once: bool = False,
    ) -> None:
        """Write records, then read on to the end, which includes them.

        At once: all or none of them. Nothing is written if one is too large.
        """
        pairs = list(records)
        self._check_sizes([pairs] if at_once else [[pair] for pair in pairs])
        if pairs or not self._tail.partitions:
            self._tail.refresh_metadata()
        self._check(self._tail.partitions)
        reach: dict[TopicPartition, int] = {}
        for batches in self._partition_batches(
            pairs, self._most_bytes if at_once else _A_RECORD_BATCH
        ):
            reach |= self._write(batches)
        self._read_new(reach, timeout_seconds)

    def _read_new(self, reach: Mapping[TopicPartition, int], timeout_seconds: float) -> None:
        strange: list[UnreadableRecord] = []
        for record in self._tail.read_new(reach, timeout_seconds):
            foreign = self._apply(record)
            if foreign is not None:
                strange.append(foreign)
        if strange:
            _log.warning(
                f"{self._name} holds {len(strange)} records that are not Connect's; they were "
                f"passed over. The first one: {strange[0].reason}"
            )

    def _partition_batches(
        self, pairs: Sequence[KeyValue], most_bytes: int
    ) -> Iterator[dict[int, list[KeyValue]]]:
        """Each to the partition that Java would choose, or compaction would leave two of a key."""
        by_partition: dict[int, list[KeyValue]] = defaultdict(list)
        for key, value in pairs:
            by_partition[partition_for_key(key or b"", self._tail.partitions)].append((key, value))
        batches = [
            [
                (index, batch)
                for batch in split_into_batches(some, min(most_bytes, self._most_bytes))
            ]
            for index, some in by_partition.items()
        ]
        if self._client.connection.max_request_bytes is not None:
            yield from ({index: batch} for line in batches for index, batch in line)
            return
        for row in zip_longest(*batches):
            yield dict(one for one in row if one is not None)

    def _write(self, batches: Mapping[int, Sequence[KeyValue]]) -> dict[TopicPartition, int]:
        """Returns how far to read for it."""
        producer = self._producer
        if producer is None:
            offsets = self._tail.append(
                {index: build_record_batch(some) for index, some in batches.items()}
            )
        else:
            try:
                offsets = {
                    TopicPartition(self._topic, index): producer.write(
                        partial(self._append, index), index, some
                    )
                    for index, some in batches.items()
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
            if size > self._most_bytes:
                key = max(batch, key=lambda pair: len(pair[1] or b""))[0] or b""
                raise BrokerError(
                    f"{self._name} takes no records of more than {self._most_bytes} bytes "
                    f"({error_codes.name(error_codes.MESSAGE_TOO_LARGE)}): "
                    f"'{key.decode(errors='replace')}' would need {size}. Make it smaller; nothing "
                    f"was written.",
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
            remedy = "It takes brokers that know transactions, of Kafka 2.5 or newer."
        else:
            remedy = (
                f"Grant WRITE and DESCRIBE on the transactional id '{transactional_id}' (before "
                f"Kafka 2.8 also IDEMPOTENT_WRITE on the cluster)."
            )
        _log.warning(
            f"{self._name} is written without fencing: a leader that was suspended and wakes up "
            f"when another one leads might still write to it. {error} {remedy}"
        )

    def _on_replaced(self) -> None:
        _log.warning(
            f"{self._name} was deleted and created again, or has lost records; what it says now "
            f"counts"
        )
        self._reset()
