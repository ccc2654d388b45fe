# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror describe NAME`: everything that a Connect worker knows about one connector.

Parts that the worker cannot return (topic tracking disabled, source unreachable) are listed with
the reason; the rest is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from sparkmirror.cli.connect_get import has_lag, lag_document, state_document, task_document
from sparkmirror.cli.connect_options import OK, ConnectOptions, with_connect_client
from sparkmirror.cli.connect_output import (
    escape_control_characters,
    print_json,
    single_line,
    summarize_trace,
)
from sparkmirror.errors import ConfigError, WorkerError, WorkerUnreachableError
from sparkmirror.quantities import format_lag, format_percentiles
from sparkmirror.rest_client.connect_client import ConnectClient
from sparkmirror.rest_client.responses import (
    ConnectorInfo,
    ConnectorLag,
    ConnectorStateInfo,
    LatencyPercentiles,
    StateInfo,
    redact_secrets,
)

T = TypeVar("T")
_NARROW = 20  # columns of a value at least


@dataclass(frozen=True, slots=True)
class ConnectorDescription:
    """A connector; `unknown` has the reason for each part that could not be read."""

    info: ConnectorInfo
    config: dict[str, str | None]
    status: ConnectorStateInfo | None
    lag: ConnectorLag | None  # None: unknown, or it copies nothing
    offsets: int | None
    topics: list[str] | None
    unknown: dict[str, str]


def describe(connection: ConnectOptions, name: str, *, full_traces: bool, as_json: bool) -> int:
    """Fetch and print. Returns the exit code."""

    def show(worker: ConnectClient) -> int:
        description = fetch_description(worker, name)
        if as_json:
            print_json(to_json(description))
        else:
            _print(description, full_traces=full_traces)
        return OK

    return with_connect_client(connection, show)


def fetch_description(worker: ConnectClient, name: str) -> ConnectorDescription:
    """Fetch everything about one connector. Raises WorkerError if it does not exist."""
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
        unknown.setdefault("state", "no worker has started it yet")
    lag = attempt("lag", lambda: worker.lag(name)) if has_lag(info) else None
    offsets = attempt("offsets", lambda: worker.offsets(name))
    topics = attempt("topics", lambda: worker.topics(name))
    plugin = info.config.get("connector.class") or ""
    definitions = attempt("types of the keys", lambda: worker.plugin_config(plugin)) or ()
    return ConnectorDescription(
        info,
        dict(sorted(redact_secrets(info.config, definitions).items())),
        status,
        lag,
        None if offsets is None else len(offsets),
        topics,
        unknown,
    )


def to_json(description: ConnectorDescription) -> dict[str, Any]:
    """Format for programs; traces are complete."""
    status = description.status
    return {
        "name": description.info.name,
        "type": description.info.type,
        **(state_document(status.connector) if status is not None else {"state": None}),
        "tasks": [task_document(*task) for task in status.tasks.items()] if status else [],
        **({} if description.lag is None else lag_document(description.lag)),
        "offsets": description.offsets,
        "topics": description.topics,
        "config": description.config,
        "unknown": description.unknown,
    }


def description_lines(
    description: ConnectorDescription, *, full_traces: bool
) -> Iterator[tuple[str, str]]:
    """Yield heading and text of each line."""
    yield "name", description.info.name
    yield "type", description.info.type
    if description.status is not None:
        yield from _state_lines("", description.status.connector, full_traces=full_traces)
        for task, state in description.status.tasks.items():
            yield from _state_lines(f"task {task} ", state, full_traces=full_traces)
        if not description.status.tasks:
            yield "tasks", "none"
    if description.lag is not None:
        lag = description.lag
        yield "lag", format_lag(lag.lag, lag.known_lag)
        yield "replication latency", _percentiles(lag.replication_latency)
        yield "copy latency", _percentiles(lag.copy_latency)
    if description.offsets is not None:
        yield "offsets", f"{description.offsets:,}"
    if description.topics is not None:
        yield "topics", ", ".join(description.topics) or "none"
    for key, value in description.config.items():
        yield f"config {key}", "null" if value is None else value
    for part, reason in description.unknown.items():
        yield f"unknown {part}", reason


def _percentiles(found: LatencyPercentiles | None) -> str:
    return "-" if found is None else format_percentiles(found.p50, found.p99)


def _state_lines(prefix: str, state: StateInfo, *, full_traces: bool) -> Iterator[tuple[str, str]]:
    yield f"{prefix}state", state.state
    yield f"{prefix}worker", state.worker_id
    if state.version and not prefix:
        yield "version", state.version
    if state.warning:
        yield f"{prefix}warning", state.warning
    if state.trace:
        yield f"{prefix}trace", state.trace if full_traces else summarize_trace(state.trace)


def _print(description: ConnectorDescription, *, full_traces: bool) -> None:
    console = Console()
    shown = list(description_lines(description, full_traces=full_traces))
    if not console.is_terminal:
        for heading, text in shown:
            of_trace = full_traces and heading.endswith("trace")
            for line in text.splitlines() if of_trace else [text]:
                shown_text = escape_control_characters(line) if of_trace else single_line(line)
                typer.echo(f"{single_line(heading)}\t{shown_text}")
        return
    width = max(len(single_line(heading)) for heading, _ in shown)
    for heading, text in shown:
        style = "bold red" if text == "FAILED" else ""
        name = single_line(heading)
        for line in escape_control_characters(text).splitlines() or [""]:
            for piece in Text(line, style).wrap(console, max(console.width - width - 2, _NARROW)):
                piece.rstrip()
                whole = Text.assemble((f"{name.ljust(width)}  ", "dim"), piece)
                console.print(whole, soft_wrap=True)
                name = ""
    if not full_traces and any(heading.endswith("trace") for heading, _ in shown):
        console.print("Whole traces: --trace", style="dim", highlight=False)
