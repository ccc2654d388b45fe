# SPDX-License-Identifier: Apache-2.0
"""A copy task between fakes: a position never runs ahead of the target's acknowledgements."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from kafka.protocol.admin import DescribeProducersRequest
from kafka.protocol.producer import ProduceRequest

from sparkmirror.config.settings import IncidentPolicies
from sparkmirror.errors import LeaseLostError
from sparkmirror.model import ProducerState, TopicPartition
from sparkmirror.task import copy_task, task_builder
from sparkmirror.task.messages import PartitionStart, Progress, Split, TaskSettings
from sparkmirror.wire.record_batch import TRANSACTIONAL
from sparkmirror.wire.settings import ConnectionSettings, FetchSettings, ProduceSettings
from support.data.record_batches import Record, decode, encode, marker, numbered, seal
from support.manual_clock import ManualClock
from support.peers.fake_cluster import FakeCluster, FakeLoop, Request, partition_data

TARGET = TopicPartition("a.t", 0)
POSITIONS = TopicPartition("mm2-offsets.a.internal", 0)
LEDGER = TopicPartition("mm2-ledger.a.internal", 0)
LETTERS = TopicPartition("mm2-dead-letters.a.internal", 0)
TOO_LARGE, OUT_OF_RANGE, OUT_OF_ORDER, INVALID_RECORD, FORBIDDEN = 10, 1, 45, 87, 29


class Silent:
    """A driver that wants nothing."""

    end_requested = False
    silence_seconds = 0.0

    def __init__(self) -> None:
        self.reports: list[Progress] = []

    def report(self, progress: Progress) -> None:
        """Keep it."""
        self.reports.append(progress)


class Bench:
    """A task of one topic partition, or more, that starts at offset 10."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *,
        partitions: int = 1,
        buffer_bytes: int = 64 << 20,
        state_elsewhere: bool = False,
        **policies: str,
    ) -> None:
        targets = [TopicPartition("a.t", index) for index in range(partitions)]
        self.source, self.target = (
            FakeCluster({TopicPartition("t", index): 1 for index in range(partitions)}),
            FakeCluster(dict.fromkeys((*targets, POSITIONS, LEDGER, LETTERS), 1)),
        )
        self.state = FakeCluster({POSITIONS: 1})
        self.source.alias, self.target.alias, self.state.alias = "a", "b", "worker"
        clusters = {"a": self.source, "b": self.target, "worker": self.state}
        monkeypatch.setattr(
            task_builder, "Cluster", lambda _loop, settings: clusters[settings.alias]
        )
        self.loop = FakeLoop()
        self.control = Silent()
        settings = TaskSettings(
            flow="a->b",
            connector="MirrorSourceConnector",
            source_alias="a",
            consumer=ConnectionSettings("a", (), "reader"),
            producer=ConnectionSettings("b", (), "writer"),
            fetch=FetchSettings(),
            produce=ProduceSettings(),
            offsets_topic=POSITIONS.topic,
            offsets_partitions=1,
            flush_seconds=5.0,
            buffer_bytes=buffer_bytes,
            epoch_seconds=300.0,
            lease_seconds=5.0,
            policies=IncidentPolicies(**policies),
            ledger_topic=LEDGER.topic,
            dead_letters_topic=LETTERS.topic,
            offsets_cluster=ConnectionSettings("worker", (), "connect")
            if state_elsewhere
            else None,
        )
        producer = ProducerState(5, 0, 0)
        split = Split(
            0,
            tuple(
                PartitionStart("t", index, "a.t", 10, producer=producer, is_handed_over=True)
                for index in range(partitions)
            ),
        )
        self.task = copy_task.CopyTask(split, settings, self.control, self.loop)  # type: ignore[arg-type]
        self.parts = self.task.parts.partitions
        self.part = self.parts[0]
        self.task.parts.take_over.start(self.parts)
        self.source.learn()

    def asked(self) -> Request:
        """The oldest request that waits at the source."""
        return self.source.connection(1).waiting.popleft()

    def written(self) -> Request:
        """The oldest produce request that waits at the target."""
        waiting = self.target.connection(1).waiting
        found = self.unanswered_writes()[0]
        waiting.remove(found)
        return found

    def unanswered_writes(self) -> list[Request]:
        """Produce requests that wait at the target; what is read there does not count."""
        waiting = self.target.connection(1).waiting
        return [one for one in waiting if isinstance(one.content, ProduceRequest)]

    def find_out_of_range(self, earliest: int, latest: int) -> None:
        """The source does not hold the position, however often it is asked."""
        while not self.part.error:
            self.asked().fetched(("t", partition_data(0, error=OUT_OF_RANGE)))
            for offset in (earliest, latest):
                self.asked().reply(_offset(offset))
            self.loop.advance(1)
            self.source.learn()

    def read(self, *batches: bytearray) -> None:
        """The source answers with these record batches."""
        self.asked().fetched(("t", partition_data(0, b"".join(bytes(one) for one in batches))))


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A task that has its producer id and has asked the source."""
    return Bench(monkeypatch)


def test_the_position_moves_with_acknowledgements_only(bench: Bench) -> None:
    """Read, sent, in flight: none of it counts."""
    bench.read(encode(numbered(10, 3)))
    bench.read(encode(numbered(13, 2)))
    first = bench.written()
    assert bench.part.source.position == 15
    assert bench.part.position == 10

    first.produced({TARGET: (0, 900)})
    assert (bench.part.position, bench.part.downstream) == (13, 902)
    bench.written().produced({TARGET: (0, 903)})

    assert (bench.part.position, bench.part.downstream) == (15, 904)
    assert bench.part.source.queued_bytes == 0
    assert bench.part.runs.drain() == [(10, 900, 5)]


def test_a_task_that_lost_its_lease_writes_nothing_more(bench: Bench) -> None:
    """Its successor may have written newer positions, and a newer map."""
    bench.read(encode(numbered(10, 3)))
    bench.written().produced({TARGET: (0, 900)})
    assert bench.part.is_dirty
    bench.control.silence_seconds = 5.5
    bench.task._advance(time.monotonic())
    assert bench.task._phase is copy_task._Phase.DONE
    assert not bench.unanswered_writes()


@pytest.mark.parametrize("where", ["waiting", "reporting"])
def test_a_task_on_a_machine_that_was_suspended_ends(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Also if the driver's last message is found only then: it is older than it seems."""
    clock = ManualClock(monkeypatch, "sparkmirror.system.clock")
    bench = Bench(monkeypatch)
    turns: list[float] = []

    def turn(wait: float) -> None:
        turns.append(wait)
        clock.advance(wait)
        if where == "waiting" and len(turns) == 3:
            clock.advance(5.5)

    def report(_progress: Progress) -> None:
        if where == "reporting" and turns:
            clock.advance(5.5)

    monkeypatch.setattr(bench.loop, "run_once", turn, raising=False)
    monkeypatch.setattr(bench.control, "report", report)
    monkeypatch.setattr(bench.task.parts, "tick", lambda _now: None)
    monkeypatch.setattr(copy_task, "TICK_SECONDS", 0.0)
    with pytest.raises(LeaseLostError):
        bench.task.run()
    assert len(turns) == 3 if where == "waiting" else 2
    assert not bench.unanswered_writes()


