# SPDX-License-Identifier: Apache-2.0
"""The producer's state machine where brokers misbehave: order, once, nothing dropped.

Requests are answered by hand or by `IdempotentLog`, which refuses and recognises as a broker does.
"""

from __future__ import annotations

import uuid

import pytest

from sparkmirror.errors import UndecodableResponseError, UnreachableError
from sparkmirror.wire import error_codes
from sparkmirror.wire.memory import BATCH_OVERHEAD_BYTES, SharedBuffer
from sparkmirror.wire.outgoing import OutgoingBatch
from sparkmirror.wire.produce_partition import ProducePartition
from sparkmirror.wire.reframe import OffsetRun
from support.data.record_batches import encode, header, numbered
from support.peers.producer_harness import (
    OTHER,
    OUT_OF_ORDER,
    TP,
    IdempotentLog,
    ProducerHarness,
    sequences,
)

UNKNOWN_TOPIC, NOT_LEADER, TIMED_OUT, TOO_LARGE, NOT_ENOUGH = 3, 6, 7, 10, 19
NOT_ENOUGH_AFTER_APPEND, DUPLICATE = 20, 46


def test_one_batch_per_partition_and_request_with_running_sequences() -> None:
    """Three batches of one partition are three requests; another partition shares the first."""
    bench = ProducerHarness()
    bench.offer(3, 2, 4)
    bench.offer(1, tp=OTHER)
    bench.producer.send_ready()

    assert [sorted(request.batches) for request in bench.broker().waiting] == [
        [TP, OTHER],
        [TP],
        [TP],
    ]
    assert sequences(bench.broker()) == [0, 3, 5]
    bench.settle()
    bench.check_all_copied_once()
    assert bench.listener.bases[:3] == [0, 0, 3]


def test_an_id_that_the_partition_does_not_know_goes_one_batch_at_a_time() -> None:
    """A broker takes any first sequence of a new producer: the second may not come before."""
    bench = ProducerHarness(is_known=False)
    bench.offer(1, 1, 1)
    bench.producer.send_ready()
    assert sequences(bench.broker()) == [0]

    bench.serve(bench.broker().waiting.popleft())

    assert sequences(bench.broker()) == [1, 2]
    bench.settle()
    bench.check_all_copied_once()


def test_at_most_five_requests_wait_per_connection() -> None:
    """The sixth goes when the first is answered."""
    bench = ProducerHarness()
    bench.offer(*[1] * 8)
    bench.producer.send_ready()
    assert len(bench.broker().waiting) == 5

    bench.serve(bench.broker().waiting.popleft())

    assert sequences(bench.broker()) == [1, 2, 3, 4, 5]
    bench.settle()
    bench.check_all_copied_once()


def test_the_first_batch_goes_alone_when_the_broker_may_have_forgotten_the_producer() -> None:
    """It takes any sequence of a producer it does not know: a later one could overtake."""
    bench = ProducerHarness()
    bench.offer(1, 1)
    bench.settle()
    bench.parts[TP].idle_since -= 3_600
    bench.offer(1, 1, 1)
    bench.producer.send_ready()
    assert sequences(bench.broker()) == [2]

    bench.serve(bench.broker().waiting.popleft())

    assert sequences(bench.broker()) == [3, 4]
    bench.settle()
    bench.check_all_copied_once()


def test_sequences_wrap_to_zero_after_the_largest() -> None:
    """2^31 - 1 is followed by 0, also inside a batch."""
    bench = ProducerHarness()
    bench.parts[TP].next_sequence = 2**31 - 2
    bench.logs[TP] = IdempotentLog(last_sequence=2**31 - 3)
    bench.offer(1, 3, 1)
    bench.producer.send_ready()

    assert sequences(bench.broker()) == [2**31 - 2, 2**31 - 1, 2]
    bench.settle()
    bench.check_all_copied_once()


def test_a_request_is_not_larger_than_allowed_except_for_a_single_batch() -> None:
    """A batch above the limit goes alone."""
    bench = ProducerHarness(max_request_bytes=10)
    bench.offer(1)
    bench.offer(1, tp=OTHER)
    bench.producer.send_ready()

    assert [list(request.batches) for request in bench.broker().waiting] == [[TP], [OTHER]]
    bench.settle()
    bench.check_all_copied_once()


