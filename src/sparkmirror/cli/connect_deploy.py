# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror deploy|undeploy|redeploy -f`: the connectors of JSON files on a Connect worker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from sparkmirror.cli.connect_options import (
    FAILED,
    OK,
    ConnectOptions,
    parse_duration,
    with_connect_client,
)
from sparkmirror.cli.connect_output import (
    escape_control_characters,
    print_json,
    print_rows,
    single_line,
)
from sparkmirror.cli.console import print_error
from sparkmirror.rest_client import deployer
from sparkmirror.rest_client.connect_client import ConnectClient
from sparkmirror.rest_client.connector_files import ConnectorFile, load_connector_files
from sparkmirror.rest_client.deployer import DeployResult, ProgressCallback


def deploy(
    connection: ConnectOptions,
    paths: Sequence[Path],
    *,
    wait: str | None,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Create and change what the files say, or only say what would be done; the exit code."""

    def do(worker: ConnectClient) -> int:
        seconds = None if wait is None else parse_duration(wait)
        files = load_connector_files(paths)
        if not dry_run:
            return _deploy(worker, files, seconds, as_json=as_json)
        with _report(as_json=as_json) as results:
            results.extend(deployer.validate(worker, files))
        return _code(results)

    return with_connect_client(connection, do)


def undeploy(connection: ConnectOptions, paths: Sequence[Path], *, as_json: bool) -> int:
    """Delete what the files name; the exit code."""

    def do(worker: ConnectClient) -> int:
        files = load_connector_files(paths)
        with _report(as_json=as_json) as results, _progress() as say:
            results.extend(deployer.undeploy(worker, files, say))
        return _code(results)

    return with_connect_client(connection, do)


def redeploy(
    connection: ConnectOptions, paths: Sequence[Path], *, wait: str | None, as_json: bool
) -> int:
    """Delete what the files name and create it anew, if the worker takes all of it."""

    def do(worker: ConnectClient) -> int:
        seconds = None if wait is None else parse_duration(wait)
        files = load_connector_files(paths)
        refused = [one for one in deployer.validate(worker, files) if one.error]
        if refused:
            with _report(as_json=as_json) as results:
                results.extend(refused)
            print_error("Nothing was deleted.")
            return FAILED
        with _progress() as say:
            kept = [one for one in deployer.undeploy(worker, files, say) if one.error]
        if kept:
            with _report(as_json=as_json) as results:
                results.extend(kept)
            print_error("Nothing was created anew: deploy what is missing once the cause is gone.")
            return FAILED
        return _deploy(worker, files, seconds, as_json=as_json)

    return with_connect_client(connection, do)


def _deploy(
    worker: ConnectClient, files: Sequence[ConnectorFile], seconds: float | None, *, as_json: bool
) -> int:
    with _report(as_json=as_json) as results:
        results.extend(deployer.deploy(worker, files))
        if seconds is not None:
            with _progress() as say:
                results[:] = deployer.wait_for_states(worker, results, seconds, say)
    return _code(results)


def _code(results: Iterable[DeployResult]) -> int:
    return FAILED if any(one.error for one in results) else OK


@contextmanager
def _report(*, as_json: bool) -> Iterator[list[DeployResult]]:
    """Prints the results at the end, also those from before the worker went away."""
    results: list[DeployResult] = []
    try:
        yield results
    finally:
        if as_json:
            print_json([_document(one) for one in results])
        elif results:
            rows = [_row(one) for one in results]
            print_rows(("connector", "result", "state", "remark", "file"), rows, "")
        for one in results:
            if one.error:
                print_error(escape_control_characters(one.error))


def _row(one: DeployResult) -> Sequence[str]:
    return (one.file.name, one.result, one.state or "-", one.remark or "-", one.file.path)


def _document(one: DeployResult) -> dict[str, str]:
    fields = {
        "name": one.file.name,
        "file": one.file.path,
        "result": one.result,
        "state": one.state,
        "remark": one.remark,
        "trouble": one.error,
    }
    return {key: value for key, value in fields.items() if value}


@contextmanager
def _progress() -> Iterator[ProgressCallback]:
    """A line that moves for somebody at a terminal; silence elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _no_progress
        return
    with console.status("") as status:
        yield lambda sentence: status.update(escape(single_line(sentence)))


def _no_progress(_sentence: str) -> None:
    pass
