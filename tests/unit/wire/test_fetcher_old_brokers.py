# SPDX-License-Identifier: Apache-2.0
"""Reading from brokers that do not speak Fetch 12: sessions, order, epochs."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.consumer import OffsetForLeaderEpochResponse

from sparkmirror.model import TopicPartition
from sparkmirror.wire import error_codes
from support.peers.fake_cluster import Request, partition_data
from support.peers.fetcher_harness import A, B, FetcherHarness, data, named

WITH_SESSIONS = range(7, 12)
WITHOUT_SESSIONS = range(4, 7)
OLD = [*WITHOUT_SESSIONS, *WITH_SESSIONS]
EPOCHS_KEY = 23
FENCED, NOT_AUTHORIZED = 74, 29


class EpochBench(FetcherHarness):
    """A fetcher that continues with A at offset 2, read under leader epoch 5."""

    def __init__(self, fetch_version: int = 11) -> None:
        super().__init__(fetch_version=fetch_version)
        self.parts[A].position, self.parts[A].last_leader_epoch = 2, 5

    def question(self) -> Request:
        """The one request that waits: OffsetForLeaderEpoch."""
        question = self.request()
        assert question.content.API_KEY == EPOCHS_KEY
        return question


def epoch_end(tp: TopicPartition, *, error: int = 0, epoch: int = 5, end: int = 2) -> Any:
    """A leader's answer to an OffsetForLeaderEpoch request."""
    topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
    one = topic.EpochEndOffset(
        error_code=error, partition=tp.partition, leader_epoch=epoch, end_offset=end
    )
    return OffsetForLeaderEpochResponse(topics=[topic(topic=tp.topic, partitions=[one])])


@pytest.mark.parametrize("version", OLD)
def test_records_are_read_with_every_version(version: int) -> None:
    """By topic names, in the version that the broker knows."""
    bench = FetcherHarness(fetch_version=version)
    bench.start()
    first = bench.request()
    assert (first.version, first.positions) == (version, named((A, 0), (B, 0)))

    first.fetched(data(A, 0), data(B, 0, 3))

    assert (bench.offsets(A), bench.offsets(B)) == ([0, 1], [0, 1, 2])
    assert not bench.listener.troubles


@pytest.mark.parametrize("version", WITH_SESSIONS)
def test_a_session_names_only_what_changed(version: int) -> None:
    """And it is ended by a request of the same version."""
    bench = FetcherHarness(fetch_version=version)
    bench.start()
    bench.request().fetched(data(A, 0), session_id=77)
    second = bench.request()
    assert (second.content.session_id, second.content.session_epoch) == (77, 1)
    assert second.positions == named((A, 2))
    second.fetched(session_id=77)
    bench.request()

    bench.fetcher.close()

    goodbye = bench.request()
    assert (goodbye.version, goodbye.content.session_epoch) == (version, -1)


@pytest.mark.parametrize("version", WITHOUT_SESSIONS)
def test_every_request_names_all_partitions_where_there_are_no_sessions(version: int) -> None:
    """Those that had data go to the end, because a broker fills its answer in order."""
    bench = FetcherHarness(fetch_version=version)
    bench.start()
    second = bench.request_after(data(A, 0))
    assert [*second.positions] == [tuple(B), tuple(A)]
    second.fetched(data(B, 0), session_id=0)
    again = bench.request()
    assert [*again.positions] == [tuple(A), tuple(B)]
    assert again.positions == named((A, 2), (B, 2))

    bench.fetcher.close()

    assert not bench.broker().waiting, "there is no session to end"


@pytest.mark.parametrize("version", WITHOUT_SESSIONS)
def test_idle_neighbours_do_not_make_requests_more_frequent(version: int) -> None:
    """Without a session an answer names them all, which is no reason for haste."""
    bench = FetcherHarness(fetch_version=version)
    bench.start()
    held_back = bench.request_after(data(A, 0, 60))
    waits = []
    for _ in range(8):
        assert held_back.positions == named((B, 0))
        waits.append(held_back.content.max_wait_ms)
        held_back.fetched((B.topic, partition_data(B.partition, end=0)), session_id=0)
        held_back = bench.request()

    assert waits[0] < waits[-1] == 500


@pytest.mark.parametrize("version", OLD)
def test_the_last_epoch_is_compared_before_anything_is_read(version: int) -> None:
    """One question for all partitions of a leader that have one; reading continues after it."""
    bench = EpochBench(version)
    bench.start()
    question = bench.question()
    ((topic, partitions),) = ((one.topic, one.partitions) for one in question.content.topics)
    assert (topic, [(one.partition, one.leader_epoch) for one in partitions]) == ("t", [(0, 5)])

    question.reply(epoch_end(A))

    assert bench.request_after(data(A, 2)).content.API_KEY == 1
    assert bench.offsets(A) == [2, 3]


