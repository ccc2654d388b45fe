# SPDX-License-Identifier: Apache-2.0
"""Refused record batches: halved, or rid of the records that are to blame."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from sparkmirror.config.settings import IncidentPolicies
from sparkmirror.model import TopicPartition
from sparkmirror.state.incidents import Incident
from sparkmirror.task.copy_partition import ClusterAliases, CopyPartition
from sparkmirror.task.dead_letters import RefusalContext, RefusedRecord
from sparkmirror.task.messages import PartitionStart, TaskSettings
from sparkmirror.task.refused_records import RefusedRecords
from sparkmirror.wire.memory import MemoryBudget
from sparkmirror.wire.outgoing import OutgoingBatch, prepare_batches
from sparkmirror.wire.produce_partition import RefusedBatch
from sparkmirror.wire.settings import ConnectionSettings, FetchSettings, ProduceSettings
from support.data.record_batches import encode, numbered

TOO_LARGE, BAD_TIME = 10, 32


class FakeReporter:
    """Records at once."""

    def __init__(self) -> None:
        self.incidents: list[Incident] = []

    def report(self, incident: Incident) -> None:
        """Keep it."""
        self.incidents.append(incident)

    def record(self, incidents: Sequence[Incident], then: Callable[[], None]) -> None:
        """Keep them and continue."""
        self.incidents += incidents
        then()


class Letters:
    """Delivers at once."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, str]] = []  # offset, reason

    def send(
        self, records: Sequence[RefusedRecord], refusal: RefusalContext, then: Callable[[], None]
    ) -> None:
        """Keep what matters."""
        self.sent += [(one.offset, one.reason or refusal.reason) for one in records]
        then()


class Bench:
    """Refusals of one partition."""

    def __init__(self, policy: str) -> None:
        settings = TaskSettings(
            "a->b", "c", "a", ConnectionSettings("a", (), "r"), ConnectionSettings("b", (), "w"),
            FetchSettings(), ProduceSettings(), "o", 1, 5.0, 1 << 26, 300.0, 5.0,
            policies=IncidentPolicies(refused_record=policy),
        )  # fmt: skip
        self.budget = MemoryBudget(1 << 26)
        self.reporter, self.letters = FakeReporter(), Letters()
        self.again: list[TopicPartition] = []
        self.part = CopyPartition(PartitionStart("t", 0, "a.t", 10), ClusterAliases("a", "b"))
        self.refusals = RefusedRecords(
            settings,
            self.budget,
            self.reporter,  # type: ignore[arg-type]
            self.letters,  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
        )

    def reread_now(self, part: CopyPartition) -> None:
        """As ReadControl: keep which partition is read again."""
        self.again.append(part.source.tp)

    def refuse(
        self, out: OutgoingBatch, code: int, text: str, errors: dict[int, str]
    ) -> list[OutgoingBatch] | None:
        """The target refuses a record batch."""
        return self.refusals.replace(
            self.part, RefusedBatch(self.part.target, out, code, text, errors)
        )

    def read(self, first: int, count: int) -> list[OutgoingBatch]:
        """Record batches as they come from the source."""
        batches = prepare_batches(memoryview(encode(numbered(first, count))), first).batches
        for out in batches:
            out.pin(None, self.budget)
        return batches


def offsets(batches: Sequence[OutgoingBatch]) -> list[list[int]]:
    """The source offsets in each record batch."""
    return [[run.first + i for run in out.runs for i in range(run.length)] for out in batches]


def test_what_is_too_large_is_halved_whatever_the_policy() -> None:
    """Nothing is lost by that."""
    bench = Bench("stop")
    (out,) = bench.read(10, 5)
    pieces = bench.refuse(out, TOO_LARGE, "", {})
    assert pieces is not None
    assert offsets(pieces) == [[10, 11], [12, 13, 14]]
    assert bench.reporter.incidents == []


def test_nothing_as_large_is_sent_again() -> None:
    """Neither read nor joined: the next ones are cut before they are refused."""
    bench = Bench("skip")
    (out,) = bench.read(10, 8)
    size = out.size
    assert bench.refuse(out, TOO_LARGE, "", {}) is not None
    left = bench.refusals.filter_batches(bench.part, bench.read(18, 8))
    assert [one for some in offsets(left) for one in some] == [*range(18, 26)]
    assert all(one.size < size for one in left)
    assert bench.part.target.max_merged_bytes < size


@pytest.mark.parametrize(
    ("policy", "kinds"), [("dead-letter", ["dead-letter"] * 2), ("skip", ["skipped-record"] * 2)]
)
def test_named_records_are_set_aside_and_the_others_pass(policy: str, kinds: list[str]) -> None:
    """One incident for each run of neighbours; the partition is read again without them."""
    bench = Bench(policy)
    (out,) = bench.read(10, 6)
    errors = {4: "too new", 1: "too old", 2: ""}
    assert bench.refuse(out, BAD_TIME, "in general", errors) is None
    assert bench.again == [TopicPartition("t", 0)]
    assert [str(one.kind) for one in bench.reporter.incidents] == kinds
    assert [(one.first_offset, one.last_offset) for one in bench.reporter.incidents] == [
        (11, 12),
        (14, 14),
    ]
    letters = [(11, "too old"), (12, "in general"), (14, "too new")]
    assert bench.letters.sent == (letters if policy == "dead-letter" else [])
    left = bench.refusals.filter_batches(bench.part, bench.read(10, 6))
    assert offsets(left) == [[10], [13], [15]]


def test_a_batch_of_refused_records_only_leaves_nothing() -> None:
    """And gives its memory back."""
    bench = Bench("skip")
    (out,) = bench.read(10, 2)
    assert bench.refuse(out, BAD_TIME, "", {0: "", 1: ""}) is None
    out.release()
    assert bench.refusals.filter_batches(bench.part, bench.read(10, 2)) == []
    assert bench.budget.held == 0


def test_a_policy_of_stop_reports_and_waits() -> None:
    """Nothing is set aside."""
    bench = Bench("stop")
    (out,) = bench.read(10, 3)
    assert bench.refuse(out, BAD_TIME, "", {1: "too old"}) is None
    assert not bench.part.is_recording
    (incident,) = bench.reporter.incidents
    assert (incident.kind, incident.first_offset, incident.policy) == ("refused", 11, "stop")


def test_a_refused_batch_is_halved_if_the_broker_names_no_record() -> None:
    """Afterwards batches may be as large as before: their size was not to blame."""
    bench = Bench("skip")
    before = bench.part.target.max_merged_bytes
    (out,) = bench.read(10, 2)
    pieces = bench.refuse(out, BAD_TIME, "", {})
    assert pieces is not None
    assert bench.refuse(pieces[0], BAD_TIME, "", {}) is None
    assert bench.part.target.max_merged_bytes == before
    assert offsets(bench.refusals.filter_batches(bench.part, bench.read(10, 2))) == [[11]]
