# SPDX-License-Identifier: Apache-2.0
"""Transactions of a copy task between fakes: records and positions count together or not at all."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkmirror.errors import FencedError
from sparkmirror.formats.producer_registry import PRODUCERS_TOPIC
from sparkmirror.model import TopicPartition
from sparkmirror.task import copy_task, task_builder
from sparkmirror.task.messages import (
    PartitionStart,
    Progress,
    Split,
    TaskSettings,
    TransactionStart,
)
from sparkmirror.wire.settings import ConnectionSettings, FetchSettings, ProduceSettings
from sparkmirror.wire.transaction import ProducerIdAndEpoch
from support.data.record_batches import encode, marker, numbered
from support.peers.fake_cluster import FakeCluster, FakeLoop, partition_data
from support.peers.transactional_target import (
    COORDINATOR,
    LEADER,
    OUT_OF_ORDER,
    TransactionalTarget,
)

SOURCES = [TopicPartition("t", 0), TopicPartition("t", 1)]
TARGETS = [TopicPartition("a.t", 0), TopicPartition("a.t", 1)]
REGISTRY = TopicPartition(PRODUCERS_TOPIC, 0)
POSITIONS = TopicPartition("mm2-offsets.a.internal", 0)
NOT_ENOUGH_REPLICAS, CONCURRENT, TOO_LONG = 19, 51, 1000.0
BATCH = 3  # records in a record batch


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
    """A task of two topic partitions with a source that grows as the test says."""

    def __init__(self, *, commit_seconds: float = 0.0, registry_topic: str = "") -> None:
        self.source = FakeCluster(dict.fromkeys(SOURCES, 1))
        self.source.alias = "a"
        self.target = TransactionalTarget([*TARGETS, POSITIONS, REGISTRY], ProducerIdAndEpoch(9, 4))
        self.loop = FakeLoop()
        self.control = Silent()
        task_settings = TaskSettings(
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
            commit_seconds=commit_seconds,
            source_cluster_id="id-a",
            target_cluster_id="id-b",
            registry_topic=registry_topic,
        )
        starts = tuple(
            PartitionStart("t", index, "a.t", 0, is_handed_over=True) for index in range(2)
        )
        split = Split(0, starts, TransactionStart("a-mm2-MirrorSourceConnector-0", 9, 4))
        clusters = {"a": self.source, "b": self.target.cluster}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(task_builder, "Cluster", lambda _loop, one: clusters[one.alias])
            self.task = copy_task.CopyTask(split, task_settings, self.control, self.loop)  # type: ignore[arg-type]
        self.parts = self.task.parts.partitions
        self.delivery = self.task.parts.delivery
        self.ends = [0, 0]
        self.task.parts.take_over.start(self.parts)
        self.source.learn()

    def grow(self, index: int = 0, batches: int = 1) -> None:
        """More records on the source."""
        self.ends[index] += batches * BATCH

    def read(self) -> bool:
        """The source answers with one record batch of each partition that has more."""
        waiting = self.source.connection(1).waiting
        data = [
            ("t", partition_data(index, encode(numbered(part.source.position, BATCH))))
            for index, part in enumerate(self.parts)
            if part.source.session is not None and part.source.position < self.ends[index]
        ]
        if not waiting or not data:
            return False
        waiting.popleft().fetched(*data)
        return True

    def turn(self) -> None:
        """Time passes and metadata arrives."""
        self.loop.advance(10)
        self.source.learn()
        self.target.cluster.learn()

    def settle(self) -> None:
        """Let everything through until there is nothing left to do."""
        for _ in range(100):
            while self.read():
                pass
            self.target.serve_all()
            self.turn()
            if not self.target.kinds and all(
                part.savepoint is not None and part.savepoint.position == self.ends[index]
                for index, part in enumerate(self.parts)
            ):
                return
        raise AssertionError("the task never caught up")

    def stored(self) -> dict[int, int]:
        """Partition -> position, as committed."""
        found = {}
        for entry in self.target.committed[POSITIONS]:
            for key, value in zip(entry.keys, entry.values, strict=True):
                place = json.loads(key or b"")[1]
                found[place["partition"]] = json.loads(value or b"")["offset"] + 1
        return found

    def check(self) -> None:
        """Whoever reads what is committed finds records and positions that agree."""
        stored = self.stored()
        for index, tp in enumerate(TARGETS):
            expected = [one.key for one in numbered(0, stored.get(index, 0))]
            assert self.target.keys(tp) == expected

    def until(self, kind: str) -> None:
        """Serve until a request of this kind waits."""
        for _ in range(20):
            while self.target.kinds:
                if self.target.kinds[0] == kind:
                    return
                self.target.serve()
            self.turn()
        raise AssertionError(f"no {kind} was asked for; there is {self.target.kinds}")


def test_records_and_positions_are_committed_together() -> None:
    """Partitions are added before they are written, positions are the last to be written."""
    bench = Bench()
    bench.grow(0)
    bench.read()
    order = []
    for _ in range(10):
        while bench.target.kinds:
            order.append(bench.target.serve())
        bench.turn()
    assert order == ["find", "features", "add", "produce", "produce", "end"]
    assert bench.stored() == {0: BATCH}
    bench.check()


def test_nothing_counts_before_the_commit() -> None:
    """Acknowledged is not committed: neither progress nor the position say so."""
    bench = Bench()
    bench.grow(0)
    bench.read()
    bench.until("end")
    assert bench.parts[0].position == BATCH
    bench.task._report()
    assert [one.position for one in bench.control.reports[-1].partitions] == [0, 0]
    assert bench.target.keys(TARGETS[0]) == []
    bench.settle()
    bench.task._report()
    assert bench.control.reports[-1].partitions[0].position == BATCH
    assert bench.control.reports[-1].partitions[0].records == BATCH


def test_nothing_new_is_sent_while_a_transaction_ends() -> None:
    """What arrives meanwhile is read, and waits for the next one."""
    bench = Bench()
    bench.grow(0)
    bench.read()
    bench.until("end")
    bench.grow(0)
    bench.grow(1)
    bench.read()
    assert bench.target.kinds == ["end"]
    bench.target.serve()
    bench.settle()
    assert bench.target.commits == 2
    bench.check()


def test_a_commit_waits_for_its_time() -> None:
    """Many record batches, one transaction."""
    bench = Bench(commit_seconds=100.0)
    bench.delivery._ended_at = time.monotonic()  # type: ignore[attr-defined]
    for _ in range(5):
        bench.grow(0)
        bench.read()
        bench.target.serve_all()
        bench.turn()
        bench.target.serve_all()
    assert bench.parts[0].position == 5 * BATCH
    assert bench.target.commits == 0
    bench.loop.advance(100)
    bench.target.serve_all()
    assert bench.target.commits == 1
    assert bench.stored() == {0: 5 * BATCH}


def test_after_an_abort_everything_is_read_again_from_what_is_committed() -> None:
    """A lost sequence throws the transaction away, of all partitions."""
    bench = Bench()
    bench.grow(0)
    bench.grow(1)
    bench.settle()
    assert bench.stored() == {0: BATCH, 1: BATCH}
    bench.grow(0)
    bench.grow(1, 2)
    bench.read()
    bench.until("produce")
    bench.target.serve(refuse=OUT_OF_ORDER)  # it is tried once more
    bench.until("produce")
    bench.target.serve(refuse=OUT_OF_ORDER)
    bench.settle()
    assert bench.target.aborts == 1
    assert bench.stored() == {0: 2 * BATCH, 1: 3 * BATCH}
    bench.check()
    bench.task._report()
    (sentence,) = [text for report in bench.control.reports for text in report.notices]
    assert sentence.startswith("aborted: b: a-mm2-MirrorSourceConnector-0: a.t-")
    assert [part.records for part in bench.parts] == [2 * BATCH, 3 * BATCH]


def test_a_lost_sequence_of_a_position_aborts_the_transaction() -> None:
    """Positions have the transaction's producer id; the records are copied again."""
    bench = Bench()
    bench.grow(0)
    bench.read()
    bench.until("produce")
    bench.target.serve()
    for _ in range(2):  # the second time it counts as lost
        bench.until("produce")
        bench.target.serve(refuse=OUT_OF_ORDER)
    bench.settle()
    assert (bench.target.aborts, bench.target.commits) == (1, 1)
    bench.check()


