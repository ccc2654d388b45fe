# SPDX-License-Identifier: Apache-2.0
"""Appends record batches to one topic, each to its partition's leader."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from functools import partial

from sparkmirror.kafka.cluster_client import PAUSE_SECONDS, ClusterClient
from sparkmirror.kafka.topic_requests import produce_request
from sparkmirror.model import TopicPartition
from sparkmirror.wire import error_codes


class TopicWriter:
    """Remembers the leaders. Belongs to one thread, and to whoever owns the client."""

    def __init__(self, client: ClusterClient, topic: str) -> None:
        self._client = client
        self._topic = topic
        self._leaders: dict[TopicPartition, int] = {}

    def append(self, batches: Mapping[int, bytes]) -> None:
        """Write a record batch to each of some partitions, and wait for all replicas.

        The same bytes are written again if a response is lost. BrokerError if a partition does
        not take its batch, or not within the request timeout.
        """
        left = {TopicPartition(self._topic, index): batch for index, batch in batches.items()}
        deadline = time.monotonic() + self._client.connection.request_timeout_seconds
        while left:
            step = partial(self._produce, left)
            codes = self._client.retry(f"writing to topic '{self._topic}'", step)
            left = {tp: left[tp] for tp in codes}
            for tp, code in codes.items():
                if not error_codes.is_retriable(code) or time.monotonic() > deadline:
                    raise self._client.broker_error(f"writing to {tp}", code, self._topic)
            if left:
                self._client.pause(PAUSE_SECONDS)

    def _produce(self, batches: Mapping[TopicPartition, bytes]) -> dict[TopicPartition, int]:
        """The error codes of those partitions that did not take theirs."""
        timeout_ms = round(self._client.connection.request_timeout_seconds * 1000)
        codes = self._find_leaders(batches)
        by_leader: dict[int, dict[int, bytes]] = defaultdict(dict)
        for tp, batch in batches.items():
            if tp in self._leaders:
                by_leader[self._leaders[tp]][tp.partition] = batch
        requests = {
            leader: produce_request(self._topic, some, timeout_ms)
            for leader, some in by_leader.items()
        }
        known, self._leaders = self._leaders, {}  # unless all goes well
        for response in self._client.send_to_each(requests).values():
            for topic in response.responses:
                for one in topic.partition_responses:
                    if one.error_code:
                        codes[TopicPartition(self._topic, one.index)] = one.error_code
        self._leaders = {tp: leader for tp, leader in known.items() if tp not in codes}
        return codes

    def _find_leaders(self, wanted: Mapping[TopicPartition, object]) -> dict[TopicPartition, int]:
        """Ask for leaders that are not known; error codes of partitions without one."""
        missing = wanted.keys() - self._leaders.keys()
        if not missing:
            return {}
        leaders, codes = self._client.partitions_by_leader(missing)
        self._leaders |= {tp: leader for leader, some in leaders.items() for tp in some}
        return codes
