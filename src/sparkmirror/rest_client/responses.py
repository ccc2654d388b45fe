# SPDX-License-Identifier: Apache-2.0
"""The JSON of Connect's REST API as values, with Connect's own names.

Pydantic fills the dataclasses. Another shape raises a ValueError that names the field. Unknown
fields are ignored, and null counts as missing: worker versions differ in both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    Field,
    StrictInt,
    StrictStr,
    TypeAdapter,
    ValidationError,
)

from sparkmirror.config.keys.secret_keys import redact_config

_Text = Annotated[StrictStr, BeforeValidator(lambda found: "" if found is None else found)]
_Configs = dict[StrictStr, StrictStr | None]


def _by_id(found: Any) -> Any:
    return {one["id"]: one for one in _objects_with("id", found)}


def _numbers(found: Any) -> Any:
    return tuple(one["task"] for one in _objects_with("task", found))


def _objects_with(key: str, found: Any) -> list[Mapping[str, Any]]:
    """Check that these are objects, each with a number as `key`."""
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ValueError("Input should be a list of objects")
    if not all(type(one.get(key)) is int for one in found):
        raise ValueError(f"Each should have a number as its {key}")
    return found


@dataclass(frozen=True, slots=True)
class StateInfo:
    """The state of a connector or task; a string, because newer workers may have other states."""

    state: StrictStr
    worker_id: _Text = ""
    trace: _Text = ""
    version: _Text = ""
    warning: _Text = ""  # only sparkmirror sends it: a problem that is retried


@dataclass(frozen=True, slots=True)
class ConnectorStateInfo:
    """The states of a connector and its tasks."""

    name: StrictStr
    connector: StateInfo
    type: _Text = ""
    tasks: Annotated[Mapping[int, StateInfo], BeforeValidator(_by_id)] = field(default_factory=dict)

    @property
    def states(self) -> frozenset[str]:
        """All states of the connector and its tasks."""
        return frozenset({self.connector.state, *(one.state for one in self.tasks.values())})

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of the connector and its tasks, without duplicates."""
        found = (self.connector.warning, *(one.warning for one in self.tasks.values()))
        return tuple(dict.fromkeys(filter(None, found)))


@dataclass(frozen=True, slots=True)
class ConnectorInfo:
    """The configuration and tasks of a connector."""

    name: StrictStr
    config: _Configs
    type: _Text = ""
    tasks: Annotated[tuple[int, ...], BeforeValidator(_numbers)] = ()


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """What one source partition still has to copy; None: unknown."""

    topic: StrictStr
    partition: StrictInt
    position: StrictInt | None = None
    end_offset: Annotated[StrictInt | None, Field(alias="endOffset")] = None
    lag: StrictInt | None = None


@dataclass(frozen=True, slots=True)
class LatencyPercentiles:
    """Of the records that the target acknowledged recently."""

    p50: float
    p99: float


@dataclass(frozen=True, slots=True)
class ConnectorLag:
    """The lag of a source connector; only sparkmirror knows it."""

    lag: StrictInt | None = None  # None: unknown for at least one partition
    known_lag: Annotated[StrictInt | None, Field(alias="knownLag")] = None
    unknown_partitions: Annotated[StrictInt, Field(alias="unknownPartitions")] = 0
    replication_latency: Annotated[
        LatencyPercentiles | None, Field(alias="replicationLatencyMs")
    ] = None
    copy_latency: Annotated[LatencyPercentiles | None, Field(alias="copyLatencyMs")] = None
    partitions: list[PartitionLag] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ListedConnector:
    """One connector of a list; without a status before a worker has started it."""

    info: ConnectorInfo
    status: ConnectorStateInfo | None = None


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """A plugin class of a worker."""

    class_name: Annotated[StrictStr, Field(alias="class")]
    type: _Text = ""
    version: _Text = ""


@dataclass(frozen=True, slots=True)
class ConfigKeyInfo:
    """A key of a plugin."""

    name: StrictStr
    type: _Text = ""
    required: Annotated[bool, BeforeValidator(lambda found: found is True)] = False
    default: Annotated[StrictStr | None, Field(alias="default_value")] = None
    importance: _Text = ""
    documentation: _Text = ""


