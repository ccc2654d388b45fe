# SPDX-License-Identifier: Apache-2.0
"""Chooses faults and their order and variants: a pure function of a seed.

`pick` selects a process or broker when the fault starts. Faults that this machine does not support
are skipped by the run, not by the plan, so a seed means the same everywhere.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """The kinds of faults."""

    WORKER_KILL = "worker-kill"
    EXECUTOR_KILL = "executor-kill"
    DRIVER_KILL = "driver-kill"
    WORKER_STOP = "worker-stop"
    SOURCE_BROKER_KILL = "source-broker-kill"
    TARGET_LEADER_KILL = "target-leader-kill"
    BROKER_RESTART = "broker-restart"
    SOURCE_CUT = "source-cut"
    TARGET_CUT = "target-cut"
    SOURCE_DELAY = "source-delay"
    TARGET_DELAY = "target-delay"
    TARGET_FULL = "target-full"
    TARGET_QUOTA = "target-quota"
    SOURCE_TRUNCATE = "source-truncate"
    SOURCE_DELETE = "source-delete"
    SOURCE_COMPACT = "source-compact"
    TARGET_TRUNCATE = "target-truncate"
    TARGET_RECREATE = "target-recreate"
    PRODUCER_EXPIRY = "producer-expiry"
    SUSPEND = "suspend"
    SLOW_RESOLVER = "slow-resolver"
    SPARK_WORKER_KILL = "spark-worker-kill"
    SPARK_MASTER_KILL = "spark-master-kill"


STANDALONE = (Kind.SPARK_WORKER_KILL, Kind.SPARK_MASTER_KILL)  # of a standalone cluster only
ANYWHERE = tuple(kind for kind in Kind if kind not in STANDALONE)


class Place(Enum):
    """The component that a fault affects; two concurrent faults affect different ones."""

    SPARK = "spark"
    SOURCE_BROKERS = "source brokers"
    TARGET_BROKERS = "target brokers"
    BROKERS = "brokers"  # of either side
    SOURCE_LINE = "source line"
    TARGET_LINE = "target line"
    QUOTA = "quota"
    RESOLVER = "resolver"
    LOGS = "logs"  # they move while the mirror is down: nothing else happens meanwhile


@dataclass(frozen=True, slots=True)
class Nature:
    """Properties of a kind: place, variants, duration in seconds."""

    place: Place
    ways: tuple[str, ...]
    seconds: tuple[float, float] = (0.0, 0.0)


_LINE_CUTS = tuple(
    f"{which} {fate}" for which in ("requests", "replies", "both ways") for fate in ("late", "lost")
)
_LINE_DELAYS = ("requests", "replies", "both ways")
UNCLEAN, RESTORED = "unclean election", "restored copy"
LOG_CUTS = (UNCLEAN, RESTORED)
# A lease is 5 s, and the driver gives a silent task twice that before it plans anew.
_BEYOND_THE_LEASE = (6.0, 17.0)

NATURES = {
    Kind.WORKER_KILL: Nature(Place.SPARK, ("one", "all")),
    Kind.EXECUTOR_KILL: Nature(Place.SPARK, ("one", "all")),
    Kind.DRIVER_KILL: Nature(Place.SPARK, ("process", "jvm", "everything")),
    Kind.WORKER_STOP: Nature(Place.SPARK, ("worker", "executor"), _BEYOND_THE_LEASE),
    Kind.SOURCE_BROKER_KILL: Nature(Place.SOURCE_BROKERS, ("",), (0.0, 6.0)),
    Kind.TARGET_LEADER_KILL: Nature(Place.TARGET_BROKERS, ("",), (1.0, 10.0)),
    Kind.BROKER_RESTART: Nature(Place.BROKERS, ("source", "target"), (0.0, 2.0)),
    Kind.SOURCE_CUT: Nature(Place.SOURCE_LINE, _LINE_CUTS, (2.0, 14.0)),
    Kind.TARGET_CUT: Nature(Place.TARGET_LINE, _LINE_CUTS, (2.0, 14.0)),
    Kind.SOURCE_DELAY: Nature(Place.SOURCE_LINE, _LINE_DELAYS, (4.0, 10.0)),
    Kind.TARGET_DELAY: Nature(Place.TARGET_LINE, _LINE_DELAYS, (4.0, 10.0)),
    Kind.TARGET_FULL: Nature(Place.TARGET_BROKERS, ("one broker", "all brokers"), (3.0, 8.0)),
    Kind.TARGET_QUOTA: Nature(Place.QUOTA, ("bytes", "requests"), (5.0, 12.0)),
    Kind.SOURCE_TRUNCATE: Nature(Place.LOGS, LOG_CUTS, (3.0, 8.0)),
    Kind.SOURCE_DELETE: Nature(Place.LOGS, ("copied", "not copied"), (2.0, 4.0)),
    Kind.SOURCE_COMPACT: Nature(Place.LOGS, ("",), (2.0, 4.0)),
    Kind.TARGET_TRUNCATE: Nature(Place.LOGS, LOG_CUTS, (3.0, 8.0)),
    Kind.TARGET_RECREATE: Nature(Place.LOGS, ("while down", "while running"), (1.0, 3.0)),
    Kind.PRODUCER_EXPIRY: Nature(Place.LOGS, ("while down", "while idle"), (4.0, 6.0)),
    Kind.SUSPEND: Nature(Place.SPARK, ("",), _BEYOND_THE_LEASE),
    Kind.SLOW_RESOLVER: Nature(Place.RESOLVER, ("slow", "failing"), (6.0, 15.0)),
    Kind.SPARK_WORKER_KILL: Nature(Place.SPARK, ("",), (0.0, 15.0)),
    Kind.SPARK_MASTER_KILL: Nature(Place.SPARK, ("",), (0.0, 15.0)),
}

_JOINING = 0.3  # of the faults that may strike while another one lasts
_REST_SECONDS = (1.0, 7.0)  # longer and shorter than positions take to be flushed


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a plan.

    `joins`: starts while the previous one is in effect, `after_seconds` after its start. Others
    start `after_seconds` after records flow again.
    """

    number: int
    kind: Kind
    way: str
    seconds: float
    pick: float
    joins: bool
    after_seconds: float

    @property
    def nature(self) -> Nature:
        return NATURES[self.kind]

    def choose(self, among: Sequence[object]) -> int:
        """Return the index of the affected process or broker."""
        return int(self.pick * len(among))

    def __str__(self) -> str:
        words = [self.kind.value]
        if self.way:
            words.append(f"({self.way})")
        if self.seconds:
            words.append(f"for {self.seconds:.1f} s")
        return " ".join(words)


