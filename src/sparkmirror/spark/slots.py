# SPDX-License-Identifier: Apache-2.0
"""Divides the task slots of Spark's executors among the flows. No Spark in it.

A copy task holds its slot for minutes. The slots of the registered executors are all that is
counted: no slot is kept in reserve.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from sparkmirror.quantities import counted
from sparkmirror.spark.spark_problem import SparkProblem

_log = logging.getLogger(__name__)
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class FlowCapacity:
    """What Spark offers a flow at the moment."""

    slots: int  # how many splits it may have
    problem: SparkProblem | None = None  # why there is no slot
    is_time_shared: bool = False  # fewer slots than flows: epochs take turns
    is_starting: bool = False  # Spark starts: nothing is known yet


class SlotAllocator(Generic[K]):
    """The current number of splits of each flow. Thread-safe."""

    def __init__(self, more_slots: str) -> None:
        """`more_slots` is the advice in a warning about too few slots."""
        self._more_slots = more_slots
        self._lock = threading.Lock()
        self._slots = 0
        self._none_since: float | None = None
        self._requested: dict[K, int] = {}
        self._allotted: dict[K, int] = {}
        self._shortage = ""  # the last logged warning

    def request(self, splits: Mapping[K, int]) -> list[K]:
        """Set what the flows want. Returns those that get fewer than before."""
        with self._lock:
            before, self._requested = self._allotted, dict(splits)
            if not self._slots:
                return []
            self._allocate()
            return [f for f, slots in self._allotted.items() if slots < before.get(f, 0)]

    def set_slots(self, slots: int, now: float) -> None:
        """Set how many tasks can run at the moment."""
        with self._lock:
            if slots:
                self._none_since = None
            elif self._none_since is None:
                self._none_since = now
            if slots != self._slots:
                self._slots = slots
                self._allocate()

    @property
    def slots(self) -> int:
        """How many tasks can run at the moment."""
        with self._lock:
            return self._slots

    def seconds_without(self, now: float) -> float:
        """Return for how long there has been no slot."""
        with self._lock:
            return 0.0 if self._none_since is None else now - self._none_since

    def capacity(self, flow: K) -> FlowCapacity:
        """Return what a flow may use; no slots while there are no executors."""
        with self._lock:
            if not self._slots:
                return FlowCapacity(0)
            slots = self._allotted.get(flow, 1)  # a flow that is stopping is not requested
            return FlowCapacity(slots, is_time_shared=self._slots < len(self._requested))

    def _allocate(self) -> None:
        slots = self._slots
        self._allotted = allocate_slots(self._requested, slots)
        short = [str(flow) for flow, n in self._allotted.items() if n < self._requested[flow]]
        shortage = ""
        if slots and len(self._requested) > slots:
            shortage = (
                f"Spark runs {counted(slots, 'concurrent task')}, and {len(self._requested)} "
                "flows need "
                f"one each: their epochs take turns. {self._more_slots}"
            )
        elif slots and short:
            shortage = (
                f"Spark runs {counted(slots, 'concurrent task')}, fewer than tasks.max requires: "
                f"{', '.join(short)} get fewer and larger splits. {self._more_slots}"
            )
        if shortage and shortage != self._shortage:
            _log.warning(shortage)
        self._shortage = shortage


def allocate_slots(requested: Mapping[K, int], slots: int) -> dict[K, int]:
    """Return the number of splits of each flow when `slots` Spark tasks can run.

    Copy tasks are long: a flow without a slot would wait for ever. So every flow gets one first,
    and the rest is distributed in turns.
    """
    remaining = max(slots - len(requested), 0)
    allotted = dict.fromkeys(requested, min(slots, 1))
    while remaining:
        unsatisfied = [flow for flow in requested if allotted[flow] < requested[flow]]
        if not unsatisfied:
            break
        for flow in unsatisfied[:remaining]:
            allotted[flow] += 1
        remaining -= min(remaining, len(unsatisfied))
    return allotted