def test_what_cannot_fit_into_a_request_is_refused_before_it_is_sent() -> None:
    """After the answers of those before it; pieces go in its place and the others continue."""
    small = ProducerHarness().batch(1).size
    limit = 200 + 3 * small
    bench = ProducerHarness(max_request_bytes=limit, is_size_final=True)
    bench.offer(1, 30, 1)
    bench.offer(1, tp=OTHER)
    bench.listener.pieces = [bench.batch(1), bench.batch(1)]
    bench.producer.send_ready()

    assert [set(request.batches) for request in bench.broker().waiting] == [{TP, OTHER}]
    bench.serve(bench.broker().waiting.popleft())
    bench.loop.advance(0.0)

    sent = [len(r.batches[TP]) for r in bench.broker().waiting]
    assert len(sent) == 3
    assert max(sent) < limit
    assert sequences(bench.broker()) == [1, 2, 3]
    assert bench.listener.rewinds == 0


def test_requests_are_filled_up_to_the_limit_and_not_above() -> None:
    """Names and protocol bytes count."""
    small = ProducerHarness().batch(1).size
    bench = ProducerHarness(max_request_bytes=2 * small, is_size_final=True)
    bench.offer(1)
    bench.offer(1, tp=OTHER)
    bench.producer.send_ready()
    assert bench.producer.max_batch_bytes(TP) == 2 * small - 4 - 48 - 32 - 1
    assert [list(request.batches) for request in bench.broker().waiting] == [[TP], [OTHER]]


@pytest.mark.parametrize("code", [NOT_LEADER, TIMED_OUT, NOT_ENOUGH])
def test_after_the_first_of_five_fails_all_are_resent_in_order(code: int) -> None:
    """The others are refused as out of order; same cuts, same sequences, nothing twice."""
    bench = ProducerHarness()
    bench.offer(1, 2, 1, 2, 1)
    bench.producer.send_ready()
    waiting = bench.broker().waiting
    sent = [request.batches[TP] for request in waiting]
    waiting.popleft().produced({TP: (code, -1)})
    for _ in range(4):
        assert len(bench.listener.troubles) == 0, "the answers are not all in"
        waiting.popleft().produced({TP: (OUT_OF_ORDER, -1)})
    assert bench.listener.troubles == [code]
    assert not waiting

    bench.loop.advance(0.2)
    bench.cluster.learn()

    assert [request.batches[TP] for request in waiting] == sent
    bench.settle()
    bench.check_all_copied_once()
    assert bench.listener.recoveries == 1


def test_batches_appended_before_a_failed_one_was_answered_are_recognised() -> None:
    """The first timed out after it was appended, the others succeeded: nothing is written twice."""
    bench = ProducerHarness()
    bench.offer(1, 1, 1)
    bench.producer.send_ready()
    waiting = bench.broker().waiting
    first = waiting.popleft()
    bench.logs[TP].append(first.batches[TP])
    first.produced({TP: (NOT_ENOUGH_AFTER_APPEND, -1)})
    for _ in range(2):
        bench.serve(waiting.popleft())
    assert bench.listener.acks == {}, "nothing behind the first one counts before it does"

    bench.loop.advance(0.2)
    bench.serve(waiting.popleft())
    assert bench.listener.acks == {TP: [0]}, "the others were sent again and are answered again"
    bench.settle()
    bench.check_all_copied_once()


def test_an_answer_that_says_nothing_of_a_partition_is_no_answer() -> None:
    """Nobody knows what became of its record batch: it counts as lost and is sent again."""
    bench = ProducerHarness()
    bench.offer(1)
    bench.producer.send_ready()
    request = bench.broker().waiting.popleft()
    bench.logs[TP].append(request.batches[TP])

    with pytest.raises(UndecodableResponseError, match="a produce response lacks"):
        request.produced({OTHER: (0, 5)})
    request.fail(UnreachableError("closed", cluster="fake"))

    bench.loop.advance(5)
    bench.settle()
    bench.check_all_copied_once()


@pytest.mark.parametrize("appended", range(6))
def test_a_connection_lost_with_five_in_flight_loses_and_repeats_nothing(appended: int) -> None:
    """However many of them had reached the log."""
    bench = ProducerHarness()
    bench.offer(1, 2, 1, 2, 1, 1)
    bench.offer(2, 2, tp=OTHER)
    bench.producer.send_ready()
    for request in [*bench.broker().waiting][:appended]:
        for tp, raw in request.batches.items():
            bench.logs[tp].append(raw)

    bench.broker().lose()

    assert bench.listener.troubles == [error_codes.CONNECTION_LOST] * 2
    assert bench.cluster.refreshes >= 1
    bench.settle()
    bench.check_all_copied_once()


