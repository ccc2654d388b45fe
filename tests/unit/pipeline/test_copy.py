# SPDX-License-Identifier: Apache-2.0
"""A copy task between fakes: a position never runs ahead of the target's acknowledgements."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sparkmirror.config.settings import ConnectionSettings, FetchSettings, ProduceSettings
from sparkmirror.model import ProducerState, TopicPartition
from sparkmirror.pipeline import copy
from sparkmirror.pipeline.contract import PartitionStart, Progress, Split, TaskSettings
from sparkmirror.wire.record_batch import TRANSACTIONAL
from support.fake_brokers import FakeCluster, FakeLoop, Request, partition_data
from support.record_batches import decode, encode, marker, numbered

SOURCE, TARGET = TopicPartition("t", 0), TopicPartition("a.t", 0)
POSITIONS = TopicPartition("mm2-offsets.a.internal", 0)
TOO_LARGE, OUT_OF_RANGE = 10, 1


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
    """A task of one topic partition that starts at offset 10."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, gap_policy: str = "continue") -> None:
        self.source, self.target = FakeCluster({SOURCE: 1}), FakeCluster({TARGET: 1, POSITIONS: 1})
        self.source.alias, self.target.alias = "a", "b"
        clusters = {"a": self.source, "b": self.target}
        monkeypatch.setattr(copy, "_cluster", lambda _loop, settings: clusters[settings.alias])
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
            buffer_bytes=64 << 20,
            epoch_seconds=300.0,
            lease_seconds=5.0,
            gap_policy=gap_policy,
        )
        start = PartitionStart(
            "t", 0, "a.t", 10, producer=ProducerState(5, 0, 0), is_handed_over=True
        )
        split = Split(0, (start,))
        self.task = copy.CopyTask(split, settings, self.control, self.loop)  # type: ignore[arg-type]
        (self.part,) = self.task._parts
        self.task._begin()
        self.source.learn()

    def asked(self) -> Request:
        """The oldest request that waits at the source."""
        return self.source.connection(1).waiting.popleft()

    def written(self) -> Request:
        """The oldest request that waits at the target."""
        return self.target.connection(1).waiting.popleft()

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
    (run,) = bench.part.runs.rows
    assert (run.source_first, run.source_last, run.target_first) == (10, 14, 900)


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
    bench.task._delivery.finish()

    batches = {}
    while bench.target.connection(1).waiting:
        batches |= bench.written().batches

    (record,) = decode(batches[POSITIONS])
    assert record.value is not None
    assert b'"offset":12' in record.value


def test_a_refused_batch_is_read_again_and_nothing_is_skipped(bench: Bench) -> None:
    """The target takes it later; until then the position stays, and no memory is held."""
    bench.read(encode(numbered(10, 3)))
    bench.read(encode(numbered(13, 2)))
    bench.written().produced({TARGET: (TOO_LARGE, -1)})
    assert (bench.part.position, bench.part.source.position) == (10, 10)
    assert "max.message.bytes" in bench.part.trouble
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
    assert bench.part.trouble == ""


@pytest.mark.parametrize("gap_policy", ["continue", "stop"])
def test_a_gap_is_told_and_the_policy_decides(
    monkeypatch: pytest.MonkeyPatch, gap_policy: str
) -> None:
    """Retention deleted offsets 10 to 49."""
    bench = Bench(monkeypatch, gap_policy)
    bench.asked().fetched(("t", partition_data(0, error=OUT_OF_RANGE)))
    for offset in (50, 90):
        bench.asked().reply(_offset(offset))
    bench.task._report()
    report = bench.control.reports[-1]

    if gap_policy == "continue":
        assert bench.part.position == bench.part.source.position == 50
        assert "offsets 10 to 49" in report.notices[0]
    else:
        assert bench.part.position == 10
        assert "gap.policy is stop" in report.partitions[0].trouble
        assert not bench.source.connection(1).waiting


def test_a_truncated_source_is_reported_and_looked_at_again(bench: Bench) -> None:
    """The log ends before the position: nothing is guessed, and recovery clears the trouble."""
    bench.asked().fetched(("t", partition_data(0, error=OUT_OF_RANGE)))
    for offset in (0, 5):
        bench.asked().reply(_offset(offset))
    assert "SOURCE_TRUNCATED" in bench.part.trouble
    assert bench.part.position == 10

    bench.loop.advance(7)
    for offset in (0, 20):
        bench.asked().reply(_offset(offset))
    bench.loop.advance(7)
    bench.source.learn()
    bench.read(encode(numbered(10, 1)))

    assert bench.part.trouble == ""


def _offset(offset: int) -> SimpleNamespace:
    """The answer to a question for one end of a log."""
    one = SimpleNamespace(error_code=0, offset=offset)
    return SimpleNamespace(topics=[SimpleNamespace(partitions=[one])])
