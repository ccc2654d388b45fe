# SPDX-License-Identifier: Apache-2.0
"""Whether remote partitions still end with what an exactly-once flow committed there.

A stored position names the target offset of the last committed record, or of the marker behind
it. A log that ends before it has lost records. So has one that holds something else there: what a
transaction wrote since that was aborted. Such a log counts up to its last committed record. Asked
after every writer has been fenced: a transaction of ours that is still open has lost its marker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from sparkmirror.errors import UnreachableError, UnsupportedVersionError
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import LEADER_CODES, ClusterClient
from sparkmirror.kafka.log_records import committed_batches
from sparkmirror.kafka.topic_requests import chunks, log_fetch_request
from sparkmirror.kafka.transactions import open_transactions
from sparkmirror.model import TopicPartition

_RECORD_AND_MARKER = 2  # what a log holds from its last committed record on, if nothing came since
_A_REQUEST = 200  # partitions
_PARTITION_BYTES = 64 << 10
_FIRST_STEP_BACK = 1000  # offsets
_LONGER_STEP = 8
_DOING = "reading the end of remote topics"


class LogEndCheck(NamedTuple):
    """How remote partitions end."""

    truncated: dict[TopicPartition, int]  # behind the last committed record that is left
    open_since: dict[TopicPartition, int]  # where a transaction of ours begins that never ends
    unknown: set[TopicPartition]  # nobody leads them just now


class _BatchState(NamedTuple):
    """A record batch of a remote partition."""

    base_offset: int
    next_offset: int
    is_committed: bool  # and holds records, not a marker
    is_commit_marker: bool


class TargetLogEnds:
    """The remote partitions of one flow; belongs to one thread."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._admin = ClusterAdmin(client.connection, client)

    def check(
        self, last_records: Mapping[TopicPartition, int], producer_ids: Collection[int]
    ) -> LogEndCheck:
        """Hold the ends against the last committed records of these producers."""
        ends = self._admin.end_offsets(last_records, "read_uncommitted")
        stable = self._admin.end_offsets(ends.found, "read_committed").found
        doubtful = {
            tp: last_records[tp]
            for tp, end in ends.found.items()
            if end > last_records[tp] + _RECORD_AND_MARKER
        }
        held_up = [tp for tp, offset in stable.items() if offset < ends.found[tp]]
        open_since = self._open_since(held_up, producer_ids)
        lost = {tp for tp, end in ends.found.items() if end <= last_records[tp]}
        lost |= {tp for tp, offset in open_since.items() if offset <= last_records[tp]}
        lost |= self._replaced(doubtful)
        firsts = self._admin.earliest_offsets(lost)
        for error in firsts.failed.values():
            raise error
        truncated = {
            tp: self._committed_end(tp, firsts.found[tp], min(ends.found[tp], last_records[tp] + 1))
            for tp in sorted(lost)
        }
        return LogEndCheck(truncated, open_since, set(ends.failed))

    def _open_since(
        self, held_up: Sequence[TopicPartition], producer_ids: Collection[int]
    ) -> dict[TopicPartition, int]:
        """Transactions of fenced producers that no coordinator knows: a cut took their marker."""
        if not held_up:
            return {}
        try:
            found = open_transactions(self._client, held_up)
        except UnsupportedVersionError:
            return {}  # brokers before Kafka 2.8 cannot tell
        return {one.tp: one.first_offset for one in found if one.producer_id in producer_ids}

    def _replaced(self, last_records: Mapping[TopicPartition, int]) -> set[TopicPartition]:
        """Those that hold something else, or nothing that can be read, at these offsets."""
        found: set[TopicPartition] = set()
        for some in chunks(sorted(last_records), _A_REQUEST):
            wanted = {tp: last_records[tp] for tp in some}
            answers, codes = self._fetch(wanted)
            # A broker gives at least one record batch only of the first partition that has any.
            for tp in [tp for tp, batches in answers.items() if not batches]:
                again, more_codes = self._fetch({tp: wanted[tp]})
                answers |= again
                codes |= more_codes
            # Without an answer, or where the log begins later, the tasks notice what they can.
            found |= {
                tp
                for tp, batches in answers.items()
                if tp not in codes and _is_missing(batches, wanted[tp])
            }
        return found

    def _committed_end(self, tp: TopicPartition, first: int, before: int) -> int:
        """The offset behind the last committed record before an offset, searched backwards."""
        back = _FIRST_STEP_BACK
        while True:
            start = max(first, before - back)
            end = self._last_committed(tp, start, before)
            if end is not None or start == first:
                return first if end is None else end
            back *= _LONGER_STEP

    def _last_committed(self, tp: TopicPartition, start: int, before: int) -> int | None:
        end, position = None, start
        while position < before:
            answers, codes = self._fetch({tp: position})
            if tp in codes and codes[tp] not in LEADER_CODES:
                raise self._client.broker_error(_DOING, codes[tp], tp.topic)
            if tp not in answers:
                alias = self._client.connection.alias
                raise UnreachableError(
                    f"Cluster '{alias}': the leader of {tp} does not answer just now; "
                    "trying again.",
                    cluster=alias,
                )
            if not answers[tp]:
                break  # undecided from here on
            for one in answers[tp]:
                if one.is_committed and one.base_offset < before:
                    end = min(one.next_offset, before)
            position = answers[tp][-1].next_offset
        return end

    def _fetch(
        self, positions: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, list[_BatchState]], dict[TopicPartition, int]]:
        return self._client.retry(_DOING, partial(self._fetch_once, positions))

    def _fetch_once(
        self, positions: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, list[_BatchState]], dict[TopicPartition, int]]:
        found: dict[TopicPartition, list[_BatchState]] = {}
        leaders, codes = self._client.partitions_by_leader(positions)
        for leader, some in leaders.items():
            wanted = {tp: positions[tp] for tp in some}
            request = log_fetch_request(wanted, "read_committed", partition_bytes=_PARTITION_BYTES)
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
    """Whether something else took the place of a committed record or of the marker behind it.

    What the cleaner removed is not missing.
    """
    if not batches:
        return True
    first = batches[0]
    is_right = first.is_committed or first.is_commit_marker
    return first.base_offset <= offset and not is_right
