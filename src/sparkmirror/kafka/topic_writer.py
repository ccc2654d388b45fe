# SPDX-License-Identifier: Apache-2.0
"""Append record batches to one topic, each to its partition's leader."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from functools import partial

from sparkmirror.kafka.cluster_client import PAUSE_SECONDS, ClusterClient
from sparkmirror.kafka.topic_requests import produce_request
from sparkmirror.model import TopicPartition
from sparkmirror.wire import error_codes

FindLeaders = Callable[
    [Collection[TopicPartition]],
    tuple[Mapping[int, list[TopicPartition]], dict[TopicPartition, int]],
]


class TopicWriter:
    """Belongs to one thread; does not close the client.

    Caches the leaders, unless the caller does: `find_leaders` returns the partitions by leader, and
    error codes of those without one; `forget_leaders` clears the caller's cache after an error.
    """

    def __init__(
        self,
        client: ClusterClient,
        topic: str,
        find_leaders: FindLeaders | None = None,
        forget_leaders: Callable[[], None] | None = None,
    ) -> None:
        self._client = client
        self._topic = topic
        self._leaders: dict[TopicPartition, int] = {}
        self._find_leaders = find_leaders or self._known_leaders
        self._forget_leaders = forget_leaders or self._leaders.clear

    def append(self, batches: Mapping[int, bytes]) -> dict[TopicPartition, int]:
        """Write a record batch to each of some partitions with acks=all; returns their offsets.

        Writes the same bytes again if a response is lost. The offset of a duplicate is -1 if the
        broker does not remember it. BrokerError if a write fails permanently, or until the request
        timeout.
        """
        left = {TopicPartition(self._topic, index): batch for index, batch in batches.items()}
        offsets: dict[TopicPartition, int] = {}
        deadline = time.monotonic() + self._client.connection.request_timeout_seconds
        while left:
            step = partial(self._produce, left)
            found, codes = self._client.retry(f"writing to topic '{self._topic}'", step)
            offsets |= found
            left = {tp: batch for tp, batch in left.items() if tp not in found}
            for tp, code in codes.items():
                if not error_codes.is_retriable(code) or time.monotonic() > deadline:
                    raise self._client.broker_error(f"writing to {tp}", code, self._topic)
            if left:
                self._forget_leaders()
                self._client.pause(PAUSE_SECONDS)
        return offsets

    def _produce(
        self, batches: Mapping[TopicPartition, bytes]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Return the offsets of the written batches, and the error codes of the others."""
        offsets: dict[TopicPartition, int] = {}
        timeout_ms = round(self._client.connection.request_timeout_seconds * 1000)
        try:
            leaders, codes = self._find_leaders(batches.keys())
            requests = {
                leader: produce_request(
                    self._topic, {tp.partition: batches[tp] for tp in some}, timeout_ms
                )
                for leader, some in leaders.items()
            }
            responses = self._client.send_to_each(requests)
        except Exception:
            self._forget_leaders()
            raise
        for one in (
            one
            for response in responses.values()
            for topic in response.responses
            for one in topic.partition_responses
        ):
            tp = TopicPartition(self._topic, one.index)
            if one.error_code in (0, error_codes.DUPLICATE_SEQUENCE_NUMBER):
                offsets[tp] = one.base_offset
            else:
                codes[tp] = one.error_code
        unserved = batches.keys() - offsets.keys() - codes.keys()
        return offsets, codes | dict.fromkeys(unserved, error_codes.NO_LEADER)

    def _known_leaders(
        self, wanted: Collection[TopicPartition]
    ) -> tuple[Mapping[int, list[TopicPartition]], dict[TopicPartition, int]]:
        codes: dict[TopicPartition, int] = {}
        missing = set(wanted) - self._leaders.keys()
        if missing:
            found, codes = self._client.partitions_by_leader(missing)
            self._leaders |= {tp: leader for leader, some in found.items() for tp in some}
        leaders: dict[int, list[TopicPartition]] = defaultdict(list)
        for tp in wanted:
            if tp in self._leaders:
                leaders[self._leaders[tp]].append(tp)
        return leaders, codes
