# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror pause|resume|stop|restart|delete`: connectors of a Connect worker, by name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import typer

from sparkmirror.cli.connect_options import (
    FAILED,
    USAGE_ERROR,
    ConnectOptions,
    for_each,
    with_connect_client,
)
from sparkmirror.cli.connect_output import print_json, print_rows, single_line
from sparkmirror.cli.console import print_error
from sparkmirror.errors import WorkerError
from sparkmirror.rest_client.connect_client import NOT_FOUND, ConnectClient


def run_action(
    connection: ConnectOptions,
    names: Sequence[str],
    *,
    everything: bool,
    as_json: bool,
    verb: str,
    call: Callable[[ConnectClient, str], None],
) -> int:
    """Send a request for each connector. Returns the exit code."""
    if everything and names:
        print_error(f"Name the connectors to {verb}, or use --all, not both.")
        return USAGE_ERROR
    if not everything and not names:
        print_error(f"Name the connectors to {verb}, or use --all.")
        return USAGE_ERROR

    def do(worker: ConnectClient) -> int:
        done: list[str] = []

        def one(name: str) -> None:
            call(worker, name)
            done.append(name)

        selected = worker.connector_names() if everything else list(dict.fromkeys(names))
        try:
            return for_each(selected, one)
        finally:  # also report what succeeded before the worker became unreachable
            _report(done, f"{verb} requested", as_json=as_json)

    return with_connect_client(connection, do)


def delete(connection: ConnectOptions, names: Sequence[str], *, yes: bool, as_json: bool) -> int:
    """Delete connectors after confirmation. Returns the exit code."""
    if not names:
        print_error("Name the connectors to delete.")
        return USAGE_ERROR
    unique = list(dict.fromkeys(names))
    if not yes and not _is_interactive():
        print_error("Not a terminal: pass --yes to delete without confirmation.")
        return USAGE_ERROR

    def do(worker: ConnectClient) -> int:
        listed = ", ".join(map(single_line, unique))
        if not yes and not typer.confirm(f"Delete {listed} on {worker.url}?"):
            typer.echo("Nothing was deleted.")
            return FAILED
        done: list[str] = []

        def one(name: str) -> None:
            if not worker.delete(name):
                message = f"connector '{name}' is not known to {worker.url}: see `get connectors`"
                raise WorkerError(message, url=worker.url, status=NOT_FOUND)
            done.append(name)

        try:
            return for_each(unique, one)
        finally:
            _report(done, "deleted", as_json=as_json)

    return with_connect_client(connection, do)


def _is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _report(names: Sequence[str], result: str, *, as_json: bool) -> None:
    if as_json:
        print_json([{"name": name, "result": result} for name in names])
    elif names:
        print_rows(("connector", "result"), [(name, result) for name in names], "")
