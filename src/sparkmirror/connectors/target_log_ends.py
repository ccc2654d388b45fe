# SPDX-License-Identifier: Apache-2.0
"""Checks whether remote partitions still end with what an exactly-once flow committed.

A stored position has the target offset of the last committed record, or of the marker after it. A
log that ends before it has lost records. So has a log with something else at this offset: what a
later, aborted transaction wrote. Such a log is valid up to its last committed record. The check
runs after fencing: an open transaction of ours has lost its marker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from kafka.errors import IncompatibleBrokerVersion

from sparkmirror.errors import UnreachableError
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import LEADER_CODES, ClusterClient
from sparkmirror.kafka.log_records import committed_batches
from sparkmirror.kafka.topic_requests import chunks, log_fetch_request
from sparkmirror.kafka.transactions import open_transactions
from sparkmirror.model import TopicPartition

_RECORD_AND_MARKER = 2  # offsets from the last committed record on, if nothing was written since
_PARTITIONS_PER_REQUEST = 200
_PARTITION_BYTES = 64 << 10
_FIRST_STEP_BACK = 1000  # offsets
_STEP_FACTOR = 8
_OPERATION = "reading the end of remote topics"


class LogEndCheck(NamedTuple):
    """The ends of remote partitions."""

    truncated: dict[TopicPartition, int]  # one past the last remaining committed record
    open_since: dict[TopicPartition, int]  # start of an own transaction that never ends
    unknown: set[TopicPartition]  # no leader at the moment


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
        stable = self._admin.end_offsets(ends.found, "read_committed").found
        candidates = {
            tp: last_records[tp]
            for tp, end in ends.found.items()
            if end > last_records[tp] + _RECORD_AND_MARKER
        }
        blocked = [tp for tp, offset in stable.items() if offset < ends.found[tp]]
        open_since = self._open_since(blocked, producer_ids)
        lost = {tp for tp, end in ends.found.items() if end <= last_records[tp]}
        lost |= {tp for tp, offset in open_since.items() if offset <= last_records[tp]}
        lost |= self._replaced(candidates)
        firsts = self._admin.earliest_offsets(lost)
        for error in firsts.failed.values():
            raise error
        truncated = {
            tp: self._committed_end(tp, firsts.found[tp], min(ends.found[tp], last_records[tp] + 1))
            for tp in sorted(lost)
        }
        return LogEndCheck(truncated, open_since, set(ends.failed))

    def _open_since(
        self, blocked: Sequence[TopicPartition], producer_ids: Collection[int]
    ) -> dict[TopicPartition, int]:
        """Return transactions of fenced producers whose marker was truncated."""
        if not blocked:
            return {}
        try:
            found = open_transactions(self._client, blocked)
        except IncompatibleBrokerVersion:
            return {}  # not supported before Kafka 2.8
        return {one.tp: one.first_offset for one in found if one.producer_id in producer_ids}

    def _replaced(self, last_records: Mapping[TopicPartition, int]) -> set[TopicPartition]:
        """Return partitions with something else, or nothing readable, at these offsets."""
        found: set[TopicPartition] = set()
        for chunk in chunks(sorted(last_records), _PARTITIONS_PER_REQUEST):
            positions = {tp: last_records[tp] for tp in chunk}
            results, codes = self._fetch(positions)
            # A broker returns at least one record batch only for the first partition with data.
            for tp in [tp for tp, batches in results.items() if not batches]:
                again, more_codes = self._fetch({tp: positions[tp]})
                results |= again
                codes |= more_codes
            # Without a response, or if the log starts later, the tasks detect what they can.
            found |= {
                tp
                for tp, batches in results.items()
                if tp not in codes and _is_missing(batches, positions[tp])
            }
        return found

    def _committed_end(self, tp: TopicPartition, first: int, before: int) -> int:
        """Search backwards for the last committed record before an offset; return its end."""
        back = _FIRST_STEP_BACK
        while True:
            start = max(first, before - back)
            end = self._last_committed(tp, start, before)
            if end is not None or start == first:
                return first if end is None else end
            back *= _STEP_FACTOR

    def _last_committed(self, tp: TopicPartition, start: int, before: int) -> int | None:
        end, position = None, start
        while position < before:
            results, codes = self._fetch({tp: position})
            if tp in codes and codes[tp] not in LEADER_CODES:
                raise self._client.broker_error(_OPERATION, codes[tp], tp.topic)
            if tp not in results:
                alias = self._client.connection.alias
                raise UnreachableError(
                    f"Cluster '{alias}': the leader of {tp} does not respond; retrying.",
                    cluster=alias,
                )
            if not results[tp]:
                break  # undecided from here on
            for one in results[tp]:
                if one.is_committed and one.base_offset < before:
                    end = min(one.next_offset, before)
            position = results[tp][-1].next_offset
        return end

    def _fetch(
        self, positions: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, list[_BatchState]], dict[TopicPartition, int]]:
        return self._client.retry(_OPERATION, partial(self._fetch_once, positions))

    def _fetch_once(
        self, positions: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, list[_BatchState]], dict[TopicPartition, int]]:
        found: dict[TopicPartition, list[_BatchState]] = {}
        leaders, codes = self._client.partitions_by_leader(positions)
        for leader, partitions in leaders.items():
            chunk = {tp: positions[tp] for tp in partitions}
            request = log_fetch_request(chunk, "read_committed", partition_bytes=_PARTITION_BYTES)
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
    if not batches:
        return True
    first = batches[0]
    is_expected = first.is_committed or first.is_commit_marker
    return first.base_offset <= offset and not is_expected
