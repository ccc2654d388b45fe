# SPDX-License-Identifier: Apache-2.0
"""Go on where a predecessor was cut off, by compare-and-append.

The leaders of the target say which sequence of this flow's producer came last. If it is not the
one of the stored pair, both sides are compared from the pair on (`comparison.py`). The successor
keeps producer id and epoch and goes on with the next sequence, so the broker appends only if
nothing landed since: a predecessor that wakes up is refused or recognised as a duplicate, and
who is refused compares again. The first record batch acknowledged is read back once.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from sparkmirror.errors import CorruptRecordBatchError
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.comparison import Comparison, Verdict
from sparkmirror.pipeline.contract import OtherWriter
from sparkmirror.pipeline.copy_partition import CopyPartition, Pair
from sparkmirror.pipeline.written_records import is_behind
from sparkmirror.wire import error_codes
from sparkmirror.wire.backoff import Backoff
from sparkmirror.wire.budget import Budget, Buffer
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.fetch_protocol import FetchLimits
from sparkmirror.wire.fetch_session import SourcePartition
from sparkmirror.wire.fetcher import Fetcher
from sparkmirror.wire.log_bounds import ask_log_bounds
from sparkmirror.wire.loop import Loop
from sparkmirror.wire.outgoing import AbortedTransaction, Outgoing
from sparkmirror.wire.producer_id import ask_producer_id
from sparkmirror.wire.producer_states import ActiveProducer, ProducerStates, ask_producer_states
from sparkmirror.wire.record_batch import HEADER_SIZE, SEQUENCE_MASK, split
from sparkmirror.wire.records import frames

_AT_ONCE = 64  # comparisons; what they hold is bounded by the fetchers' budgets
_READ_BYTES = 1 << 20
_ANSWER_BYTES = 8 << 20
_PATIENCE_SECONDS = 3.0  # what was appended becomes readable within this, or the leader changed
_NOT_READABLE = 78  # OFFSET_NOT_AVAILABLE
_SHOWN_AFTER_SECONDS = 3.0  # a comparison that takes longer is shown in the status
_LOOK_AGAIN_SECONDS = 60.0  # how often one partition is searched for other writers


class Successor(Protocol):
    """The copy task, as its take-over needs it."""

    def read_source(self, parts: Iterable[CopyPartition]) -> None:
        """Read these partitions from their position on."""

    def ask_source_end(self, part: CopyPartition, done: Callable[[int | None], None]) -> None:
        """Call `done` with the end of the source's log; None: nobody answers just now."""

    def read_on(self) -> None:
        """Room was made for more of the source."""

    def compared(self, part: CopyPartition, done: list[Outgoing]) -> None:
        """Source record batches that are on the target already."""

    def taken_over(self, parts: Iterable[CopyPartition]) -> None:
        """The partitions' pairs are exact: copy on from there."""

    def store(self, part: CopyPartition, then: Callable[[], None]) -> None:
        """Call `then` when no successor can begin before the partition's present position."""

    def take_over_trouble(self, part: CopyPartition, code: int, text: str) -> None:
        """Why a partition does not begin yet (0: it is about to)."""

    def note(self, text: str) -> None:
        """Something that happened once and must be said."""


@dataclass(slots=True)
class _Look:
    """A stretch of the target's log that is read once, between two of our record batches."""

    part: CopyPartition
    reader: SourcePartition
    expected: Outgoing | None  # our record batch at the end of the stretch, to be seen there


class Witness(Protocol):
    """Who is told of what must not happen silently."""

    def target_truncated(self, part: CopyPartition, missing: int) -> None:
        """The target has lost acknowledged records; `again` follows, or never."""

    def is_further_back(self, part: CopyPartition) -> bool:
        """Both sides did not agree: whether they are compared again, from an earlier pair."""

    def compared(
        self, part: CopyPartition, comparison: Comparison, then: Callable[[], None]
    ) -> None:
        """Adopt the result once what it found is recorded, then call `then`; or wait, by policy."""

    def mismatch(self, part: CopyPartition, text: str) -> None:
        """What is on the target is not what should be there."""

    def blind(self, part: CopyPartition) -> None:
        """The target may not be read: copying goes on at the pair, at least once."""


