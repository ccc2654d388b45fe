# SPDX-License-Identifier: Apache-2.0
"""Measured values by question, contender and figure; medians and ratios."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from statistics import median


class Figure(Enum):
    """A measured quantity, its unit and its format."""

    RECORDS = ("records/s", "{:,.0f}")
    MEGABYTES = ("MB/s", "{:,.0f}")
    CPU = ("CPU-s per million records", "{:.2f}")
    WIRE = ("MB sent and received per CPU-second", "{:,.0f}")
    START = ("s to the first record", "{:.1f}")
    START_CPU = ("CPU-s to start", "{:.1f}")
    TOTAL = ("s, start to end", "{:.1f}")
    TOTAL_CPU = ("CPU-s, start to end", "{:.1f}")
    MEMORY = ("MiB at most", "{:,.0f}")
    P50 = ("p50 ms", "{:.1f}")
    P95 = ("p95 ms", "{:.1f}")
    P99 = ("p99 ms", "{:.1f}")
    LONGEST = ("longest ms", "{:,.0f}")
    LOAD_CPU = ("% of a core", "{:.1f}")
    ALL_FLOW = ("s until all flow", "{:.1f}")
    IDLE = ("% of a core when idle", "{:.2f}")
    IDLE_EACH = ("µs per second and idle partition", "{:.1f}")
    PLANNING = ("ms to plan and hand over", "{:.1f}")

    @property
    def title(self) -> str:
        """Return the column heading."""
        return self.value[0]

    def text(self, value: float) -> str:
        return self.value[1].format(value)


@dataclass(slots=True)
class Results:
    """All values of one run."""

    _values: dict[str, dict[str, dict[Figure, list[float]]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, question: str, contender: str, figures: dict[Figure, float]) -> None:
        """Add the values of one round."""
        of_contender = self._values.setdefault(question, {}).setdefault(contender, {})
        for figure, value in figures.items():
            of_contender.setdefault(figure, []).append(value)

    def questions(self) -> list[str]:
        return list(self._values)

    def contenders(self, question: str) -> list[str]:
        return list(self._values[question])

    def figures(self, question: str) -> list[Figure]:
        seen = {f for found in self._values[question].values() for f in found}
        return [figure for figure in Figure if figure in seen]

    def values(self, question: str, contender: str, figure: Figure) -> list[float]:
        """Return the values of all rounds; empty if not measured."""
        return self._values.get(question, {}).get(contender, {}).get(figure, [])

    def median(self, question: str, contender: str, figure: Figure) -> float | None:
        values = self.values(question, contender, figure)
        return median(values) if values else None

    def ratio(self, question: str, ours: str, theirs: str, figure: Figure) -> float | None:
        """Return our median divided by theirs."""
        mine = self.median(question, ours, figure)
        other = self.median(question, theirs, figure)
        return mine / other if mine is not None and other else None

    def rows(self, question: str) -> Iterator[list[str]]:
        """Return a heading and one row per contender, with the spread of the rounds."""
        figures = self.figures(question)
        yield [question, *(figure.title for figure in figures)]
        for contender in self.contenders(question):
            row = [contender]
            for figure in figures:
                values = self.values(question, contender, figure)
                if not values:
                    row.append("")
                    continue
                spread = f" ({figure.text(min(values))} to {figure.text(max(values))})"
                row.append(figure.text(median(values)) + (spread if len(values) > 1 else ""))
            yield row

    def save(self, file: Path) -> None:
        """Write all values as JSON."""
        plain = {
            question: {
                contender: {figure.title: values for figure, values in found.items()}
                for contender, found in answers.items()
            }
            for question, answers in self._values.items()
        }
        file.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