def test_it_is_compared_again_when_the_leader_moved() -> None:
    """A new leader may have lost what the old one had."""
    bench = EpochBench()
    bench.start()
    bench.question().reply(epoch_end(A))
    bench.request().fetched((A.topic, partition_data(0, error=FENCED)))
    bench.request().fetched()
    bench.cluster.learn({A: 1})
    bench.request().fetched()

    bench.question().reply(epoch_end(A))

    assert bench.request().positions == named((A, 2))


@pytest.mark.parametrize(("epoch", "end"), [(5, 1), (4, 2), (3, 0)])
def test_a_log_that_was_cut_is_reported_as_version_12_does(epoch: int, end: int) -> None:
    """The other partition is read on."""
    bench = EpochBench()
    bench.start()
    bench.question().reply(epoch_end(A, epoch=epoch, end=end))

    assert bench.listener.diverging == [(A, end)]
    assert bench.parts[A].error == error_codes.SOURCE_TRUNCATED
    assert bench.request().positions == named((B, 0))


@pytest.mark.parametrize(("end", "is_cut"), [(2, False), (1, True)])
def test_an_end_without_an_epoch_is_compared_alone(end: int, *, is_cut: bool) -> None:
    """OffsetForLeaderEpoch 0, of brokers before 2.0, has no epoch in its answer."""
    bench = EpochBench(6)
    bench.start()
    bench.question().reply(epoch_end(A, epoch=-1, end=end))

    assert bench.listener.diverging == ([(A, 1)] if is_cut else [])
    assert not bench.listener.outside
    assert bench.request().positions == named(*([] if is_cut else [(A, 2)]), (B, 0))


def test_an_epoch_that_the_leader_does_not_know_counts_as_out_of_range() -> None:
    """As a broker that speaks version 12 answers."""
    bench = EpochBench()
    bench.start()
    bench.question().reply(epoch_end(A, epoch=-1, end=-1))

    assert [part.tp for part in bench.listener.outside] == [A]
    assert bench.request().positions == named((B, 0))


def test_an_error_takes_the_partition_out_until_metadata_is_fresh() -> None:
    """Then the question is asked again."""
    bench = EpochBench()
    bench.start()
    bench.question().reply(epoch_end(A, error=FENCED))
    assert bench.listener.troubles == [(A, FENCED)]
    bench.request().fetched()
    bench.cluster.learn()
    bench.request().fetched()

    bench.question()


@pytest.mark.parametrize("is_known", [False, True], ids=["no such API", "not authorized"])
def test_reading_continues_if_the_epoch_end_is_unknown(is_known: bool) -> None:
    """`check --connect` says that a log that was cut is not noticed there."""
    bench = EpochBench()
    if not is_known:
        bench.broker().refused_keys.add(EPOCHS_KEY)
    bench.start()
    if is_known:
        bench.question().reply(epoch_end(A, error=NOT_AUTHORIZED))

    assert bench.request().positions == named((A, 2), (B, 0))
    assert not bench.listener.troubles


def test_an_answer_about_an_old_position_is_not_used() -> None:
    """The partition was rewound while the question was under way: it is asked again."""
    bench = EpochBench()
    bench.start()
    question = bench.question()
    bench.fetcher.seek(bench.parts[A], 0)

    question.reply(epoch_end(A, end=1))

    assert not bench.listener.diverging
    bench.question().reply(epoch_end(A, end=1))
    assert not bench.listener.diverging
    assert bench.request().positions == named((A, 0), (B, 0))


@pytest.mark.parametrize("ending", ["close", "lose", "forget"])
def test_memory_is_given_back_if_the_question_is_in_vain(ending: str) -> None:
    """The fetcher is closed, the broker is lost, or nothing is wanted any more."""
    bench = EpochBench()
    bench.start()
    question = bench.question()
    if ending == "close":
        bench.fetcher.close()
        question.reply(epoch_end(A))
    elif ending == "forget":
        for part in bench.parts.values():
            bench.fetcher.remove(part)
        question.reply(epoch_end(A))
    else:
        bench.broker().waiting.append(question)
        bench.broker().lose()

    assert bench.budget.held == 0
    assert not bench.broker().waiting


@pytest.mark.parametrize("version", [12, 13])
def test_newer_brokers_are_not_asked(version: int) -> None:
    """They compare the last epoch with every fetch."""
    bench = EpochBench(version)
    bench.start()

    assert bench.request().content.API_KEY == 1
