# SPDX-License-Identifier: Apache-2.0
"""The questions and orders that flows have for a cluster, in few requests and in our own errors.

Answers are read topic by topic: one that fails does not hide the others. A `ClusterAdmin` belongs
to one thread.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from sparkmirror.errors import BrokerError, UnsupportedVersionError
from sparkmirror.kafka.cluster_client import (
    LEADER_CODES,
    LEADER_NOT_AVAILABLE,
    PAUSE_SECONDS,
    Closable,
    ClusterClient,
)
from sparkmirror.kafka.descriptions import (
    Broker,
    ClusterDescription,
    ConfigEntry,
    ConfigSource,
    LogEnd,
    NewTopic,
    PartialResults,
    TopicConfigs,
    TopicDescription,
)
from sparkmirror.kafka.request import RawResponse
from sparkmirror.kafka.topic_requests import (
    EARLIEST,
    LATEST,
    alter_configs_request,
    chunks,
    create_partitions_request,
    create_topics_request,
    delete_topics_request,
    describe_configs_request,
    describe_producers_request,
    init_producer_id_request,
    list_offsets_request,
)
from sparkmirror.model import ProducerState, TopicPartition
from sparkmirror.wire import error_codes
from sparkmirror.wire.record_batch import SEQUENCE_MASK
from sparkmirror.wire.settings import ConnectionSettings

_CONFIG_TOPICS_A_REQUEST = 250
_KEPT_ANSWERS = 256
_FORGET_ABOVE = 5000
# A KRaft controller refuses requests that would write more than 10,000 metadata records.
_NEW_TOPICS_A_REQUEST = 200
_UNKNOWN_TOPIC_ID = 100
_NEW_PARTITIONS_A_REQUEST = 4000
# A new topic shows in the metadata before its leaders serve it; an election takes as long.
_LEADER_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class _CachedConfigs:
    """An answer about the configs of some topics, in bytes and decoded."""

    body: bytes
    found: Mapping[str, TopicConfigs]
    failed: Mapping[str, BrokerError]


class ClusterAdmin(Closable):
    """Connects at the first call; a lost connection is opened anew."""

    def __init__(self, connection: ConnectionSettings, client: ClusterClient | None = None) -> None:
        self._client = client or ClusterClient(connection)
        self._kept_configs: dict[tuple[str, ...], _CachedConfigs] = {}
        self._known_configs: dict[str, TopicConfigs] = {}

    @property
    def alias(self) -> str:
        """The cluster's alias."""
        return self._client.connection.alias

    def close(self) -> None:
        """Closes the connections; a later call would open them again."""
        self._client.close()

    def cluster(self) -> ClusterDescription:
        """The cluster's id and the brokers that are alive."""
        answer = self._metadata("describing the cluster", [])
        return ClusterDescription(
            answer.cluster_id,
            tuple(Broker(b.node_id, b.host, b.port, b.rack) for b in answer.brokers),
        )

    def topics(self, names: Sequence[str] | None = None) -> PartialResults[str, TopicDescription]:
        """All topics that we may see, or those named; one request either way."""
        found: dict[str, TopicDescription] = {}
        failed: dict[str, BrokerError] = {}
        for topic in self._metadata("describing topics", names).topics:
            if topic.error_code in (0, LEADER_NOT_AVAILABLE):
                found[topic.name] = _topic_description(topic)
            else:
                error = self._client.broker_error(
                    "describing a topic", topic.error_code, topic.name
                )
                failed[topic.name] = error
        return PartialResults(found, failed)

    def topic_configs(self, names: Iterable[str]) -> PartialResults[str, TopicConfigs]:
        """Every config of every named topic, with its source.

        What did not change since the last time is the same object as then.
        """
        answers: dict[tuple[str, ...], _CachedConfigs] = {}
        for some in map(tuple, chunks(sorted(names), _CONFIG_TOPICS_A_REQUEST)):
            step = partial(self._describe_configs, some)
            raw = self._client.retry("describing configs", step)
            kept = self._kept_configs.pop(some, None)
            if kept is None or kept.body != raw.body:
                kept = self._decoded_configs(raw)
            answers[some] = kept
        self._kept_configs |= answers  # the latest stand last
        for old in list(self._kept_configs)[:-_KEPT_ANSWERS]:
            del self._kept_configs[old]
        found = {name: one for kept in answers.values() for name, one in kept.found.items()}
        self._known_configs |= found
        if len(self._known_configs) > 2 * len(found) + _FORGET_ABOVE:  # most are of deleted topics
            self._known_configs = dict(found)
        return PartialResults(
            found,
            {name: error for one in answers.values() for name, error in one.failed.items()},
        )

    def _decoded_configs(self, raw: RawResponse) -> _CachedConfigs:
        found: dict[str, TopicConfigs] = {}
        failed: dict[str, BrokerError] = {}
        answer = self._client.retry("describing configs", raw.decode)
        for result in answer.results:
            name = result.resource_name
            if result.error_code:
                failed[name] = self._client.broker_error(
                    "describing the configs of a topic",
                    result.error_code,
                    name,
                    result.error_message,
                )
                continue
            entries = tuple(map(_config_entry, result.configs))
            before = self._known_configs.get(name)
            found[name] = before if before is not None and before == entries else entries
        return _CachedConfigs(raw.body, found, failed)

    def alter_configs(
        self, changes: Mapping[str, Mapping[str, str | None]], *, validate_only: bool = False
    ) -> dict[str, BrokerError | None]:
        """Sets configs of topics, or takes a topic's own value away (None), and no others.

        None for each topic that was altered (or would be, if only validated).
        """
        results: dict[str, BrokerError | None] = {}
        for some in chunks(sorted(changes.items()), _CONFIG_TOPICS_A_REQUEST):
            request = alter_configs_request(some, validate_only=validate_only)
            step = partial(self._client.send_to_controller, request)
            for one in self._client.retry("altering configs", step).responses:
                results[one.resource_name] = (
                    self._client.broker_error(
                        "altering the configs of a topic",
                        one.error_code,
                        one.resource_name,
                        one.error_message,
                    )
                    if one.error_code
                    else None
                )
        return results

    def delete_topics(self, topics: Sequence[TopicDescription]) -> dict[str, BrokerError | None]:
        """Deletes exactly these topics; None for each that is gone now.

        One without an id is kept: its name may belong to another topic by now.
        """
        unsupported = error_codes.UNSUPPORTED_VERSION
        results: dict[str, BrokerError | None] = {
            one.name: self._client.broker_error("deleting a topic by its id", unsupported, one.name)
            for one in topics
            if one.topic_id is None
        }
        identified = [one for one in topics if one.topic_id is not None]
        for some in chunks(identified, _NEW_TOPICS_A_REQUEST):
            names = {one.topic_id: one.name for one in some}
            request = delete_topics_request(some, self._broker_timeout_ms())
            step = partial(self._client.send_to_controller, request)
            for one in self._client.retry("deleting topics", step).responses:
                name = names[one.topic_id]
                is_gone = one.error_code in (0, _UNKNOWN_TOPIC_ID)
                results[name] = (
                    None
                    if is_gone
                    else self._client.broker_error(
                        "deleting a topic", one.error_code, name, one.error_message
                    )
                )
        return results

    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, BrokerError | None]:
        """Creates topics; None for each that was created (or would be, if only validated)."""
        results: dict[str, BrokerError | None] = {}
        for some in _by_partitions(topics):
            request = create_topics_request(
                some, self._broker_timeout_ms(), validate_only=validate_only
            )
            step = partial(self._client.send_to_controller, request)
            answer = self._client.retry("creating topics", step)
            results |= self._results("creating a topic", answer.topics)
        return results

    def await_topics(self, names: Sequence[str], timeout_seconds: float) -> None:
        """Returns once every partition of these new topics is served; BrokerError if not in time.

        Creation is acknowledged before the brokers have heard of it.
        """
        deadline = time.monotonic() + timeout_seconds
        while True:
            answer = self.topics(names)
            failed = list(answer.failed.values())
            if not failed:
                failed = list(self.earliest_offsets(_partitions(answer.found)).failed.values())
            if not failed:
                return
            if time.monotonic() > deadline:
                raise failed[0]
            self._client.pause(PAUSE_SECONDS)

    def create_partitions(self, totals: Mapping[str, int]) -> dict[str, BrokerError | None]:
        """Grows topics to the given numbers of partitions; None for each that has grown."""
        results: dict[str, BrokerError | None] = {}
        for some in chunks(sorted(totals.items()), _NEW_TOPICS_A_REQUEST):
            request = create_partitions_request(some, self._broker_timeout_ms())
            step = partial(self._client.send_to_controller, request)
            answer = self._client.retry("adding partitions", step)
            results |= self._results("adding partitions", answer.results)
        return results

    def earliest_offsets(
        self, topic_partitions: Iterable[TopicPartition]
    ) -> PartialResults[TopicPartition, int]:
        """The first offset that each partition still holds."""
        return _only_offsets(self._offsets(topic_partitions, EARLIEST, "read_uncommitted"))

    def end_offsets(
        self, topic_partitions: Iterable[TopicPartition], isolation_level: str = "read_committed"
    ) -> PartialResults[TopicPartition, int]:
        """The offset after the last record: the last stable one for read_committed."""
        return _only_offsets(self.log_ends(topic_partitions, isolation_level))

    def log_ends(
        self, topic_partitions: Iterable[TopicPartition], isolation_level: str
    ) -> PartialResults[TopicPartition, LogEnd]:
        """The offset after the last record, and the leader epoch now."""
        return self._offsets(topic_partitions, LATEST, isolation_level)

    def init_producer_id(self) -> ProducerState:
        """A producer id that nobody has used; a young cluster needs some seconds to give one."""
        doing = "asking for a producer id"
        deadline = time.monotonic() + self._client.connection.connect_timeout_seconds
        while True:
            answer = self._client.retry(
                doing, lambda: self._client.send(init_producer_id_request())
            )
            code = answer.error_code
            if not code:
                return ProducerState(answer.producer_id, answer.producer_epoch, 0)
            if not error_codes.is_retriable(code) or time.monotonic() > deadline:
                raise self._client.broker_error(doing, code, "")
            self._client.pause(PAUSE_SECONDS)

    def next_sequences(
        self, topic_partitions: Iterable[TopicPartition], producer_id: int
    ) -> dict[TopicPartition, int | None]:
        """With which sequence a producer goes on: 0 where it has not written, None if unknown.

        Brokers before 2.8 cannot be asked, nor may every principal ask. Partitions whose leader
        could not answer just now are left out.
        """
        wanted = frozenset(topic_partitions)
        step = partial(self._describe_producers, wanted)
        found, codes = self._client.retry("describing producers", step)
        sequences: dict[TopicPartition, int | None] = {
            tp: 0 if tp in found else None
            for tp in wanted
            if not error_codes.is_retriable(codes.get(tp, 0))
        }
        for tp, producers in found.items():
            for one in producers:
                if one.producer_id == producer_id:
                    sequences[tp] = (one.last_sequence + 1) & SEQUENCE_MASK
        return sequences

    def _describe_producers(
        self, wanted: frozenset[TopicPartition]
    ) -> tuple[dict[TopicPartition, Any], dict[TopicPartition, int]]:
        found: dict[TopicPartition, Any] = {}
        leaders, codes = self._client.partitions_by_leader(wanted)
        for leader, some in leaders.items():
            try:
                answer = self._client.send(describe_producers_request(some), leader)
            except UnsupportedVersionError:
                continue
            for topic in answer.topics:
                for one in topic.partitions:
                    tp = TopicPartition(topic.name, one.partition_index)
                    if one.error_code:
                        codes[tp] = one.error_code
                    else:
                        found[tp] = one.active_producers
        return found, codes

    def _offsets(
        self, topic_partitions: Iterable[TopicPartition], timestamp: int, isolation_level: str
    ) -> PartialResults[TopicPartition, LogEnd]:
        wanted = frozenset(topic_partitions)
        found: dict[TopicPartition, LogEnd] = {}
        codes: dict[TopicPartition, int] = {}
        deadline = time.monotonic() + _LEADER_SECONDS
        while wanted:
            step = partial(self._list_offsets, wanted, timestamp, isolation_level)
            some_found, some_codes = self._client.retry("asking for offsets", step)
            found |= some_found
            codes |= some_codes
            wanted = frozenset(tp for tp, code in some_codes.items() if code in LEADER_CODES)
            if time.monotonic() > deadline:
                break
            if wanted:
                self._client.pause(PAUSE_SECONDS)
        failed = {
            tp: self._client.broker_error(f"asking for the offsets of {tp}", code, tp.topic)
            for tp, code in codes.items()
            if tp not in found
        }
        return PartialResults(found, failed)

    def _list_offsets(
        self, wanted: frozenset[TopicPartition], timestamp: int, isolation_level: str
    ) -> tuple[dict[TopicPartition, LogEnd], dict[TopicPartition, int]]:
        found: dict[TopicPartition, LogEnd] = {}
        leaders, codes = self._client.partitions_by_leader(wanted)
        requests = {
            leader: list_offsets_request(some, timestamp, isolation_level)
            for leader, some in leaders.items()
        }
        for answer in self._client.send_to_each(requests).values():
            for topic in answer.topics:
                for partition in topic.partitions:
                    tp = TopicPartition(topic.name, partition.partition_index)
                    if partition.error_code:
                        codes[tp] = partition.error_code
                    else:
                        found[tp] = LogEnd(partition.offset, partition.leader_epoch)
        return found, codes

    def _metadata(self, doing: str, names: Sequence[str] | None) -> Any:
        return self._client.retry(doing, partial(self._client.metadata, names))

    def _describe_configs(self, names: Sequence[str]) -> RawResponse:
        return self._client.send_raw(describe_configs_request(names))

    def _broker_timeout_ms(self) -> int:
        # The broker shall give up before we do, so that its answer still reaches us.
        return round(self._client.connection.request_timeout_seconds * 900)

    def _results(self, doing: str, results: Iterable[Any]) -> dict[str, BrokerError | None]:
        return {
            r.name: self._client.broker_error(doing, r.error_code, r.name, r.error_message)
            if r.error_code
            else None
            for r in results
        }


