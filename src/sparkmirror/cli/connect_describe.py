# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror describe NAME`: all that a Connect worker knows about one connector.

Parts that a worker cannot tell (no topics are tracked, the source is out of reach) are named with
the reason, and the rest is shown all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from sparkmirror.cli.connect_get import state_document, task_document
from sparkmirror.cli.connect_options import OK, ConnectOptions, with_connect_client
from sparkmirror.cli.connect_output import (
    escape_control_characters,
    print_json,
    single_line,
    summarize_trace,
)
from sparkmirror.errors import ConfigError, WorkerError, WorkerUnreachableError
from sparkmirror.rest_client.connect_client import ConnectClient
from sparkmirror.rest_client.responses import (
    ConnectorInfo,
    ConnectorStateInfo,
    StateInfo,
    redact_secrets,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ConnectorDescription:
    """A connector; what is not known is a sentence in `unknown`."""

    info: ConnectorInfo
    config: dict[str, str | None]
    status: ConnectorStateInfo | None
    offsets: int | None
    topics: list[str] | None
    unknown: dict[str, str]


def describe(connection: ConnectOptions, name: str, *, full_traces: bool, as_json: bool) -> int:
    """Ask and print; the exit code."""

    def ask(worker: ConnectClient) -> int:
        portrait = fetch_description(worker, name)
        if as_json:
            print_json(to_json(portrait))
        else:
            _print(portrait, full_traces=full_traces)
        return OK

    return with_connect_client(connection, ask)


def fetch_description(worker: ConnectClient, name: str) -> ConnectorDescription:
    """Everything about one connector; WorkerError if there is none."""
    unknown: dict[str, str] = {}

    def attempt(part: str, call: Callable[[], T]) -> T | None:
        try:
            return call()
        except WorkerUnreachableError:
            raise
        except (WorkerError, ConfigError) as error:
            unknown[part] = str(error)
            return None

    info = worker.info(name)
    status = attempt("state", lambda: worker.status(name))
    if status is None:
        unknown.setdefault("state", "no worker has taken it up yet")
    offsets = attempt("offsets", lambda: worker.offsets(name))
    topics = attempt("topics", lambda: worker.topics(name))
    plugin = info.config.get("connector.class") or ""
    definitions = attempt("types of the keys", lambda: worker.plugin_config(plugin)) or ()
    return ConnectorDescription(
        info,
        dict(sorted(redact_secrets(info.config, definitions).items())),
        status,
        None if offsets is None else len(offsets),
        topics,
        unknown,
    )


def to_json(portrait: ConnectorDescription) -> dict[str, Any]:
    """For programs: traces are whole."""
    status = portrait.status
    return {
        "name": portrait.info.name,
        "type": portrait.info.type,
        **(state_document(status.connector) if status is not None else {"state": None}),
        "tasks": [task_document(*task) for task in status.tasks.items()] if status else [],
        "offsets": portrait.offsets,
        "topics": portrait.topics,
        "config": portrait.config,
        "unknown": portrait.unknown,
    }


def description_lines(
    portrait: ConnectorDescription, *, full_traces: bool
) -> Iterator[tuple[str, str]]:
    """What is known, line by line: a heading and its text."""
    yield "name", portrait.info.name
    yield "type", portrait.info.type
    if portrait.status is not None:
        yield from _state_lines("", portrait.status.connector, full_traces=full_traces)
        for task, state in portrait.status.tasks.items():
            yield from _state_lines(f"task {task} ", state, full_traces=full_traces)
        if not portrait.status.tasks:
            yield "tasks", "none"
    if portrait.offsets is not None:
        yield "offsets", f"{portrait.offsets:,}"
    if portrait.topics is not None:
        yield "topics", ", ".join(portrait.topics) or "none"
    for key, value in portrait.config.items():
        yield f"config {key}", "null" if value is None else value
    for part, reason in portrait.unknown.items():
        yield f"unknown {part}", reason


def _state_lines(prefix: str, state: StateInfo, *, full_traces: bool) -> Iterator[tuple[str, str]]:
    yield f"{prefix}state", state.state
    yield f"{prefix}worker", state.worker_id
    if state.version and not prefix:
        yield "version", state.version
    if state.warning:
        yield f"{prefix}warning", state.warning
    if state.trace:
        yield f"{prefix}trace", state.trace if full_traces else summarize_trace(state.trace)


def _print(portrait: ConnectorDescription, *, full_traces: bool) -> None:
    console = Console()
    shown = list(description_lines(portrait, full_traces=full_traces))
    if not console.is_terminal:
        for heading, text in shown:
            of_trace = full_traces and heading.endswith("trace")
            for line in text.splitlines() if of_trace else [text]:
                shown_text = escape_control_characters(line) if of_trace else single_line(line)
                typer.echo(f"{single_line(heading)}\t{shown_text}")
        return
    width = max(len(single_line(heading)) for heading, _ in shown)
    for heading, text in shown:
        first, *more = escape_control_characters(text).splitlines() or [""]
        style = "bold red" if text == "FAILED" else ""
        name = single_line(heading).ljust(width)
        whole = Text.assemble((f"{name}  ", "dim"), (first, style))
        console.print(whole, soft_wrap=True)
        for line in more:
            console.print(Text(f"{' ' * width}  {line}"), soft_wrap=True)
    if not full_traces and any(heading.endswith("trace") for heading, _ in shown):
        console.print("Whole traces: --trace", style="dim", highlight=False)