def test_markers_count_once_everything_before_them_is_acknowledged(bench: Bench) -> None:
    """A marker behind a record batch in flight must not be stored as done."""
    producer = (77, 0, 0)
    bench.read(
        encode(numbered(10, 2), attributes=TRANSACTIONAL, producer=producer),
        marker(12, 77, commits=True),
    )
    assert bench.part.position == 10

    bench.read(marker(13, 78, commits=True))
    assert bench.part.position == 10

    bench.written().produced({TARGET: (0, 0)})
    assert bench.part.position == 14


def test_markers_alone_move_the_position(bench: Bench) -> None:
    """Nothing is in flight, so nothing is to wait for."""
    bench.read(marker(10, 77, commits=True))

    assert bench.part.position == 11
    assert bench.part.is_dirty


def test_stored_positions_name_the_last_acknowledged_offset(bench: Bench) -> None:
    """What a flush writes is never ahead of the target."""
    bench.read(encode(numbered(10, 3)))
    bench.read(encode(numbered(13, 2)))
    bench.written().produced({TARGET: (0, 900)})
    bench.task.parts.delivery.flush()

    batches = {}
    while bench.unanswered_writes():
        batches |= bench.written().batches

    (record,) = decode(batches[POSITIONS])
    assert record.value is not None
    assert b'"offset":12' in record.value


