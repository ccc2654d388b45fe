# SPDX-License-Identifier: Apache-2.0
"""Produces records to internal topics: positions, offset map, offset syncs, ledger, dead letters.

They are retried without limit; the status shows the error until the topic can be written again.
Owned by the task's thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sparkmirror.wire import error_codes
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.memory import MemoryBudget
from sparkmirror.wire.outgoing import OutgoingBatch, halve_batch
from sparkmirror.wire.produce_partition import ProducePartition, RefusedBatch
from sparkmirror.wire.producer import Producer
from sparkmirror.wire.settings import ProduceSettings

_SETTINGS = ProduceSettings(max_request_bytes=1 << 20, max_in_flight=1)


class InternalTopicListener:
    """Keeps the error text of one internal topic; halves record batches that are too large."""

    def __init__(self, alias: str, budget: MemoryBudget, consequence: str = "") -> None:
        self._alias = alias
        self._budget = budget
        self._consequence = f", so {consequence}" if consequence else ""
        self.error = ""  # why the topic cannot be written
        # Set with exactly-once: only then do internal records have a producer id.
        self.handle_lost_sequence: Callable[[ProducePartition], object] = lambda _part: None

    def on_acked(self, part: ProducePartition, out: OutgoingBatch) -> None:
        """Nothing to do: the writer checks whether its partitions are idle."""

    def on_produce_error(self, part: ProducePartition, code: int, text: str) -> None:
        """Keep the error for the status."""
        self.error = (
            f"{self._alias}: {part.tp} cannot be written{self._consequence}: "
            f"{error_codes.name(code)}: {text or error_codes.advice(code)}"
        )

    def on_produce_recovered(self, part: ProducePartition) -> None:  # noqa: ARG002 - one topic
        self.error = ""

    def on_refused(self, refused: RefusedBatch) -> list[OutgoingBatch] | None:
        """Halve a record batch that is too large; None: retry others unchanged."""
        if refused.code != error_codes.MESSAGE_TOO_LARGE:
            return None
        return halve_batch(refused.batch, self._budget)

    def on_rewind(self, part: ProducePartition, pause: float) -> bool:  # noqa: ARG002 - see below
        """Return False: internal records stay in the producer and are not read again."""
        return False

    def on_sequence_lost(self, part: ProducePartition, pause: float) -> None:  # noqa: ARG002
        """Abort the transaction, if any."""
        self.handle_lost_sequence(part)


class InternalProducer:
    """A producer with separate connections, so that its records never delay copied records.

    For offset syncs, and for positions of a worker whose topics are on another cluster.
    `max_request_bytes` is a hard limit; None: the default, which a single record batch may exceed.
    The owner sets `producer.on_response`.
    """

    def __init__(
        self,
        loop: EventLoop,
        cluster: Cluster,
        client_id: str,
        consequence: str,
        max_request_bytes: int | None = None,
    ) -> None:
        self._cluster = cluster
        settings = _SETTINGS
        if max_request_bytes is not None:
            settings = replace(
                _SETTINGS, max_request_bytes=max_request_bytes, enforces_max_request_bytes=True
            )
        budget = MemoryBudget(1 << 20)
        self.producer = Producer(loop, cluster, settings, budget, client_id, max_merged_bytes=0)
        self.listener = InternalTopicListener(cluster.alias, budget, consequence)

    @property
    def error(self) -> str:
        """Why the topic cannot be written or the cluster cannot be reached, or empty."""
        return self.listener.error or str(self._cluster.error or "")

    def check_timeouts(self) -> None:
        """Called about once a second."""
        self._cluster.check_timeouts()

    def close(self) -> None:
        self.producer.close()
        self._cluster.close()