def _only_offsets(
    ends: PartialResults[TopicPartition, LogEnd],
) -> PartialResults[TopicPartition, int]:
    return PartialResults({tp: end.offset for tp, end in ends.found.items()}, ends.failed)


def _topic_description(topic: Any) -> TopicDescription:
    return TopicDescription(
        topic.name,
        topic.topic_id if topic.topic_id is not None and topic.topic_id.int else None,
        partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replica_nodes) if topic.partitions else 0,
        is_internal=bool(topic.is_internal),
    )


def _partitions(topics: Mapping[str, TopicDescription]) -> list[TopicPartition]:
    return [TopicPartition(t.name, n) for t in topics.values() for n in range(t.partitions)]


def _config_entry(config: Any) -> ConfigEntry:
    return _entry(
        config.name, config.value, config.config_source, config.read_only, config.is_sensitive
    )


@lru_cache(maxsize=10_000)  # thousands of topics have the same few: one object for each is enough
def _entry(
    name: str, value: str | None, source: int, read_only: bool, sensitive: bool
) -> ConfigEntry:
    return ConfigEntry(
        name, value, ConfigSource(source), read_only=bool(read_only), sensitive=bool(sensitive)
    )


def _by_partitions(topics: Sequence[NewTopic]) -> list[list[NewTopic]]:
    chunks: list[list[NewTopic]] = []
    partitions = 0
    for topic in topics:
        partitions += topic.partitions
        full = len(chunks[-1]) >= _NEW_TOPICS_A_REQUEST if chunks else True
        if full or partitions > _NEW_PARTITIONS_A_REQUEST:
            chunks.append([])
            partitions = topic.partitions
        chunks[-1].append(topic)
    return chunks
