# SPDX-License-Identifier: Apache-2.0
"""Writes to a real broker inside transactions of ours: the smallest task that can do it."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from kafka.protocol.producer import ProduceResponse

from sparkmirror.model import TopicPartition
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.produce_protocol import VERSION, produce_request
from sparkmirror.wire.record_batch import build_key_value_batch, stamp
from sparkmirror.wire.settings import ConnectionSettings
from sparkmirror.wire.transaction import ProducerIdAndEpoch, TransactionClient, TransactionState
from support.waiting import PATIENCE_SECONDS

TIMEOUT_MS = 600_000  # no coordinator ends a transaction before the test does
_REQUEST_SECONDS = 30.0


class TransactionalWriter:
    """One holder of a transactional id; every call returns when the broker has answered."""

    def __init__(
        self, bootstrap: str, transactional_id: str, identity: ProducerIdAndEpoch, topics: set[str]
    ) -> None:
        self._loop = EventLoop()
        settings = ConnectionSettings(
            "b", (bootstrap,), "transaction-test", _REQUEST_SECONDS, _REQUEST_SECONDS
        )
        self._cluster = Cluster(self._loop, settings)
        self.transactions = TransactionClient(
            self._loop, self._cluster, transactional_id, identity, TIMEOUT_MS, self
        )
        self._sequences: dict[TopicPartition, int] = {}
        self.refused: dict[TopicPartition, int] = {}
        self.ends: list[tuple[bool, bool]] = []  # committed, renewed
        self.lost = 0
        self._cluster.track_topics(topics)
        self._until(lambda: {tp.topic for tp in self._cluster.leaders} >= topics)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.transactions.close()
        self._cluster.close()
        self._loop.close()

    # --- from the transactions

    def on_partitions_added(self) -> None: ...

    def on_partition_refused(self, tp: TopicPartition, code: int) -> None:
        self.refused[tp] = code

    def on_transaction_ended(self, *, is_committed: bool, is_renewed: bool) -> None:
        self.ends.append((is_committed, is_renewed))
        if is_renewed:
            self._sequences.clear()

    def on_fatal_error(self, code: int) -> None:
        self.lost = code

    # --- what tests do

    def add(self, *partitions: TopicPartition) -> None:
        """Bring partitions into the transaction; refusals and losses are for the test to see."""
        self.transactions.add_partitions(partitions)
        self._until(
            lambda: (
                self.lost
                or all(self.transactions.contains(tp) or tp in self.refused for tp in partitions)
            )
        )

    def write(self, tp: TopicPartition, *values: str) -> int:
        """One record batch; the broker's error code."""
        codes: list[int] = []
        sequence = self._sequences.get(tp, 0)
        view = memoryview(build_key_value_batch([(None, value.encode()) for value in values]))
        stamp(view, *self.transactions.identity, sequence, is_transactional=True)
        header, body = produce_request(
            [(tp, view)],
            client_id=b"transaction-test",
            acks=-1,
            timeout_ms=round(_REQUEST_SECONDS * 1000),
            transactional_id=self.transactions.transactional_id.encode(),
        )

        def answered(frame: memoryview) -> None:
            answer = ProduceResponse.decode(frame[5:], version=VERSION)
            codes.append(answer.responses[0].partition_responses[0].error_code)

        connection = self._cluster.connection(self._cluster.leaders[tp].node)
        connection.when_ready(
            lambda: connection.send_buffers(
                header, body, answered, lambda _error: codes.append(-1)
            ),
            lambda _error: codes.append(-1),
        )
        self._until(lambda: codes)
        if not codes[0]:
            self._sequences[tp] = sequence + len(values)
        return codes[0]

    def end(self, *, commit: bool) -> None:
        """Commit or abort; a loss is for the test to see."""
        (self.transactions.commit if commit else self.transactions.abort)()
        self.await_end()

    def await_end(self) -> None:
        """Wait until the transaction that is ending has ended, or is lost."""
        self._until(lambda: self.transactions.state is not TransactionState.ENDING)

    def await_trouble(self) -> None:
        """Wait until the transactions say that they do not move."""
        self._until(lambda: self.transactions.error_code)

    def lose_connections(self) -> None:
        """What was just asked reaches the broker; its answer does not reach us."""
        for node in {leader.node for leader in self._cluster.leaders.values()}:
            self._cluster.connection(node).close("lost by the test")

    def _until(self, check: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not check():
            assert time.monotonic() < deadline, "the broker did not do it in time"
            self._loop.run_once(0.1)
            self._cluster.check_timeouts()
