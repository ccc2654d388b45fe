# SPDX-License-Identifier: Apache-2.0
"""How much of a flow is still to be copied, and for how long: pure arithmetic.

Records are counted by offsets: a compacted topic, or one written in transactions, holds fewer.
Bytes are the share of a partition's log on its leader's disk that these offsets take up.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sparkmirror.model import TopicPartition

MOST_TOPICS = 10  # named in a forecast, the biggest first
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
_FACTORS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_FACTORS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)(b|bit)(?:/s|ps)?", re.IGNORECASE)
_BITS = 8
_KILO = 1000
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


@dataclass(frozen=True, slots=True)
class PartitionBacklog:
    """One source partition: what it holds, and where copying goes on."""

    source: TopicPartition
    first: int  # the first offset that is still there
    end: int  # the offset after the last record that would be copied now
    position: int
    size: int | None  # bytes of its log; None: not known

    @property
    def records(self) -> int:
        """Offsets still to copy; what retention took before the copy came is not among them."""
        return max(0, self.end - max(self.position, self.first))

    @property
    def bytes(self) -> int | None:
        """Their share of the log; None: not known."""
        if not self.records:
            return 0
        if self.size is None:
            return None
        return round(self.size * self.records / (self.end - self.first))


@dataclass(frozen=True, slots=True)
class TopicForecast:
    """What there is to copy of one topic."""

    topic: str
    records: int
    bytes: int | None


@dataclass(frozen=True, slots=True)
class Forecast:
    """What there is to copy of a flow; bytes are None if any part of them is not known."""

    records: int = 0
    bytes: int | None = 0
    biggest: tuple[TopicForecast, ...] = ()


def summarize_backlogs(backlogs: Iterable[PartitionBacklog]) -> Forecast:
    """Sums of all partitions, and the biggest topics by name."""
    by_topic: dict[str, list[PartitionBacklog]] = defaultdict(list)
    for one in backlogs:
        by_topic[one.source.topic].append(one)
    topics = [
        TopicForecast(topic, sum(one.records for one in some), sum_known(one.bytes for one in some))
        for topic, some in by_topic.items()
    ]
    waiting = [one for one in topics if one.records]
    waiting.sort(key=lambda one: (-(one.bytes or 0), -one.records, one.topic))
    return Forecast(
        sum(one.records for one in waiting),
        sum_known(one.bytes for one in waiting),
        tuple(waiting[:MOST_TOPICS]),
    )


def sum_known(sizes: Iterable[int | None]) -> int | None:
    """The sum; None if any part of it is not known."""
    total = 0
    for size in sizes:
        if size is None:
            return None
        total += size
    return total


def parse_rate(text: str) -> float:
    """Bytes a second, from such words as 50MB/s, 200MiB/s or 400Mbit/s; else ValueError."""
    found = _RATE.fullmatch(text.strip())
    if found is None:
        msg = f"{text!r} is no rate: write for example 50MB/s, 200MiB/s or 400Mbit/s."
        raise ValueError(msg)
    number, prefix, is_binary, unit = found.groups()
    if is_binary and not prefix:
        msg = f"{text!r} is no rate: Ki, Mi, Gi and Ti are units, i alone is not."
        raise ValueError(msg)
    factor = (_BINARY_FACTORS if is_binary else _FACTORS)[prefix.lower()]
    rate = float(number) * factor / (_BITS if unit.lower() == "bit" else 1)
    if rate < 1:
        msg = f"{text!r}: the rate must be at least a byte a second."
        raise ValueError(msg)
    return rate


def format_bytes(size: float) -> str:
    """Bytes for people, in steps of 1000."""
    amount = float(size)
    unit = 0
    # As it will be printed: 999.96 kB would come out as 1000.0 kB.
    while round(amount, 1 if unit else 0) >= _KILO and unit < len(_UNITS) - 1:
        amount /= _KILO
        unit += 1
    return f"{amount:.{1 if unit else 0}f}".removesuffix(".0") + f" {_UNITS[unit]}"


def format_duration(seconds: float) -> str:
    """A time for people, in two units at most."""
    whole = round(seconds)
    if whole < 1:
        return "less than 1 s"
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE} s"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR} h"