def test_a_failed_partition_waits_and_the_others_continue() -> None:
    """Nothing of it is sent in its pause, not even what is offered then."""
    bench = ProducerHarness()
    bench.offer(1)
    bench.producer.send_ready()
    bench.broker().waiting.popleft().produced({TP: (TOO_LARGE, -1)})

    bench.offer(1)
    bench.offer(1, tp=OTHER)
    bench.producer.send_ready()

    assert [list(request.batches) for request in bench.broker().waiting] == [[OTHER]]
    bench.serve(bench.broker().waiting.popleft())
    bench.loop.advance(3.9)
    assert not bench.broker().waiting, "a refusal for good has a pause of seconds"
    bench.loop.advance(10)
    assert sequences(bench.broker()) == [0, 1]
    bench.settle()
    bench.check_all_copied_once()


def test_a_refused_partition_is_dropped_when_it_can_be_read_again() -> None:
    """Nothing stays held; what is read again gets the sequences that the broker did not take."""
    bench = ProducerHarness()
    bench.listener.can_rewind = True
    bench.offer(1)
    bench.producer.send_ready()
    bench.serve(bench.broker().waiting.popleft())
    bench.offer(1, 1)
    bench.producer.send_ready()
    bench.broker().waiting.popleft().produced({TP: (TOO_LARGE, -1)})
    bench.broker().waiting.popleft().produced({TP: (OUT_OF_ORDER, -1)})

    assert bench.listener.rewinds == 1
    assert bench.parts[TP].is_idle
    assert bench.budget.held == 0
    del bench.offered[TP][1:]
    bench.offer(1, 1)
    bench.producer.send_ready()
    assert sequences(bench.broker()) == [1, 2]
    bench.settle()
    bench.check_all_copied_once()


def test_a_lost_connection_lets_the_fetcher_look_at_the_budget_again() -> None:
    """What was freed by moving out of shared buffers is noticed without another answer."""
    bench = ProducerHarness()
    bench.offer(1)
    bench.producer.send_ready()
    answers = bench.listener.answers

    bench.broker().lose()

    assert bench.listener.answers > answers


def test_a_new_leader_waits_until_the_old_one_has_answered() -> None:
    """Metadata moves the partition while two batches are in flight: the third may not overtake."""
    bench = ProducerHarness()
    bench.offer(1, 1)
    bench.producer.send_ready()
    bench.cluster.learn({TP: 2})
    bench.offer(1)
    bench.producer.send_ready()
    assert not bench.broker(2).waiting

    for _ in range(2):
        bench.broker(1).waiting.popleft().produced({TP: (NOT_LEADER, -1)})
    bench.loop.advance(0.2)
    bench.cluster.learn()

    assert sequences(bench.broker(2)) == [0, 1, 2]
    bench.settle()
    bench.check_all_copied_once()


def test_after_the_old_leaders_last_answer_the_new_one_is_served() -> None:
    """The old leader had taken everything: no failure, no pause."""
    bench = ProducerHarness()
    bench.offer(1, 1)
    bench.producer.send_ready()
    bench.cluster.learn({TP: 2})
    bench.offer(1)
    for _ in range(2):
        bench.serve(bench.broker(1).waiting.popleft())

    assert sequences(bench.broker(2)) == [2]
    bench.settle()
    bench.check_all_copied_once()


def test_a_stuck_partition_does_not_pin_its_neighbours_buffer() -> None:
    """Only its own bytes stay counted."""
    bench = ProducerHarness()
    buffer = SharedBuffer(bench.budget, 1_000)
    for tp in (TP, OTHER):
        view = memoryview(encode(numbered(0, 1)))
        out = OutgoingBatch(view, 1, 1, 0, (OffsetRun(0, 1),), has_own_bytes=False)
        out.pin(buffer, bench.budget)
        bench.offered[tp].append(0)
        bench.producer.enqueue(bench.parts[tp], out)
    buffer.release_owner()
    bench.producer.send_ready()
    size = len(bench.broker().waiting[0].batches[TP])

    bench.broker().waiting.popleft().produced({TP: (TOO_LARGE, -1), OTHER: (0, 0)})

    assert bench.budget.held == size + BATCH_OVERHEAD_BYTES
    bench.settle()
    assert bench.budget.held == 0


def test_a_new_leader_gets_everything_from_the_first_unanswered_on() -> None:
    """The old one refused; metadata names the new one in the pause."""
    bench = ProducerHarness()
    bench.offer(1, 1, 1)
    bench.producer.send_ready()
    old = bench.broker(1).waiting
    while old:
        old.popleft().produced({TP: (NOT_LEADER, -1)})
    bench.cluster.learn({TP: 2})

    bench.loop.advance(0.2)

    assert not bench.broker(1).waiting
    assert sequences(bench.broker(2)) == [0, 1, 2]
    bench.settle()
    bench.check_all_copied_once()


