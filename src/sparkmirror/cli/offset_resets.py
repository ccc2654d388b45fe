# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror offsets reset|recopy`: copy a topic from another offset, or from the beginning.

Exit codes: 0 done, or stored for a paused connector; 1 refused or failed; 2 wrong usage, nothing
was changed; 3 stored, but not carried out in time, or a worker is unreachable.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import typer
from rich.console import Console
from rich.text import Text

from sparkmirror.cli.connect_options import ConnectOptions, with_connect_client
from sparkmirror.cli.console import print_error, print_rows
from sparkmirror.cli.groups import select_one_flow
from sparkmirror.config.config_changes import flow_groups
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.connectors.offset_reset_plan import (
    ResetWish,
    offset_store,
    pending_reset_json,
    plan_reset,
    planned_reset_json,
    request_resets,
)
from sparkmirror.errors import ArgumentError, SparkmirrorError
from sparkmirror.quantities import counted
from sparkmirror.rest_client.connect_client import ConnectClient
from sparkmirror.runtime.offset_resets import FlowResets, Runner

DONE, FAILED, USAGE_ERROR, PENDING = 0, 1, 2, 3
Row = Mapping[str, Any]

_HEADINGS = ("topic", "continues at", "instead of", "remote topic", "deleted", "twice", "missing")
_POLL_SECONDS = 0.5
_CHECK_SECONDS = 3.0
_REQUEST_SECONDS = 30.0
_IDLE_STATES = ("PAUSED", "STOPPED")


@dataclass(frozen=True, slots=True)
class ResetOptions:
    """How a reset is carried out."""

    dry_run: bool
    yes: bool
    as_json: bool
    timeout: float


class _Mirror(Protocol):
    """Where the request goes: a flow of a file, or a connector of a worker."""

    name: str
    resume: str  # the command that resumes a paused connector

    def plan(self) -> Sequence[Row]: ...
    def request(self) -> Sequence[Row]: ...
    def start(self) -> bool:
        """Have the request carried out; False: the connector is paused or stopped."""

    def pending(self) -> Sequence[Row]: ...


class _FlowOfFile:
    def __init__(self, file: Path, flow: str | None, wish: ResetWish, timeout: float) -> None:
        config = MirrorConfig.load(file)
        config.validate()
        self._settings = select_one_flow(config, flow)
        chosen = self._settings.flow
        groups = flow_groups({one: config.parsed_flow(one).group for one in config.flows()})
        self._resets = FlowResets(self._settings, groups[chosen])
        self._wish = wish
        self._timeout = timeout
        self._check_at = 0.0  # for a process that has ended
        self.name = str(chosen)
        self.resume = f"sparkmirror resume '{chosen}.MirrorSourceConnector' --url {file}"

    def plan(self) -> Sequence[Row]:
        return [planned_reset_json(one) for one in plan_reset(self._settings, self._wish)]

    def request(self) -> Sequence[Row]:
        plan = plan_reset(self._settings, self._wish)
        for one in plan:
            if one.problem:
                raise ArgumentError(f"{self.name}: {one.problem}.")
        request_resets(self._settings, plan)
        return [planned_reset_json(one) for one in plan]

    def start(self) -> bool:
        return self._resets.start(self._timeout) is not Runner.IDLE_PROCESS

    def pending(self) -> Sequence[Row]:
        found = self._resets.pending()
        if any(not one.error for one in found.values()) and time.monotonic() > self._check_at:
            self._check_at = time.monotonic() + _CHECK_SECONDS
            if self._resets.carry_out_unless_running(self._timeout):
                found = self._resets.pending()
        return [pending_reset_json(tp, one) for tp, one in sorted(found.items())]


class _ConnectorOfWorker:
    def __init__(self, client: ConnectClient, name: str, wish: ResetWish) -> None:
        self._client = client
        self._wish = {
            "topic": wish.topic,
            "partitions": list(wish.partitions),
            "to": wish.start,
            "recopy": wish.recopy,
            "deleteRecords": wish.delete_records,
        }
        self.name = name
        self.resume = f"sparkmirror resume '{name}' --url {client.url}"

    def plan(self) -> Sequence[Row]:
        return self._client.reset_offsets(self.name, self._wish | {"dryRun": True})

    def request(self) -> Sequence[Row]:
        return self._client.reset_offsets(self.name, self._wish)

    def start(self) -> bool:
        status = self._client.status(self.name)
        if status is not None and status.connector.state in _IDLE_STATES:
            return False
        self._client.restart(self.name, include_tasks=True, only_failed=False)
        return True

    def pending(self) -> Sequence[Row]:
        return self._client.pending_resets(self.name)


@dataclass(frozen=True, slots=True)
class Place:
    """A flow of a file, or a connector of a worker."""

    file: Path | None
    flow: str | None
    connector: str | None
    url: str
    user: str | None


