# SPDX-License-Identifier: Apache-2.0
"""Desired states of connectors, and views of their instances: values only.

A `DesiredStateSource` (a file with MM2's config topic, or Connect's topics) produces
`DesiredConnectors`. The supervisor starts and stops instances accordingly, and produces an
`InstanceView` per name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.connector_states import ConnectorState
from sparkmirror.spark.flow_figures import FlowFiguresView
from sparkmirror.spark.flow_status import FlowSnapshot, PartitionLag


class DesiredState(Enum):
    """What a connector instance should do in this process."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    STANDBY = "standby"  # another process runs it; it is shown here and its counters are kept


@dataclass(frozen=True, slots=True)
class ConnectorSpec:
    """All that an instance is built from. Specs that compare equal need no restart."""

    kind: ConnectorClass
    label: str  # "A->B" or "A->B|name": in logs, metrics and Spark job groups
    identity: object = field(repr=False)  # settings may hold secrets
    settings: FlowSettings = field(compare=False, repr=False)
    with_storage_topics: bool = field(default=False, compare=False)  # ensures the pair's whole list
    is_bounded: bool = field(default=False, compare=False)  # ends at the source's present end

    @property
    def copies(self) -> bool:
        """Whether it is a source connector of an enabled flow."""
        return self.kind is ConnectorClass.SOURCE and self.settings.enabled

    @property
    def wanted_splits(self) -> int:
        """How many Spark slots it can use; 0 if it does not copy."""
        return self.settings.source.tasks_max if self.copies else 0


@dataclass(frozen=True, slots=True)
class DesiredConnector:
    """The desired state of one connector. Without a spec it cannot run; `failure` says why."""

    desired: DesiredState
    spec: ConnectorSpec | None
    failure: str = ""  # a sentence and a trace


@dataclass(frozen=True, slots=True)
class Restart:
    """A request to restart a connector, its tasks, or what of it has failed."""

    name: str
    include_tasks: bool = True
    only_failed: bool = False
    tasks_only: bool = False


@dataclass(frozen=True, slots=True)
class DesiredConnectors:
    """What a process should run. An instance that is not listed is stopped."""

    connectors: Mapping[str, DesiredConnector]
    restarts: tuple[Restart, ...] = ()
    expects_copying: bool = False  # Spark starts ahead of a take-over


@dataclass(frozen=True, slots=True)
class InstanceView:
    """One connector at one moment, for requests, reports and metrics."""

    name: str
    kind: ConnectorClass | None  # None: its config cannot be read
    desired: DesiredState | None  # None: it ends and is forgotten
    state: ConnectorState
    snapshot: FlowSnapshot
    groups: tuple[str, ...] = ()  # of a checkpoint connector
    group_positions: Mapping[str, int] = field(default_factory=dict)  # by state
    heartbeat_error: str = ""
    is_active: bool = False  # an instance exists
    is_slow: bool = False  # it does not end
    partition_lags: Callable[[], tuple[PartitionLag, ...]] = tuple
    figures: Callable[[int], FlowFiguresView] = lambda _: FlowFiguresView()  # max partitions
    settings: FlowSettings | None = field(default=None, compare=False, repr=False)  # the last valid
