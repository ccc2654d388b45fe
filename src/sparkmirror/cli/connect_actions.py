# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror pause|resume|stop|restart|delete`: connectors of a Connect worker, by name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import typer

from sparkmirror.cli.connect_print import on_one_line, print_json, print_rows
from sparkmirror.cli.connect_session import FAILED, WRONG_USE, Connection, each, with_worker
from sparkmirror.cli.quiet import complain
from sparkmirror.errors import WorkerError
from sparkmirror.rest_client.worker import NOT_FOUND, Worker


def act(
    connection: Connection,
    names: Sequence[str],
    *,
    everything: bool,
    as_json: bool,
    verb: str,
    call: Callable[[Worker, str], None],
) -> int:
    """Ask the worker to do something with each connector; the exit code."""
    if everything and names:
        complain(f"Say either which connectors to {verb}, or --all.")
        return WRONG_USE
    if not everything and not names:
        complain(f"Say which connectors to {verb}, or --all.")
        return WRONG_USE

    def do(worker: Worker) -> int:
        done: list[str] = []

        def one(name: str) -> None:
            call(worker, name)
            done.append(name)

        wanted = worker.names() if everything else list(dict.fromkeys(names))
        try:
            return each(wanted, one)
        finally:  # also what was done before the worker went away
            _report(done, f"asked to {verb}", as_json=as_json)

    return with_worker(connection, do)


def delete(connection: Connection, names: Sequence[str], *, yes: bool, as_json: bool) -> int:
    """Take connectors away, once that is confirmed; the exit code."""
    if not names:
        complain("Say which connectors to delete.")
        return WRONG_USE
    unique = list(dict.fromkeys(names))
    if not yes and not _can_ask():
        complain("Nobody can be asked here whether to delete: say --yes.")
        return WRONG_USE

    def do(worker: Worker) -> int:
        listed = ", ".join(map(on_one_line, unique))
        if not yes and not typer.confirm(f"Delete {listed} on {worker.url}?"):
            typer.echo("Nothing was done.")
            return FAILED
        done: list[str] = []

        def one(name: str) -> None:
            if not worker.delete(name):
                message = f"connector '{name}' is not known to {worker.url}: see `get connectors`"
                raise WorkerError(message, url=worker.url, status=NOT_FOUND)
            done.append(name)

        try:
            return each(unique, one)
        finally:
            _report(done, "deleted", as_json=as_json)

    return with_worker(connection, do)


def _can_ask() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _report(names: Sequence[str], words: str, *, as_json: bool) -> None:
    if as_json:
        print_json([{"name": name, "result": words} for name in names])
    elif names:
        print_rows(("connector", "result"), [(name, words) for name in names], "")