def test_positions_go_to_the_workers_cluster_and_records_to_the_target(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A flush ends with the answer of the worker's cluster; the status says what is wrong there."""
    bench = Bench(monkeypatch, state_elsewhere=True)
    bench.read(encode(numbered(10, 3)))
    bench.written().produced({TARGET: (0, 900)})
    delivery = bench.task.parts.delivery
    delivery.flush()
    assert not bench.unanswered_writes()
    request = bench.state.connection(1).waiting.popleft()
    (record,) = decode(request.batches[POSITIONS])
    assert record.value is not None
    assert b'"offset":12' in record.value
    assert not delivery.is_flushed

    request.produced({POSITIONS: (FORBIDDEN, -1)})
    assert "worker: mm2-offsets.a.internal-0 cannot be written" in bench.task.parts.errors[0]
    bench.loop.advance(60)
    bench.state.connection(1).waiting.popleft().produced({POSITIONS: (0, 7)})
    assert bench.task.parts.errors == []
    assert delivery.is_flushed


def test_a_task_that_lost_its_lease_writes_no_positions_elsewhere_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As little as to the target."""
    bench = Bench(monkeypatch, state_elsewhere=True)
    bench.read(encode(numbered(10, 3)))
    bench.written().produced({TARGET: (0, 900)})
    bench.control.silence_seconds = 5.5
    bench.task._advance(time.monotonic())
    bench.task.parts.delivery.flush()
    assert not bench.state.connection(1).waiting


def test_a_refused_batch_is_read_again_and_nothing_is_skipped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The target takes it later; until then the position stays, and no memory is held."""
    bench = Bench(monkeypatch, refused_record="stop")
    bench.read(encode(numbered(10, 1)))
    bench.read(encode(numbered(11, 4)))
    bench.written().produced({TARGET: (TOO_LARGE, -1)})
    assert (bench.part.position, bench.part.source.position) == (10, 10)
    assert "max.message.bytes" in bench.part.error
    assert bench.part.source.queued_bytes == 0
    bench.asked().fetched(("t", partition_data(0, encode(numbered(15, 1)))))  # too late
    bench.loop.advance(7)
    bench.source.learn()

    bench.read(encode(numbered(10, 3)))
    bench.read(encode(numbered(13, 2)))
    bench.written().produced({TARGET: (0, 900)})
    bench.written().produced({TARGET: (0, 903)})

    assert bench.part.position == 15
    assert bench.part.records == 5
    assert bench.part.error == ""


def test_a_gap_is_in_the_ledger_before_the_position_passes_it(bench: Bench) -> None:
    """Retention deleted offsets 10 to 49."""
    bench.asked().fetched(("t", partition_data(0, error=OUT_OF_RANGE)))
    for offset in (50, 90):
        bench.asked().reply(_offset(offset))
    entry = bench.written()
    (record,) = decode(entry.batches[LEDGER])
    assert b'"firstOffset":10' in (record.key or b"")
    assert (bench.part.position, bench.part.source.position) == (10, 10)

    entry.produced({LEDGER: (0, 0)})
    bench.task._report()
    assert (bench.part.position, bench.part.source.position) == (50, 10)
    while bench.unanswered_writes():  # the offset map, then the position
        request = bench.written()
        request.produced(dict.fromkeys(request.batches, (0, 0)))
    assert bench.part.source.position == 50
    (incident,) = bench.control.reports[-1].incidents
    assert (incident.kind, incident.first_offset, incident.last_offset) == ("gap", 10, 49)


@pytest.mark.parametrize(
    ("policy", "ends", "code"), [("gap", (50, 90), "GAP"), ("source_truncated", (0, 5), "SOURCE_")]
)
def test_a_policy_of_stop_waits_and_looks_again(
    monkeypatch: pytest.MonkeyPatch, policy: str, ends: tuple[int, int], code: str
) -> None:
    """Nothing is guessed, nothing is in the ledger, and recovery clears the trouble."""
    bench = Bench(monkeypatch, **{policy: "stop"})
    bench.find_out_of_range(*ends)
    bench.task._report()
    assert code in bench.part.error
    assert bench.part.position == 10
    assert [one.policy for one in bench.control.reports[-1].incidents] == ["stop"]
    assert not bench.unanswered_writes()

    bench.loop.advance(7)
    for offset in (0, 20):
        bench.asked().reply(_offset(offset))
    bench.loop.advance(12)
    bench.source.learn()
    bench.read(encode(numbered(10, 1)))

    assert bench.part.error == ""


def test_a_leader_that_lags_is_no_truncation(bench: Bench) -> None:
    """It may not have heard how far its log is replicated; who says it twice is believed."""
    bench.asked().fetched(("t", partition_data(0, error=OUT_OF_RANGE)))
    for offset in (0, 5):
        bench.asked().reply(_offset(offset))
    bench.loop.advance(1)
    bench.source.learn()
    bench.read(encode(numbered(10, 3)))
    assert bench.part.source.position == 13
    bench.task._report()
    assert bench.control.reports[-1].incidents == ()


def test_what_is_too_large_is_halved_until_one_record_is_left(bench: Bench) -> None:
    """That one becomes a dead letter; the position passes it when the ledger has it."""
    bench.read(encode(numbered(10, 3)))
    whole = bench.written()
    whole.produced({TARGET: (TOO_LARGE, -1)})
    assert bench.part.error == ""
    first = bench.written()
    assert [one.value for one in decode(first.batches[TARGET])] == [numbered(10, 1)[0].value]
    first.produced({TARGET: (0, 900)})
    for code in (TOO_LARGE, TOO_LARGE, OUT_OF_ORDER):
        bench.written().produced({TARGET: (code, -1)})
    assert (bench.part.position, bench.part.downstream) == (11, 900)

    letter = bench.written()
    (record,) = decode(letter.batches[LETTERS])
    assert dict(record.headers)["sparkmirror.offset"] == b"11"
    letter.produced({LETTERS: (0, 0)})
    assert bench.part.position == 11
    bench.written().produced({LEDGER: (0, 0)})
    bench.asked().fetched()  # it was on its way when the partition was turned back
    bench.read(encode(numbered(10, 3)))
    last = bench.written()
    assert [one.value for one in decode(last.batches[TARGET])] == [numbered(12, 1)[0].value]
    last.produced({TARGET: (0, 901)})
    assert (bench.part.position, bench.part.downstream) == (13, 901)
    assert bench.part.next_sequence == 2


def _offset(offset: int) -> SimpleNamespace:
    """The answer to a question for one end of a log."""
    one = SimpleNamespace(error_code=0, offset=offset)
    return SimpleNamespace(topics=[SimpleNamespace(partitions=[one])])


def unreadable() -> bytes:
    """A record batch of 100 records from offset 10 on that nobody can take apart."""
    raw = seal(
        b"\x07" * 9_000,
        base_offset=10,
        last_offset_delta=99,
        leader_epoch=7,
        attributes=0,
        times=(1, 1),
        producer=(-1, -1, -1),
        count=100,
    )
    return bytes(raw)


def test_a_refused_batch_that_cannot_be_split_affects_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its partition is quarantined and says why; the other one of the request continues."""
    bench = Bench(monkeypatch, partitions=2)
    bad, good = bench.parts
    bench.asked().fetched(
        ("t", partition_data(0, unreadable())),
        ("t", partition_data(1, bytes(encode(numbered(10, 100))))),
    )
    bench.written().produced({bad.target.tp: (INVALID_RECORD, -1), good.target.tp: (0, 0)})

    assert good.position == 110
    assert (good.target.unanswered_requests, good.error) == (0, "")
    assert bad.position == 10
    assert bad.error.startswith("b: a.t-0: INVALID_RECORD")
    (found,) = bench.task.parts.reporter.drain()
    assert "cannot be split" in found.cause


def test_a_take_over_waits_when_there_is_no_metadata_of_its_topic_yet(bench: Bench) -> None:
    """A response about other topics does not mean that the partition has no leader."""
    del bench.target.leaders[TARGET]
    bench.task.parts.take_over.compare(bench.part, 0)
    bench.loop.advance(0)
    bench.target.learn()
    assert not bench.part.error

    bench.target.learn({TARGET: 1})
    (asked,) = bench.target.connection(1).waiting
    assert isinstance(asked.content, DescribeProducersRequest)
    assert not bench.part.error


def test_partitions_without_a_leader_leave_the_memory_to_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Forty partitions of large records, one of which can be written: it continues."""
    bench = Bench(monkeypatch, partitions=40, buffer_bytes=2 << 20)
    parts = bench.task.parts
    bench.target.answered.add(TARGET.topic)
    for part in bench.parts[1:]:
        del bench.target.leaders[part.target.tp]
    value = b"." * 25_000
    for _step in range(60):
        serve_large(bench, value)
        bench.loop.advance(1)
        bench.source.learn()
        bench.target.learn()
        parts.fetcher.send_fetches()

    assert bench.part.position > 50
    assert {part.position for part in bench.parts[1:]} == {10}
    assert all("NO_LEADER" in part.error for part in bench.parts[1:])
    for part in bench.parts[1:]:
        bench.target.leaders[part.target.tp] = bench.target.leaders[TARGET]
    for _step in range(60):
        serve_large(bench, value)
        bench.loop.advance(1)
        bench.source.learn()
        bench.target.learn()
    assert all(part.position > 12 for part in bench.parts), "they are read again, in order"
    assert not any(part.error for part in bench.parts)


def serve_large(bench: Bench, value: bytes) -> None:
    """The source answers with as much as is requested, the target takes everything."""
    waiting = bench.source.connection(1).waiting
    while waiting:
        request = waiting.popleft()
        room = request.content.max_bytes // len(value)
        named = [
            part.source
            for part in sorted(bench.parts, key=lambda part: part.source.position)
            if part.source.session is not None and part.source.tp in part.source.session.partitions
        ]
        request.fetched(
            *(
                ("t", partition_data(one.tp.partition, large(one.position, value), end=10**6))
                for one in named[:room]
            )
        )
        if not named:
            break
    written = bench.target.connection(1).waiting
    parts = {part.target.tp: part for part in bench.parts}
    while written:
        request = written.popleft()
        for tp, raw in request.batches.items():
            if tp in parts:  # in order, and nothing between
                (record,) = decode(raw)
                assert record.key == b"%d" % parts[tp].position
        request.produced(
            {tp: (0, parts[tp].downstream + 1 if tp in parts else 0) for tp in request.batches}
        )


def large(offset: int, value: bytes) -> bytes:
    """A record batch of one record that says where it belongs."""
    return bytes(encode([Record(offset, 1, b"%d" % offset, value)]))


def test_a_partition_that_is_refused_while_its_damage_is_recorded_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two reasons to stand still at once: when both are over, it is copied."""
    bench = Bench(monkeypatch, corrupt_batch="skip")
    ledger = bench.target.leaders.pop(LEDGER)  # not made yet
    damaged = encode(numbered(110, 100))
    damaged[-5] ^= 0xFF
    log = {10: encode(numbered(10, 100)), 110: damaged, 210: encode(numbered(210, 100))}

    def serve() -> None:
        waiting = bench.source.connection(1).waiting
        if waiting and bench.part.source.session is not None:
            rest = b"".join(
                bytes(raw) for at, raw in log.items() if at >= bench.part.source.position
            )
            data = [("t", partition_data(0, rest, end=310))] if rest else []
            waiting.popleft().fetched(*data)
        bench.loop.advance(10)
        bench.source.learn()

    for _step in range(12):
        serve()
    assert bench.part.source.position == 110
    bench.written().produced({TARGET: (FORBIDDEN, -1)})
    assert bench.part.source.position == 10

    bench.target.leaders[LEDGER] = ledger
    for _step in range(60):
        bench.target.learn()
        bench.task.parts.reporter.check_acks()
        while bench.unanswered_writes():
            request = bench.written()
            request.produced(dict.fromkeys(request.batches, (0, bench.part.downstream + 1)))
        serve()

    assert bench.part.position == 310
    assert bench.part.error == ""
