# SPDX-License-Identifier: Apache-2.0
"""What other flows copied to the source is skipped; everything else is copied once, in order.

Producers 1 to 999 are local. The source is cluster a; flows from b and c write to it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.model import TopicPartition
from sparkmirror.task.messages import PartitionProgress
from sparkmirror.wire import error_codes
from support.mirrors.scripted_mirror import REGISTRY, TOPIC, Crash, ScriptedMirror, TaskRun, mirror
from support.peers.scripted_cluster import FETCH, LIST_OFFSETS, METADATA

LOCAL, FROM_B, FROM_C = 7, 5_000, 6_000
UNKNOWN_TOPIC, NO_LEADER, NOT_LEADER, DENIED = 3, 5, 6, 29


@pytest.fixture
def flow() -> Iterator[ScriptedMirror]:
    """A flow from a to b that skips what came from b."""
    with mirror() as made:
        made.skip_origins = ("b",)
        yield made


def write(flow: ScriptedMirror, producer: int, *names: str) -> None:
    """One record batch on the source."""
    known = flow.source_log.producers.get(producer)
    sequence = known.last_sequence + 1 if known else 0
    flow.source_log.append(
        [name.encode() for name in names],
        producer=(-1, -1, -1) if producer < 0 else (producer, 0, sequence),
    )


def copied(flow: ScriptedMirror) -> list[str]:
    return [(body or b"").decode() for body in flow.target_log.bodies]


def finish(flow: ScriptedMirror, **more: Any) -> TaskRun:
    """Run a task to its end."""
    life = flow.run(**more)
    assert not life.is_stuck, life.troubles
    return life


def last_progress(life: TaskRun) -> PartitionProgress:
    return [one for report in life.reports for one in report.partitions][-1]


def test_registered_batches_are_skipped_and_all_others_are_copied(flow: ScriptedMirror) -> None:
    """Local producers with and without id, and a flow from a cluster that is not skipped."""
    flow.register(FROM_B)
    flow.register(FROM_C, "c")
    for number in range(3):
        write(flow, FROM_B, f"b{number}", f"b{number}+")
        write(flow, LOCAL, f"local{number}")
        write(flow, -1, f"plain{number}")
        write(flow, FROM_C, f"c{number}")

    life = finish(flow)

    assert copied(flow) == [f"{name}{n}" for n in range(3) for name in ("local", "plain", "c")]
    end = last_progress(life)
    assert (end.position, end.skipped_records) == (flow.source_log.end, 6)
    assert not life.incidents
    assert not flow.ledger()


def test_position_and_lag_reach_the_end_when_everything_is_skipped(flow: ScriptedMirror) -> None:
    flow.register(FROM_B)
    write(flow, FROM_B, *map(str, range(50)))
    end = last_progress(finish(flow))
    assert copied(flow) == []
    assert (end.position, end.stored_position, end.end_offset) == (50, 50, 50)


def test_a_producer_counts_only_for_the_cluster_that_issued_its_id(flow: ScriptedMirror) -> None:
    flow.register(FROM_B, cluster="elsewhere")
    write(flow, FROM_B, "x")
    finish(flow)
    assert copied(flow) == ["x"]


def test_nothing_is_requested_when_no_origin_is_skipped() -> None:
    with mirror() as flow:
        flow.register(FROM_B)
        write(flow, FROM_B, "x")
        finish(flow)
        assert copied(flow) == ["x"]
        assert not flow.source.requests[LIST_OFFSETS]


def test_producers_are_local_when_the_registry_does_not_exist(flow: ScriptedMirror) -> None:
    for number in range(20):
        write(flow, number + 1, f"r{number}")
    finish(flow)
    assert copied(flow) == [f"r{number}" for number in range(20)]


def test_a_registry_that_appears_while_the_task_runs_is_read(flow: ScriptedMirror) -> None:
    write(flow, LOCAL, "first")

    def start_other_flow() -> None:
        flow.register(FROM_B)
        write(flow, FROM_B, "b")
        write(flow, LOCAL, "last")

    finish(flow, at={3.0: start_other_flow})
    assert copied(flow) == ["first", "last"]


def test_batches_wait_until_the_registry_is_read_when_it_is_slower_than_the_data(
    flow: ScriptedMirror,
) -> None:
    """The registry's end is known long before its records arrive."""
    flow.register(FROM_B)
    flow.source.topic_refusals[FETCH, REGISTRY] = NOT_LEADER
    write(flow, -1, "plain")
    write(flow, FROM_B, "b")
    write(flow, LOCAL, "local")
    seen: list[list[str]] = []

    def readable() -> None:
        seen.append(copied(flow))
        flow.source.topic_refusals.clear()

    finish(flow, at={20.0: readable})
    assert seen == [["plain"]]
    assert copied(flow) == ["plain", "local"]


