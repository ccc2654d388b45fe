# SPDX-License-Identifier: Apache-2.0
"""Everything that crosses between driver and executor.

Down, over the control channel: a `Split` and the `TaskSettings` it is copied with. Up, over the
same channel, about once a second: `Progress`. Back, as rows of the job: `Receipt`s. A failure the
driver must act on is a value with a code; a raised exception is for people and for Spark's retry.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

from sparkmirror.config.settings import IncidentPolicies
from sparkmirror.formats.map_chunk import MapChunk
from sparkmirror.model import NO_PRODUCER, ProducerState, TopicPartition
from sparkmirror.state.incidents import Incident
from sparkmirror.task.security_json import security_from_json, security_to_json
from sparkmirror.wire.settings import ConnectionSettings, FetchSettings, ProduceSettings


@dataclass(frozen=True, slots=True)
class PartitionStart:
    """One topic partition of a split: from where to where.

    Position, downstream and producer are a pair as the offsets topic stores it; a task that is
    not handed the partition over by its predecessor compares both sides from there on.
    """

    topic: str
    partition: int
    remote_topic: str
    position: int  # the next source offset to copy
    downstream: int = -1  # everything of ours after this target offset is after the position
    stop_at: int | None = None  # end here (a bounded run)
    topic_id: str | None = None
    target_topic_id: str | None = None
    producer: ProducerState = NO_PRODUCER
    leader_epoch: int = -1  # of the last record batch read on the source
    is_handed_over: bool = False  # the last task ended cleanly: nothing was written since
    map_chunk: str = ""  # what it left open of the offset map, with which this one goes on
    skip_origins: tuple[str, ...] = ()  # ids of clusters; what a flow copied from them is skipped

    @property
    def source(self) -> TopicPartition:
        """The topic partition to read."""
        return TopicPartition(self.topic, self.partition)

    @property
    def target(self) -> TopicPartition:
        """The topic partition to write."""
        return TopicPartition(self.remote_topic, self.partition)


@dataclass(frozen=True, slots=True)
class TransactionStart:
    """The right to write with a transactional id; whoever held it before has lost it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Split:
    """What one task copies."""

    index: int
    partitions: tuple[PartitionStart, ...]
    transaction: TransactionStart | None = None  # none: without transactions


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """How a task copies; the same for all splits of a flow."""

    flow: str
    connector: str
    source_alias: str
    consumer: ConnectionSettings
    producer: ConnectionSettings
    fetch: FetchSettings
    produce: ProduceSettings
    offsets_topic: str
    offsets_partitions: int
    flush_seconds: float
    buffer_bytes: int
    epoch_seconds: float
    lease_seconds: float
    commit_seconds: float = 0.1  # in transactions: from one commit to the next
    transaction_timeout_ms: int = 60_000
    policies: IncidentPolicies = field(default_factory=IncidentPolicies)
    ledger_topic: str = ""
    map_topic: str = ""  # of the offset map; empty: none is kept
    syncs_topic: str = ""  # of MM2's offset syncs; empty: none are written
    syncs_on_source: bool = True
    offset_lag_max: int = 100
    dead_letters_topic: str = ""
    offsets_cluster: ConnectionSettings | None = None  # of the positions; None: the target
    source_cluster_id: str = ""  # a registered producer id counts only if this cluster issued it
    registry_topic: str = ""  # of registered producers, on the source; empty: nothing is skipped
    target_cluster_id: str = ""  # there the task registers a new producer id; empty: it does not


class PartitionProgress(NamedTuple):
    """Where one topic partition stands; counts are since the task began.

    What is stored, and what comes behind the counts, is where a successor begins to compare: the
    offset map knows everything before it, but perhaps not what came later.
    """

    topic: str
    partition: int
    position: int
    downstream: int
    end_offset: int
    records: int
    bytes: int
    error_code: int
    error: str
    next_sequence: int = 0
    leader_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    stored_position: int = -1
    stored_downstream: int = -1
    skipped_records: int = 0  # that another flow copied here from one of `skip_origins`


class OtherWriter(NamedTuple):
    """A producer that is not this flow's wrote into a remote topic."""

    topic: str
    partition: int
    producer_id: int


class PartitionTimes(NamedTuple):
    """Times of one topic partition's records that became durable since the last report, in ms.

    Taken once per record batch, with its latest timestamp: the age of records when they were
    fetched, and their replication latency.
    """

    row: int  # of the partition in this report
    records: int
    age_sum: int
    age_min: int
    age_max: int
    age_last: int
    latency_sum: int
    latency_min: int
    latency_max: int
    latency_last: int


class RequestErrors(NamedTuple):
    """Errors of one kind since the last report, counted by partition."""

    side: str  # source or target
    code: int
    times: int


class TaskFigures(NamedTuple):
    """Counts since the last report, and four values of the moment."""

    source_received: int = 0  # bytes
    source_sent: int = 0
    target_received: int = 0
    target_sent: int = 0
    raw_batches: int = 0  # record batches of the source, by what was done with them
    reframed_batches: int = 0
    merged_batches: int = 0
    skipped_records: int = 0  # of aborted transactions
    comparisons: int = 0  # started
    commits: int = 0  # of positions
    commit_ms: int = 0
    commit_max_ms: int = 0
    waiting_partitions: int = 0  # now: not taken over from the previous task yet
    comparing_partitions: int = 0  # now
    unacked_records: int = 0  # now: fetched and not acknowledged
    available_bytes: int = 0  # now: of the task's buffer