def test_nothing_is_written_when_the_topic_is_another_one_under_the_same_name() -> None:
    """The driver decides what becomes of it, and plans with the new id."""
    bench = ProducerHarness()
    bench.parts[TP].topic_id = uuid.UUID(int=1)
    bench.offer(1)
    bench.producer.send_ready()
    bench.broker().waiting.popleft().produced({TP: (UNKNOWN_TOPIC, -1)})
    bench.loop.advance(0.2)
    bench.cluster.topic_ids[TP.topic] = uuid.UUID(int=2)
    bench.cluster.learn()

    assert bench.listener.troubles == [UNKNOWN_TOPIC, error_codes.TOPIC_RECREATED]
    assert not bench.broker().waiting


def test_a_partition_without_a_leader_is_reported_and_served_later() -> None:
    """Metadata brings the leader; order is kept."""
    bench = ProducerHarness()
    leader = bench.cluster.leaders.pop(TP)
    bench.cluster.answered.add(TP.topic)
    bench.offer(1, 1)
    bench.producer.send_ready()
    assert bench.listener.troubles == [error_codes.NO_LEADER]
    bench.loop.advance(0.2)
    assert bench.cluster.refreshes == 1

    bench.cluster.leaders[TP] = leader
    bench.cluster.learn()

    assert sequences(bench.broker()) == [0, 1]
    bench.settle()
    bench.check_all_copied_once()
    assert bench.listener.recoveries == 1


def test_a_batch_waits_without_an_error_when_there_is_no_metadata_of_its_topic_yet() -> None:
    """A response about other topics does not mean that the partition has no leader."""
    bench = ProducerHarness()
    leader = bench.cluster.leaders.pop(TP)
    bench.offer(1, 1)
    bench.cluster.learn()
    assert bench.cluster.wanted == {TP.topic}

    bench.cluster.leaders[TP] = leader
    bench.cluster.learn()
    bench.producer.send_ready()

    bench.settle()
    bench.check_all_copied_once()
    assert bench.listener.troubles == []
    assert bench.cluster.refreshes == 0


def test_out_of_order_twice_means_that_both_sides_are_compared() -> None:
    """The broker expects another sequence: resent once, then dropped, until somebody has looked."""
    bench = ProducerHarness()
    bench.parts[TP].next_sequence = 70
    bench.offer(1, 2)
    bench.producer.send_ready()
    for _ in range(2):
        assert sequences(bench.broker()) == [70, 71]
        assert not bench.listener.lost
        for request in [bench.broker().waiting.popleft() for _ in range(2)]:
            request.produced({TP: (OUT_OF_ORDER, -1)})
        bench.loop.advance(0.5)

    assert bench.listener.lost == [TP]
    assert bench.parts[TP].is_idle
    bench.loop.advance(60)
    assert not bench.broker().waiting, "nothing is sent by itself"


def test_pieces_take_the_place_and_the_sequences_of_what_was_refused() -> None:
    """The first of three is too large: nothing of the three landed, all get new sequences."""
    bench = ProducerHarness()
    bench.offer(4, 2, 2)
    bench.producer.send_ready()
    assert sequences(bench.broker()) == [0, 4, 6]
    bench.listener.pieces = [bench.batch(1), bench.batch(1)]

    first, second, third = [bench.broker().waiting.popleft() for _ in range(3)]
    first.produced({TP: (TOO_LARGE, -1)})
    second.produced({TP: (OUT_OF_ORDER, -1)})
    assert not bench.broker().waiting, "all answers first"
    third.produced({TP: (OUT_OF_ORDER, -1)})

    assert sequences(bench.broker()) == [0, 1, 2, 4]
    bench.settle()
    assert bench.parts[TP].next_sequence == 6


def test_what_is_refused_and_cannot_be_replaced_is_quarantined() -> None:
    """Nothing to send instead: the partition is read again much later."""
    bench = ProducerHarness()
    bench.listener.can_rewind = True
    bench.offer(4)
    bench.producer.send_ready()
    bench.broker().waiting.popleft().produced({TP: (TOO_LARGE, -1)})

    assert bench.listener.rewinds == 1
    assert bench.parts[TP].is_idle


def test_one_out_of_order_answer_keeps_the_producer_id() -> None:
    """A resend with the same sequences cures it; a later one counts as the first again."""
    bench = ProducerHarness()
    for _ in range(2):
        bench.offer(1)
        bench.producer.send_ready()
        bench.broker().waiting.popleft().produced({TP: (OUT_OF_ORDER, -1)})
        bench.settle()

    assert bench.parts[TP].producer_id == 50
    bench.check_all_copied_once()


