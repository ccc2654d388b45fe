# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror deploy|undeploy|redeploy -f`: the connectors of JSON files on a Connect worker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from sparkmirror.cli.connect_print import on_one_line, print_json, print_rows, printable
from sparkmirror.cli.connect_session import FAILED, OK, Connection, parse_duration, with_worker
from sparkmirror.cli.quiet import complain
from sparkmirror.rest_client import deployer
from sparkmirror.rest_client.connector_files import ConnectorFile, read_files
from sparkmirror.rest_client.deployer import Result, Say
from sparkmirror.rest_client.worker import Worker


def deploy(
    connection: Connection, paths: Sequence[Path], *, wait: str | None, dry_run: bool, as_json: bool
) -> int:
    """Create and change what the files say, or only say what would be done; the exit code."""

    def do(worker: Worker) -> int:
        seconds = None if wait is None else parse_duration(wait)
        files = read_files(paths)
        if not dry_run:
            return _deploy(worker, files, seconds, as_json=as_json)
        with _report(as_json=as_json) as results:
            results.extend(deployer.validate(worker, files))
        return _code(results)

    return with_worker(connection, do)


def undeploy(connection: Connection, paths: Sequence[Path], *, as_json: bool) -> int:
    """Delete what the files name; the exit code."""

    def do(worker: Worker) -> int:
        files = read_files(paths)
        with _report(as_json=as_json) as results, _progress() as say:
            results.extend(deployer.undeploy(worker, files, say))
        return _code(results)

    return with_worker(connection, do)


def redeploy(
    connection: Connection, paths: Sequence[Path], *, wait: str | None, as_json: bool
) -> int:
    """Delete what the files name and create it anew, if the worker takes all of it."""

    def do(worker: Worker) -> int:
        seconds = None if wait is None else parse_duration(wait)
        files = read_files(paths)
        refused = [one for one in deployer.validate(worker, files) if one.trouble]
        if refused:
            with _report(as_json=as_json) as results:
                results.extend(refused)
            complain("Nothing was deleted.")
            return FAILED
        with _progress() as say:
            kept = [one for one in deployer.undeploy(worker, files, say) if one.trouble]
        if kept:
            with _report(as_json=as_json) as results:
                results.extend(kept)
            complain("Nothing was created anew: deploy what is missing once the cause is gone.")
            return FAILED
        return _deploy(worker, files, seconds, as_json=as_json)

    return with_worker(connection, do)


def _deploy(
    worker: Worker, files: Sequence[ConnectorFile], seconds: float | None, *, as_json: bool
) -> int:
    with _report(as_json=as_json) as results:
        results.extend(deployer.deploy(worker, files))
        if seconds is not None:
            with _progress() as say:
                results[:] = deployer.await_states(worker, results, seconds, say)
    return _code(results)


def _code(results: Iterable[Result]) -> int:
    return FAILED if any(one.trouble for one in results) else OK


@contextmanager
def _report(*, as_json: bool) -> Iterator[list[Result]]:
    """Prints the results at the end, also those from before the worker went away."""
    results: list[Result] = []
    try:
        yield results
    finally:
        if as_json:
            print_json([_document(one) for one in results])
        elif results:
            rows = [_row(one) for one in results]
            print_rows(("connector", "result", "state", "remark", "file"), rows, "")
        for one in results:
            if one.trouble:
                complain(printable(one.trouble))


def _row(one: Result) -> Sequence[str]:
    return (one.file.name, one.result, one.state or "-", one.remark or "-", one.file.path)


def _document(one: Result) -> dict[str, str]:
    fields = {
        "name": one.file.name,
        "file": one.file.path,
        "result": one.result,
        "state": one.state,
        "remark": one.remark,
        "trouble": one.trouble,
    }
    return {key: value for key, value in fields.items() if value}


@contextmanager
def _progress() -> Iterator[Say]:
    """A line that moves for somebody at a terminal; silence elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _say_nothing
        return
    with console.status("") as status:
        yield lambda sentence: status.update(escape(on_one_line(sentence)))


def _say_nothing(_sentence: str) -> None:
    pass