def test_a_producer_registered_while_its_batch_waits_is_skipped(flow: ScriptedMirror) -> None:
    """The end of the registry is requested after the batch was seen."""
    flow.source.create(REGISTRY)
    flow.source.topic_refusals[LIST_OFFSETS, REGISTRY] = NOT_LEADER
    write(flow, FROM_B, "b")

    def registered() -> None:
        flow.register(FROM_B)
        flow.source.topic_refusals.clear()

    finish(flow, at={5.0: registered})
    assert copied(flow) == []


@pytest.mark.parametrize("which", ["data", "registry", "both"])
def test_copy_is_exact_when_leaders_change_while_batches_wait(
    flow: ScriptedMirror, which: str
) -> None:
    flow.register(FROM_B)
    flow.source.topic_refusals[FETCH, REGISTRY] = NOT_LEADER
    write(flow, FROM_B, "b")
    write(flow, LOCAL, "local")

    def elect() -> None:
        if which != "registry":
            flow.source_log.elect()
        if which != "data":
            flow.source.log(REGISTRY).elect()

    def readable() -> None:
        flow.source.topic_refusals.clear()
        write(flow, FROM_B, "b2")
        write(flow, LOCAL, "local2")

    finish(flow, at={3.0: elect, 6.0: readable})
    assert copied(flow) == ["local", "local2"]


@pytest.mark.parametrize("api_key", [METADATA, LIST_OFFSETS, FETCH])
def test_the_partition_names_the_remedy_when_the_registry_must_not_be_read(
    flow: ScriptedMirror, api_key: int
) -> None:
    """It copies nothing of an unknown producer until the right is granted."""
    flow.register(FROM_B)
    flow.source.topic_refusals[api_key, REGISTRY] = DENIED
    write(flow, -1, "plain")
    write(flow, LOCAL, "local")
    seen: list[list[str]] = []

    def granted() -> None:
        seen.append(copied(flow))
        flow.source.topic_refusals.clear()

    life = finish(flow, at={10.0: granted})
    assert seen == [["plain"]]
    assert copied(flow) == ["plain", "local"]
    [trouble] = life.troubles
    assert trouble.startswith("a: t-0: REGISTRY_UNREADABLE: ")
    assert trouble.endswith(
        "grant READ and DESCRIBE on topic mm2-producers.internal on cluster 'a', "
        "or set loop.policy=ignore"
    )
    assert not error_codes.is_retriable(error_codes.REGISTRY_UNREADABLE)
    assert not last_progress(life).error


def test_malformed_records_of_the_registry_are_named_once_and_skipped(flow: ScriptedMirror) -> None:
    flow.write_registry(b"no json", b"{}")
    flow.write_registry(b'{"producer":1}', b"[]")
    flow.write_registry(b'{"edge":1}', b"{}")
    flow.register(FROM_B)
    write(flow, FROM_B, "b")
    write(flow, LOCAL, "local")
    life = finish(flow)
    assert copied(flow) == ["local"]
    [notice] = life.notices
    assert notice.startswith("a: skipped a malformed record in topic mm2-producers.internal")


def test_ten_thousand_producers_cost_a_few_requests(flow: ScriptedMirror) -> None:
    """Half of them are registered."""
    for number in range(10_000):
        if number % 2:
            flow.register(10_000 + number)
        write(flow, 10_000 + number, f"r{number}")
    life = finish(flow)
    assert copied(flow) == [f"r{number}" for number in range(0, 10_000, 2)]
    assert last_progress(life).skipped_records == 5_000
    assert flow.source.requests[LIST_OFFSETS] < 40