def test_a_duplicate_is_as_good_as_an_acknowledgement() -> None:
    """The broker has it but has forgotten where."""
    bench = ProducerHarness()
    bench.offer(1)
    bench.producer.send_ready()

    bench.broker().waiting.popleft().produced({TP: (DUPLICATE, -1)})

    assert bench.listener.acks == {TP: [0]}
    assert bench.listener.bases == [-1]
    assert bench.parts[TP].is_idle


def test_batches_without_a_producer_id_are_resent_too() -> None:
    """Positions are written that way."""
    bench = ProducerHarness()
    bench.parts[TP] = ProducePartition(TP, listener=bench.listener)
    bench.offer(1)
    bench.producer.send_ready()
    assert header(bench.broker().waiting[0].batches[TP]).producer_id == -1
    bench.broker().waiting.popleft().produced({TP: (OUT_OF_ORDER, -1)})
    bench.loop.advance(0.2)

    bench.broker().waiting.popleft().produced({TP: (0, 5)})

    assert bench.listener.bases == [5]


def test_after_close_nothing_is_sent() -> None:
    """Timers that fire late find the door shut."""
    bench = ProducerHarness()
    bench.offer(1)
    bench.producer.send_ready()
    bench.broker().waiting.popleft().produced({TP: (TIMED_OUT, -1)})

    bench.producer.close()
    bench.loop.advance(60)
    bench.cluster.learn()

    assert not bench.broker().waiting


class Closing:
    """A gate that lets only resends through once it is closed."""

    transactional_id = b"a-mm2-MirrorSourceConnector-0"
    is_open = True

    def may_send(self, part: ProducePartition) -> bool:
        """What was sent may be sent again."""
        return self.is_open or part.pending[0].sequence >= 0

    def on_transaction_error(self, code: int) -> None:
        """Not here."""


def test_a_resend_follows_its_leader_when_the_gate_closes() -> None:
    """To a broker that nothing was ever sent to."""
    bench = ProducerHarness()
    gate = Closing()
    bench.producer.transaction_control = gate
    bench.offer(1, 1)
    bench.producer.send_ready()
    old = bench.broker(1)
    old.waiting.popleft().produced({TP: (TIMED_OUT, -1)})
    while old.waiting:
        old.waiting.popleft().produced({TP: (OUT_OF_ORDER, -1)})
    old.api_versions = {}  # it is being connected to anew
    old.when_ready = lambda _send, _failure: None  # type: ignore[method-assign]
    bench.loop.advance(1)
    bench.cluster.learn({TP: 2})

    gate.is_open = False
    bench.producer.recheck_ready()
    bench.producer.send_ready()

    assert sequences(bench.broker(2)) == [0, 1]


def test_what_was_thrown_away_is_not_tried_again() -> None:
    """The pause of an old failure must not end a new one before its answers are in."""
    bench = ProducerHarness()
    part = bench.parts[TP]
    bench.offer(1, 1)
    bench.producer.send_ready()
    waiting = bench.broker().waiting
    waiting.popleft().produced({TP: (TIMED_OUT, -1)})
    waiting.popleft().produced({TP: (OUT_OF_ORDER, -1)})
    bench.producer.discard(part)
    for offered in bench.offered.values():
        offered.clear()
    part.next_sequence = 0
    bench.offer(1, 1)
    bench.producer.send_ready()
    first = waiting.popleft()
    bench.logs[TP].append(first.batches[TP])
    first.produced({TP: (TIMED_OUT, -1)})

    bench.loop.advance(0.3)

    assert part.error_code == TIMED_OUT
    bench.settle()
    bench.check_all_copied_once()


def test_what_was_surely_refused_can_be_taken_back() -> None:
    """It gets a new sequence; what may be on the target keeps it."""
    bench = ProducerHarness()
    part = bench.parts[TP]
    bench.offer(1, 2)
    bench.producer.send_ready()
    waiting = bench.broker().waiting
    waiting.popleft().produced({TP: (NOT_ENOUGH, -1)})
    waiting.popleft().produced({TP: (OUT_OF_ORDER, -1)})
    assert part.unsend_refused()
    assert part.next_sequence == 0
    assert [out.sequence for out in part.pending] == [-1, -1]
    bench.loop.advance(1)
    waiting.popleft().produced({TP: (TIMED_OUT, -1)})
    while waiting:
        waiting.popleft().produced({TP: (OUT_OF_ORDER, -1)})

    assert not part.unsend_refused()
    bench.settle()
    bench.check_all_copied_once()
