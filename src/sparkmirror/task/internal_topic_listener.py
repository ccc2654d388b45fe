# SPDX-License-Identifier: Apache-2.0
"""Default listener for partitions of internal topics: positions, offset map, ledger, dead letters.

Records of our own are never read again and never given up. The producer retries them; the status
shows the error until the topic can be written again.
"""

from __future__ import annotations

from collections.abc import Callable

from sparkmirror.wire import error_codes
from sparkmirror.wire.memory import MemoryBudget
from sparkmirror.wire.outgoing import OutgoingBatch, halve_batch
from sparkmirror.wire.produce_partition import ProducePartition, RefusedBatch


class InternalTopicListener:
    """Keeps the error text of one internal topic; halves record batches that are too large."""

    def __init__(self, alias: str, budget: MemoryBudget, consequence: str = "") -> None:
        self._alias = alias
        self._budget = budget
        self._consequence = f", so {consequence}" if consequence else ""
        self.error = ""  # why the topic cannot be written
        # Set in transactions: only there do internal records have a producer id.
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
        """Clear the error."""
        self.error = ""

    def on_refused(self, refused: RefusedBatch) -> list[OutgoingBatch] | None:
        """Halve what is too large; there is no other form to send."""
        if refused.code != error_codes.MESSAGE_TOO_LARGE:
            return None
        return halve_batch(refused.batch, self._budget)

    def on_rewind(self, part: ProducePartition, pause: float) -> bool:  # noqa: ARG002 - see below
        """Nothing was read for internal records: they wait in the producer."""
        return False

    def on_sequence_lost(self, part: ProducePartition, pause: float) -> None:  # noqa: ARG002
        """Abort the transaction, if there is one."""
        self.handle_lost_sequence(part)
