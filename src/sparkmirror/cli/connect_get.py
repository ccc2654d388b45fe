# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror get`: the connectors, tasks, plugins, offsets and loggers of a Connect worker."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from sparkmirror.cli.connect_print import print_json, print_rows, shortened
from sparkmirror.cli.connect_session import OK, WRONG_USE, Connection, each, with_worker
from sparkmirror.cli.quiet import complain
from sparkmirror.errors import ConfigError, WorkerError, WorkerUnreachableError
from sparkmirror.rest_client.answers import (
    ConnectorStateInfo,
    KeyDefinition,
    Listed,
    SourceOffset,
    StateInfo,
)
from sparkmirror.rest_client.concealment import conceal
from sparkmirror.rest_client.worker import Worker

_NO_STATE = "-"
_BRIEF = 80


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked about things of one kind."""

    name: str | None
    states: frozenset[str]
    as_json: bool


@dataclass(frozen=True, slots=True)
class Found:
    """The same thing for a program and for people."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    document: Callable[[], object]
    nothing: str
    code: int = OK


def get(connection: Connection, kind: str, question: Question) -> int:
    """Ask and print; the exit code."""
    if question.states and kind not in {"connectors", "tasks"}:
        complain(f"--state is for connectors and tasks: {kind} have none.")
        return WRONG_USE

    def ask(worker: Worker) -> int:
        found = _KINDS[kind](worker, question)
        if question.as_json:
            print_json(found.document())
        else:
            print_rows(found.headings, found.rows, found.nothing)
        return found.code

    return with_worker(connection, ask)


def _connectors(worker: Worker, question: Question) -> Found:
    listed = {
        name: one
        for name, one in _chosen(worker, question.name).items()
        if not question.states or question.states & _states(one.status)
    }
    return Found(
        ("connector", "type", "state", "tasks", "worker", "class"),
        [_connector_row(name, one) for name, one in listed.items()],
        lambda: _connector_documents(worker, listed),
        f"No connector{' in such a state' if question.states else ''} on {worker.url}.",
    )


def _tasks(worker: Worker, question: Question) -> Found:
    tasks = [
        (name, task, state)
        for name, one in _chosen(worker, question.name).items()
        for task, state in (one.status.tasks.items() if one.status is not None else ())
        if not question.states or state.state in question.states
    ]
    return Found(
        ("connector", "task", "state", "worker", "trace"),
        [
            (name, str(task), state.state, state.worker_id, shortened(state.trace, _BRIEF))
            for name, task, state in tasks
        ],
        lambda: [{"connector": name, **task_document(task, state)} for name, task, state in tasks],
        f"No task{' in such a state' if question.states else ''} on {worker.url}.",
    )


def _plugins(worker: Worker, question: Question) -> Found:
    if question.name is not None:
        keys = worker.definitions(question.name)
        return Found(
            ("key", "type", "default", "importance", "what it is"),
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
            f"'{question.name}' has no keys.",
        )
    plugins = worker.plugins()
    return Found(
        ("class", "type", "version"),
        [(one.class_name, one.type, one.version) for one in plugins],
        lambda: [
            {"class": one.class_name, "type": one.type, "version": one.version} for one in plugins
        ],
        f"{worker.url} has no connector class.",
    )


def _offsets(worker: Worker, question: Question) -> Found:
    found: list[tuple[str, SourceOffset]] = []

    def look(name: str) -> None:
        found.extend((name, one) for one in worker.offsets(name))

    names = worker.names() if question.name is None else [question.name]
    code = each(names, look)
    return Found(
        ("connector", "partition", "offset"),
        [(name, _compact(one.partition), _compact(one.offset)) for name, one in found],
        lambda: [{"connector": name, **asdict(one)} for name, one in found],
        "No offset is stored.",
        code,
    )


def _loggers(worker: Worker, question: Question) -> Found:
    name = question.name
    loggers = worker.loggers() if name is None else [worker.logger(name)]
    return Found(
        ("logger", "level", "changed"),
        [(one.name, one.level, _moment(one.last_modified)) for one in loggers],
        lambda: [asdict(one) for one in loggers],
        f"{worker.url} has no logger.",
    )


_KINDS: Mapping[str, Callable[[Worker, Question], Found]] = {
    "connectors": _connectors,
    "tasks": _tasks,
    "plugins": _plugins,
    "offsets": _offsets,
    "loggers": _loggers,
}


def _chosen(worker: Worker, name: str | None) -> dict[str, Listed]:
    if name is None:
        return worker.listed()
    return {name: Listed(worker.info(name), worker.status(name))}


def _states(status: ConnectorStateInfo | None) -> frozenset[str]:
    return status.states if status is not None else frozenset()


def _connector_row(name: str, one: Listed) -> Sequence[str]:
    class_name = (one.info.config.get("connector.class") or "").rpartition(".")[2]
    if one.status is None:
        return (name, one.info.type, _NO_STATE, _NO_STATE, _NO_STATE, class_name)
    tasks = [task.state for task in one.status.tasks.values()]
    return (
        name,
        one.info.type,
        one.status.connector.state,
        task_words(tasks),
        one.status.connector.worker_id,
        class_name,
    )


def task_words(states: Sequence[str]) -> str:
    """How many tasks run: `2/2`, or `1/2, 1 FAILED`."""
    others = sorted({state for state in states if state != "RUNNING"})
    counts = [f"{states.count(state)} {state}" for state in others]
    return ", ".join([f"{states.count('RUNNING')}/{len(states)}", *counts])


def _connector_documents(worker: Worker, listed: Mapping[str, Listed]) -> list[dict[str, Any]]:
    known: dict[str, Sequence[KeyDefinition]] = {}
    documents = []
    for name, one in listed.items():
        plugin = one.info.config.get("connector.class") or ""
        if plugin not in known:
            known[plugin] = _definitions(worker, plugin)
        documents.append(_connector_document(name, one, known[plugin]))
    return documents


def _definitions(worker: Worker, plugin: str) -> Sequence[KeyDefinition]:
    try:
        return worker.definitions(plugin)
    except WorkerUnreachableError:
        raise
    except (WorkerError, ConfigError):
        return ()  # older workers do not tell; what sounds like a secret is hidden all the same


def _connector_document(
    name: str, one: Listed, definitions: Sequence[KeyDefinition]
) -> dict[str, Any]:
    status = one.status
    return {
        "name": name,
        "type": one.info.type,
        **(state_document(status.connector) if status is not None else {"state": None}),
        "tasks": [task_document(*task) for task in status.tasks.items()] if status else [],
        "config": conceal(one.info.config, definitions),
    }


def task_document(task: int, state: StateInfo) -> dict[str, Any]:
    """A task for a program."""
    return {"id": task, **state_document(state)}


def state_document(state: StateInfo) -> dict[str, str]:
    """A state for a program, without fields that say nothing."""
    fields: dict[str, str] = asdict(state)
    return {key: value for key, value in fields.items() if value or key == "state"}


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _moment(milliseconds: int | None) -> str:
    if milliseconds is None:
        return _NO_STATE
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)
