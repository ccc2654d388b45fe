# SPDX-License-Identifier: Apache-2.0
"""Decides which record batches of the source another flow has copied there, to prevent loops.

A flow registers its producer id on its target, here the source, before it writes the first record
batch under it. A partition whose next batch has an unknown producer id waits: the task requests the
end of the registry topic after it has seen the batch, reads up to it, and then decides. A producer
that is not registered by then is local. The registry is read with the source's fetcher, from its
start, and stays in its session, so producers registered later are usually known before their first
batch arrives. If the registry cannot be read, the partition waits. Owned by the task's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from sparkmirror.errors import CorruptRecordBatchError, WireError
from sparkmirror.formats.producer_registry import RegisteredProducer
from sparkmirror.model import TopicPartition
from sparkmirror.task.copy_partition import CopyPartition
from sparkmirror.task.incident_reporter import IncidentReporter
from sparkmirror.task.messages import TaskSettings
from sparkmirror.task.producer_verdicts import MAX_LOCAL, ProducerVerdicts
from sparkmirror.wire import error_codes
from sparkmirror.wire.backoff import Backoff
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.fetch_partition import FetchPartition, LogChangeListener
from sparkmirror.wire.fetcher import Fetcher
from sparkmirror.wire.log_queries import request_epoch_end, request_log_bounds, request_topic_error
from sparkmirror.wire.memory import SharedBuffer
from sparkmirror.wire.outgoing import AbortedTransaction
from sparkmirror.wire.record_batch import RecordBatch, split_batches
from sparkmirror.wire.records import decode_records

_ENOUGH_ABSENCES = 2  # one broker may not know a new topic yet


class _Wait(NamedTuple):
    mine: CopyPartition
    known: ProducerVerdicts
    moves: int  # another number: the partition was paused or moved since
    producer_ids: tuple[int, ...]  # unknown ones in its last response


class BatchOrigins:
    """The origins of the record batches of one task; the fetch listener of the registry topic."""

    def __init__(
        self,
        loop: EventLoop,
        source: Cluster,
        fetcher: Fetcher,
        settings: TaskSettings,
        parts: Sequence[CopyPartition],
        reporter: IncidentReporter,
        log_changes: LogChangeListener,  # of all other partitions
    ) -> None:
        self._loop = loop
        self._source = source
        self._fetcher = fetcher
        self._tp = TopicPartition(settings.registry_topic, 0)
        self._cluster_id = settings.source_cluster_id
        self._reporter = reporter
        self._log_changes = log_changes
        self._backoff = Backoff()
        self._verdicts: dict[tuple[str, ...], ProducerVerdicts] = {}
        for part in parts if settings.registry_topic else ():
            if origins := part.start.skip_origins:
                part.verdicts = self._verdicts.setdefault(origins, ProducerVerdicts(origins))
        self._max_lookups = max(MAX_LOCAL // 2 // max(len(parts), 1), 1)  # per partition
        self._waiting: dict[TopicPartition, _Wait] = {}  # for the next lookup
        self._looking_up: list[_Wait] = []
        self._is_looking_up = False
        self._attempt = 0  # responses to requests of an earlier attempt are ignored
        self._absences = 0  # brokers that do not know the topic
        self._awaits_leader = False
        self._reader: FetchPartition | None = None
        self._goal: int | None = None  # the registry's end at the last request
        self._shown: dict[TopicPartition, int] = {}  # error codes of waiting partitions
        self._has_malformed = False
        self._closing = False
        if self._verdicts:
            source.metadata_listeners.append(self._on_metadata)

    def start(self) -> None:
        """Read the registry, if a partition needs it."""
        if self._verdicts:
            self._look_up()

    def wait(self, mine: CopyPartition, records: memoryview) -> None:
        """Pause a partition until the producer of the record batch at its position is known.

        Looks up all unknown producers of the response together.
        """
        known, part = mine.verdicts, mine.source
        if known is None:
            return
        self._fetcher.pause(part)
        unknown: dict[int, None] = {}
        with suppress(CorruptRecordBatchError):  # the first unknown one is in a sound batch
            for batch in split_batches(records):
                if batch.producer_id not in known.skips:
                    unknown[batch.producer_id] = None
                if len(unknown) == self._max_lookups:
                    break
        self._waiting[part.tp] = _Wait(mine, known, part.moves, tuple(unknown))
        if not self._is_looking_up:
            self._look_up()

    # --- the registry's end

    def _look_up(self) -> None:
        self._is_looking_up = True
        self._looking_up, self._waiting = [*self._waiting.values()], {}
        self._request_end()

    def _request_end(self) -> None:
        if self._closing or not self._is_looking_up:
            return
        self._attempt += 1
        self._absences = 0
        self._awaits_leader = False
        if self._tp not in self._source.leaders:
            self._request_topic()
            return
        request_log_bounds(
            self._source,
            self._tp,
            read_committed=False,  # the fetcher may not read that far yet; then it waits
            done=self._if_current(self._on_bounds),
            failed=self._if_current(self._on_failure),
        )

    def _if_current(self, then: Callable[..., None]) -> Callable[..., None]:
        """Wrap a callback: it does nothing after another attempt has begun."""
        attempt = self._attempt

        def call(*arguments: int) -> None:
            if attempt == self._attempt and not self._closing:
                then(*arguments)

        return call

    def _request_topic(self) -> None:
        request_topic_error(
            self._source,
            self._tp.topic,
            done=self._if_current(self._on_topic),
            failed=self._if_current(self._on_failure),
        )

    def _on_topic(self, code: int) -> None:
        if code == error_codes.UNKNOWN_TOPIC_OR_PARTITION:
            self._absences += 1
            if self._absences < _ENOUGH_ABSENCES:
                self._request_topic()
                return
            self._drop_reader()
            self._decide()  # no flow has ever written to this cluster
        elif code:
            self._show_and_retry(code)
        else:
            self._awaits_leader = True
            self._source.track_topics({self._tp.topic})
            self._source.refresh_metadata(self._backoff.next_pause(), [self._tp.topic])

    def _on_metadata(self) -> None:
        if not self._awaits_leader or not self._source.has_metadata(self._tp):
            return
        if self._tp in self._source.leaders:
            self._request_end()
        else:
            self._awaits_leader = False
            self._on_failure(self._source.leader_error(self._tp))

    def _on_bounds(self, earliest: int, latest: int) -> None:
        self._backoff.reset()
        if self._reader is not None and self._reader.position > latest:
            self._drop_reader()  # recreated or truncated
        if self._reader is None:
            topic_id = self._source.topic_ids.get(self._tp.topic)
            self._reader = FetchPartition(self._tp, earliest, listener=self, topic_id=topic_id)
            self._source.track_topics({self._tp.topic})
            self._fetcher.add([self._reader])
        if self._reader.position < latest or self._reader.last_leader_epoch < 0:
            self._goal = latest
            self.decide_if_read()
        else:
            self._validate(self._reader)

    def _validate(self, reader: FetchPartition) -> None:
        """Decide, unless the registry was truncated and has grown again up to the position."""

        def ended(_leader_epoch: int, end_offset: int) -> None:
            if end_offset < reader.position:
                self._read_again()
            else:
                self._decide()

        def failed(code: int) -> None:
            if code == error_codes.UNSUPPORTED_VERSION:
                self._decide()
            else:
                self._on_failure(code)

        request_epoch_end(
            self._source,
            self._tp,
            reader.last_leader_epoch,
            done=self._if_current(ended),
            failed=self._if_current(failed),
        )

    def _on_failure(self, code: int) -> None:
        if code == error_codes.UNKNOWN_TOPIC_OR_PARTITION:
            self._source.refresh_metadata(topics=[self._tp.topic])
            self._request_topic()
        else:
            self._show_and_retry(code)

    def _show_and_retry(self, code: int) -> None:
        """Show why the registry cannot be read, and request its end again after a pause."""
        if error_codes.remedy(code) is error_codes.Remedy.REFRESH:
            self._source.refresh_metadata(topics=[self._tp.topic])
        self._show(code)
        pause = self._backoff.next_pause(slow=not error_codes.is_retriable(code))
        self._loop.call_later(pause, self._request_end)

    # --- decisions

    def decide_if_read(self) -> None:
        """Decide about the waiting record batches if the registry has been read to its end."""
        reader, goal = self._reader, self._goal
        if reader is not None and goal is not None and reader.position >= goal:
            self._decide()

    def _decide(self) -> None:
        waits, self._looking_up = self._looking_up, []
        self._goal, self._is_looking_up = None, False
        self._attempt += 1
        for known in self._verdicts.values():
            known.on_registry_read()
        for mine, known, moves, producer_ids in waits:
            known.add_local(producer_ids)
            part = mine.source
            if self._shown.pop(part.tp, error_codes.NONE) == mine.error_code:
                mine.set_source_error(error_codes.NONE)
            if part.moves == moves:
                self._fetcher.seek(part, part.position)
        self._fetcher.send_fetches()
        if self._waiting:
            self._look_up()

    def _show(self, code: int, text: str = "") -> None:
        """Show an error of the registry at the partitions that wait for it."""
        why = f"{error_codes.name(code)}: {text or error_codes.advice(code)}"
        if code in error_codes.NOT_AUTHORIZED:
            code = error_codes.REGISTRY_UNREADABLE
            why = (
                f"grant READ and DESCRIBE on topic {self._tp.topic} on cluster "
                f"'{self._source.alias}', or set loop.policy=ignore"
            )
        for wait in (*self._looking_up, *self._waiting.values()):
            self._shown[wait.mine.source.tp] = code
            wait.mine.set_source_error(
                code,
                f"waiting for topic {self._tp.topic}, which tells records of other flows from "
                f"local ones: {why}",
            )

    # --- from the fetcher of the source

    def on_records(
        self,
        part: FetchPartition,
        records: memoryview,
        aborted: Sequence[AbortedTransaction],  # noqa: ARG002 - it is written without transactions
        buffer: SharedBuffer,  # noqa: ARG002 - nothing is kept
    ) -> int:
        """Add registered producers; `decide_if_read` follows."""
        position = part.position
        for batch in split_batches(records):
            batch.verify()
            if batch.next_offset <= position:
                continue
            if not batch.is_control:
                self._add(batch)
            position = batch.next_offset
            part.last_leader_epoch = batch.leader_epoch
        return position

    def _add(self, batch: RecordBatch) -> None:
        for record in decode_records(batch.view):
            if record.key is None or record.value is None:
                continue
            try:
                found = RegisteredProducer.from_record(record.key, record.value)
            except WireError as error:
                if not self._has_malformed:
                    self._reporter.notice(
                        f"{self._source.alias}: skipped a malformed record in topic "
                        f"{self._tp.topic} at or after offset {batch.base_offset}: {error}"
                    )
                self._has_malformed = True
                continue
            if found is not None and found.cluster_id == self._cluster_id:
                for known in self._verdicts.values():
                    known.register(found.producer_id, found.source_cluster_id)

    def on_fetch_error(self, part: FetchPartition, code: int, text: str) -> None:  # noqa: ARG002
        """Show the error; read a deleted or recreated registry again from its start."""
        if code in (error_codes.TOPIC_RECREATED, error_codes.UNKNOWN_TOPIC_OR_PARTITION):
            self._read_again()
        else:
            self._show(code, text)

    def on_fetch_recovered(self, part: FetchPartition) -> None:
        """Nothing to do: `decide_if_read` clears the errors."""

    def _read_again(self) -> None:
        """Read the registry from its start, now or with the next unknown producer."""
        self._drop_reader()
        self._source.refresh_metadata(topics=[self._tp.topic])  # it may have another id
        if self._is_looking_up:
            self._goal = None
            self._attempt += 1
            self._loop.call_later(self._backoff.next_pause(), self._request_end)

    def _drop_reader(self) -> None:
        """Stop reading the registry; producers that are known stay known."""
        if self._reader is not None:
            self._fetcher.remove(self._reader)
            self._reader = None

    def on_out_of_range(self, part: FetchPartition) -> None:
        if part is self._reader:
            self._read_again()
        else:
            self._log_changes.on_out_of_range(part)

    def on_diverged(self, part: FetchPartition, end_offset: int) -> None:
        if part is self._reader:
            self._read_again()
        else:
            self._log_changes.on_diverged(part, end_offset)

    def on_ended_early(self, part: FetchPartition) -> None:
        self._log_changes.on_ended_early(part)

    def close(self) -> None:
        """Send no more requests to the source."""
        self._closing = True
