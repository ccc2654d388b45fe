# SPDX-License-Identifier: Apache-2.0
"""What a scrape sees of this process: values only, built by `runtime/metrics_view.py`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from sparkmirror.spark.flow_figures import FlowFiguresView
from sparkmirror.spark.flow_status import FlowSnapshot
from sparkmirror.spark.jvm_figures import JvmFigures


@dataclass(frozen=True, slots=True)
class FlowView:
    """A source connector, and the groups of its flow."""

    snapshot: FlowSnapshot
    source: str
    target: str
    connector: str  # its name in the REST API
    figures: FlowFiguresView = field(default_factory=FlowFiguresView)
    remote_topic: Callable[[str], str] = str
    slots: int = 0
    group_positions: Mapping[str, int] = field(default_factory=dict)  # by state
    checkpoints: FlowFiguresView | None = None  # None: no checkpoint connector here
    checkpoint_age_seconds: float | None = None
    heartbeat_age_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class WorkerMetrics:
    """A worker at one moment: the tasks of its connectors, and its group membership."""

    tasks: Mapping[str, Sequence[str]] = field(default_factory=dict)  # lower-case states
    worker_id: str = ""
    leader: str = ""
    generation: int | None = None  # None: the flows of `run` have a group each
    is_rebalancing: bool = False
    is_leader: bool = False


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate that this process presents."""

    owner: str  # an alias of a cluster, or "listeners"
    subject: str
    expires_at: float  # seconds since 1970


class ReloadResult(Enum):
    """The result of a configuration reload."""

    APPLIED = "applied"
    REFUSED = "refused"
    UNCHANGED = "unchanged"


class ReloadMetrics:
    """Reload counters of one process."""

    def __init__(self) -> None:
        self.counts: Counter[ReloadResult] = Counter()
        self.in_use_since = time.time()
        self.last = ReloadResult.APPLIED  # the file at start

    def record(self, result: ReloadResult) -> None:
        self.counts[result] += 1
        self.last = result
        if result is ReloadResult.APPLIED:
            self.in_use_since = time.time()


@dataclass(frozen=True, slots=True)
class ProcessView:
    """Everything that a scrape shows."""

    flows: Sequence[FlowView] = ()
    worker: WorkerMetrics = field(default_factory=WorkerMetrics)
    reloads: ReloadMetrics = field(default_factory=ReloadMetrics)
    certificates: Sequence[Certificate] = ()
    slots: int = 0
    executors: int = 0
    jvm: JvmFigures | None = None  # None: Spark does not run
