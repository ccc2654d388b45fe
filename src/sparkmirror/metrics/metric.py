# SPDX-License-Identifier: Apache-2.0
"""A row of the metric table, and the scope that gives it labels and values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from sparkmirror.metrics.process_view import ProcessView

_PLAIN = re.compile(r"[\w\-%. \t]*", re.ASCII)
_SPECIAL = re.compile(r'[\\*?"]')


class MetricType(Enum):
    """Prometheus' types."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"  # number and sum only


class Family(Enum):
    """Whose name a metric has."""

    JAVA = "MirrorMaker 2 and Connect"
    OWN = "sparkmirror"


@dataclass(frozen=True, slots=True)
class Scope:
    """What a metric is about: names of labels, and a row of their values for each subject."""

    name: str
    labels: tuple[str, ...]
    rows: Callable[[ProcessView], Iterable[tuple[tuple[str, ...], Any]]]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: its help says what it is, `origin` where the value comes from."""

    name: str
    type: MetricType
    scope: Scope
    help: str
    value: Callable[[Any], Any]  # of a subject; None: no sample
    origin: str = ""

    @property
    def family(self) -> Family:
        return Family.OWN if self.name.startswith("sparkmirror_") else Family.JAVA

    @property
    def sample_names(self) -> tuple[str, ...]:
        """The names of its series in queries."""
        if self.type is MetricType.HISTOGRAM:
            return tuple(f"{self.name}_{end}" for end in ("bucket", "sum", "count"))
        if self.type is MetricType.SUMMARY:
            return f"{self.name}_sum", f"{self.name}_count"
        return (self.name,)


def jmx_value(text: str) -> str:
    """Quote a label's value as Kafka quotes values in the names of its MBeans."""
    if _PLAIN.fullmatch(text):
        return text
    escaped = _SPECIAL.sub(lambda found: f"\\{found[0]}", text).replace("\n", "\\n")
    return f'"{escaped}"'
