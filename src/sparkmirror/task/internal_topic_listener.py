# SPDX-License-Identifier: Apache-2.0
"""Default produce listener for internal topics: positions, offset map, ledger, dead letters.

The producer retries internal records without limit. The status shows the error until the topic can
be written again.
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