class TakeOver:
    """All partitions of a task that were not handed over cleanly."""

    def __init__(
        self,
        loop: Loop,
        target: Cluster,
        buffer_bytes: int,
        successor: Successor,
        witness: Witness,
    ) -> None:
        self._loop = loop
        self._target = target
        self._successor = successor
        self._witness = witness
        self._fetcher = Fetcher(
            loop,
            target,
            FetchLimits(
                read_committed=False,
                max_bytes=_ANSWER_BYTES,
                max_partition_bytes=_READ_BYTES,
                max_wait_ms=100,
                min_bytes=1,
            ),
            Budget(max(buffer_bytes // 4, 4 * _READ_BYTES)),
            self,
        )
        self._waiting: deque[tuple[CopyPartition, int | None]] = deque()
        self._comparing: dict[TopicPartition, CopyPartition] = {}
        self._readers: dict[TopicPartition, SourcePartition] = {}
        self._since: dict[TopicPartition, float] = {}  # when the target last had more
        self._began: dict[TopicPartition, float] = {}
        self._asking_end: set[TopicPartition] = set()
        # Since when the source has ended before this target offset found its counterpart.
        self._ended: dict[TopicPartition, tuple[int, float]] = {}
        self._in_vain: dict[TopicPartition, int] = {}  # the goal that was waited for before
        self._unasked: set[TopicPartition] = set()  # leaders without DescribeProducers
        self._refused_at: dict[TopicPartition, Pair] = {}  # with an unexpected sequence
        self._looks: dict[TopicPartition, _Look] = {}
        self._looked: dict[TopicPartition, float] = {}
        self._backoff = Backoff()
        self._unheard: list[CopyPartition] = []  # nothing is known yet of their topics
        target.on_metadata.append(self._settle)
        self._closing = False
        self._blind: set[TopicPartition] = set()  # no READ on the target: said once
        self.other_writers: set[OtherWriter] = set()

    # --- what the leaders remember

    def begin(self, parts: Sequence[CopyPartition]) -> None:
        """Find out where these partitions stand; `taken_over` follows for each."""
        heard: list[CopyPartition] = []
        unheard: list[CopyPartition] = []
        for part in parts:
            (heard if self._target.knows(part.target.tp) else unheard).append(part)
        if unheard:
            self._unheard += unheard
            self._target.want({part.target.tp.topic for part in unheard})
        if heard:
            self._ask(heard)

    def _settle(self) -> None:
        """Metadata arrived: those that waited for it are asked about."""
        unheard, self._unheard = self._unheard, []
        if unheard and not self._closing:
            self._ask(unheard)

    def _ask(self, parts: Sequence[CopyPartition]) -> None:
        by_target = {part.target.tp: part for part in parts}

        def done(states: ProducerStates) -> None:
            if not self._closing:
                self._decide(by_target, states)

        ask_producer_states(self._target, by_target, done)

    def again(self, part: CopyPartition, pause: float = 0.0) -> None:
        """Compare anew, from the last acknowledged pair."""
        self._loop.call_later(pause, lambda: None if self._closing else self.begin([part]))

    def sequence_lost(self, part: CopyPartition, pause: float) -> None:
        """The broker expects another sequence: compare, or write as a new producer.

        Where the sequence cannot be asked for, and the same pair is refused again, comparing
        would find the same once more.
        """
        tp, pair = part.target.tp, part.pair
        if tp in self._unasked and self._refused_at.get(tp) == pair:
            self._become_new([part])
            return
        self._refused_at[tp] = pair
        self.again(part, pause)

    def _decide(self, parts: dict[TopicPartition, CopyPartition], states: ProducerStates) -> None:
        ready: list[CopyPartition] = []
        later: list[CopyPartition] = []
        blind: list[CopyPartition] = []
        for tp, part in parts.items():
            code = states.failed.get(tp, error_codes.NONE)
            if code in error_codes.NOT_AUTHORIZED:
                blind.append(part)
            elif code == error_codes.UNSUPPORTED_VERSION:
                self._unasked.add(tp)
                self._compare(part, None)
            elif code:
                self._successor.take_over_trouble(part, code, "")
                later.append(part)
            elif self._is_ready(part, states.found.get(tp, ())):
                ready.append(part)
        if ready:
            self._backoff.reset()
            self._successor.taken_over(ready)
        if blind:
            self._go_blind(blind)
        if later:
            self._target.refresh()
            self._loop.call_later(
                self._backoff.next_pause(), lambda: None if self._closing else self.begin(later)
            )
        self._start_waiting()

    def _is_ready(self, part: CopyPartition, producers: Sequence[ActiveProducer]) -> bool:
        """Whether nothing was written after the pair; else sees to the partition."""
        state = part.pair.producer
        mine = [one for one in producers if one.producer_id == state.producer_id]
        if not mine:
            part.introduce(is_known=False)
            if part.moved_back is not None:
                self._compare(part, None)
            else:
                self._check_end(part)
            return False
        goal = (mine[0].last_sequence + 1) & SEQUENCE_MASK
        if mine[0].producer_epoch != state.producer_epoch:
            self._witness.mismatch(
                part,
                f"its producer has epoch {mine[0].producer_epoch}, not {state.producer_epoch}; "
                "some records may come twice",
            )
            self._become_new([part])
            return False
        part.introduce(is_known=True)
        if goal == state.next_sequence and part.moved_back is None:
            return True
        if is_behind(goal, state.next_sequence):
            missing = (state.next_sequence - goal) & SEQUENCE_MASK
            self._witness.target_truncated(part, missing)
            return False
        self._compare(part, goal)
        return False

    def _check_end(self, part: CopyPartition) -> None:
        """The broker does not know our producer: never heard of it, or has forgotten it.

        It forgets within a day; what was written before is still there, to be compared.
        """

        def bounds(_earliest: int, latest: int) -> None:
            if self._closing:
                return
            missing = part.pair.downstream + 1 - latest
            if missing > 0:
                self._ended_earlier(part, latest)
            elif missing < 0:
                self._compare(part, None)
                self._start_waiting()
            else:
                self._successor.taken_over([part])

        def failed(code: int) -> None:
            self._successor.take_over_trouble(part, code, "")
            self.again(part, self._backoff.next_pause())

        ask_log_bounds(
            self._target, part.target.tp, read_committed=False, done=bounds, failed=failed
        )

    def _go_blind(self, parts: list[CopyPartition]) -> None:
        """The target may not be read: go on at the stored position, at least once."""
        if not self._blind:
            self._witness.blind(parts[0])
        self._blind.update(part.target.tp for part in parts)
        self._become_new(parts)

    def _become_new(self, parts: list[CopyPartition]) -> None:
        """Go on at the stored position as a new producer."""

        def got(producer_id: int, producer_epoch: int) -> None:
            for part in parts:
                part.become(producer_id, producer_epoch)
                self._successor.store(part, lambda part=part: self._adopted(part))  # type: ignore[misc]

        def failed(code: int) -> None:
            for part in parts:
                self._successor.take_over_trouble(part, code, "no producer id")
            pause = self._backoff.next_pause()
            self._loop.call_later(pause, lambda: None if self._closing else self._become_new(parts))

        ask_producer_id(self._target, got, failed)

    # --- comparisons

    def _compare(self, part: CopyPartition, goal: int | None) -> None:
        self._waiting.append((part, goal))

    def _start_waiting(self) -> None:
        started: list[CopyPartition] = []
        while self._waiting and len(self._comparing) < _AT_ONCE:
            part, goal = self._waiting.popleft()
            tp, pair = part.target.tp, part.pair
            self._drop_look(tp)
            moved_back = part.moved_back
            part.comparison = Comparison(
                pair.producer,
                pair.position,
                pair.downstream,
                goal,
                leader_epoch=part.leader_epoch,
                estimate=moved_back.estimate if moved_back is not None else None,
            )
            self._comparing[tp] = part
            self._since[tp] = self._began[tp] = time.monotonic()
            self._readers[tp] = SourcePartition(tp, pair.downstream + 1)
            started.append(part)
        if started:
            self._fetcher.start(self._readers[part.target.tp] for part in started)
            self._successor.read_source(started)

    def step(self, part: CopyPartition) -> None:
        """One side has more: compare, and end if that was all."""
        comparison = part.comparison
        if comparison is None:
            return
        done = comparison.step()
        self._successor.compared(part, done)
        reader = self._readers[part.target.tp]
        reader.queued_bytes = comparison.held_bytes
        self._fetcher.drained(reader)
        self.other_writers.update(
            OtherWriter(*part.target.tp, producer) for producer in comparison.other_writers
        )
        if comparison.verdict is None and comparison.waits_for_target:
            if comparison.has_no_goal and reader.is_at_end:
                comparison.target_ended()
                self._successor.compared(part, comparison.step())
        elif (
            comparison.verdict is None
            and comparison.waits_for_source
            and part.source.is_at_end
            and self._is_sure(part, comparison)
        ):
            comparison.source_ended(part.source.position)
        if comparison.verdict is not None:
            self._conclude(part, comparison, comparison.verdict)

    def _conclude(self, part: CopyPartition, comparison: Comparison, verdict: Verdict) -> None:
        self._end(part)
        is_different = verdict is Verdict.DIFFERENT
        if is_different and self._witness.is_further_back(part):
            self._start_waiting()
            return
        if is_different:
            self._witness.mismatch(
                part,
                f"records after offset {part.pair.downstream} on {self._target.alias} are not the "
                f"source's next ones after offset {part.pair.position - 1}; some records may come "
                "twice",
            )
        elif comparison.refused:
            self._successor.note(
                f"resume: {part.source.tp}: {comparison.refused} records before offset "
                f"{comparison.position} are not on {self._target.alias}"
            )
        self._witness.compared(part, comparison, lambda: self._adopted(part))
        self._start_waiting()

    def _adopted(self, part: CopyPartition) -> None:
        if not self._closing:
            self._successor.taken_over([part])

    def source_cut(self, part: CopyPartition, end: int) -> None:
        """The source of a partition that is being compared goes on differently from there."""
        comparison = part.comparison
        if comparison is None:
            return
        if end < comparison.start or comparison.is_untouched:
            comparison.cut_offset = end
            if end >= comparison.start:
                self._successor.read_source([part])
            self.step(part)
        else:  # it was cut just now
            self._end(part)
            self.again(part)
            self._start_waiting()

    def _is_sure(self, part: CopyPartition, comparison: Comparison) -> bool:
        """Whether the source has ended here for some seconds, asked after the target was read.

        Our last fetch may be older than what another task of this flow has copied meanwhile, and
        a new leader may not know its own end yet.
        """
        tp, unmatched = part.target.tp, comparison.first_unmatched
        now = time.monotonic()
        known, since = self._ended.get(tp, (-1, now))
        if known == unmatched and now - since > _PATIENCE_SECONDS:
            return True

        def ended(end: int | None) -> None:
            self._asking_end.discard(tp)
            if end is None or part.comparison is not comparison:
                return
            if comparison.first_unmatched != unmatched:
                return
            if end > part.source.position:
                part.source.is_at_end = False  # it will be read
                self._ended.pop(tp, None)
            elif self._ended.get(tp, (-1, 0.0))[0] != unmatched:
                self._ended[tp] = (unmatched, time.monotonic())

        if tp not in self._asking_end:
            self._asking_end.add(tp)
            self._successor.ask_source_end(part, ended)
        return False

    def read_on(self) -> None:
        """The source's side may have made room for more of the target."""
        if not self._closing:
            self._fetcher.pump()

    def check(self, now: float) -> None:
        """Called about once a second: what was appended should have become readable."""
        for tp, part in [*self._comparing.items()]:
            comparison = part.comparison
            reader = self._readers[tp]
            self.step(part)
            if tp not in self._comparing or comparison is None:
                continue
            if not (reader.is_at_end and comparison.waits_for_target):
                self._since[tp] = now
            elif now - self._since[tp] > _PATIENCE_SECONDS:
                self._wait_no_longer(part, comparison, reader)
                continue
            if now - self._began[tp] < _SHOWN_AFTER_SECONDS:
                continue
            if part.trouble_code in (error_codes.NONE, error_codes.COMPARING):
                self._show(part, reader)
            elif self._waiting:  # others may begin meanwhile
                self._end(part)
                self.again(part, self._backoff.next_pause())
                self._start_waiting()

    def _show(self, part: CopyPartition, reader: SourcePartition) -> None:
        """A comparison takes long: say how far it is."""
        self._successor.take_over_trouble(
            part,
            error_codes.COMPARING,
            f"comparing both sides after offset {part.pair.position - 1} of the source: read up "
            f"to offset {part.source.position} of {part.source.end_offset} on the source, "
            f"{reader.position} of {reader.end_offset} on the target",
        )

    def _wait_no_longer(
        self, part: CopyPartition, comparison: Comparison, reader: SourcePartition
    ) -> None:
        """What the leader accepted cannot be read: deleted meanwhile, or not yet replicated."""
        is_gone = reader.log_start > part.pair.downstream + 1
        tp = part.target.tp
        if is_gone and self._in_vain.get(tp) == comparison.end_sequence:
            comparison.give_up()
            self._conclude(part, comparison, Verdict.DIFFERENT)
            return
        self._end(part)
        self._start_waiting()
        if self._witness.is_further_back(part):
            return
        self._in_vain[tp] = comparison.end_sequence
        self._successor.take_over_trouble(
            part, _NOT_READABLE, "the leader has records of ours that cannot be read yet"
        )
        self.again(part)

    def _end(self, part: CopyPartition) -> None:
        tp = part.target.tp
        comparison, part.comparison = part.comparison, None
        if comparison is not None:
            self._successor.compared(part, comparison.leave())
        self._comparing.pop(tp, None)
        self._since.pop(tp, None)
        self._began.pop(tp, None)
        self._ended.pop(tp, None)
        self._fetcher.forget(self._readers.pop(tp))

    # --- looking at single stretches

    def look(self, part: CopyPartition, out: Outgoing) -> None:
        """Our record batch is not where it was expected, or is the first: see what is there."""
        tp = part.target.tp
        is_first, part.is_unproven = part.is_unproven, False
        now = time.monotonic()
        recently = now - self._looked.get(tp, -_LOOK_AGAIN_SECONDS) < _LOOK_AGAIN_SECONDS
        if tp in self._readers or tp in self._blind or (recently and not is_first):
            return
        if not is_first:
            self._looked[tp] = now
        end = out.base_offset + out.count
        reader = SourcePartition(tp, part.pair.downstream + 1, stop_at=end)
        self._readers[tp] = reader
        self._looks[tp] = _Look(part, reader, out if is_first else None)
        self._fetcher.start([reader])

    def _drop_look(self, tp: TopicPartition) -> None:
        if self._looks.pop(tp, None) is not None:
            self._fetcher.forget(self._readers.pop(tp))

    def _see(self, look: _Look, records: memoryview) -> None:
        tp = look.part.target.tp
        for batch in split(records):
            mine = batch.producer_id == look.part.target.producer_id
            if not mine and not batch.is_control and batch.base_offset < (look.reader.stop_at or 0):
                self.other_writers.add(OtherWriter(*tp, batch.producer_id))
            out = look.expected
            if out is None or batch.base_offset != out.base_offset:
                continue
            look.expected = None
            if batch.view[HEADER_SIZE:] != out.view[HEADER_SIZE:] and [
                frame.body for frame in frames(batch.view)
            ] != [frame.body for frame in frames(out.view)]:
                self._missing(look, out, "is not the one that was sent")

    def _missing(self, look: _Look, out: Outgoing, text: str) -> None:
        """The first record batch after a take-over is not where the target said."""
        runs = out.runs
        self._witness.mismatch(
            look.part,
            f"the record batch at offset {out.base_offset} of {self._target.alias} {text}: source "
            f"offsets {runs[0].first} to {runs[-1].first + runs[-1].length - 1} "
            f"({out.count} records) are missing there",
        )

    # --- from the fetcher, which reads the target here

    def received(
        self,
        part: SourcePartition,
        records: memoryview,
        aborted: Sequence[AbortedTransaction],  # noqa: ARG002 - everything counts here
        buffer: Buffer,  # noqa: ARG002 - what is kept is copied
    ) -> int:
        """Record batches of the target, in order."""
        position = part.position
        look = self._looks.get(part.tp)
        if look is not None:
            self._see(look, records)
        comparing = self._comparing.get(part.tp)
        try:
            for batch in split(records):
                if batch.next_offset <= position:
                    continue
                if comparing is not None and comparing.comparison is not None:
                    comparing.comparison.see_target(batch)
                position = batch.next_offset
        except CorruptRecordBatchError:
            if position == part.position:
                raise  # else those before it count, and the next fetch begins with it
        if comparing is not None and comparing.comparison is not None:
            part.queued_bytes = comparing.comparison.held_bytes
        return position

    def fetched(self) -> None:
        """Compare what has come."""
        for part in [*self._comparing.values()]:
            self.step(part)
        self._successor.read_on()
        for tp, look in [*self._looks.items()]:
            if look.reader.is_finished:
                if look.expected is not None:
                    self._missing(look, look.expected, "is not there")
                self._drop_look(tp)

    def fetch_trouble(self, part: SourcePartition, code: int, text: str) -> None:
        """The target cannot be read."""
        self._drop_look(part.tp)
        comparing = self._comparing.get(part.tp)
        if comparing is None:
            return
        if code in error_codes.NOT_AUTHORIZED or code == error_codes.UNSUPPORTED_VERSION:
            self._end(comparing)
            self._go_blind([comparing])
            self._start_waiting()
        else:
            self._successor.take_over_trouble(comparing, code, text)

    def fetch_recovered(self, part: SourcePartition) -> None:
        """The target can be read again."""
        comparing = self._comparing.get(part.tp)
        if comparing is not None:
            self._successor.take_over_trouble(comparing, error_codes.NONE, "")

    def out_of_range(self, part: SourcePartition) -> None:
        """The target's log does not hold the pair any more: begin where it begins."""
        self._drop_look(part.tp)
        comparing = self._comparing.get(part.tp)
        if comparing is None:
            return

        def bounds(earliest: int, latest: int) -> None:
            if self._comparing.get(part.tp) is not comparing:
                return
            if part.position > latest:
                self._end(comparing)
                self._ended_earlier(comparing, latest)
                self._start_waiting()
            else:
                self._fetcher.resume(part, max(earliest, part.position))

        def failed(code: int) -> None:
            if self._comparing.get(part.tp) is comparing:
                self._successor.take_over_trouble(comparing, code, "")
                self._end(comparing)
                self.again(comparing, self._backoff.next_pause())

        ask_log_bounds(self._target, part.tp, read_committed=False, done=bounds, failed=failed)

    def _ended_earlier(self, part: CopyPartition, latest: int) -> None:
        """The target's log ends before the pair."""
        missing = part.pair.downstream + 1 - latest
        if missing <= 0:  # it was cut while it was being read
            self.again(part, self._backoff.next_pause())
        elif part.pair.producer.next_sequence:
            self._witness.target_truncated(part, missing)
        else:  # nothing there was ours
            part.downstream = latest - 1
            self._successor.taken_over([part])

    def diverged(self, part: SourcePartition, end_offset: int) -> None:
        """Never asked for: reading the target names no epochs."""

    def ended_early(self, part: SourcePartition) -> None:
        """Nothing to do: a comparison waits for records, a read-back has its own limit."""

    def close(self) -> None:
        """Look no more."""
        self._closing = True
        self._fetcher.close()
