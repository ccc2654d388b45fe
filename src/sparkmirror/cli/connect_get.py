# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror get`: list connectors, tasks, plugins, offsets and loggers of a Connect worker."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sparkmirror.cli.connect_options import (
    OK,
    USAGE_ERROR,
    ConnectOptions,
    for_each,
    with_connect_client,
)
from sparkmirror.cli.connect_output import print_json, print_rows, summarize_trace
from sparkmirror.cli.console import print_error
from sparkmirror.config.keys.connector_classes import ConnectorClass, resolve_class_name
from sparkmirror.errors import (
    ConfigError,
    WorkerError,
    WorkerUnreachableError,
    join_sentences,
)
from sparkmirror.quantities import format_lag, format_latency, format_time
from sparkmirror.rest_client.connect_client import ConnectClient
from sparkmirror.rest_client.responses import (
    ConfigKeyInfo,
    ConnectorInfo,
    ConnectorLag,
    ConnectorOffset,
    ConnectorStateInfo,
    ListedConnector,
    StateInfo,
    redact_secrets,
)

_NO_STATE = "-"
_NO_LAG = ConnectorLag()  # of a connector that copies nothing, or that a worker of Java runs
_CONNECTOR_HEADINGS = (
    *("connector", "type", "state", "tasks", "worker", "class"),
    *("lag", "latency p99", "problem"),
)
_BRIEF = 80


@dataclass(frozen=True, slots=True)
class GetQuery:
    """Name, states and format of one `get` command."""

    name: str | None
    states: frozenset[str]
    as_json: bool


@dataclass(frozen=True, slots=True)
class Listing:
    """A result for people (rows) and for programs (document)."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    document: Callable[[], object]
    nothing: str
    code: int = OK
    optional: Sequence[str] = ()  # columns that a narrow terminal leaves out


def get(connection: ConnectOptions, kind: str, query: GetQuery) -> int:
    """Fetch and print. Returns the exit code."""
    if query.states and kind not in {"connectors", "tasks"}:
        print_error(f"--state applies to connectors and tasks only, not to {kind}.")
        return USAGE_ERROR

    def show(worker: ConnectClient) -> int:
        found = _KINDS[kind](worker, query)
        if query.as_json:
            print_json(found.document())
        else:
            print_rows(found.headings, found.rows, found.nothing, found.optional)
        return found.code

    return with_connect_client(connection, show)


def _connectors(worker: ConnectClient, query: GetQuery) -> Listing:
    listed = {
        name: one
        for name, one in _select_connectors(worker, query.name).items()
        if not query.states or query.states & _states(one.status)
    }
    lags = _lags(worker, listed)
    return Listing(
        _CONNECTOR_HEADINGS,
        [_connector_row(name, one, lags.get(name, _NO_LAG)) for name, one in listed.items()],
        lambda: _connector_documents(worker, listed, lags),
        f"No connector{' in this state' if query.states else ''} on {worker.url}.",
        optional=("type", "class", "worker"),
    )


def _lags(
    worker: ConnectClient, listed: Mapping[str, ListedConnector]
) -> dict[str, ConnectorLag | None]:
    """Return the lag of each source connector, None if it is unknown; Java's workers have none."""
    found: dict[str, ConnectorLag | None] = {}
    for name, one in listed.items():
        if not has_lag(one.info):
            continue
        try:
            lag = worker.lag(name)
        except WorkerUnreachableError:
            raise
        except (WorkerError, ConfigError):
            found[name] = None
            continue
        if lag is None:
            break  # another connector's would not be found either
        found[name] = lag
    return found


def _tasks(worker: ConnectClient, query: GetQuery) -> Listing:
    tasks = [
        (name, task, state)
        for name, one in _select_connectors(worker, query.name).items()
        for task, state in (one.status.tasks.items() if one.status is not None else ())
        if not query.states or state.state in query.states
    ]
    return Listing(
        ("connector", "task", "state", "worker", "trace", "warning"),
        [
            (
                name,
                str(task),
                state.state,
                state.worker_id,
                summarize_trace(state.trace, _BRIEF),
                state.warning,
            )
            for name, task, state in tasks
        ],
        lambda: [{"connector": name, **task_document(task, state)} for name, task, state in tasks],
        f"No task{' in this state' if query.states else ''} on {worker.url}.",
    )


def _plugins(worker: ConnectClient, query: GetQuery) -> Listing:
    if query.name is not None:
        keys = worker.plugin_config(query.name)
        return Listing(
            ("key", "type", "default", "importance", "documentation"),
            [
                (
                    one.name,
                    one.type.lower(),
                    "required" if one.required else one.default or "",
                    one.importance.lower(),
                    one.documentation,
                )
                for one in keys
            ],
            lambda: [asdict(one) for one in keys],
            f"'{query.name}' has no keys.",
        )
    plugins = worker.plugins()
    return Listing(
        ("class", "type", "version"),
        [(one.class_name, one.type, one.version) for one in plugins],
        lambda: [
            {"class": one.class_name, "type": one.type, "version": one.version} for one in plugins
        ],
        f"{worker.url} has no connector class.",
    )


def _offsets(worker: ConnectClient, query: GetQuery) -> Listing:
    found: list[tuple[str, ConnectorOffset]] = []

    def fetch(name: str) -> None:
        found.extend((name, one) for one in worker.offsets(name))

    names = worker.connector_names() if query.name is None else [query.name]
    code = for_each(names, fetch)
    return Listing(
        ("connector", "partition", "offset"),
        [(name, _partition_text(one), _offset_text(one)) for name, one in found],
        lambda: [{"connector": name, **asdict(one)} for name, one in found],
        "No offsets are stored.",
        code,
    )


