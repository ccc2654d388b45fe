# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror deploy|undeploy|redeploy -f`: connectors from JSON files on a Connect worker."""

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
    """Create and update connectors, or validate them (`dry_run`). Returns the exit code."""

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
    """Delete connectors. Returns the exit code."""

    def do(worker: ConnectClient) -> int:
        files = load_connector_files(paths)
        with _report(as_json=as_json) as results, _progress() as on_progress:
            results.extend(deployer.undeploy(worker, files, on_progress))
        return _code(results)

    return with_connect_client(connection, do)


def redeploy(
    connection: ConnectOptions, paths: Sequence[Path], *, wait: str | None, as_json: bool
) -> int:
    """Delete and create connectors, if the worker accepts all of them. Returns the exit code."""

    def do(worker: ConnectClient) -> int:
        seconds = None if wait is None else parse_duration(wait)
        files = load_connector_files(paths)
        rejected = [one for one in deployer.validate(worker, files) if one.error]
        if rejected:
            with _report(as_json=as_json) as results:
                results.extend(rejected)
            print_error("Nothing was deleted.")
            return FAILED
        with _progress() as on_progress:
            not_deleted = [
                one for one in deployer.undeploy(worker, files, on_progress) if one.error
            ]
        if not_deleted:
            with _report(as_json=as_json) as results:
                results.extend(not_deleted)
            print_error("Nothing was created. Resolve the errors, then deploy the files.")
            return FAILED
        return _deploy(worker, files, seconds, as_json=as_json)

    return with_connect_client(connection, do)


def _deploy(
    worker: ConnectClient, files: Sequence[ConnectorFile], seconds: float | None, *, as_json: bool
) -> int:
    with _report(as_json=as_json) as results:
        results.extend(deployer.deploy(worker, files))
        if seconds is not None:
            with _progress() as on_progress:
                results[:] = deployer.wait_for_states(worker, results, seconds, on_progress)
    return _code(results)


def _code(results: Iterable[DeployResult]) -> int:
    return FAILED if any(one.error for one in results) else OK


@contextmanager
def _report(*, as_json: bool) -> Iterator[list[DeployResult]]:
    """Print the results at the end, also if the worker became unreachable."""
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
        "error": one.error,
    }
    return {key: value for key, value in fields.items() if value}


@contextmanager
def _progress() -> Iterator[ProgressCallback]:
    """Show progress on a terminal; nothing elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _no_progress
        return
    with console.status("") as status:
        yield lambda sentence: status.update(escape(single_line(sentence)))


def _no_progress(_sentence: str) -> None:
    pass
