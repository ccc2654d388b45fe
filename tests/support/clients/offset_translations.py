# SPDX-License-Identifier: Apache-2.0
"""Which record a position means, on either side: what every translation is measured by."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from support.clients.librdkafka import Cluster, Place, messages


@dataclass(frozen=True, slots=True)
class PartitionRecords:
    """The committed records of one partition: offsets ascending, and their values."""

    offsets: list[int]
    values: list[bytes]

    def at(self, position: int) -> bytes | None:
        """The record that a consumer at this position reads next; None at the end."""
        index = bisect_left(self.offsets, position)
        return self.values[index] if index < len(self.values) else None

    def rank(self, position: int) -> int:
        """How many records lie before a position."""
        return bisect_left(self.offsets, position)

    def between(self, first: int, end: int) -> int:
        """How many records lie from one position to another."""
        return bisect_left(self.offsets, end) - bisect_left(self.offsets, first)


def partition_records(cluster: Cluster, *places: Place) -> dict[Place, PartitionRecords]:
    """All records of some partitions with their offsets; values should be unique."""
    found: dict[Place, PartitionRecords] = {place: PartitionRecords([], []) for place in places}
    for chunk in messages(cluster, places):
        for message in chunk:
            one = found[message.topic(), message.partition()]
            one.offsets.append(message.offset())
            one.values.append(b"%s=%s" % (message.key() or b"", message.value() or b""))
    return found
