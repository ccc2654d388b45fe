# SPDX-License-Identifier: Apache-2.0
"""Performance targets as ratios of medians within one run, and whether they were reached."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.results import Figure, Results
from benchmarks.standalone import LOCAL, STANDALONE

OURS, JAVA, TUNED = "sparkmirror", "MM2, defaults", "MM2, tuned"
CEILING = "copy loop without Spark"


class Target(NamedTuple):
    """A ratio with its lower or upper limit."""

    question: str
    figure: Figure
    theirs: str
    wanted: float
    at_least: bool = True
    ours: str = OURS

    @property
    def text(self) -> str:
        sign = ">=" if self.at_least else "<="
        ours = "" if self.ours == OURS else f"{self.ours}, "
        return (
            f"{self.question}: {ours}{self.figure.title} {sign} {self.wanted:.3g} x {self.theirs}"
        )


class Outcome(NamedTuple):
    """A target, the measured ratio, and whether it was reached."""

    text: str
    ratio: float
    is_reached: bool


TARGETS = (
    Target("1 KB lz4", Figure.RECORDS, TUNED, 1.8),
    Target("1 KB lz4", Figure.RECORDS, JAVA, 4),
    Target("1 KB lz4", Figure.RECORDS, CEILING, 0.9),
    Target("1 KB lz4", Figure.CPU, TUNED, 1 / 8, at_least=False),
    Target("100 B lz4", Figure.RECORDS, TUNED, 5),
    Target("100 B lz4", Figure.RECORDS, CEILING, 0.9),
    Target("100 B lz4", Figure.CPU, TUNED, 1 / 15, at_least=False),
    Target("latency at 200 records/s", Figure.P50, JAVA, 0.5, at_least=False),
    Target("latency at 200 records/s", Figure.P99, JAVA, 1, at_least=False),
    Target("1 KB lz4", Figure.START, JAVA, 0.7, at_least=False),
    Target("one-record batches", Figure.RECORDS, TUNED, 1),
    Target("50 ms round trip", Figure.RECORDS, TUNED, 5),
    Target("1 KB lz4 over TLS", Figure.RECORDS, TUNED, 1.8),  # as without it
    Target("1 KB lz4 over TLS", Figure.RECORDS, CEILING, 0.9),
    Target("1 KB lz4 over TLS", Figure.CPU, TUNED, 1 / 8, at_least=False),
    *(
        Target("1 KB lz4, bounded run", figure, LOCAL, most, at_least=False, ours=STANDALONE)
        for figure, most in ((Figure.TOTAL_CPU, 1.8), (Figure.START, 2.5), (Figure.CPU, 1.1))
    ),
    Target("5,000 idle partitions", Figure.ALL_FLOW, JAVA, 0.5, at_least=False),
)


def outcomes(results: Results) -> Iterator[Outcome]:
    """Return the targets that were measured."""
    for target in TARGETS:
        ratio = results.ratio(target.question, target.ours, target.theirs, target.figure)
        if ratio is not None:
            reached = ratio >= target.wanted if target.at_least else ratio <= target.wanted
            yield Outcome(target.text, ratio, reached)
