# SPDX-License-Identifier: Apache-2.0
"""Reads the dead letters of a flow, and writes them to the remote topic again, each once.

Around each replayed record two records are written to the dead-letter topic, with these headers:

    sparkmirror.replay                 started | done
    sparkmirror.topic, .partition, .offset     of the dead letter, as source position
    sparkmirror.replay.producer, .epoch        of the producer that writes the record
    sparkmirror.replay.from            offset on the target from which its record may be

After a crash between the two, the remote partition is searched for a record batch of that producer
epoch. So no two dead letters share one.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from sparkmirror.config.settings import FlowSettings
from sparkmirror.errors import BrokerError, ClusterError
from sparkmirror.formats.producer_registry import RegisteredProducer
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import Closable, ClusterClient
from sparkmirror.kafka.fenced_producer import CANNOT_FENCE
from sparkmirror.kafka.log_records import LogRecord
from sparkmirror.kafka.topic_log import TopicLog
from sparkmirror.kafka.topic_requests import log_fetch_request
from sparkmirror.kafka.topic_writer import TopicWriter
from sparkmirror.kafka.transactions import TransactionalIds
from sparkmirror.model import ProducerState, TopicPartition
from sparkmirror.policy.loading import load_policy
from sparkmirror.policy.sparkmirror_topics import dead_letters_topic
from sparkmirror.state.producer_registry import ProducerRegistry
from sparkmirror.task.dead_letters import PREFIX
from sparkmirror.wire import error_codes
from sparkmirror.wire.batch_builder import NewRecord, build_batch
from sparkmirror.wire.record_batch import split_batches, stamp

_REPLAY = "replay"
_DETAILS = frozenset(
    (PREFIX + name).encode()
    for name in (
        *("flow", "topic", "partition", "offset", "timestamp", "target.topic"),
        *("error.code", "error", "reason", "value.bytes", "value.sha256"),
        *("key.bytes", "key.sha256", "headers.dropped"),
    )
)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One dead letter, without its content."""

    tp: TopicPartition  # on the source
    offset: int
    at: int  # its offset in the dead-letter topic
    time_ms: int  # when it was written
    size: int  # bytes of key, value and headers in the dead-letter topic
    details: Mapping[str, str] = field(repr=False)

    @property
    def target(self) -> TopicPartition:
        return TopicPartition(self.details.get("target.topic", ""), self.tp.partition)

    @property
    def reason(self) -> str:
        return f"{self.details.get('error', '')}: {self.details.get('reason', '')}"

    @property
    def original_bytes(self) -> int | None:
        """The size of a value that is not in the dead letter."""
        found = self.details.get("value.bytes")
        return int(found) if found and found.isdecimal() else None

    @property
    def is_complete(self) -> bool:
        """Whether key, value and headers are in the dead letter."""
        return not self.details.keys() & {"value.bytes", "key.bytes"} and self.details.get(
            "headers.dropped", "0"
        ) in ("", "0")


