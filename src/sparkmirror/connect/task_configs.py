# SPDX-License-Identifier: Apache-2.0
"""A connector's tasks as Connect's config topic has them: what MM2's own tasks are started with.

Nothing of ours reads them. Java's worker does when it takes a connector over, and people do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.connectors.connector_states import ReportedState
from sparkmirror.formats.connect_config_records import TargetState
from sparkmirror.formats.connect_fields import Config
from sparkmirror.state.connect_configs import ConfigLog


def task_configs(
    kind: ConnectorClass,
    config: Config,
    tasks: Mapping[int, ReportedState],
    groups: Sequence[str] = (),
) -> list[Config]:
    """One configuration for each task; `groups` are those that a checkpoint connector knows."""
    task_class = kind.java_name.removesuffix("Connector") + "Task"
    found: list[Config] = []
    for number, task in sorted(tasks.items()):
        one = {**config, "task.class": task_class}
        if kind is ConnectorClass.SOURCE:
            one["task.index"] = str(number)
            one["task.assigned.partitions"] = ",".join(map(str, task.partitions))
        elif kind is ConnectorClass.CHECKPOINT:
            one["task.index"] = str(number)
            if groups:
                one["task.assigned.groups"] = ",".join(groups)
        found.append(one)
    return found


def put_tasks_if_started(log: ConfigLog, name: str, configs: Sequence[Config]) -> None:
    """Publish tasks, unless the connector was stopped or deleted since they were counted.

    A stopped connector has none; with some its offsets could not be set.
    """
    known = log.state
    if name in known.configs and known.target_state(name) is TargetState.STARTED:
        log.put_tasks(name, configs)