def test_a_target_that_lost_committed_records_ends_the_task() -> None:
    """Nothing is committed behind the loss: the driver finds out where to continue."""
    bench = Bench()
    bench.grow(0, 2)
    bench.settle()
    commits = bench.target.commits
    bench.target._ends[TARGETS[0]] = 2  # an unclean leader election
    bench.grow(0)
    bench.read()
    bench.until("produce")
    bench.target.serve()
    bench.turn()
    assert bench.delivery.is_fenced
    assert "TARGET_TRUNCATED" in bench.delivery.error
    assert (bench.target.kinds, bench.target.commits) == ([], commits)


def test_an_abort_waits_for_what_is_on_its_way_and_sends_nothing_again() -> None:
    """Whatever reached a leader after the abort would be taken for a fenced producer's."""
    bench = Bench()
    bench.grow(0, 2)
    bench.read()
    bench.until("produce")
    bench.read()
    bench.delivery.handles_lost_sequence(bench.parts[1].target)
    bench.turn()
    assert bench.target.kinds == ["produce", "produce"]
    bench.target.serve(refuse=NOT_ENOUGH_REPLICAS)
    bench.target.serve(refuse=OUT_OF_ORDER)
    assert bench.target.kinds == ["end"]
    bench.turn()
    assert bench.target.kinds == ["end"]
    bench.settle()
    assert (bench.target.aborts, bench.target.commits) == (1, 1)
    bench.check()