@dataclass(frozen=True, slots=True)
class ConnectorOffset:
    """The offset of a connector in one source partition, in the connector's own format."""

    partition: Any = None
    offset: Any = None


@dataclass(frozen=True, slots=True)
class LoggerInfo:
    """A logger of the worker."""

    name: StrictStr
    level: StrictStr
    last_modified: StrictInt | None = None  # milliseconds since 1970


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """An error of one key of a configuration."""

    key: str
    message: str


@dataclass(frozen=True, slots=True)
class _Topics:
    topics: list[StrictStr]


@dataclass(frozen=True, slots=True)
class _Offsets:
    offsets: list[ConnectorOffset]


@dataclass(frozen=True, slots=True)
class _ValidatedValue:
    name: StrictStr
    errors: list[StrictStr] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _ValidatedConfig:
    value: _ValidatedValue | None = None


@dataclass(frozen=True, slots=True)
class _Validation:
    configs: list[_ValidatedConfig]


def parse_names(found: Any) -> list[str]:
    """GET /connectors."""
    return list(_validated(list[StrictStr], found))


def parse_listed_connectors(found: Any) -> dict[str, ListedConnector]:
    """GET /connectors?expand=status&expand=info."""
    return dict(_validated(dict[StrictStr, ListedConnector], found))


def parse_connector_info(found: Any) -> ConnectorInfo:
    """GET /connectors/NAME."""
    info: ConnectorInfo = _validated(ConnectorInfo, found)
    return info


def parse_config(found: Any) -> dict[str, str | None]:
    """GET /connectors/NAME/config."""
    return dict(_validated(_Configs, found))


def parse_status(found: Any) -> ConnectorStateInfo:
    """GET /connectors/NAME/status."""
    status: ConnectorStateInfo = _validated(ConnectorStateInfo, found)
    return status


def parse_lag(found: Any) -> ConnectorLag:
    """GET /connectors/NAME/lag."""
    lag: ConnectorLag = _validated(ConnectorLag, found)
    return lag


def parse_topics(found: Any, name: str) -> list[str]:
    """GET /connectors/NAME/topics."""
    by_connector = _validated(dict[StrictStr, _Topics], found)
    if name not in by_connector:
        raise ValueError(f"{name} is missing")
    return sorted(by_connector[name].topics)


def parse_offsets(found: Any) -> list[ConnectorOffset]:
    """GET /connectors/NAME/offsets."""
    return list(_validated(_Offsets, found).offsets)


def parse_plugins(found: Any) -> list[PluginInfo]:
    """GET /connector-plugins."""
    return list(_validated(list[PluginInfo], found))


def parse_config_keys(found: Any) -> list[ConfigKeyInfo]:
    """GET /connector-plugins/NAME/config."""
    return list(_validated(list[ConfigKeyInfo], found))


def parse_config_problems(found: Any) -> list[ConfigProblem]:
    """PUT /connector-plugins/NAME/config/validate."""
    values = (one.value for one in _validated(_Validation, found).configs)
    return [
        ConfigProblem(value.name, sentence)
        for value in values
        if value is not None
        for sentence in value.errors
    ]


def parse_logger(name: str, found: Any) -> LoggerInfo:
    """GET /admin/loggers/NAME."""
    logger: LoggerInfo = _validated(
        LoggerInfo, {**found, "name": name} if isinstance(found, dict) else found
    )
    return logger


def parse_loggers(found: Any) -> list[LoggerInfo]:
    """GET /admin/loggers."""
    loggers = _validated(dict[StrictStr, Any], found)
    return [parse_logger(name, one) for name, one in loggers.items()]


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _validated(kind: Any, found: Any) -> Any:
    try:
        return _adapter(kind).validate_python(found)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ", ".join(str(step) for step in first["loc"]) or "the response"
        raise ValueError(f"{place}: {first['msg']}, not {first['input']!r:.60}") from error


def redact_secrets(
    config: Mapping[str, str | None], definitions: Iterable[ConfigKeyInfo] = ()
) -> dict[str, str | None]:
    """Redact the values that a worker hides, and those of keys with type PASSWORD."""
    return redact_config(config, {one.name for one in definitions if one.type == "PASSWORD"})
