# SPDX-License-Identifier: Apache-2.0
"""What a coordinator may answer and a real one cannot be made to: moves, delays, refusals."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace

import pytest
from kafka.protocol.metadata import ApiVersionsResponse

from sparkmirror.model import TopicPartition
from sparkmirror.wire.transaction import ProducerIdAndEpoch, TransactionClient, TransactionState
from support.peers.fake_cluster import FakeCluster, FakeLoop, Request

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)
NOT_ATTEMPTED, CONCURRENT, NOT_COORDINATOR, LOADING = 55, 51, 16, 14
UNAUTHORIZED_TOPIC = 29
NOBODY = ProducerIdAndEpoch(-1, -1)


class Bench:
    """Transactions with a coordinator that the test plays; also their owner."""

    def __init__(self, *, has_v2: bool = True) -> None:
        self.loop = FakeLoop()
        self.cluster = FakeCluster({})
        self.has_v2 = has_v2
        self.added = 0
        self.refused: dict[TopicPartition, int] = {}
        self.ends: list[tuple[bool, bool]] = []
        self.lost = 0
        self.transactions = TransactionClient(
            self.loop,  # type: ignore[arg-type]
            self.cluster,  # type: ignore[arg-type]
            "flow-0",
            ProducerIdAndEpoch(7, 1),
            60_000,
            self,
        )

    def on_partitions_added(self) -> None:
        """Count."""
        self.added += 1

    def on_partition_refused(self, tp: TopicPartition, code: int) -> None:
        """Remember."""
        self.refused[tp] = code

    def on_transaction_ended(self, *, is_committed: bool, is_renewed: bool) -> None:
        """Remember."""
        self.ends.append((is_committed, is_renewed))

    def on_fatal_error(self, code: int) -> None:
        """Remember."""
        self.lost = code

    def request(self, kind: str, node: int = 1) -> Request:
        """The one request that waits at a broker; its kind is checked."""
        (request,) = self.cluster.connection(node).waiting
        self.cluster.connection(node).waiting.clear()
        assert type(request.content).__name__ == kind
        return request

    def find(self, node: int = 1, *, asked: int = 1) -> None:
        """Answer who the coordinator is, and on the new connection what it can do."""
        found = SimpleNamespace(error_code=0, node_id=node)
        self.request("FindCoordinatorRequest", asked).reply(found)

    def featured(self, node: int = 1) -> None:
        """Answer which features are on."""
        request = self.request("ApiVersionsRequest", node)
        request.content.API_VERSION = 3
        level = 2 if self.has_v2 else 1
        feature = ApiVersionsResponse.FinalizedFeatureKey(
            name="transaction.version", max_version_level=level, min_version_level=0
        )
        answer = ApiVersionsResponse(
            error_code=0,
            api_keys=[],
            throttle_time_ms=0,
            supported_features=[],
            finalized_features_epoch=1,
            finalized_features=[feature],
        )
        request.reply(memoryview(b"\0\0\0\0" + bytes(answer.encode(version=3))))

    def add(self, codes: dict[TopicPartition, int], node: int = 1) -> Request:
        """Answer a request to add partitions."""
        request = self.request("AddPartitionsToTxnRequest", node)
        results = [
            SimpleNamespace(
                name=tp.topic,
                results_by_partition=[
                    SimpleNamespace(partition_index=tp.partition, partition_error_code=code)
                ],
            )
            for tp, code in codes.items()
        ]
        request.reply(SimpleNamespace(results_by_topic_v3_and_below=results))
        return request

    def end(self, code: int = 0, identity: ProducerIdAndEpoch = NOBODY, node: int = 1) -> Request:
        """Answer a commit or an abort."""
        request = self.request("EndTxnRequest", node)
        request.reply(
            SimpleNamespace(
                error_code=code,
                producer_id=identity.producer_id,
                producer_epoch=identity.producer_epoch,
            )
        )
        return request

    def open(self, partitions: Iterable[TopicPartition] = (ONE,)) -> None:
        """Begin a transaction with some partitions."""
        self.transactions.add_partitions(partitions)
        self.find()
        self.featured()
        self.add(dict.fromkeys(partitions, 0))


def test_the_new_identity_of_version_2_is_used_for_the_next_transaction() -> None:
    """Version 5 of EndTxn answers it; what follows is sent with it."""
    bench = Bench()
    bench.open()
    assert bench.transactions.contains(ONE)
    bench.transactions.commit()
    assert bench.end(identity=ProducerIdAndEpoch(7, 2)).version == 5
    assert bench.ends == [(True, True)]
    assert not bench.transactions.contains(ONE)
    bench.transactions.add_partitions([TWO])
    request = bench.add({TWO: 0})
    assert request.content.v3_and_below_producer_epoch == 2


def test_version_1_keeps_its_identity_after_a_commit_and_renews_it_after_an_abort() -> None:
    """The new epoch is requested with the old one, which a successor's epoch would refuse."""
    bench = Bench(has_v2=False)
    bench.open()
    bench.transactions.commit()
    assert bench.end().version == 4
    assert bench.ends == [(True, False)]
    bench.transactions.add_partitions([ONE])
    bench.add({ONE: 0})
    bench.transactions.abort()
    bench.end()
    request = bench.request("InitProducerIdRequest")
    assert (request.content.producer_id, request.content.producer_epoch) == (7, 1)
    request.reply(SimpleNamespace(error_code=0, producer_id=7, producer_epoch=2))
    assert bench.ends == [(True, False), (False, True)]
    assert bench.transactions.identity == ProducerIdAndEpoch(7, 2)


