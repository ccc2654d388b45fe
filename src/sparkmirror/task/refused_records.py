# SPDX-License-Identifier: Apache-2.0
"""Handles records that the target refuses: finds them, records them, and copies the others.

A record batch that is too large is halved until the pieces fit or have one record. For other errors
the broker may name the refused records. These go to the dead-letter topic or are skipped. The
partition waits until they are recorded, then continues from its last position without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from sparkmirror.errors import CorruptRecordBatchError
from sparkmirror.model import TopicPartition
from sparkmirror.state.incidents import STOP, Incident, IncidentKind
from sparkmirror.task.copy_partition import CopyPartition
from sparkmirror.task.dead_letters import DeadLetterWriter, RefusalContext, RefusedRecord
from sparkmirror.task.incident_reporter import IncidentReporter, new_incident
from sparkmirror.task.messages import TaskSettings
from sparkmirror.task.read_control import ReadControl
from sparkmirror.wire import error_codes
from sparkmirror.wire.memory import MemoryBudget
from sparkmirror.wire.merge import MAX_MERGED_BYTES
from sparkmirror.wire.outgoing import OutgoingBatch, split_batch
from sparkmirror.wire.produce_partition import RefusedBatch
from sparkmirror.wire.records import decode_records
from sparkmirror.wire.reframe import OffsetRun

_TOO_LARGE = frozenset({10, 18})  # MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE


class RefusedRecords:
    """All refused records of one task."""

    def __init__(
        self,
        settings: TaskSettings,
        budget: MemoryBudget,
        reporter: IncidentReporter,
        letters: DeadLetterWriter,
        read_control: ReadControl,
        max_batch_bytes: Callable[[TopicPartition], int | None] = lambda _tp: None,
    ) -> None:
        self._flow = settings.flow
        self._policy = settings.policies.refused_record
        self._budget = budget
        self._reporter = reporter
        self._letters = letters
        self._read_control = read_control
        self._max_batch_bytes = max_batch_bytes  # of a remote partition
        # Source offsets of recorded records, which are not copied.
        self._recorded_offsets: dict[TopicPartition, set[int]] = {}
        self._refused_size: dict[TopicPartition, int] = {}

    def forget_from(self, tp: TopicPartition, offset: int) -> None:
        """Forget refused records from an offset on: the source was truncated there."""
        self._recorded_offsets[tp] = {
            one for one in self._recorded_offsets.get(tp, ()) if one < offset
        }

    # --- refused by the target

    def replace(self, part: CopyPartition, refused: RefusedBatch) -> list[OutgoingBatch] | None:
        """Return what to send instead of a refused record batch; None: the partition waits."""
        try:
            return self._split_or_record(part, refused)
        except CorruptRecordBatchError as error:
            out = refused.batch
            tp, offsets = part.source.tp, [*_offsets(out.runs)]
            cause = f"{_cause(refused.code, refused.text)}; it cannot be split: {error}"
            bounds = (offsets[0], offsets[-1])
            self._reporter.report(
                new_incident(IncidentKind.REFUSED, tp, bounds, out.count, cause, STOP)
            )
            return None

    def _split_or_record(
        self, part: CopyPartition, refused: RefusedBatch
    ) -> list[OutgoingBatch] | None:
        out, code, record_errors = refused.batch, refused.code, refused.record_errors
        named = sorted(index for index in record_errors if 0 <= index < out.count)
        if out.count > 1 and (code in _TOO_LARGE or not named):
            self._lower_size_limit(part, out)
            return split_batch(out, self._budget)
        refused_indexes = named or [0]
        tp = part.source.tp
        if self._policy == STOP:
            offsets = [*_offsets(out.runs)]
            bounds = (offsets[refused_indexes[0]], offsets[refused_indexes[-1]])
            cause = _cause(code, record_errors.get(refused_indexes[0]) or refused.text)
            self._reporter.report(
                new_incident(IncidentKind.REFUSED, tp, bounds, len(refused_indexes), cause, STOP)
            )
            return None
        reasons = {index: record_errors.get(index, "") for index in refused_indexes}
        context = RefusalContext(self._flow, tp, part.target.tp, code, refused.text)
        self._record(part, out, reasons, context)
        return None

    def _lower_size_limit(self, part: CopyPartition, out: OutgoingBatch) -> None:
        """Send only smaller record batches than this one to the partition from now on."""
        tp = part.source.tp
        size = min(out.size, self._refused_size.get(tp, out.size))
        self._refused_size[tp] = size
        part.target.max_merged_bytes = size // 2

    def _record(
        self,
        part: CopyPartition,
        out: OutgoingBatch,
        reasons: Mapping[int, str],
        refusal: RefusalContext,
    ) -> None:
        """Record the refused records by index, then read the partition again without them."""
        tp = part.source.tp
        offsets = [*_offsets(out.runs)]
        chosen = [offsets[index] for index in reasons]
        kind = IncidentKind.SKIPPED_RECORD if self._policy == "skip" else IncidentKind.DEAD_LETTER
        cause = _cause(refusal.code, next(iter(reasons.values())) or refusal.reason)
        found = _incidents(kind, tp, chosen, cause, self._policy)

        def recorded() -> None:
            if refusal.code not in _TOO_LARGE:  # the size was not the problem
                self._refused_size.pop(tp, None)
                largest = self._max_batch_bytes(part.target.tp)
                part.target.max_merged_bytes = min(MAX_MERGED_BYTES, largest or MAX_MERGED_BYTES)
            self._recorded_offsets.setdefault(tp, set()).update(chosen)
            part.is_recording = False
            self._read_control.reread_now(part)

        if kind is IncidentKind.SKIPPED_RECORD:
            part.is_recording = True
            self._reporter.record(found, recorded)
            return
        records = decode_records(out.view)
        part.is_recording = True
        letters = [
            RefusedRecord(
                offsets[index],
                records[index].timestamp,
                records[index].key,
                records[index].value,
                records[index].headers,
                reason,
            )
            for index, reason in reasons.items()
        ]
        self._letters.send(letters, refusal, lambda: self._reporter.record(found, recorded))

    # --- read from the source

    def filter_batches(
        self, part: CopyPartition, batches: list[OutgoingBatch]
    ) -> list[OutgoingBatch]:
        """Remove recorded records from record batches, and split batches that are too large."""
        tp = part.source.tp
        size = self._size_limit(part)
        if tp not in self._recorded_offsets and size is None:
            return batches
        recorded = {
            offset for offset in self._recorded_offsets.get(tp, ()) if offset >= part.position
        }
        self._recorded_offsets[tp] = recorded
        kept: list[OutgoingBatch] = []
        for out in batches:
            kept += self._split_oversized(size, self._remove_recorded(out, recorded))
        return kept

    def _size_limit(self, part: CopyPartition) -> int | None:
        """Return the exclusive size limit of record batches; None: no limit."""
        largest = self._max_batch_bytes(part.target.tp)
        refused = self._refused_size.get(part.source.tp)
        if largest is None:
            return refused
        return largest + 1 if refused is None else min(refused, largest + 1)

    def _remove_recorded(self, out: OutgoingBatch, recorded: set[int]) -> list[OutgoingBatch]:
        if not any(
            run.first <= offset < run.first + run.length for run in out.runs for offset in recorded
        ):
            return [out]
        unwanted = [offset in recorded for offset in _offsets(out.runs)]
        cuts = [i for i in range(1, out.count) if unwanted[i] != unwanted[i - 1]]
        pieces = split_batch(out, self._budget, cuts)
        kept: list[OutgoingBatch] = []
        for piece, (first, _last) in zip(pieces, pairwise((0, *cuts, out.count)), strict=True):
            if unwanted[first]:
                piece.release()
            else:
                kept.append(piece)
        return kept

    def _split_oversized(
        self, size: int | None, batches: list[OutgoingBatch]
    ) -> list[OutgoingBatch]:
        """Split record batches until all are below the size or have one record."""
        if size is None:
            return batches
        fitting: list[OutgoingBatch] = []
        for out in batches:
            if out.size < size or out.count == 1:
                fitting.append(out)
                continue
            try:
                pieces = split_batch(out, self._budget, _even_cuts(out, size))
            except CorruptRecordBatchError:
                fitting.append(out)  # not splittable: the target will refuse it
            else:
                fitting += self._split_oversized(size, pieces)
        return fitting


def _even_cuts(out: OutgoingBatch, size: int) -> list[int]:
    """Return record indexes that cut a batch into pieces probably smaller than `size`."""
    pieces = min(out.count, out.size // size + 1) if out.size > size else 2
    return [out.count * number // pieces for number in range(1, pieces)]


def _cause(code: int, text: str) -> str:
    return f"{error_codes.name(code)}: {text or error_codes.advice(code)}"


def _offsets(runs: Iterable[OffsetRun]) -> Iterable[int]:
    """Return the source offset of every record of a record batch, in order."""
    return (run.first + index for run in runs for index in range(run.length))


def _incidents(
    kind: IncidentKind, tp: TopicPartition, offsets: Sequence[int], cause: str, policy: str
) -> list[Incident]:
    """Return one incident for each run of consecutive offsets."""
    firsts = [o for i, o in enumerate(offsets) if i == 0 or offsets[i - 1] != o - 1]
    lasts = [o for i, o in enumerate(offsets) if o == offsets[-1] or offsets[i + 1] != o + 1]
    return [
        new_incident(kind, tp, (first, last), last - first + 1, cause, policy)
        for first, last in zip(firsts, lasts, strict=True)
    ]