def _loggers(worker: ConnectClient, query: GetQuery) -> Listing:
    name = query.name
    loggers = worker.loggers() if name is None else [worker.logger(name)]
    return Listing(
        ("logger", "level", "changed"),
        [(one.name, one.level, format_time(one.last_modified)) for one in loggers],
        lambda: [asdict(one) for one in loggers],
        f"{worker.url} has no logger.",
    )


_KINDS: Mapping[str, Callable[[ConnectClient, GetQuery], Listing]] = {
    "connectors": _connectors,
    "tasks": _tasks,
    "plugins": _plugins,
    "offsets": _offsets,
    "loggers": _loggers,
}


def _select_connectors(worker: ConnectClient, name: str | None) -> dict[str, ListedConnector]:
    if name is None:
        return worker.list_connectors()
    return {name: ListedConnector(worker.info(name), worker.status(name))}


def _states(status: ConnectorStateInfo | None) -> frozenset[str]:
    return status.states if status is not None else frozenset()


def _connector_row(name: str, one: ListedConnector, lag: ConnectorLag | None) -> Sequence[str]:
    class_name = (one.info.config.get("connector.class") or "").rpartition(".")[2]
    status = one.status
    if status is None:
        state, tasks, worker_id, problem = _NO_STATE, _NO_STATE, _NO_STATE, ""
    else:
        state, worker_id = status.connector.state, status.connector.worker_id
        tasks = format_task_counts([task.state for task in status.tasks.values()])
        parts = (status.connector, *status.tasks.values())
        causes = dict.fromkeys(summarize_trace(one.trace) for one in parts)
        problem = join_sentences((*causes, *status.warnings))
    return (
        *(name, one.info.type, state, tasks, worker_id, class_name),
        *lag_cells(lag),
        problem,
    )


def has_lag(info: ConnectorInfo) -> bool:
    """Whether it is a source connector; a worker of Java does not know its lag."""
    return resolve_class_name(info.config.get("connector.class") or "") is ConnectorClass.SOURCE


def lag_cells(lag: ConnectorLag | None) -> tuple[str, str]:
    """Return the lag, and the p99 of the replication latency; None: the lag is unknown."""
    if lag is _NO_LAG:
        return "-", "-"
    if lag is None:
        return "unknown", "-"
    latency = lag.replication_latency
    return (
        format_lag(lag.lag, lag.known_lag),
        format_latency(None if latency is None else latency.p99),
    )


def lag_document(lag: ConnectorLag | None) -> dict[str, Any]:
    """Return the lag and the latencies under the names of the REST API; None: unknown."""
    if lag is None:
        lag = ConnectorLag()
    latencies = {
        "replicationLatencyMs": lag.replication_latency,
        "copyLatencyMs": lag.copy_latency,
    }
    return {
        "lag": lag.lag,
        "knownLag": lag.known_lag,
        "unknownPartitions": lag.unknown_partitions,
        **{key: None if one is None else asdict(one) for key, one in latencies.items()},
    }


def format_task_counts(states: Sequence[str]) -> str:
    """Format running tasks: `2/2`, or `1/2, 1 FAILED`."""
    others = sorted({state for state in states if state != "RUNNING"})
    counts = [f"{states.count(state)} {state}" for state in others]
    return ", ".join([f"{states.count('RUNNING')}/{len(states)}", *counts])


def _connector_documents(
    worker: ConnectClient,
    listed: Mapping[str, ListedConnector],
    lags: Mapping[str, ConnectorLag | None],
) -> list[dict[str, Any]]:
    known: dict[str, Sequence[ConfigKeyInfo]] = {}
    documents = []
    for name, one in listed.items():
        plugin = one.info.config.get("connector.class") or ""
        if plugin not in known:
            known[plugin] = _definitions(worker, plugin)
        lag = lag_document(lags[name]) if name in lags else {}
        documents.append({**_connector_document(name, one, known[plugin]), **lag})
    return documents


def _definitions(worker: ConnectClient, plugin: str) -> Sequence[ConfigKeyInfo]:
    try:
        return worker.plugin_config(plugin)
    except WorkerUnreachableError:
        raise
    except (WorkerError, ConfigError):
        return ()  # older workers have no such endpoint; secrets are then recognised by name


def _connector_document(
    name: str, one: ListedConnector, definitions: Sequence[ConfigKeyInfo]
) -> dict[str, Any]:
    status = one.status
    return {
        "name": name,
        "type": one.info.type,
        **(state_document(status.connector) if status is not None else {"state": None}),
        "tasks": [task_document(*task) for task in status.tasks.items()] if status else [],
        "config": redact_secrets(one.info.config, definitions),
    }


def task_document(task: int, state: StateInfo) -> dict[str, Any]:
    return {"id": task, **state_document(state)}


def state_document(state: StateInfo) -> dict[str, str]:
    """Return a state without empty fields."""
    fields: dict[str, str] = asdict(state)
    return {key: value for key, value in fields.items() if value or key == "state"}


def _partition_text(one: ConnectorOffset) -> str:
    """Return an MM2 partition as `source orders-3`, any other as JSON."""
    found = one.partition
    if isinstance(found, dict) and found.keys() == {"cluster", "topic", "partition"}:
        return f"{found['cluster']} {found['topic']}-{found['partition']}"
    return _compact(found)


def _offset_text(one: ConnectorOffset) -> str:
    """Return an MM2 offset as a number, any other as JSON."""
    found = one.offset
    if isinstance(found, dict) and found.keys() == {"offset"}:
        return str(found["offset"])
    return _compact(found)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