def test_a_coordinator_that_moved_is_found_again() -> None:
    """The same request goes to the new one."""
    bench = Bench()
    bench.open()
    bench.transactions.commit()
    bench.end(NOT_COORDINATOR)
    assert bench.transactions.error_code == NOT_COORDINATOR
    bench.loop.advance(1)
    bench.find(node=2)
    bench.featured(2)
    bench.end(identity=ProducerIdAndEpoch(7, 2), node=2)
    assert bench.ends == [(True, True)]
    assert not bench.transactions.error_code


def test_a_lost_connection_is_opened_again_and_the_same_asked() -> None:
    """Features are requested again: the broker may be another version by now."""
    bench = Bench()
    bench.open()
    bench.transactions.commit()
    bench.cluster.connection(1).lose()
    bench.loop.advance(1)
    bench.find()
    bench.featured()
    bench.end(identity=ProducerIdAndEpoch(7, 2))
    assert bench.ends == [(True, True)]


@pytest.mark.parametrize("code", [CONCURRENT, LOADING])
def test_a_busy_coordinator_is_retried_with_back_off(code: int) -> None:
    """It writes the markers of the transaction before, which takes milliseconds as a rule."""
    bench = Bench()
    bench.transactions.add_partitions([ONE])
    bench.find()
    bench.featured()
    pauses = []
    for _ in range(8):
        bench.add({ONE: code})
        began = bench.loop.now
        while not bench.cluster.connection(1).waiting:
            bench.loop.advance(0.005)
        pauses.append(bench.loop.now - began)
    expected = [0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.2, 0.2]
    assert pauses == pytest.approx(expected, abs=0.006)
    assert bench.transactions.error_code == code
    bench.add({ONE: 0})
    assert bench.transactions.contains(ONE)
    assert not bench.transactions.error_code


def test_refused_partitions_are_named_and_the_others_requested_again() -> None:
    """A coordinator adds all partitions of a request or none."""
    bench = Bench()
    bench.transactions.add_partitions([ONE, TWO])
    bench.find()
    bench.featured()
    bench.add({ONE: NOT_ATTEMPTED, TWO: UNAUTHORIZED_TOPIC})
    assert bench.refused == {TWO: UNAUTHORIZED_TOPIC}
    assert bench.added == 0
    bench.add({ONE: 0})
    assert bench.added == 1
    assert bench.transactions.contains(ONE)
    assert not bench.transactions.contains(TWO)


def test_an_end_waits_for_partitions_that_were_requested() -> None:
    """Otherwise nobody would know whether the transaction is open."""
    bench = Bench()
    bench.open()
    bench.transactions.add_partitions([TWO])
    bench.transactions.abort()
    bench.add({TWO: 0})
    assert bench.added == 1  # for the first partition: nothing more may be written
    bench.end(identity=ProducerIdAndEpoch(7, 2))
    assert bench.ends == [(False, True)]


@pytest.mark.parametrize("code", [47, 48, 49, 53, 90, 120])
def test_a_fenced_or_rejected_client_sends_no_more_requests(code: int) -> None:
    """Fenced, in a wrong state, unauthorized: only the driver can help."""
    bench = Bench()
    bench.open()
    bench.transactions.commit()
    bench.end(code)
    assert bench.lost == code
    assert bench.transactions.state is TransactionState.FATAL_ERROR
    bench.transactions.add_partitions([ONE])
    bench.transactions.commit()
    bench.loop.advance(60)
    assert not bench.cluster.connection(1).waiting
    assert bench.ends == []