def test_local_producers_are_looked_up_again_when_there_are_more_than_the_limit(
    flow: ScriptedMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparkmirror.task.producer_verdicts.MAX_LOCAL", 8)
    monkeypatch.setattr("sparkmirror.task.batch_origins.MAX_LOCAL", 8)
    flow.register(FROM_B)
    for number in range(60):
        write(flow, FROM_B if number % 5 == 0 else number % 30 + 1, f"r{number}")
    finish(flow)
    assert copied(flow) == [f"r{number}" for number in range(60) if number % 5]
    known = flow.parts.partitions[0].verdicts
    assert known is not None
    assert len(known.skips) == 8 + 2


@pytest.mark.parametrize("how", ["recreated", "truncated", "truncated and longer", "deleted"])
def test_registered_producers_are_found_when_the_registry_was_replaced(
    flow: ScriptedMirror, how: str
) -> None:
    flow.register(1)
    flow.register(2)
    write(flow, LOCAL, "first")

    def replaced() -> None:
        log = flow.source.log(REGISTRY)
        if how == "recreated":
            flow.source.create(REGISTRY)
        elif how == "deleted":
            del flow.source.logs[TopicPartition(REGISTRY, 0)]
        else:
            log.truncate(1)
        if how != "deleted":
            flow.register(FROM_B)
        if how == "truncated and longer":
            flow.register(FROM_C)
        write(flow, FROM_B, "b")
        write(flow, LOCAL, "last")

    finish(flow, at={3.0: replaced})
    assert copied(flow) == (["first", "b", "last"] if how == "deleted" else ["first", "last"])


def test_a_bounded_run_ends_when_the_rest_is_skipped(flow: ScriptedMirror) -> None:
    flow.register(FROM_B)
    write(flow, LOCAL, "local")
    write(flow, FROM_B, "b", "b2")
    finish(flow, start=replace(flow.start(), stop_at=3))
    assert copied(flow) == ["local"]
    assert flow.parts.partitions[0].is_finished


@pytest.mark.parametrize("is_answered", [True, False])
def test_the_same_batches_are_skipped_in_a_comparison_after_a_crash(
    flow: ScriptedMirror, *, is_answered: bool
) -> None:
    flow.small_batches()
    flow.register(FROM_B)
    for number in range(10):
        write(flow, FROM_B, f"b{number}", f"b{number}+")
        write(flow, LOCAL, f"local{number}")
        flow.target_log.append([b"other%d" % number])
    life = flow.run(Crash(produces=5, is_answered=is_answered))
    assert life.was_killed
    write(flow, FROM_B, "b")
    write(flow, LOCAL, "last")

    life = finish(flow)

    expected = [*(f"local{number}" for number in range(10)), "last"]
    assert [name for name in copied(flow) if not name.startswith("other")] == expected
    assert not life.incidents


@pytest.mark.parametrize("before", [(), ("b",)])
@pytest.mark.parametrize("is_answered", [True, False])
def test_nothing_comes_twice_when_other_records_are_skipped_after_a_crash(
    flow: ScriptedMirror, before: tuple[str, ...], *, is_answered: bool
) -> None:
    """A flow of other clusters was added, or removed, while the mirror was down."""
    flow.small_batches()
    flow.register(FROM_B)
    write(flow, LOCAL, "first")
    finish(flow)
    flow.skip_origins, after = before, () if before else ("b",)
    for number in range(10):
        write(flow, FROM_B, f"b{number}", f"b{number}+")
        write(flow, LOCAL, f"local{number}")
    life = flow.run(Crash(produces=5, is_answered=is_answered))
    assert life.was_killed
    flow.skip_origins = after
    write(flow, FROM_B, "b")
    write(flow, LOCAL, "last")

    life = finish(flow)

    local = [name for name in copied(flow) if name[0] != "b"]
    assert local == ["first", *(f"local{number}" for number in range(10)), "last"]
    assert len(copied(flow)) == len({*copied(flow)})
    assert not life.incidents


def test_copy_is_exact_when_compaction_emptied_registered_batches(flow: ScriptedMirror) -> None:
    flow.register(FROM_B)
    for number in range(6):
        write(flow, FROM_B, f"b{number}", f"b{number}+")
        write(flow, LOCAL, f"local{number}", f"local{number}+")
    flow.source_log.compact(lambda one: one.offset % 3 == 0 or one.offset > 18)
    finish(flow)
    kept = [(body or b"").decode() for body in flow.source_log.bodies]
    assert copied(flow) == [body for body in kept if body.startswith("local")]


def test_other_writers_are_normal_on_the_target_when_flows_run_in_both_directions(
    flow: ScriptedMirror,
) -> None:
    """No read-back of the target for every record batch of another writer."""
    flow.register(FROM_B)
    interleave(flow)
    life = finish(flow)
    assert not life.reports[-1].other_writers
    assert flow.target.requests[FETCH] <= 3  # of the first acknowledged record batch


def test_other_writers_are_reported_when_no_flow_copies_from_the_target(
    flow: ScriptedMirror,
) -> None:
    interleave(flow)
    life = finish(flow)
    assert {one.producer_id for one in life.reports[-1].other_writers} == {77}


def interleave(flow: ScriptedMirror) -> None:
    """Local record batches on both clusters by turns."""
    flow.small_batches()
    write(flow, LOCAL, "first")
    finish(flow)
    for number in range(20):
        write(flow, LOCAL, f"local{number}")

    def written(api_key: int, _request: object) -> None:
        if api_key != LIST_OFFSETS and len(flow.target_log.batches) < 30:
            sequence = flow.target_log.producers.get(77)
            first = sequence.last_sequence + 1 if sequence else 0
            flow.target_log.append([b"other"], producer=(77, 0, first))

    flow.source.after_request = written


class Story:
    """A flow, and what must and must not be on the target."""

    def __init__(self, flow: ScriptedMirror) -> None:
        self._flow = flow
        self._serials = count()
        self.wanted: list[str] = []
        self.skipped: set[str] = set()

    def write(self, writer: str, size: int) -> None:
        """One record batch; `late` registers right before it."""
        producer = {"plain": -1, "local": LOCAL, "b": FROM_B, "c": FROM_C}.get(writer)
        if producer is None:
            producer = 10_000 + next(self._serials)
        if writer == "late":
            self._flow.register(producer)
        names = [f"r{next(self._serials)}" for _ in range(size)]
        write(self._flow, producer, *names)
        if writer in ("b", "late"):
            self.skipped.update(names)
        else:
            self.wanted += names

    def compact(self, modulus: int) -> None:
        """The source's cleaner keeps every n-th offset; what was not copied is lost."""
        self._flow.source_log.compact(lambda one: one.offset % modulus == 0)
        kept = {(body or b"").decode() for body in self._flow.source_log.bodies} | {
            *copied(self._flow)
        }
        self.wanted = [name for name in self.wanted if name in kept]

    def run(self, produces: int) -> None:
        """A task that ends when all is copied, or dies after so many produce requests."""
        life = self._flow.run(Crash(produces=produces, is_answered=True) if produces else None)
        assert not life.is_stuck, life.troubles
        assert not life.incidents

    def run_with_trouble(self, api_key: int, code: int) -> None:
        """A task that cannot use the registry for a while, and producers that begin meanwhile."""
        refusals = self._flow.source.topic_refusals
        refusals[api_key, REGISTRY] = code

        def begin() -> None:
            self.write("new", 1)
            self.write("late", 1)

        def end() -> None:
            refusals.clear()
            self.write("late", 1)

        at = {0.2: begin, 0.4: lambda: self.elect(REGISTRY), 0.9: end, 1.2: begin}
        assert not self._flow.run(at=at).is_stuck

    def elect(self, topic: str) -> None:
        self._flow.source.log(topic).elect()


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("write"),
            st.sampled_from(["plain", "local", "b", "c", "new", "late"]),
            st.integers(1, 4),
        ),
        st.tuples(st.just("run"), st.integers(0, 3)),
        st.tuples(
            st.just("run_with_trouble"),
            st.sampled_from([LIST_OFFSETS, FETCH]),
            st.sampled_from([UNKNOWN_TOPIC, NO_LEADER, NOT_LEADER, DENIED]),
        ),
        st.tuples(
            st.just("run_with_trouble"), st.just(METADATA), st.sampled_from([NO_LEADER, DENIED])
        ),
        st.tuples(st.just("elect"), st.sampled_from([TOPIC, REGISTRY])),
        st.tuples(st.just("compact"), st.integers(2, 4)),
    ),
    max_size=25,
)


