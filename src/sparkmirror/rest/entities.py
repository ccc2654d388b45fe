# SPDX-License-Identifier: Apache-2.0
"""JSON shapes of requests and responses, under Connect's names.

The models are for the OpenAPI document. The functions below build the responses, because that is
faster with a hundred connectors; the tests check each response against its model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel
from pydantic.config import JsonDict

from sparkmirror.config.keys.secret_keys import redact_config
from sparkmirror.connect import api
from sparkmirror.formats.connect_status_records import RunState
from sparkmirror.spark import latency_window

_UNDEFINED = "undefined"  # a version that Connect omits
_BEAT: JsonDict = {
    "name": "beat",
    "connector.class": "MirrorHeartbeatConnector",
    "source.cluster.alias": "primary",
    "target.cluster.alias": "backup",
    "target.cluster.bootstrap.servers": "backup:9092",
}
_RUNS: JsonDict = {"state": "RUNNING", "worker_id": "10.0.0.1:8083", "version": "4.3.1"}
_PARTITION: JsonDict = {"cluster": "primary", "topic": "orders", "partition": 0}

Fields = dict[str, str | int | float | bool | None]
Config = dict[str, str | None]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ErrorMessage(_Shape):
    """Every response with a status of 400 or more."""

    error_code: int = Field(examples=[404])
    message: str = Field(examples=["Connector beat not found"])


class ServerInfo(_Shape):
    """The version and Kafka cluster of a worker."""

    version: str = Field(examples=["4.3.1"])
    commit: str = Field(examples=["1e5f1a2b3c4d5e6f"])
    kafka_cluster_id: str = Field(examples=["MkU3OEVBNTcwNTJENDM2Qg"])


class WorkerStatus(_Shape):
    """The health of a worker."""

    status: Literal["healthy", "starting", "unhealthy"]
    message: str


class Readiness(_Shape):
    """Whether all flows of a process can work; `message` has the reasons why not."""

    status: Literal["ready", "not ready"]
    message: str


class ConnectorTaskId(_Shape):
    """A task of a connector."""

    connector: str = Field(examples=["beat"])
    task: int = Field(ge=0)


class ConnectorInfo(_Shape):
    """The configuration and tasks of a connector; passwords are `[hidden]`."""

    name: str = Field(examples=["beat"])
    config: Config = Field(examples=[_BEAT])
    tasks: list[ConnectorTaskId]
    type: Literal["source", "sink", "unknown"]


class CreateConnectorRequest(_Shape):
    """A new connector; numbers and booleans in its config become strings."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"name": "beat", "config": _BEAT, "initial_state": "RUNNING"}]
        }
    )

    name: str | None = None
    config: Fields
    initial_state: str | None = Field(
        None,
        json_schema_extra={"enum": [None, "RUNNING", "PAUSED", "STOPPED"]},
        description="Case-insensitive.",
    )


class AbstractState(_Shape):
    """A state and its worker; `warning` is an addition: a problem that may be temporary."""

    state: RunState
    worker_id: str
    trace: str | None = None
    version: str | None = None
    warning: str | None = None


class ConnectorState(AbstractState):
    """The state of a connector."""


class TaskState(AbstractState):
    """The state of a task."""

    id: int = Field(ge=0)


class ConnectorStateInfo(_Shape):
    """The states of a connector and its tasks."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "beat",
                    "connector": _RUNS,
                    "tasks": [{"id": 0, **_RUNS}],
                    "type": "source",
                }
            ]
        }
    )

    name: str
    connector: ConnectorState
    tasks: list[TaskState]
    type: Literal["source", "sink", "unknown"]


class Expansion(_Shape):
    """The status and configuration of a connector, as requested by `expand`."""

    status: ConnectorStateInfo | None = None
    info: ConnectorInfo | None = None


class Connectors(RootModel[list[str] | dict[str, Expansion]]):
    """Names; with `expand` an object by name."""


class LatencyPercentiles(_Shape):
    """Percentiles over the records that the target acknowledged in the last 10 s."""

    p50: float = Field(examples=[2.1])
    p99: float = Field(examples=[4.2])


class PartitionLag(_Shape):
    """What one source partition still has to copy; null: unknown."""

    topic: str = Field(examples=["orders"])
    partition: int = Field(ge=0)
    position: int | None
    endOffset: int | None  # noqa: N815
    lag: int | None


class ConnectorLag(_Shape):
    """An addition to Connect: the records that a source connector still has to copy.

    `lag` is null if it is unknown for at least one partition; `knownLag` is the sum of the others.
    """

    name: str
    lag: int | None
    knownLag: int | None  # noqa: N815
    unknownPartitions: int  # noqa: N815
    replicationLatencyMs: LatencyPercentiles | None  # noqa: N815
    copyLatencyMs: LatencyPercentiles | None  # noqa: N815
    partitions: list[PartitionLag] | None = Field(None, description="With `partitions=true`.")


class TaskInfo(_Shape):
    """A task's configuration."""

    id: ConnectorTaskId
    config: Config


class ActiveTopics(_Shape):
    """Topics that a connector has written to."""

    topics: list[str] = Field(examples=[["heartbeats"]])


class ConnectorOffset(_Shape):
    """The offset of a connector in a source partition; an offset of null deletes it."""

    partition: Fields | None = Field(None, examples=[_PARTITION])
    offset: Fields | None = Field(None, examples=[{"offset": 41}])


class ConnectorOffsets(_Shape):
    """The offsets of a connector."""

    offsets: list[ConnectorOffset]


