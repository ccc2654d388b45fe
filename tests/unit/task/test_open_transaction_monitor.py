# SPDX-License-Identifier: Apache-2.0
"""An open transaction is named after a while, once, and forgotten when it has ended."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sparkmirror.model import TopicPartition
from sparkmirror.state.incidents import Incident
from sparkmirror.task import open_transaction_monitor
from sparkmirror.task.copy_partition import ClusterAliases, CopyPartition
from sparkmirror.task.messages import PartitionStart
from sparkmirror.task.open_transaction_monitor import OpenTransactionMonitor
from sparkmirror.wire import error_codes
from sparkmirror.wire.producer_queries import ActiveProducer, ProducerDescriptions

TP = TopicPartition("t", 0)


class Bench:
    """A partition whose last stable offset is 30, and a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.asked = 0
        self.incidents: list[Incident] = []
        start = PartitionStart("t", 0, "a.t", 30)
        self.mine = CopyPartition(start, ClusterAliases("a", "b"))
        self.stand(stable=30, end=34)
        monkeypatch.setattr(open_transaction_monitor, "time", self)
        monkeypatch.setattr(open_transaction_monitor, "describe_producers", self._ask)
        self.watch = OpenTransactionMonitor(None, 2.0, self, [self.mine])  # type: ignore[arg-type]

    def monotonic(self) -> float:
        """The clock."""
        return self.now

    def report(self, incident: Incident) -> None:
        """As IncidentReporter."""
        self.incidents.append(incident)

    def _ask(self, _: object, _tps: object, done: Callable[[ProducerDescriptions], None]) -> None:
        self.asked += 1
        finished, younger, oldest = (
            ActiveProducer(5, 0, 1),
            ActiveProducer(6, 0, 1, 33),
            ActiveProducer(7, 0, 1, 30),
        )
        done(ProducerDescriptions({TP: (finished, younger, oldest)}))

    def stand(self, *, stable: int, end: int) -> None:
        """What the broker says, all of the stable part having been read."""
        part = self.mine.source
        part.end_offset, part.high_watermark = stable, end
        part.position, part.is_at_end = stable, True

    def wait(self, seconds: float) -> None:
        """Let time pass and look."""
        self.now += seconds
        self.watch.check()


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A partition that is held back from now on."""
    made = Bench(monkeypatch)
    made.wait(0)
    return made


def test_the_oldest_open_transaction_is_named_once(bench: Bench) -> None:
    """Not before its time, and not again while it stays open."""
    bench.wait(1.5)
    assert bench.asked == 0
    for _ in range(3):
        bench.wait(1.0)
    assert bench.asked == 1
    (incident,) = bench.incidents
    assert "producer id 7 started it at offset 30" in incident.cause
    assert "4 offsets" in incident.cause
    assert bench.mine.error_code == error_codes.OPEN_TRANSACTION
    assert bench.mine.error.startswith("a: t-0: ")


def test_the_problem_ends_with_the_transaction(bench: Bench) -> None:
    """And the next one is another one."""
    bench.wait(3.0)
    assert bench.mine.error_code == error_codes.OPEN_TRANSACTION
    bench.stand(stable=34, end=34)
    bench.wait(1.0)
    assert bench.mine.error_code == error_codes.NONE
    bench.stand(stable=34, end=40)
    bench.wait(1.0)
    bench.wait(3.0)
    assert [one.first_offset for one in bench.incidents] == [30, 34]


def test_the_next_transaction_is_another_one_even_without_a_pause(bench: Bench) -> None:
    """The last stable offset moved, but there are records beyond it all the time."""
    bench.wait(3.0)
    bench.stand(stable=32, end=40)
    bench.wait(1.0)
    assert bench.mine.error_code == error_codes.NONE
    bench.wait(3.0)
    assert [one.first_offset for one in bench.incidents] == [30, 32]


def test_consecutive_short_transactions_are_no_incident(bench: Bench) -> None:
    """As long as the last stable offset moves."""
    for stable in range(31, 41):
        bench.stand(stable=stable, end=stable + 4)
        bench.wait(1.5)
    assert bench.asked == 0