@settings(max_examples=int(os.environ.get("ORIGINS_EXAMPLES", "60")), deadline=None)
@given(STEPS, st.booleans())
def test_exactly_the_right_records_pass_in_order(steps: list[Any], is_small: bool) -> None:
    """Any interleaving of local, registered and unknown producers, with crashes and elections."""
    with mirror() as flow:
        flow.skip_origins = ("b",)
        if is_small:
            flow.small_batches()
        flow.register(FROM_B)
        flow.register(FROM_C, "c")
        story = Story(flow)
        for name, *arguments in [*steps, ("write", "local", 1), ("run", 0)]:
            getattr(story, name)(*arguments)
        assert copied(flow) == story.wanted
        assert translation_violations(flow, story.skipped) == []


def translation_violations(flow: ScriptedMirror, skipped: set[str]) -> list[str]:
    """No offset is translated to a place after the copy of a record at or after it."""
    places = {one.value: one.offset for one in flow.target_log.records}
    found, following = [], flow.target_log.end
    for one in reversed(flow.source_log.records):
        if (one.value or b"").decode() not in skipped:
            following = places[one.value]
        translation = flow.translate(one.offset)
        if translation is not None and translation.offset > following:
            found.append(f"{one.offset} is translated to {translation.offset}, not {following}")
    return found