def test_doubts_that_stay_end_in_an_abort() -> None:
    """A partition whose leader is gone does not hold the others for ever."""
    bench = Bench()
    bench.grow(0)
    bench.read()
    bench.until("produce")
    bench.delivery._begin_commit()  # type: ignore[attr-defined]
    bench.target.serve(answer=False)  # it has the record batch, and nobody hears of it
    bench.delivery.tick(time.monotonic())
    assert bench.target.aborts == 0
    bench.delivery.tick(time.monotonic() + TOO_LONG)
    bench.settle()
    assert (bench.target.aborts, bench.target.commits) == (1, 1)
    bench.check()


@pytest.mark.parametrize("kind", ["add", "produce", "end"])
def test_a_fenced_task_ends_at_once(kind: str) -> None:
    """Whichever broker says it first; what was open is aborted already."""
    bench = Bench()
    bench.grow(0)
    bench.read()
    bench.until(kind)
    bench.target.fence()
    bench.target.serve()
    assert bench.delivery.is_fenced
    bench.task._advance(time.monotonic())
    assert bench.task._phase is copy_task._Phase.DONE
    bench.grow(0)
    bench.read()
    bench.turn()
    assert not bench.target.kinds
    with pytest.raises(FencedError, match=r"a->b: b: a-mm2-MirrorSourceConnector-0: INVALID_PROD"):
        bench.task.run()


def test_positions_of_an_aborted_transaction_are_never_stored() -> None:
    """Not even those that could not be sent: the offsets topic had no leader."""
    bench = Bench()
    bench.grow(0)
    bench.settle()
    bench.grow(0)
    bench.read()
    bench.until("produce")
    leader = bench.target.cluster.leaders.pop(POSITIONS)
    bench.target.serve()
    bench.loop.advance(1)
    bench.delivery.tick(time.monotonic() + TOO_LONG)
    bench.target.serve_all()
    assert bench.target.aborts == 1
    bench.target.cluster.leaders[POSITIONS] = leader
    bench.target.cluster.learn()
    bench.target.serve_all()
    assert bench.stored() == {0: BATCH}

    bench.grow(1, 3)
    bench.settle()

    assert bench.target.aborts == 1, "what was left behind must not hold up the next ones"
    bench.check()


def test_a_coordinator_that_is_silent_while_positions_are_stored_costs_one_abort() -> None:
    """The line that waited for it is not forgotten in the queue."""
    bench = Bench()
    bench.source.connection(1).waiting.popleft().fetched(
        ("t", partition_data(0, marker(0, 77, commits=True)))
    )
    bench.turn()
    bench.delivery.tick(time.monotonic())
    bench.until("add")
    bench.delivery.tick(time.monotonic() + TOO_LONG)
    bench.grow(0)
    bench.grow(1, 2)
    bench.settle()

    assert bench.target.aborts == 1
    assert bench.stored()[1] == 2 * BATCH


def test_a_partition_that_is_refused_does_not_hold_up_the_commits_of_others() -> None:
    """Too few replicas for one of them: nothing of it is on the target, so nobody doubts."""
    bench = Bench()
    bench.target.refusals[TARGETS[0]] = NOT_ENOUGH_REPLICAS
    bench.grow(0, 2)
    for _round in range(10):
        bench.grow(1)
        while bench.read():
            pass
        bench.target.serve_all()
        bench.turn()
    assert bench.stored()[1] >= 8 * BATCH
    assert bench.target.aborts == 0

    bench.target.refusals.clear()
    bench.settle()
    bench.check()


def test_a_transaction_without_an_answer_is_ended_before_its_time_is_up() -> None:
    """Else the coordinator would end it, and the task with it."""
    bench = Bench()
    bench.target.refusals[TARGETS[0]] = NOT_ENOUGH_REPLICAS
    bench.grow(0)
    bench.read()
    bench.until("produce")
    bench.target.serve()
    assert bench.target.is_open
    bench.delivery.tick(time.monotonic() + TOO_LONG)
    bench.target.serve_all()

    assert not bench.target.is_open
    assert not bench.delivery.is_fenced
    bench.target.refusals.clear()
    bench.settle()
    bench.check()


def test_positions_that_moved_without_a_record_are_stored_in_time() -> None:
    """Markers of the source's transactions: nothing is copied, and nothing is read twice."""
    bench = Bench()
    bench.source.connection(1).waiting.popleft().fetched(
        ("t", partition_data(0, marker(0, 77, commits=True)))
    )
    bench.turn()
    assert not bench.target.kinds
    bench.delivery.tick(time.monotonic())
    bench.until("end")
    bench.target.serve()
    assert bench.stored() == {0: 1}


