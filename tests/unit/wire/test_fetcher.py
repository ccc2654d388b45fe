# SPDX-License-Identifier: Apache-2.0
"""The fetcher's state machine where brokers misbehave: positions, sessions, memory."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pytest

from sparkmirror.errors import UndecodableResponseError, UnreachableError
from sparkmirror.model import TopicPartition
from sparkmirror.wire import error_codes
from sparkmirror.wire.memory import SharedBuffer
from support.data.record_batches import encode, numbered
from support.peers.fake_cluster import partition_data
from support.peers.fetcher_harness import (
    LIMIT,
    MAX_PARTITION_BYTES,
    A,
    B,
    FetcherHarness,
    data,
    error,
    named,
)

NOT_LEADER, REFUSED, OUT_OF_RANGE = 6, 29, 1


def test_after_the_first_request_only_what_changed_is_named() -> None:
    """The session keeps the rest: idle partitions cost nothing."""
    bench = FetcherHarness()
    bench.start()
    first = bench.request()
    assert (first.content.session_id, first.content.session_epoch) == (0, 0)
    assert first.positions == named((A, 0), (B, 0))

    first.fetched(data(A, 0), session_id=77)
    second = bench.request()
    assert (second.content.session_id, second.content.session_epoch) == (77, 1)
    assert second.positions == named((A, 2))

    second.fetched(session_id=77)
    third = bench.request()
    assert (third.content.session_epoch, third.positions) == (2, {})


def test_only_one_request_is_in_flight_per_session() -> None:
    """Pumping again changes nothing."""
    bench = FetcherHarness()
    bench.start()
    bench.fetcher.send_fetches()
    bench.cluster.learn()

    assert len(bench.broker().waiting) == 1


@pytest.mark.parametrize("code", [70, 71, 106])
def test_a_session_the_broker_forgot_restarts(code: int) -> None:
    """A full fetch from the same positions; nobody is in trouble."""
    bench = FetcherHarness()
    bench.start()
    bench.request().fetched(data(A, 0), session_id=77)
    bench.request().fetched(error=code, session_id=0)

    again = bench.request()
    assert (again.content.session_id, again.content.session_epoch) == (0, 0)
    assert again.positions == named((A, 2), (B, 0))
    assert bench.listener.troubles == []


def test_every_partition_is_requested_each_time_without_fetch_sessions() -> None:
    """Its answers carry the session id 0."""
    bench = FetcherHarness()
    bench.start()
    bench.request().fetched(data(A, 0), session_id=0)

    assert bench.request().positions == named((A, 2), (B, 0))


def test_data_of_a_partition_that_was_forgotten_is_ignored() -> None:
    """An answer that was under way when the partition left changes nothing."""
    bench = FetcherHarness()
    bench.start()
    under_way = bench.request()
    bench.fetcher.seek_later(bench.parts[A], 0, 5.0)

    under_way.fetched(data(A, 0), data(B, 0))

    assert bench.offsets(A) == []
    assert bench.offsets(B) == [0, 1]
    assert bench.request().forgotten == {tuple(A)}


def test_a_rewound_partition_is_read_again_from_there() -> None:
    """After the pause, once metadata is fresh."""
    bench = FetcherHarness()
    bench.start()
    bench.request().fetched(data(A, 0), data(B, 0))
    for out in bench.listener.taken.pop(A):
        out.release()
    bench.fetcher.seek_later(bench.parts[A], 0, 5.0)
    bench.request().fetched()
    bench.loop.advance(5.1)
    bench.cluster.learn()
    bench.request().fetched()

    bench.request().fetched(data(A, 0))

    assert bench.offsets(A) == [0, 1]


def test_a_partition_with_enough_waiting_leaves_until_it_has_drained() -> None:
    """It is named again with its position when the target has caught up."""
    bench = FetcherHarness()
    bench.start()
    bench.request().fetched(data(A, 0, 60))
    assert bench.parts[A].queued_bytes >= 2 * MAX_PARTITION_BYTES
    held_back = bench.request()
    assert (held_back.positions, held_back.forgotten) == ({}, {tuple(A)})
    assert held_back.content.max_wait_ms < 500, "it must not wait for idle neighbours"

    bench.acknowledge(A)
    held_back.fetched()

    assert bench.request().positions == named((A, 60))
    bench.fetcher.close()


def test_the_wait_grows_while_a_partition_is_held_back_and_nothing_comes() -> None:
    """A stuck target does not make the source busy."""
    bench = FetcherHarness()
    bench.start()
    bench.request().fetched(data(A, 0, 60))
    waits = []
    for _ in range(8):
        request = bench.request()
        waits.append(request.content.max_wait_ms)
        request.fetched()

    assert waits == sorted(waits)
    assert waits[-1] == 500


def test_nothing_is_requested_while_the_memory_bound_is_reached() -> None:
    """Reading continues when record batches are acknowledged; in the end nothing is held."""
    bench = FetcherHarness()
    bench.start()
    bench.request().fetched(data(A, 0), data(B, 0))
    bench.request().fetched(data(A, 2))
    pinned = SharedBuffer(bench.budget, LIMIT)
    request = bench.request()
    request.fetched(data(B, 2))
    assert not bench.broker().waiting

    pinned.release_owner()
    bench.acknowledge(A)
    bench.acknowledge(B)

    bench.request().fetched()
    bench.fetcher.close()
    bench.broker().waiting[0].fetched()
    assert bench.budget.held == 0


def test_a_lost_connection_costs_neither_position_nor_memory() -> None:
    """Both partitions are in trouble, look for their leader, and continue where they were."""
    bench = FetcherHarness()
    bench.start()
    bench.request().fetched(data(A, 0))
    bench.acknowledge(A)
    bench.broker().lose()
    assert bench.budget.held == 0
    assert sorted(bench.listener.troubles) == [
        (A, error_codes.CONNECTION_LOST),
        (B, error_codes.CONNECTION_LOST),
    ]
    assert bench.cluster.refreshes > 0

    bench.cluster.learn()

    request = bench.request()
    assert (request.content.session_id, request.positions) == (0, named((A, 2), (B, 0)))
    request.fetched(data(A, 2))
    assert bench.offsets(A) == [2, 3]
    assert bench.listener.recovered == [A]


def test_a_dead_broker_does_not_stop_the_others() -> None:
    """Its partitions are reported, those of the other broker are read."""
    bench = FetcherHarness(leaders={A: 1, B: 2})
    bench.cluster.dead.add(1)
    bench.start()

    bench.request(2).fetched(data(B, 0))

    assert bench.offsets(B) == [0, 1]
    assert bench.listener.troubles == [(A, error_codes.CONNECTION_LOST)]
    assert bench.budget.held < LIMIT


def test_partitions_with_known_leaders_are_read_without_metadata() -> None:
    """A resume starts thousands of them, a few at a time."""
    bench = FetcherHarness()
    bench.fetcher.add(bench.parts.values())

    assert set(bench.request().positions) == {tuple(A), tuple(B)}
    assert not bench.cluster.wanted
    assert not bench.cluster.refreshes


def test_requests_wait_less_while_partitions_join_one_after_the_other() -> None:
    """One that comes too late for a request that waits for data is not to be followed by more."""
    bench = FetcherHarness()
    bench.fetcher.add([bench.parts[A]])
    waiting = bench.request()
    assert waiting.content.max_wait_ms == 500
    bench.fetcher.add([bench.parts[B]])
    waits = []
    waiting.fetched()
    for _ in range(8):
        waiting = bench.request()
        waits.append(waiting.content.max_wait_ms)
        waiting.fetched()
    assert waits == [20, 40, 80, 160, 320, 500, 500, 500]

    waiting = bench.request()
    waiting.fetched(data(A, 0))
    assert bench.request().content.max_wait_ms == 500


def test_only_topics_that_were_not_answered_for_are_requested() -> None:
    """The partitions of others are read meanwhile."""
    other = TopicPartition("other", 0)
    bench = FetcherHarness(leaders={A: 1, B: 1, other: 1})
    del bench.cluster.leaders[other]
    bench.start()

    assert set(bench.request().positions) == {tuple(A), tuple(B)}
    assert bench.cluster.wanted == {"other"}


def test_a_partition_without_a_leader_is_a_problem_and_is_retried() -> None:
    """Its topic is known: it is not waited for in silence."""
    bench = FetcherHarness()
    bench.cluster.answered.add("t")
    del bench.cluster.leaders[A]
    bench.start()

    assert bench.listener.troubles == [(A, error_codes.NO_LEADER)]
    assert bench.cluster.refreshes == 1
    bench.request()
    bench.cluster.learn({A: 2})
    assert set(bench.request(2).positions) == {tuple(A)}


def test_a_moved_partition_is_read_from_its_new_leader() -> None:
    """From the position where the old one left it, in another session."""
    bench = FetcherHarness()
    bench.start()
    bench.request().fetched(data(A, 0))
    bench.request().fetched(error(A, NOT_LEADER))
    assert bench.listener.troubles == [(A, NOT_LEADER)]
    old = bench.request()
    assert old.forgotten == {tuple(A)}

    bench.cluster.learn({A: 2})

    assert bench.request(2).positions == named((A, 2))
    old.fetched(data(A, 2))  # too late
    assert bench.offsets(A) == [0, 1]


@pytest.mark.parametrize("code", [REFUSED, 9_999, error_codes.CORRUPT_SOURCE_BATCH])
def test_whatever_the_error_the_partition_comes_back(code: int) -> None:
    """Never given up: after its pause metadata is requested and it is read again."""
    bench = FetcherHarness()
    bench.start()
    if code == error_codes.CORRUPT_SOURCE_BATCH:
        damaged = encode(numbered(0, 2))
        damaged[-1] ^= 1
        bench.request().fetched((A.topic, partition_data(0, damaged)))
    else:
        bench.request().fetched(error(A, code))
    assert bench.listener.troubles == [(A, code)]
    before = bench.cluster.refreshes

    bench.loop.advance(7)

    assert bench.cluster.refreshes > before
    bench.cluster.learn()
    bench.request().fetched(data(B, 0))
    assert bench.request().positions[tuple(A)] == 0


def test_refused_metadata_is_looked_at_again() -> None:
    """A right that is granted later is noticed."""
    bench = FetcherHarness(leaders={B: 1})
    bench.cluster.topic_errors["t"] = REFUSED
    bench.start()
    assert bench.listener.troubles == [(A, REFUSED)]
    before = bench.cluster.refreshes

    bench.loop.advance(7)
    assert bench.cluster.refreshes > before
    bench.cluster.learn({A: 1})
    bench.request().fetched()

    assert bench.request().positions == named((A, 0))


def test_many_partitions_without_a_leader_cause_few_requests() -> None:
    """The pauses grow together: metadata is not asked for faster and faster."""
    bench = FetcherHarness()
    bench.cluster.leaders.clear()
    bench.start()
    for _ in range(8):
        bench.cluster.soonest = 60.0
        bench.cluster.learn()
        bench.loop.advance(bench.cluster.soonest)

    assert bench.cluster.soonest > 3


def test_a_position_outside_of_the_log_is_passed_to_the_listener() -> None:
    """The partition waits until it gets a new position."""
    bench = FetcherHarness()
    bench.start()
    bench.request().fetched(error(A, OUT_OF_RANGE))
    bench.loop.advance(60)
    assert bench.listener.outside == [bench.parts[A]]
    bench.request().fetched()

    bench.fetcher.resume_at(bench.parts[A], 500)
    bench.request().fetched()

    request = bench.request()
    assert request.positions == named((A, 500))
    request.fetched(data(A, 500))
    assert bench.offsets(A) == [500, 501]


def test_finished_partitions_are_not_fetched() -> None:
    """A bounded run ends by position."""
    bench = FetcherHarness(stop_at=2)
    bench.start()
    bench.request().fetched(data(A, 0))
    request = bench.request()
    assert request.forgotten == {tuple(A)}

    request.fetched(data(B, 0))

    assert not bench.broker().waiting
    assert all(part.is_finished for part in bench.parts.values())


def test_a_recreated_topic_is_reported_and_not_read() -> None:
    """Its offsets have another meaning."""
    bench = FetcherHarness(fetch_version=13)
    planned, now = uuid.UUID(int=1), uuid.UUID(int=2)
    bench.cluster.topic_ids["t"], bench.cluster.topic_names[now] = now, "t"
    bench.parts[A].topic_id = planned

    bench.start()

    assert bench.listener.troubles == [(A, error_codes.TOPIC_RECREATED)]
    assert bench.request().positions == {(now, 1): 0}


def test_answers_for_an_unknown_topic_id_begin_a_new_session() -> None:
    """The topic was recreated and the broker still has the old one in its session."""
    bench = FetcherHarness(fetch_version=13)
    old, new = uuid.UUID(int=1), uuid.UUID(int=2)
    bench.cluster.topic_ids["t"], bench.cluster.topic_names[old] = old, "t"
    bench.start()
    request = bench.request()
    bench.cluster.topic_ids["t"], bench.cluster.topic_names = new, {new: "t"}

    request.fetched((old, partition_data(0, error=100)), session_id=77)

    again = bench.request()
    assert again.content.session_id == 0
    assert again.positions == {(new, 0): 0, (new, 1): 0}


def test_a_broker_that_is_too_old_is_reported() -> None:
    """Before Fetch version 4 there are no record batches as we have them."""
    bench = FetcherHarness(fetch_version=3)
    bench.broker().api_versions[1] = (0, 3)
    bench.start()

    assert {code for _tp, code in bench.listener.troubles} == {error_codes.UNSUPPORTED_VERSION}
    assert not bench.broker().waiting
    assert bench.budget.held == 0


def test_close_ends_the_session_and_drops_what_arrives_later() -> None:
    """Memory is given back, nothing is handed over, no timer asks again."""
    bench = FetcherHarness()
    bench.start()
    bench.request().fetched(data(A, 0))
    bench.acknowledge(A)
    under_way = bench.request()

    bench.fetcher.close()

    goodbye = bench.request()
    assert (goodbye.content.session_id, goodbye.content.session_epoch) == (1, -1)
    under_way.fetched(data(A, 2))
    bench.loop.advance(60)
    bench.cluster.learn()
    assert bench.offsets(A) == []
    assert bench.budget.held == 0
    assert not bench.broker().waiting


def test_positions_follow_the_data_over_many_answers() -> None:
    """Each partition is read without a gap, whatever else is in the answers."""
    bench = FetcherHarness()
    bench.start()
    schedule: Sequence[tuple[TopicPartition, int]] = [(A, 0), (B, 0), (B, 2), (A, 2), (A, 4)]
    for tp, first in schedule:
        bench.request().fetched(data(tp, first))

    assert bench.offsets(A) == [0, 1, 2, 3, 4, 5]
    assert bench.offsets(B) == [0, 1, 2, 3]


def test_data_for_an_older_position_is_ignored_after_a_rewind() -> None:
    """The answer was so slow that the partition had come back at its earlier position."""
    bench = FetcherHarness()
    bench.start()
    bench.request().fetched(data(A, 0))
    slow = bench.request()
    assert slow.positions == named((A, 2))
    for out in bench.listener.taken.pop(A):
        out.release()
    bench.fetcher.seek_later(bench.parts[A], 0, 5.0)
    bench.loop.advance(6)
    bench.cluster.learn()

    slow.fetched(data(A, 2))

    assert bench.offsets(A) == [], "offsets 0 and 1 would never be copied"
    assert bench.request().positions == named((A, 0))


def test_a_partition_that_was_paused_comes_back_when_it_is_rewound() -> None:
    """Whoever rewinds wants it to be read."""
    bench = FetcherHarness()
    bench.start()
    bench.request().fetched(data(A, 0))
    for out in bench.listener.taken.pop(A):
        out.release()
    bench.fetcher.pause(bench.parts[A])
    bench.fetcher.seek_later(bench.parts[A], 0, 5.0)
    bench.request().fetched()
    bench.loop.advance(5.1)
    bench.cluster.learn()
    bench.request().fetched()

    bench.request().fetched(data(A, 0))

    assert bench.offsets(A) == [0, 1]


def test_brokers_with_nothing_new_do_not_starve_the_others_of_memory() -> None:
    """Five brokers and room for four requests: each is asked in its turn."""
    parts = [TopicPartition("t", index) for index in range(5)]
    bench = FetcherHarness(leaders={tp: index + 1 for index, tp in enumerate(parts)})
    bench.budget.limit = 4 << 20
    bench.start()
    answers = dict.fromkeys(range(1, 6), 0)
    for _round in range(100):
        for node in answers:
            waiting = bench.broker(node).waiting
            if waiting:
                answers[node] += 1
                waiting.popleft().fetched()
        bench.fetcher.send_fetches()

    assert min(answers.values()) > 70


TEN = [TopicPartition("t", index) for index in range(10)]


def far_bench() -> FetcherHarness:
    """Ten partitions at one broker that is far away, and memory for eight requests to it."""
    bench = FetcherHarness(leaders=dict.fromkeys(TEN, 1))
    bench.budget.limit = 64 << 20
    bench.start()
    bench.broker().is_high_latency = True  # known after the first request was sent
    return bench


def test_a_broker_that_is_far_away_has_several_requests_at_once() -> None:
    """Its partitions are shared by eight sessions, and no record is lost or read twice by it."""
    bench = far_bench()
    first = bench.request()
    assert len(first.positions) == 10
    first.fetched(*(data(tp, 0) for tp in TEN))

    asked = [bench.request(lane=lane) for lane in range(8)]

    assert asked[0].forgotten == {tuple(tp) for n, tp in enumerate(TEN) if n % 8}
    assert [len(one.positions) for one in asked] == [2, 2, 1, 1, 1, 1, 1, 1]
    assert {k: v for one in asked for k, v in one.positions.items()} == named(
        *((tp, 2) for tp in TEN)
    )
    for lane, one in enumerate(asked):
        one.fetched(*(data(tp, 2) for n, tp in enumerate(TEN) if n % 8 == lane))
    assert all(bench.offsets(tp) == [0, 1, 2, 3] for tp in TEN)

    bench.fetcher.close()
    goodbyes = [bench.broker(1, lane).waiting[-1].content.session_epoch for lane in range(8)]
    assert goodbyes == [-1] * 8


def test_further_sessions_need_memory() -> None:
    """With little of it there are fewer, and their long polls do not take all."""
    bench = FetcherHarness(leaders=dict.fromkeys(TEN, 1))
    bench.start()
    bench.broker().is_high_latency = True
    bench.request().fetched()

    assert [len(bench.broker(1, lane).waiting) for lane in range(3)] == [1, 1, 0]
    assert bench.budget.held <= LIMIT // 2  # the first one was asked before the others


def test_the_partitions_of_a_lost_lane_go_to_those_that_are_left() -> None:
    """Also those that were held back."""
    bench = far_bench()
    bench.request().fetched()
    bench.request(lane=1).fetched(data(TEN[1], 0, 60))
    assert bench.parts[TEN[1]].queued_bytes >= 2 * MAX_PARTITION_BYTES
    bench.broker(1, 1).lose()
    assert {tp for tp, _code in bench.listener.troubles} == {TEN[1], TEN[9]}

    bench.loop.advance(1)
    bench.cluster.learn()
    for lane in (0, 2, 3, 4, 5, 6, 7):
        bench.request(lane=lane).fetched()
    named_again = {
        k: v
        for lane in (0, 2, 3, 4, 5, 6, 7)
        for k, v in bench.request(lane=lane).positions.items()
    }
    assert named_again == named((TEN[1], 60), (TEN[9], 0))


def test_a_broker_that_refuses_further_connections_is_read_with_one() -> None:
    """A limit per address, a firewall: no partition waits for a connection it cannot have."""
    bench = far_bench()
    bench.cluster.lanes = 1
    bench.request().fetched()
    for _round in range(3):
        bench.loop.advance(10)
        bench.cluster.learn()
        bench.request().fetched()

    assert {tp for tp in TEN if bench.parts[tp].session} == set(TEN)
    bench.request().fetched(*(data(tp, 0) for tp in TEN))
    assert all(bench.offsets(tp) == [0, 1] for tp in TEN)


def test_partitions_that_wait_for_the_target_leave_memory_for_the_others() -> None:
    """What one may have waiting does not grow when others are held back."""
    bench = FetcherHarness(leaders=dict.fromkeys(TEN, 1), max_partition_bytes=-1)
    bench.budget.limit = 64 << 20
    bench.start()
    first = bench.request()
    [most] = first.most_of_a_partition
    for position in (0, 9_000):  # more than half a megabyte: counted
        records = encode(numbered(position, 9_000))
        answer = [(tp.topic, partition_data(tp.partition, records, end=90_000)) for tp in TEN]
        first.fetched(*answer)
        for part in [*bench.parts.values()][:8]:
            part.queued_bytes = 2 * most
        first = bench.request()

    assert len(first.forgotten) == 8
    assert first.most_of_a_partition == {most}


def test_fewer_partitions_with_data_get_larger_requests() -> None:
    """Over a long line one megabyte per round trip would be little."""
    bench = FetcherHarness(max_partition_bytes=-1)
    bench.budget.limit = 32 << 20
    bench.start()
    first = bench.request()
    assert first.most_of_a_partition == {2 << 20}  # half of an answer

    full = bytes(encode(numbered(0, 60_000)))
    idle = B.topic, partition_data(B.partition, end=0)
    first.fetched((A.topic, partition_data(A.partition, full, end=90_000)), idle)
    second = bench.request()

    assert second.positions == named((A, 60_000))
    assert second.most_of_a_partition == {4 << 20}


def test_one_partition_gets_no_more_than_can_be_written_when_an_epoch_ends() -> None:
    """However much memory there is."""
    bench = FetcherHarness(leaders={A: 1}, max_partition_bytes=-1, max_bytes=1 << 30)
    bench.parts = {A: bench.parts[A]}
    bench.budget.limit = 1 << 30
    bench.start()
    assert bench.request().most_of_a_partition == {4 << 20}


def test_a_session_without_partitions_takes_no_share_of_the_memory() -> None:
    """A broker that leads nothing any more."""
    bench = FetcherHarness(max_bytes=1 << 30)
    bench.budget.limit = 64 << 20
    bench.start()
    first = bench.request()
    assert first.content.max_bytes == 16 << 20
    bench.cluster.learn({A: 2, B: 2})
    first.fetched(error(A, NOT_LEADER), error(B, NOT_LEADER))
    bench.loop.advance(1)
    bench.cluster.learn()
    assert bench.request(2).content.max_bytes == 16 << 20


def test_an_answer_that_cannot_be_read_is_a_lost_request() -> None:
    """Its memory is free again, once, and its partitions are requested again."""
    bench = FetcherHarness()
    bench.start()
    request = bench.request()
    held = bench.budget.held

    with pytest.raises(UndecodableResponseError):
        request.reply(memoryview(b"\x00\x00\x00\x01\xff\xff"))
    assert bench.budget.held == held > 0
    request.fail(UnreachableError("closed", cluster="fake"))

    assert bench.budget.held == 0
    assert {tp for tp, _code in bench.listener.troubles} == {A, B}