@dataclass(frozen=True, slots=True)
class Progress:
    """What a task reports about once a second: only partitions that changed."""

    split: int
    attempt: int  # another one counts from zero
    partitions: tuple[PartitionProgress, ...]
    replication_latency: tuple[tuple[int, int], ...]  # bucket of latency_histogram, records
    held_bytes: int
    oldest_unacked_seconds: float
    cpu_seconds: float
    notices: tuple[str, ...]  # things that happened once and must be said
    error: str = ""  # a whole cluster out of reach
    other_writers: tuple[OtherWriter, ...] = ()
    incidents: tuple[Incident, ...] = ()  # what happened to single partitions
    missing_topics: tuple[str, ...] = ()  # topics of our own that must be created to go on
    copy_latency: tuple[tuple[int, int], ...] = ()  # as `replication_latency`
    latency_sums: tuple[int, int] = (0, 0)  # ms times records, of both histograms
    figures: TaskFigures = field(default_factory=TaskFigures)
    times: Sequence[PartitionTimes] = ()
    request_errors: tuple[RequestErrors, ...] = ()


class Receipt(NamedTuple):
    """One row of a finished task: where a topic partition ended, and what was copied of it."""

    split: int
    topic: str
    partition: int
    records: int
    bytes: int
    position: int = -1
    downstream: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    next_sequence: int = -1
    leader_epoch: int = -1
    is_clean: bool = True  # all acknowledged: the successor may go on with the sequence
    error_code: int = 0
    error: str = ""
    map_chunk: str = ""  # what is left open of the offset map


# --- as JSON; what there can be thousands of goes as rows, because writing names takes longer

_start_row = attrgetter(
    "topic",
    "partition",
    "remote_topic",
    "position",
    "downstream",
    "stop_at",
    "topic_id",
    "target_topic_id",
    "producer.producer_id",
    "producer.producer_epoch",
    "producer.next_sequence",
    "leader_epoch",
    "is_handed_over",
    "map_chunk",
    "skip_origins",
)


def _start_from_row(row: list[Any]) -> PartitionStart:
    row[8:11] = [ProducerState(*row[8:11])]
    row[-1] = tuple(row[-1])
    return PartitionStart(*row)


def chunk_to_text(chunk: MapChunk) -> str:
    """A chunk of the offset map, to be handed on."""
    return f"{chunk.first} {chunk.value().hex()}"


def chunk_from_text(text: str) -> MapChunk:
    """The chunk that `chunk_to_text` wrote."""
    first, value = text.split()
    return MapChunk.from_value(int(first), bytes.fromhex(value))


def split_to_json(split: Split) -> dict[str, Any]:
    """A split as JSON-ready lists and dicts."""
    transaction = split.transaction
    return {
        "index": split.index,
        "partitions": [_start_row(one) for one in split.partitions],
        "transaction": dataclasses.asdict(transaction) if transaction else None,
    }


def split_from_json(raw: dict[str, Any]) -> Split:
    """The split that `split_to_json` wrote."""
    transaction = raw["transaction"]
    return Split(
        index=raw["index"],
        partitions=tuple(_start_from_row(row) for row in raw["partitions"]),
        transaction=TransactionStart(**transaction) if transaction else None,
    )


def task_settings_to_json(settings: TaskSettings) -> dict[str, Any]:
    """Settings as JSON-ready lists and dicts; secrets are among them, in clear."""
    fields = {one.name: getattr(settings, one.name) for one in dataclasses.fields(settings)}
    connections = {
        side: None if fields[side] is None else _connection_to_json(fields[side])
        for side in _CONNECTIONS
    }
    parts = {name: dataclasses.asdict(fields[name]) for name in ("fetch", "produce", "policies")}
    return fields | connections | parts


def task_settings_from_json(raw: dict[str, Any]) -> TaskSettings:
    """The settings that `task_settings_to_json` wrote."""
    connections = {
        side: _connection_from_json(raw[side]) for side in _CONNECTIONS if raw[side] is not None
    }
    return TaskSettings(
        **{
            **raw,
            **connections,
            "fetch": FetchSettings(**raw["fetch"]),
            "produce": ProduceSettings(**raw["produce"]),
            "policies": IncidentPolicies(**raw["policies"]),
        }
    )


_CONNECTIONS = ("consumer", "producer", "offsets_cluster")


def _connection_to_json(connection: ConnectionSettings) -> dict[str, Any]:
    fields = {one.name: getattr(connection, one.name) for one in dataclasses.fields(connection)}
    return fields | {"security": security_to_json(connection.security)}


def _connection_from_json(raw: dict[str, Any]) -> ConnectionSettings:
    return ConnectionSettings(
        **{
            **raw,
            "bootstrap_servers": tuple(raw["bootstrap_servers"]),
            "security": security_from_json(raw["security"]),
        }
    )