class OffsetReset(_Shape):
    """An addition to Connect: continue copying a topic at another offset, or copy it again."""

    topic: str = Field(examples=["orders"])
    partitions: list[int] = Field([], description="All if empty.")
    to: str = Field("earliest", description="earliest, latest, an offset, or a time.")
    recopy: bool = Field(False, description="Into a remote topic that is empty.")
    deleteRecords: bool = Field(False, description="Empty the remote topic first.")  # noqa: N815
    dryRun: bool = False  # noqa: N815


class PlannedReset(_Shape):
    """What a reset changes for one source partition."""

    topic: str
    partition: int
    targetTopic: str  # noqa: N815
    position: int | None = Field(description="The next offset to copy now.")
    nextOffset: int  # noqa: N815
    deletedRecords: int  # noqa: N815
    recordsTwice: int  # noqa: N815
    recordsMissing: int  # noqa: N815
    problem: str


class PlannedResets(_Shape):
    """The reset of each partition."""

    partitions: list[PlannedReset]


class PendingReset(_Shape):
    """A reset that is not carried out yet, or refused."""

    topic: str
    partition: int
    nextOffset: int  # noqa: N815
    requestedAt: str  # noqa: N815
    recopy: bool
    error: str


class PendingResets(_Shape):
    """The resets of a connector."""

    resets: list[PendingReset]


class Message(_Shape):
    """A confirmation."""

    message: str


class PluginInfo(_Shape):
    """A plugin class."""

    model_config = ConfigDict(populate_by_name=True)

    class_name: str = Field(
        alias="class", examples=["org.apache.kafka.connect.mirror.MirrorSourceConnector"]
    )
    type: str = Field(examples=["source"])
    version: str = Field(examples=["4.3.1"])


class ConfigKeyInfo(_Shape):
    """A key of a plugin."""

    name: str = Field(examples=["tasks.max"])
    type: str = Field(examples=["INT"])
    required: bool
    default_value: str | None = Field(examples=["1"])
    importance: str = Field(examples=["HIGH"])
    documentation: str
    group: str | None
    order_in_group: int
    width: str
    display_name: str
    dependents: list[str]


class ConfigValueInfo(_Shape):
    """The value of a key, and its errors."""

    name: str
    value: str | None
    recommended_values: list[str]
    errors: list[str]
    visible: bool


class ConfigInfo(_Shape):
    """A key and its value."""

    definition: ConfigKeyInfo | None
    value: ConfigValueInfo | None


class ConfigInfos(_Shape):
    """The result of a validation."""

    name: str
    error_count: int
    groups: list[str]
    configs: list[ConfigInfo]


class LoggerLevel(_Shape):
    """The level of a logger, and when it was set (milliseconds)."""

    level: str | None = Field(examples=["INFO"])
    last_modified: int | None


def info_json(info: api.ConnectorInfo) -> dict[str, Any]:
    """A ConnectorInfo without its passwords."""
    return {
        "name": info.name,
        "config": redact_config(info.config),
        "tasks": [{"connector": info.name, "task": task} for task in info.tasks],
        "type": info.type,
    }


def status_json(status: api.ConnectorStateInfo) -> dict[str, Any]:
    """A ConnectorStateInfo, tasks in their order."""
    return {
        "name": status.name,
        "connector": _state_json(status.connector),
        "tasks": [task_json(task, status.tasks[task]) for task in sorted(status.tasks)],
        "type": status.type,
    }


def task_json(task: int, state: api.StateInfo) -> dict[str, Any]:
    """A TaskState."""
    return {"id": task, **_state_json(state)}


def _state_json(state: api.StateInfo) -> dict[str, Any]:
    found: dict[str, Any] = {"state": state.state.value, "worker_id": state.worker_id}
    if state.trace:
        found["trace"] = state.trace
    if state.version != _UNDEFINED:
        found["version"] = state.version
    if state.warning:
        found["warning"] = state.warning
    return found


def lag_json(found: api.ConnectorLag, *, with_partitions: bool) -> dict[str, Any]:
    """A ConnectorLag."""
    flow = found.flow
    answer: dict[str, Any] = {
        "name": found.name,
        "lag": flow.lag,
        "knownLag": flow.known_lag,
        "unknownPartitions": flow.unknown_lags,
        "replicationLatencyMs": _percentiles_json(flow.replication_latency),
        "copyLatencyMs": _percentiles_json(flow.copy_latency),
    }
    if with_partitions:
        answer["partitions"] = [
            {
                "topic": one.partition.topic,
                "partition": one.partition.partition,
                "position": one.position,
                "endOffset": one.end_offset,
                "lag": one.records,
            }
            for one in found.partitions
        ]
    return answer


def _percentiles_json(found: latency_window.LatencyPercentiles | None) -> dict[str, float] | None:
    if found is None:
        return None
    return {"p50": round(found.p50_ms, 3), "p99": round(found.p99_ms, 3)}


def task_configs_json(
    connector: str, configs: Iterable[Mapping[str, str | None]]
) -> list[dict[str, Any]]:
    """TaskInfos without their passwords."""
    return [
        {"id": {"connector": connector, "task": task}, "config": redact_config(config)}
        for task, config in enumerate(configs)
    ]


def plugin_json(plugin: api.Plugin) -> dict[str, str]:
    """A PluginInfo."""
    return {"class": plugin.class_name, "type": plugin.type, "version": plugin.version}


def level_json(level: api.LogLevel) -> dict[str, str | int | None]:
    """A LoggerLevel."""
    return {"level": level.level, "last_modified": level.last_modified}
