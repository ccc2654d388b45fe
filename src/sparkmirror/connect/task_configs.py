# SPDX-License-Identifier: Apache-2.0
"""A connector's tasks as Connect's config topic has them: what MM2's own tasks are started with.

Nothing of ours reads them. Java's worker does when it takes a connector over, and people do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparkmirror.config.connector_classes import ConnectorClass
from sparkmirror.connect.states import PartState
from sparkmirror.formats.connect_fields import Config


def task_configs(
    kind: ConnectorClass, config: Config, tasks: Mapping[int, PartState], groups: Sequence[str] = ()
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
