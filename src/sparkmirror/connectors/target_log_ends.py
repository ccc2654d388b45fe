# SPDX-License-Identifier: Apache-2.0
"""Checks whether remote partitions still end with what an exactly-once flow committed.

A stored position has the target offset of the last committed record, or of the marker after it. A
log that ends before it has lost records. So has a log with something else at this offset: what a
later, aborted transaction wrote. Such a log is valid up to its last committed record. The check
runs after fencing: an open transaction of ours has lost its marker.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from sparkmirror.errors import BrokerError, UnreachableError
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import LEADER_CODES, PAUSE_SECONDS, ClusterClient
from sparkmirror.kafka.log_records import committed_batches
from sparkmirror.kafka.topic_requests import chunks, log_fetch_request
from sparkmirror.kafka.transactions import TransactionalIds, open_transactions
from sparkmirror.model import TopicPartition
from sparkmirror.wire.error_codes import NOT_AUTHORIZED, UNSUPPORTED_VERSION

_FETCH_SIZES = ((200, 64 << 10), (15, 1 << 20), (1, 1 << 20))  # partitions, bytes of each
_STABLE_SECONDS = 2.0  # followers have fetched the last markers by then
_FIRST_STEP_BACK = 1000  # offsets
_STEP_FACTOR = 8
_OPERATION = "reading the end of remote topics"


class LogEndCheck(NamedTuple):
    """The ends of remote partitions."""

    truncated: dict[TopicPartition, int]  # one past the last remaining committed record
    open_since: dict[TopicPartition, int]  # start of an own transaction that never ends
    unknown: set[TopicPartition]  # no leader at the moment, or no clear response
    unreadable: set[TopicPartition]  # truncated; READ is not permitted


class _BatchState(NamedTuple):
    """A record batch of a remote partition."""

    base_offset: int
    next_offset: int
    is_committed: bool  # and contains records, not a marker
    is_commit_marker: bool


class TargetLogEnds:
    """The remote partitions of one flow. Not thread-safe."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._admin = ClusterAdmin(client.connection, client)

    def check(
        self, last_records: Mapping[TopicPartition, int], producer_ids: Collection[int]
    ) -> LogEndCheck:
        """Compare the log ends with the last committed records of these producers."""
        ends = self._admin.end_offsets(last_records, "read_uncommitted")
        stable = self._stable_ends(ends.found)
        blocked = [tp for tp, offset in stable.items() if offset < ends.found[tp]]
        open_since = self._open_since(blocked, producer_ids, stable)
        lost = {tp for tp, end in ends.found.items() if end <= last_records[tp]}
        lost |= {tp for tp, offset in open_since.items() if offset <= last_records[tp]}
        replaced, unknown = self._replaced(
            {tp: last_records[tp] for tp in ends.found if tp not in lost}
        )
        lost |= replaced
        firsts = self._admin.earliest_offsets(lost)
        for error in firsts.failed.values():
            raise error
        truncated: dict[TopicPartition, int] = {}
        unreadable: set[TopicPartition] = set()
        for tp in sorted(lost):
            before = min(ends.found[tp], last_records[tp] + 1)
            end = self._committed_end(tp, firsts.found[tp], before, stable.get(tp, before))
            if end is None:
                unreadable.add(tp)
            else:
                truncated[tp] = end
        unknown |= ends.failed.keys() | (ends.found.keys() - stable.keys())
        return LogEndCheck(truncated, open_since, unknown - lost, unreadable)

    def committed_ends(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int | None]:
        """Return one past the last committed record; None: READ is not permitted."""
        wanted = [*partitions]
        firsts = self._admin.earliest_offsets(wanted)
        ends = self._admin.end_offsets(wanted, "read_uncommitted")
        for error in (firsts.failed | ends.failed).values():
            raise error
        stable = self._stable_ends(ends.found)
        return {
            tp: self._committed_end(tp, firsts.found[tp], ends.found[tp], stable[tp])
            for tp in wanted
        }

    def _stable_ends(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return last stable offsets, once followers have fetched what is decided."""
        found: dict[TopicPartition, int] = {}
        deadline = time.monotonic() + _STABLE_SECONDS
        pending: Collection[TopicPartition] = ends
        while True:
            found |= self._admin.end_offsets(pending, "read_committed").found
            pending = [tp for tp in pending if found.get(tp, 0) < ends[tp]]
            if not pending or time.monotonic() > deadline:
                return found
            time.sleep(PAUSE_SECONDS)

    def _open_since(
        self,
        blocked: Sequence[TopicPartition],
        producer_ids: Collection[int],
        stable: Mapping[TopicPartition, int],
    ) -> dict[TopicPartition, int]:
        """Return transactions whose marker was truncated: every writer of ours is fenced.

        A producer id that no coordinator knows was ours as well, before its epochs ran out.
        """
        if not blocked:
            return {}
        try:
            found = self._client.retry(_OPERATION, lambda: open_transactions(self._client, blocked))
        except BrokerError as error:
            if error.code != UNSUPPORTED_VERSION:
                raise
            return {tp: stable[tp] for tp in blocked}  # before Kafka 2.8 the owner is unknown
        names = TransactionalIds(self._client.connection, self._client).names_by_producer_id()
        return {
            one.tp: one.first_offset
            for one in found
            if one.producer_id in producer_ids or (names and one.producer_id not in names)
        }

    def _replaced(
        self, last_records: Mapping[TopicPartition, int]
    ) -> tuple[set[TopicPartition], set[TopicPartition]]:
        """Return partitions with something else at these offsets, and those without an answer."""
        found: set[TopicPartition] = set()
        pending = sorted(last_records)
        for per_request, partition_bytes in _FETCH_SIZES:
            empty: list[TopicPartition] = []
            for chunk in chunks(pending, per_request):
                results, codes = self._fetch(
                    {tp: last_records[tp] for tp in chunk}, partition_bytes
                )
                # A broker returns a larger batch only for the first partition with data.
                empty += [tp for tp, batches in results.items() if not batches]
                empty += [tp for tp, code in codes.items() if code in LEADER_CODES]
                # If the log starts later, or READ is not permitted, tasks detect what they can.
                found |= {
                    tp
                    for tp, batches in results.items()
                    if batches and tp not in codes and _is_missing(batches, last_records[tp])
                }
            pending = empty
        return found, set(pending)

    def _committed_end(
        self, tp: TopicPartition, first: int, before: int, stable: int
    ) -> int | None:
        """Search backwards for the last committed record before an offset; return its end.

        Nothing at or after the last stable offset is committed. None: READ is not permitted.
        """
        back = _FIRST_STEP_BACK
        try:
            while True:
                start = max(first, before - back)
                end = self._last_committed(tp, start, min(before, stable))
                if end is not None or start == first:
                    return first if end is None else end
                back *= _STEP_FACTOR
        except BrokerError as error:
            if error.code in NOT_AUTHORIZED:
                return None
            raise

    def _last_committed(self, tp: TopicPartition, start: int, before: int) -> int | None:
        end, position = None, start
        while position < before:
            results, codes = self._fetch({tp: position}, _FETCH_SIZES[-1][1])
            if tp in codes and codes[tp] not in LEADER_CODES:
                raise self._client.broker_error(_OPERATION, codes[tp], tp.topic)
            if not results.get(tp):
                alias = self._client.connection.alias
                raise UnreachableError(
                    f"Cluster '{alias}': the leader of {tp} does not respond; retrying.",
                    cluster=alias,
                )
            for one in results[tp]:
                if one.is_committed and one.base_offset < before:
                    end = min(one.next_offset, before)
            position = results[tp][-1].next_offset
        return end

    def _fetch(
        self, positions: Mapping[TopicPartition, int], partition_bytes: int
    ) -> tuple[dict[TopicPartition, list[_BatchState]], dict[TopicPartition, int]]:
        return self._client.retry(_OPERATION, partial(self._fetch_once, positions, partition_bytes))

    def _fetch_once(
        self, positions: Mapping[TopicPartition, int], partition_bytes: int
    ) -> tuple[dict[TopicPartition, list[_BatchState]], dict[TopicPartition, int]]:
        found: dict[TopicPartition, list[_BatchState]] = {}
        leaders, codes = self._client.partitions_by_leader(positions)
        for leader, partitions in leaders.items():
            chunk = {tp: positions[tp] for tp in partitions}
            request = log_fetch_request(chunk, "read_committed", partition_bytes=partition_bytes)
            for topic in self._client.send(request, leader).responses:
                for one in topic.partitions:
                    tp = TopicPartition(topic.topic, one.partition_index)
                    if one.error_code:
                        codes[tp] = one.error_code
                    else:
                        found[tp] = [*_batch_states(one)]
        return found, codes


def _batch_states(partition: Any) -> Iterable[_BatchState]:
    aborted = [(a.producer_id, a.first_offset) for a in partition.aborted_transactions or ()]
    for batch, is_committed in committed_batches(memoryview(partition.records or b""), aborted):
        is_commit_marker = batch.is_control and not (batch.count and batch.is_abort_marker())
        yield _BatchState(batch.base_offset, batch.next_offset, is_committed, is_commit_marker)


def _is_missing(batches: Sequence[_BatchState], offset: int) -> bool:
    """Whether something else replaced a committed record or the marker after it.

    Records removed by compaction are not missing.
    """
    first = batches[0]
    is_expected = first.is_committed or first.is_commit_marker
    return first.base_offset <= offset and not is_expected