def test_the_end_of_a_task_commits_what_there_is() -> None:
    """Also in the middle of the time between two commits; then its receipts are final."""
    bench = Bench(commit_seconds=100.0)
    bench.delivery._ended_at = time.monotonic()  # type: ignore[attr-defined]
    bench.grow(0)
    bench.read()
    bench.until("produce")
    bench.target.serve()
    bench.delivery.flush()
    assert not bench.delivery.is_flushed
    bench.target.serve_all()
    assert bench.delivery.is_flushed
    assert bench.stored() == {0: BATCH}
    bench.delivery.close()
    receipts = [part.receipt(0) for part in bench.parts]
    assert [(one.position, one.is_clean) for one in receipts] == [(BATCH, True), (0, True)]


def test_an_unanswered_end_of_a_transaction_is_left_to_the_driver() -> None:
    """The receipts tell the last commit that is certain, and that they are not final."""
    bench = Bench()
    bench.grow(0)
    bench.settle()
    bench.grow(0)
    bench.read()
    bench.until("end")
    bench.delivery.flush()
    bench.delivery.close()
    receipts = [part.receipt(0) for part in bench.parts]
    assert [(one.position, one.is_clean) for one in receipts] == [(BATCH, False), (0, False)]


REFUSALS = {
    ("full", "produce"): NOT_ENOUGH_REPLICAS,
    ("full", "add"): CONCURRENT,
    ("out of order", "produce"): OUT_OF_ORDER,
}
STEPS = st.sampled_from(
    [
        *("more", "more", "serve", "serve", "serve", "turn", "turn"),
        *("lose", "lose after", "full", "out of order", "impatience", "abort"),
        *("no leader", "no leader of positions", "refused"),
    ]
)
NODES = st.sampled_from([LEADER, COORDINATOR])


def disturb(bench: Bench, step: str, node: int) -> None:
    """Answer the oldest request at a broker of the target, well or badly, or lose it."""
    kind = bench.target.next_at(node)
    if step == "lose":
        bench.target.lose(node)
    elif step == "serve" and kind:
        bench.target.serve(node)
    elif step == "lose after" and kind:
        bench.target.serve(node, answer=False)
    elif (step, kind) in REFUSALS:
        bench.target.serve(node, refuse=REFUSALS[step, kind])


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(st.tuples(STEPS, NODES), min_size=5, max_size=40))
def test_whatever_goes_wrong_committed_records_and_positions_agree(
    steps: list[tuple[str, int]],
) -> None:
    """Lost requests and answers, refusals, lost sequences, doubts, in any order."""
    bench = Bench()
    leaders = dict(bench.target.cluster.leaders)
    bench.grow(0)
    bench.settle()
    for step, node in steps:
        if step == "more":
            bench.grow(node - 1, 2)
            bench.read()
            bench.read()
        elif step == "turn":
            bench.turn()
        elif step == "impatience":
            bench.delivery.tick(time.monotonic() + TOO_LONG)
        elif step == "abort":
            bench.delivery.handles_lost_sequence(bench.parts[0].target)
        elif step.startswith("no leader"):  # the second time it is there again
            place = POSITIONS if step.endswith("positions") else TARGETS[node - 1]
            if bench.target.cluster.leaders.pop(place, None) is None:
                bench.target.cluster.leaders[place] = leaders[place]
        elif step == "refused":
            if bench.target.refusals.pop(TARGETS[node - 1], 0) == 0:
                bench.target.refusals[TARGETS[node - 1]] = NOT_ENOUGH_REPLICAS
        else:
            disturb(bench, step, node)
        bench.check()
    bench.target.refusals.clear()
    bench.target.cluster.leaders.update(leaders)
    bench.settle()
    bench.check()
    bench.source.connection(1).lose()  # what is set aside for the fetch on its way
    assert bench.task.parts.budget.held == 0


@pytest.mark.parametrize("registry_topic", [PRODUCERS_TOPIC, ""])
def test_another_producer_id_is_registered_before_its_first_record(registry_topic: str) -> None:
    """The coordinator replaces an id whose epochs are used up; flows that keep names must wait."""
    bench = Bench(registry_topic=registry_topic)
    bench.target.last_epoch = 4
    bench.grow(0)
    bench.settle()
    bench.grow(0)
    bench.turn()
    bench.read()
    order: list[str] = []
    while not bench.target.registered:
        order.append(bench.target.serve())
        bench.turn()
    assert "add" not in order
    assert bench.target.identity == (10, 0)
    assert bench.target.registered == [b'{"producer":10,"cluster":"id-b"}']
    bench.settle()
    bench.check()
    assert bench.target.commits == 2