def draw_plan(seed: int, count: int, kinds: Sequence[Kind] = ANYWHERE) -> tuple[Fault, ...]:
    """Draw this many faults; every kind occurs once before one occurs twice."""
    chance = random.Random(f"chaos {seed}")
    deck: list[Kind] = []
    faults: list[Fault] = []
    for number in range(1, count + 1):
        if not deck:
            deck = sorted(kinds, key=lambda kind: kind.value)
            chance.shuffle(deck)
        kind = deck.pop()
        nature = NATURES[kind]
        joins = chance.random() < _JOINING
        shortest, longest = nature.seconds
        faults.append(
            Fault(
                number=number,
                kind=kind,
                way=chance.choice(nature.ways),
                seconds=round(chance.uniform(shortest, longest), 1),
                pick=chance.random(),
                joins=bool(faults) and joins and _may_join(faults[-1], nature),
                after_seconds=round(chance.uniform(*_REST_SECONDS), 1),
            )
        )
    return tuple(faults)


def _may_join(previous: Fault, nature: Nature) -> bool:
    """Whether two faults may overlap: different places, and the first one lasts."""
    brokers = {Place.BROKERS, Place.SOURCE_BROKERS, Place.TARGET_BROKERS}
    here, there = nature.place, previous.nature.place
    apart = here is not there and not (Place.BROKERS in (here, there) and {here, there} <= brokers)
    if Place.LOGS in (here, there):
        return False
    return apart and not previous.joins and previous.nature.seconds[1] > 0
