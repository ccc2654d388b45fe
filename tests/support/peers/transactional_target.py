# SPDX-License-Identifier: Apache-2.0
"""A target with the transaction rules of a broker; a test sends, delays or drops its responses."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any, NamedTuple

from kafka.protocol.metadata import ApiVersionsResponse

from sparkmirror.formats.producer_registry import PRODUCERS_TOPIC
from sparkmirror.model import TopicPartition
from sparkmirror.wire.transaction import ProducerIdAndEpoch
from support.data.record_batches import decode, header
from support.peers.fake_cluster import FakeCluster, Request

FENCED, NOT_IN_TRANSACTION, OUT_OF_ORDER = 47, 48, 45
LEADER, COORDINATOR = 1, 2
_REMEMBERED = 5


class Entry(NamedTuple):
    """One record batch in a log."""

    first: int  # sequence
    last: int
    base_offset: int
    keys: list[bytes | None]
    values: list[bytes | None]


class TransactionalTarget:
    """Two brokers that know one transactional id: the first leads, the second coordinates."""

    def __init__(self, partitions: list[TopicPartition], identity: ProducerIdAndEpoch) -> None:
        self.cluster = FakeCluster(dict.fromkeys(partitions, 1))
        self.cluster.alias = "b"
        self.identity = identity
        self.committed: dict[TopicPartition, list[Entry]] = {tp: [] for tp in partitions}
        self.registered: list[bytes | None] = []  # keys in the registry of producers
        self.commits = 0
        self.aborts = 0
        self.refusals: dict[TopicPartition, int] = {}  # what a leader says to every record batch
        self._open: dict[TopicPartition, list[Entry]] = {}
        self._ends = dict.fromkeys(partitions, 0)
        self.last_epoch = 32_767  # of a producer id; the next one follows
        self._last_end: tuple[int, bool] | None = None  # epoch before it, committed

    @property
    def kinds(self) -> list[str]:
        """What waits for an answer, by name; the leader's first."""
        waiting = (*self._waiting(LEADER), *self._waiting(COORDINATOR))
        return [_kind(request) for request in waiting]

    @property
    def is_open(self) -> bool:
        """Whether a transaction has partitions."""
        return bool(self._open)

    def next_at(self, node: int) -> str:
        """Return the name of the oldest request at a broker; empty if there is none."""
        waiting = self._waiting(node)
        return _kind(waiting[0]) if waiting else ""

    def _waiting(self, node: int) -> deque[Request]:
        return self.cluster.connection(node).waiting

    def serve(self, node: int = 0, *, answer: bool = True, refuse: int = 0) -> str:
        """Do what the oldest request asks, at any broker if none is named, or refuse it."""
        node = node or (LEADER if self._waiting(LEADER) else COORDINATOR)
        request = self._waiting(node).popleft()
        kind = _kind(request)
        reply = getattr(self, f"_{kind}")(request, refuse)
        if answer:
            reply()
        else:
            self._waiting(node).appendleft(request)
            self.lose(node)
        return kind

    def lose(self, node: int) -> None:
        """Break the connection to a broker."""
        self.cluster.connection(node).lose()

    def serve_all(self) -> None:
        """Answer whatever waits, and what follows from it."""
        while self.kinds:
            self.serve()

    def fence(self) -> None:
        """Fence the producer: abort the open transaction."""
        self._finish(commit=False)

    def keys(self, tp: TopicPartition) -> list[bytes | None]:
        """What a read_committed consumer sees."""
        return [key for entry in self.committed[tp] for key in entry.keys]

    # --- what the requests do; each returns how to answer

    def _find(self, request: Request, _refuse: int) -> Any:
        return lambda: request.reply(SimpleNamespace(error_code=0, node_id=COORDINATOR))

    def _features(self, request: Request, _refuse: int) -> Any:
        request.content.API_VERSION = 3
        feature = ApiVersionsResponse.FinalizedFeatureKey(
            name="transaction.version", max_version_level=2, min_version_level=0
        )
        answer = ApiVersionsResponse(
            error_code=0,
            api_keys=[],
            throttle_time_ms=0,
            supported_features=[],
            finalized_features_epoch=1,
            finalized_features=[feature],
        )
        return lambda: request.reply(memoryview(b"\0\0\0\0" + bytes(answer.encode(version=3))))

    def _fetch(self, _request: Request, _refuse: int) -> Any:
        return lambda: None  # whoever looks for other writers waits

    def _add(self, request: Request, refuse: int) -> Any:
        content = request.content
        asked = [
            TopicPartition(topic.name, index)
            for topic in content.v3_and_below_topics
            for index in topic.partitions
        ]
        code = refuse
        if content.v3_and_below_producer_epoch != self.identity.producer_epoch:
            code = FENCED
        if not code:
            for tp in asked:
                self._open.setdefault(tp, [])
        results = [
            SimpleNamespace(
                name=tp.topic,
                results_by_partition=[
                    SimpleNamespace(partition_index=tp.partition, partition_error_code=code)
                ],
            )
            for tp in asked
        ]
        return lambda: request.reply(SimpleNamespace(results_by_topic_v3_and_below=results))

    def _end(self, request: Request, _refuse: int) -> Any:
        epoch, commit = request.content.producer_epoch, request.content.committed
        code = 0
        if self._last_end == (epoch, commit):
            pass  # asked again: it is done
        elif epoch != self.identity.producer_epoch:
            code = FENCED
        elif not self._open:
            code = NOT_IN_TRANSACTION
        else:
            self._finish(commit=commit)
            self._last_end = (epoch, commit)
        identity = self.identity
        return lambda: request.reply(
            SimpleNamespace(
                error_code=code,
                producer_id=identity.producer_id,
                producer_epoch=identity.producer_epoch,
            )
        )

    def _finish(self, *, commit: bool) -> None:
        for tp, entries in self._open.items():
            if commit:
                self.committed[tp] += entries
            self._ends[tp] += 1  # the marker
        self.commits += commit
        self.aborts += not commit
        self._open = {}
        identity, last = self.identity, self.last_epoch
        is_last = identity.producer_epoch == last
        self.identity = (
            ProducerIdAndEpoch(identity.producer_id + 1, 0)
            if is_last
            else identity._replace(producer_epoch=identity.producer_epoch + 1)
        )
        self._last_end = None

    def _produce(self, request: Request, refuse: int) -> Any:
        results = {
            tp: self._register(raw)
            if tp.topic == PRODUCERS_TOPIC
            else self._append(tp, raw, refuse)
            for tp, raw in request.batches.items()
        }
        return lambda: request.produced(results)

    def _register(self, raw: bytes) -> tuple[int, int]:
        self.registered += [one.key for one in decode(raw)]
        return 0, len(self.registered) - 1

    def _append(self, tp: TopicPartition, raw: bytes, refuse: int) -> tuple[int, int]:
        head = header(raw)
        assert head.attributes & 0x10, "a record batch without the transactional bit"
        if head.producer_epoch != self.identity.producer_epoch:
            return FENCED, -1
        if tp not in self._open:
            return NOT_IN_TRANSACTION, -1
        if refuse or tp in self.refusals:
            return refuse or self.refusals[tp], -1
        entries = self._open[tp]
        first, last = head.base_sequence, head.base_sequence + head.records_count - 1
        for entry in entries[-_REMEMBERED:]:
            if (entry.first, entry.last) == (first, last):
                return 0, entry.base_offset
        if first != (entries[-1].last + 1 if entries else 0):
            return OUT_OF_ORDER, -1
        base = self._ends[tp]
        self._ends[tp] += head.records_count
        records = decode(raw)
        entries.append(
            Entry(first, last, base, [one.key for one in records], [one.value for one in records])
        )
        return 0, base


def _kind(request: Request) -> str:
    name = type(request.content).__name__
    return {
        "FindCoordinatorRequest": "find",
        "ApiVersionsRequest": "features",
        "AddPartitionsToTxnRequest": "add",
        "EndTxnRequest": "end",
        "ProduceRequest": "produce",
        "FetchRequest": "fetch",
    }[name]
