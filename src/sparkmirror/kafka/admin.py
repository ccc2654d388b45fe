# SPDX-License-Identifier: Apache-2.0
"""Topics, configs, offsets and producer ids of one cluster, in few requests.

Each topic has its own result: one failure does not affect the others. A `ClusterAdmin` belongs to
one thread.
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
    AdminClient,
    ClusterClient,
    partition_results,
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
    delete_records_request,
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
_MAX_CACHED_RESPONSES = 256
_MAX_UNUSED_CONFIGS = 5000
# A KRaft controller refuses requests that would write more than 10,000 metadata records.
_NEW_TOPICS_A_REQUEST = 200
_UNKNOWN_TOPIC_ID = 100
_NEW_PARTITIONS_A_REQUEST = 4000
# A new topic is in the metadata before its leaders serve it; an election takes as long.
_LEADER_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class _CachedConfigs:
    """A DescribeConfigs response, encoded and decoded."""

    body: bytes
    found: Mapping[str, TopicConfigs]
    failed: Mapping[str, BrokerError]


class ClusterAdmin(AdminClient):
    """Admin requests to one cluster."""

    def __init__(self, connection: ConnectionSettings, client: ClusterClient | None = None) -> None:
        super().__init__(connection, client)
        self._cached_configs: dict[tuple[str, ...], _CachedConfigs] = {}
        self._known_configs: dict[str, TopicConfigs] = {}

    def cluster(self) -> ClusterDescription:
        """Return the cluster's id and its live brokers."""
        answer = self._metadata("describing the cluster", [])
        return ClusterDescription(
            answer.cluster_id,
            tuple(Broker(b.node_id, b.host, b.port, b.rack) for b in answer.brokers),
        )

    def topics(self, names: Sequence[str] | None = None) -> PartialResults[str, TopicDescription]:
        """Describe the named topics (default: all that the principal may describe)."""
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
        """Return every config of the named topics, with its source.

        Configs that did not change since the last call are the same object.
        """
        answers: dict[tuple[str, ...], _CachedConfigs] = {}
        for some in map(tuple, chunks(sorted(names), _CONFIG_TOPICS_A_REQUEST)):
            step = partial(self._describe_configs, some)
            raw = self._client.retry("describing configs", step)
            cached = self._cached_configs.pop(some, None)
            if cached is None or cached.body != raw.body:
                cached = self._decoded_configs(raw)
            answers[some] = cached
        self._cached_configs |= answers  # in order of use
        for old in list(self._cached_configs)[:-_MAX_CACHED_RESPONSES]:
            del self._cached_configs[old]
        found = {name: one for cached in answers.values() for name, one in cached.found.items()}
        self._known_configs |= found
        if len(self._known_configs) > 2 * len(found) + _MAX_UNUSED_CONFIGS:  # of deleted topics
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
        """Set the given configs of topics; a value of None deletes the topic's own value.

        Returns None for each topic that was altered (or would be, if only validated).
        """
        results: dict[str, BrokerError | None] = {}
        for some in chunks(sorted(changes.items()), _CONFIG_TOPICS_A_REQUEST):
            request = alter_configs_request(some, validate_only=validate_only)
            answer = self._client.retry_on_controller("altering configs", request)
            named = [(one.resource_name, one) for one in answer.responses]
            results |= self._results("altering the configs of a topic", named)
        return results

    def delete_topics(self, topics: Sequence[TopicDescription]) -> dict[str, BrokerError | None]:
        """Delete topics by their ids; returns None for each that does not exist any more.

        A topic without an id is not deleted: its name may belong to another topic now.
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
            answer = self._client.retry_on_controller("deleting topics", request)
            named = [(names[one.topic_id], one) for one in answer.responses]
            results |= self._results("deleting a topic", named, success=(0, _UNKNOWN_TOPIC_ID))
        return results

    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, BrokerError | None]:
        """Create topics; returns None for each that was created (or would be, if validated)."""
        results: dict[str, BrokerError | None] = {}
        for some in _by_partitions(topics):
            request = create_topics_request(
                some, self._broker_timeout_ms(), validate_only=validate_only
            )
            answer = self._client.retry_on_controller("creating topics", request)
            named = [(one.name, one) for one in answer.topics]
            results |= self._results("creating a topic", named)
        return results

    def await_topics(self, names: Sequence[str], timeout_seconds: float) -> None:
        """Block until the leaders serve every partition of these new topics.

        The controller acknowledges a creation before the brokers apply it. Raises BrokerError after
        the timeout.
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
        """Add partitions up to the given totals; returns None for each topic that has them."""
        results: dict[str, BrokerError | None] = {}
        for some in chunks(sorted(totals.items()), _NEW_TOPICS_A_REQUEST):
            request = create_partitions_request(some, self._broker_timeout_ms())
            answer = self._client.retry_on_controller("adding partitions", request)
            named = [(one.name, one) for one in answer.results]
            results |= self._results("adding partitions", named)
        return results

    def earliest_offsets(
        self, topic_partitions: Iterable[TopicPartition]
    ) -> PartialResults[TopicPartition, int]:
        """Return the log start offset of each partition."""
        return _only_offsets(self._offsets(topic_partitions, EARLIEST, "read_uncommitted"))

    def end_offsets(
        self, topic_partitions: Iterable[TopicPartition], isolation_level: str = "read_committed"
    ) -> PartialResults[TopicPartition, int]:
        """Return the high watermarks, or the last stable offsets for read_committed."""
        return _only_offsets(self.log_ends(topic_partitions, isolation_level))

    def log_ends(
        self, topic_partitions: Iterable[TopicPartition], isolation_level: str
    ) -> PartialResults[TopicPartition, LogEnd]:
        """Return the end offsets and the current leader epochs."""
        return self._offsets(topic_partitions, LATEST, isolation_level)

    def offsets_at(
        self, topic_partitions: Iterable[TopicPartition], timestamp_ms: int
    ) -> PartialResults[TopicPartition, int]:
        """Return the first offset at or after a time in each partition; -1 if there is none."""
        return _only_offsets(self._offsets(topic_partitions, timestamp_ms, "read_uncommitted"))

    def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, BrokerError]:
        """Delete the records before these offsets; returns the errors."""
        wanted = frozenset(before)
        codes: dict[TopicPartition, int] = {}
        deadline = time.monotonic() + _LEADER_SECONDS
        while wanted:
            step = partial(self._delete_records, {tp: before[tp] for tp in wanted})
            codes = self._client.retry("deleting records", step)
            wanted = frozenset(tp for tp, code in codes.items() if code in LEADER_CODES)
            if time.monotonic() > deadline:
                break
            if wanted:
                self._client.pause(PAUSE_SECONDS)
        return {
            tp: self._client.broker_error(f"deleting the records of {tp}", code, tp.topic)
            for tp, code in codes.items()
        }

    def _delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        leaders, codes = self._client.partitions_by_leader(before)
        requests = {
            leader: delete_records_request(
                {tp: before[tp] for tp in some}, self._broker_timeout_ms()
            )
            for leader, some in leaders.items()
        }
        for answer in self._client.send_to_each(requests).values():
            codes |= {
                tp: one.error_code for tp, one in partition_results(answer.topics) if one.error_code
            }
        return codes

    def init_producer_id(self) -> ProducerState:
        """Return a new producer id; retries, because a new cluster needs some seconds for it."""
        doing = "requesting a producer id"
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
        """Return a producer's next sequences: 0 where it has not written, None if unknown.

        Unknown with brokers before 2.8, or without permission. Omits partitions whose leader does
        not answer now.
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
            for tp, one in partition_results(answer.topics):
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
            some_found, some_codes = self._client.retry("listing offsets", step)
            found |= some_found
            codes |= some_codes
            wanted = frozenset(tp for tp, code in some_codes.items() if code in LEADER_CODES)
            if time.monotonic() > deadline:
                break
            if wanted:
                self._client.pause(PAUSE_SECONDS)
        failed = {
            tp: self._client.broker_error(f"listing the offsets of {tp}", code, tp.topic)
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
            for tp, one in partition_results(answer.topics):
                if one.error_code:
                    codes[tp] = one.error_code
                else:
                    found[tp] = LogEnd(one.offset, one.leader_epoch)
        return found, codes

    def _metadata(self, doing: str, names: Sequence[str] | None) -> Any:
        return self._client.retry(doing, partial(self._client.metadata, names))

    def _describe_configs(self, names: Sequence[str]) -> RawResponse:
        return self._client.send_raw(describe_configs_request(names))

    def _broker_timeout_ms(self) -> int:
        # Shorter than the request timeout, so that the broker's response still arrives.
        return round(self._client.connection.request_timeout_seconds * 900)

    def _results(
        self, doing: str, named: Iterable[tuple[str, Any]], success: Sequence[int] = (0,)
    ) -> dict[str, BrokerError | None]:
        return {
            name: None
            if one.error_code in success
            else self._client.broker_error(doing, one.error_code, name, one.error_message)
            for name, one in named
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


@lru_cache(maxsize=10_000)  # saves memory: thousands of topics have the same few entries
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