@dataclass(frozen=True, slots=True)
class Replay:
    """What is known about the replay of a dead letter."""

    state: str  # started, done
    producer_id: int
    producer_epoch: int
    first_offset: int  # on the target


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The outcome for one dead letter."""

    letter: DeadLetter
    state: str  # planned, replayed, done before, refused
    reason: str = ""


class DeadLetters(Closable):
    """The dead letters of one flow; a context manager. Not thread-safe."""

    def __init__(self, settings: FlowSettings) -> None:
        self._settings = settings
        names = load_policy(settings.policy, settings.flow).replication
        self.topic = dead_letters_topic(names, settings.flow.source)
        self._client = ClusterClient(settings.target_admin)
        self._admin = ClusterAdmin(settings.target_admin, self._client)
        self._log = TopicLog(settings.target_admin, self.topic, client=self._client)
        self.replays: dict[tuple[TopicPartition, int], Replay] = {}

    def close(self) -> None:
        self._client.close()

    def read(self) -> list[DeadLetter]:
        """Return all dead letters, oldest first, one per source record; none without the topic."""
        found: dict[tuple[TopicPartition, int], DeadLetter] = {}
        self.replays.clear()
        try:
            with self._log as log:
                for record in log.read_to_end():
                    self._add(found, record)
        except BrokerError as error:
            if error.code != error_codes.UNKNOWN_TOPIC_OR_PARTITION:
                raise
        return list(found.values())

    def _add(self, found: dict[tuple[TopicPartition, int], DeadLetter], record: LogRecord) -> None:
        details = _details(record.headers)
        try:
            tp = TopicPartition(details["topic"], int(details["partition"]))
            source_offset = int(details["offset"])
            if _REPLAY in details:
                self.replays[tp, source_offset] = Replay(
                    details[_REPLAY],
                    int(details[f"{_REPLAY}.producer"]),
                    int(details[f"{_REPLAY}.epoch"]),
                    int(details[f"{_REPLAY}.from"]),
                )
                return
        except (KeyError, ValueError):
            return  # no dead letter
        if details.get("flow") != str(self._settings.flow):
            return
        sizes = (len(part or b"") for header in record.headers for part in header)
        size = len(record.key or b"") + len(record.value or b"") + sum(sizes)
        letter = DeadLetter(tp, source_offset, record.offset, record.timestamp_ms, size, details)
        found.setdefault((tp, source_offset), letter)

    def content(self, letter: DeadLetter) -> NewRecord:
        """Return the record as it was on the source. ClusterError if it is not there any more."""
        with self._log as log:
            record = log.read_at(TopicPartition(self.topic, 0), letter.at)
        if record is None:
            raise ClusterError(
                f"The dead letter at {self.topic}-0@{letter.at} has been deleted meanwhile.",
                cluster=self._settings.flow.target,
            )
        headers = [(name, value) for name, value in record.headers if name not in _DETAILS]
        return NewRecord(record.key, record.value, headers)

    # --- replay

    def replay(self, letters: Iterable[DeadLetter], *, dry_run: bool) -> Iterator[ReplayResult]:
        """Write dead letters to their remote topics, in the given order; `read` comes first."""
        for letter in letters:
            known = self.replays.get((letter.tp, letter.offset))
            if known is not None and (known.state == "done" or self._was_written(letter, known)):
                yield ReplayResult(letter, "done before")
            elif not letter.is_complete:
                reason = "the dead letter has only the size and the hash of key or value"
                yield ReplayResult(letter, "refused", reason)
            elif dry_run:
                yield ReplayResult(letter, "planned")
            else:
                yield self._replay(letter)

    def _replay(self, letter: DeadLetter) -> ReplayResult:
        record = self.content(letter)
        end = _only(self._admin.end_offsets([letter.target], "read_uncommitted").found, letter)
        producer = replay_producer(self._settings, self._client)
        known = Replay("started", producer.producer_id, producer.producer_epoch, end)
        self._remember(letter, known)
        batch = build_batch([record], _timestamp(letter))
        stamp(memoryview(batch), producer.producer_id, producer.producer_epoch, 0)
        writer = TopicWriter(self._client, letter.target.topic)
        try:
            writer.append({letter.target.partition: bytes(batch)})
        except BrokerError as error:
            if error.code not in error_codes.NOT_APPENDED:
                raise
            return ReplayResult(letter, "refused", str(error))
        self._remember(letter, replace(known, state="done"))
        return ReplayResult(letter, "replayed")

    def _remember(self, letter: DeadLetter, replay: Replay) -> None:
        details = {
            "flow": str(self._settings.flow),
            "topic": letter.tp.topic,
            "partition": letter.tp.partition,
            "offset": letter.offset,
            _REPLAY: replay.state,
            f"{_REPLAY}.producer": replay.producer_id,
            f"{_REPLAY}.epoch": replay.producer_epoch,
            f"{_REPLAY}.from": replay.first_offset,
        }
        headers = [((PREFIX + name).encode(), str(one).encode()) for name, one in details.items()]
        batch = build_batch([NewRecord(None, None, headers)], int(time.time() * 1000))
        stamp(memoryview(batch), -1, -1, -1)
        TopicWriter(self._client, self.topic).append({0: bytes(batch)})
        self.replays[letter.tp, letter.offset] = replay

    def _was_written(self, letter: DeadLetter, replay: Replay) -> bool:
        """Whether a replay that did not end has written its record."""
        tp, position = letter.target, replay.first_offset
        first = _only(self._admin.earliest_offsets([tp]).found, letter)
        end = _only(self._admin.end_offsets([tp], "read_uncommitted").found, letter)
        position = max(position, first)
        while position < end:
            leaders, _codes = self._client.partitions_by_leader([tp])
            before = position
            for leader in leaders:
                request = log_fetch_request({tp: position}, "read_uncommitted")
                for topic in self._client.send(request, leader).responses:
                    for one in topic.partitions:
                        for batch in split_batches(memoryview(one.records or b"")):
                            writer = (batch.producer_id, batch.producer_epoch)
                            if writer == (replay.producer_id, replay.producer_epoch):
                                self._remember(letter, replace(replay, state="done"))
                                return True
                            position = max(position, batch.next_offset)
            if position == before:
                raise ClusterError(
                    f"Cannot read {tp}, so it is unknown whether the dead letter of {letter.tp}@"
                    f"{letter.offset} was replayed. Try again.",
                    cluster=self._settings.flow.target,
                )
        return False


def replay_producer(settings: FlowSettings, client: ClusterClient) -> ProducerState:
    """Return a new producer for one replayed record, registered as one of the flow.

    Its transactional id has the flow's prefix, so tasks know that the records are the flow's own.
    Without the permission for that it has no transactional id.
    """
    producer, name = _new_producer(settings, client)
    with closing(ProducerRegistry(settings.target_admin)) as registry:
        registry.refresh()
        if registry.exists:  # or no flow has registered here, and none looks it up
            with closing(ProducerRegistry(settings.source_admin)) as source:
                source.identify()
            if registry.is_of_another(producer.producer_id, source.cluster_id):
                # The source was another cluster then; its records must stay recognizable.
                producer = ClusterAdmin(settings.target_admin, client).init_producer_id()
                name = None
            registered = RegisteredProducer(
                producer.producer_id,
                registry.cluster_id,
                str(settings.flow),
                source.cluster_id,
                name,
            )
            registry.register([registered])
    return producer


def _new_producer(
    settings: FlowSettings, client: ClusterClient
) -> tuple[ProducerState, str | None]:
    name = f"{settings.transactions.id_prefix}replay"
    admin = ClusterAdmin(settings.target_admin, client)
    with closing(TransactionalIds(settings.target_admin, client)) as ids:
        try:
            found = ids.fence([name], transaction_timeout_ms=settings.transactions.timeout_ms)[name]
        except BrokerError as error:
            if error.code not in CANNOT_FENCE:
                raise
            return admin.init_producer_id(), None
    return ProducerState(found.producer_id, found.producer_epoch, 0), name


def select_letters(
    letters: Sequence[DeadLetter], topic: str | None, partition: int | None, offset: int | None
) -> list[DeadLetter]:
    """Return the dead letters of a topic, a partition or one offset."""
    return [
        one
        for one in letters
        if topic in (None, one.tp.topic)
        and partition in (None, one.tp.partition)
        and offset in (None, one.offset)
    ]


def _details(headers: Iterable[tuple[bytes, bytes | None]]) -> dict[str, str]:
    prefix = PREFIX.encode()
    return {
        name.removeprefix(prefix).decode(errors="replace"): (value or b"").decode(errors="replace")
        for name, value in headers
        if name.startswith(prefix)
    }


def _timestamp(letter: DeadLetter) -> int:
    found = letter.details.get("timestamp", "")
    return int(found) if found.lstrip("-").isdecimal() else letter.time_ms


def _only(found: Mapping[TopicPartition, int], letter: DeadLetter) -> int:
    offset = found.get(letter.target)
    if offset is None:
        raise ClusterError(
            f"Partition {letter.target} does not exist, or has no leader.", cluster=""
        )
    return offset