def reset(place: Place, wish: ResetWish, options: ResetOptions) -> int:
    """Reset or recopy a topic. Returns the exit code."""
    name = place.connector
    if (place.file is None) == (name is None):
        print_error("Name the properties file, or a connector with --connector, not both.")
        return USAGE_ERROR
    if place.file is None:
        connection = ConnectOptions(place.url, place.user, _REQUEST_SECONDS)
        return with_connect_client(
            connection,
            lambda client: _reset(_ConnectorOfWorker(client, name or "", wish), wish, options),
        )
    try:
        mirror = _FlowOfFile(place.file, place.flow, wish, options.timeout)
        return _reset(mirror, wish, options)
    except SparkmirrorError as error:
        print_error(str(error))
        return FAILED


def _reset(mirror: _Mirror, wish: ResetWish, options: ResetOptions) -> int:
    rows = mirror.plan()
    problems = list(dict.fromkeys(row["problem"] for row in rows if row["problem"]))
    if options.dry_run or problems:
        _print(mirror.name, rows, "planned", as_json=options.as_json)
        for problem in problems:
            print_error(f"{mirror.name}: {problem}.")
        return FAILED if problems else DONE
    if not options.yes:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            print_error("Not a terminal: pass --yes to reset without confirmation.")
            return USAGE_ERROR
        _print(mirror.name, rows, "planned", as_json=False)
        if not typer.confirm(_question(rows, wish)):
            typer.echo("Nothing was changed.")
            return FAILED
    rows = mirror.request()
    is_started = mirror.start()
    return _report(mirror, rows, options, is_started=is_started)


def _report(
    mirror: _Mirror, rows: Sequence[Row], options: ResetOptions, *, is_started: bool
) -> int:
    refused, is_done = _await(mirror, rows, options.timeout if is_started else 0.0)
    state = "refused" if refused else "done" if is_done else "pending"
    _print(mirror.name, rows, state, as_json=options.as_json)
    for error in refused:
        print_error(f"{mirror.name}: {error}.")
    if refused:
        return FAILED
    if is_done:
        return DONE
    if not is_started:
        _say(
            f"{mirror.name} is paused or stopped: the reset is stored, and carried out when the "
            f"connector is resumed: {mirror.resume}"
        )
        return DONE
    print_error(
        f"{mirror.name}: the reset is stored, but was not carried out within {options.timeout:g} "
        "s. It is carried out when the source connector starts; see the status of the flow, or "
        "run this command again."
    )
    return PENDING


def _question(rows: Sequence[Row], wish: ResetWish) -> str:
    if wish.delete_records:
        deleted = sum(row["deletedRecords"] for row in rows)
        return f"Delete {counted(deleted, 'record')} on the target and copy the topic again?"
    return "Copy the topic again?" if wish.recopy else "Reset these offsets?"


def _await(mirror: _Mirror, rows: Sequence[Row], timeout: float) -> tuple[list[str], bool]:
    """Wait until the requests are carried out or refused; return the reasons, and if all are."""
    wanted = {(row["topic"], row["partition"]) for row in rows}
    deadline = time.monotonic() + timeout
    while True:
        mine = [one for one in mirror.pending() if (one["topic"], one["partition"]) in wanted]
        if all(one["error"] for one in mine):
            return list(dict.fromkeys(one["error"] for one in mine)), not mine
        if time.monotonic() > deadline:
            return [], False
        time.sleep(_POLL_SECONDS)


def _print(name: str, rows: Sequence[Row], state: str, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"flow": name, "state": state, "partitions": list(rows)}, indent=2))
        return
    cells = [[Text(cell) for cell in _cells(row)] for row in rows]
    print_rows(Console(), _HEADINGS, cells, "Nothing to reset.")
    effects = (
        ("deletedRecords", "deleted on the target"),
        ("recordsTwice", "on the target twice"),
        ("recordsMissing", "not copied"),
    )
    sums = [(sum(row[key] for row in rows), text) for key, text in effects]
    listed = ", ".join(f"up to {counted(n, 'record')} {text}" for n, text in sums if n)
    _say(f"{name}: {state}: {listed or 'no record twice, none missing'}.")


def _say(sentence: str) -> None:
    typer.echo(sentence, err=not sys.stdout.isatty())


def _cells(row: Row) -> tuple[str, ...]:
    position = row["position"]
    return (
        f"{row['topic']}-{row['partition']}",
        str(row["nextOffset"]),
        "-" if position is None else str(position),
        row["targetTopic"],
        str(row["deletedRecords"]),
        str(row["recordsTwice"]),
        str(row["recordsMissing"]),
    )


def cancel_resets(file: Path, flow: str | None, topic: str) -> int:
    """Delete the requests for a topic that are not carried out yet. Returns the exit code."""
    try:
        settings = select_one_flow(MirrorConfig.load(file), flow)
        store = offset_store(settings)
        mine = [tp for tp in store.read().resets if tp.topic == topic]
        if mine:
            store.write_resets(dict.fromkeys(mine))
    except SparkmirrorError as error:
        print_error(str(error))
        return FAILED
    typer.echo(f"{settings.flow}: {counted(len(mine), 'reset')} of '{topic}' cancelled.")
    return DONE
