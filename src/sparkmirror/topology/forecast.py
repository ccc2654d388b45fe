# SPDX-License-Identifier: Apache-2.0
"""How much of a flow is still to be copied, and how long it takes. Pure.

Records are counted by offsets: compacted topics and transactions contain fewer records. Bytes are
the share of the partition's log on the leader's disk that these offsets occupy.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sparkmirror.model import TopicPartition

MAX_TOPICS = 10  # listed in a forecast, the largest first
_FACTORS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_FACTORS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)(b|bit)(?:/s|ps)?", re.IGNORECASE)
_BITS = 8


@dataclass(frozen=True, slots=True)
class PartitionBacklog:
    """One source partition: its offsets, size and the copy position."""

    source: TopicPartition
    first: int  # the first offset of the log
    end: int  # the offset after the last record that would be copied now
    position: int
    size: int | None  # bytes of its log; None if unknown
    skipped: int = 0  # records behind the position that another flow has copied to the source

    @property
    def records(self) -> int:
        """Offsets still to copy, without those that retention has deleted or that are skipped."""
        return max(0, self.end - max(self.position, self.first) - self.skipped)

    @property
    def bytes(self) -> int | None:
        """Their share of the log; None if unknown."""
        if not self.records:
            return 0
        if self.size is None:
            return None
        return round(self.size * self.records / (self.end - self.first))


@dataclass(frozen=True, slots=True)
class TopicForecast:
    """The amount to copy of one topic."""

    topic: str
    records: int
    bytes: int | None


@dataclass(frozen=True, slots=True)
class Forecast:
    """The amount to copy of a flow; bytes are None if any part is unknown."""

    records: int = 0
    bytes: int | None = 0
    biggest: tuple[TopicForecast, ...] = ()


def summarize_backlogs(backlogs: Iterable[PartitionBacklog]) -> Forecast:
    """Sum all partitions, and list the largest topics."""
    by_topic: dict[str, list[PartitionBacklog]] = defaultdict(list)
    for one in backlogs:
        by_topic[one.source.topic].append(one)
    topics = [
        TopicForecast(topic, sum(one.records for one in part), sum_known(one.bytes for one in part))
        for topic, part in by_topic.items()
    ]
    pending = [one for one in topics if one.records]
    pending.sort(key=lambda one: (-(one.bytes or 0), -one.records, one.topic))
    return Forecast(
        sum(one.records for one in pending),
        sum_known(one.bytes for one in pending),
        tuple(pending[:MAX_TOPICS]),
    )


def sum_known(sizes: Iterable[int | None]) -> int | None:
    """Return the sum; None if any part is unknown."""
    total = 0
    for size in sizes:
        if size is None:
            return None
        total += size
    return total


def parse_rate(text: str) -> float:
    """Parse a rate such as 50MB/s, 200MiB/s or 400Mbit/s into bytes per second."""
    found = _RATE.fullmatch(text.strip())
    if found is None:
        msg = f"Invalid rate {text!r}: use for example 50MB/s, 200MiB/s or 400Mbit/s."
        raise ValueError(msg)
    number, prefix, is_binary, unit = found.groups()
    if is_binary and not prefix:
        msg = f"Invalid rate {text!r}: binary prefixes are Ki, Mi, Gi and Ti."
        raise ValueError(msg)
    factor = (_BINARY_FACTORS if is_binary else _FACTORS)[prefix.lower()]
    rate = float(number) * factor / (_BITS if unit.lower() == "bit" else 1)
    if rate < 1:
        msg = f"{text!r}: the rate must be at least one byte per second."
        raise ValueError(msg)
    return rate
