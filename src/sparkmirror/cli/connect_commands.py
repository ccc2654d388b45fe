# SPDX-License-Identifier: Apache-2.0
"""The commands for Connect workers. Their implementations are imported on use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparkmirror.formats.connect_status_records import RunState
from sparkmirror.system.served_urls import DEFAULT_URL

if TYPE_CHECKING:
    from sparkmirror.cli.connect_options import ConnectOptions
    from sparkmirror.rest_client.connect_client import ConnectClient

_PANEL = "Connect workers (sparkmirror's and Java's)"

Url = Annotated[
    str,
    typer.Option(
        "--url",
        metavar="URL|FILE",
        envvar="SPARKMIRROR_URL",
        help="URL of the worker, or the properties file of a run or worker on this machine.",
    ),
]
User = Annotated[
    str | None,
    typer.Option(
        "--user",
        envvar="SPARKMIRROR_USER",
        help="User name for basic authentication; the password is in SPARKMIRROR_PASSWORD.",
    ),
]
Timeout = Annotated[
    float,
    typer.Option("--timeout", metavar="SECONDS", min=0.1, help="Seconds to wait for a response."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Name = Annotated[str, typer.Argument(help="Name of a connector.")]
Names = Annotated[list[str] | None, typer.Argument(metavar="NAME...", help="Connector names.")]
AllOption = Annotated[bool, typer.Option("--all", help="All connectors of the worker.")]
Files = Annotated[
    list[Path],
    typer.Option(
        "-f",
        "--file",
        metavar="FILE",
        help="A JSON file or a directory of them (repeat the option).",
    ),
]
Wait = Annotated[
    str | None,
    typer.Option(
        "--wait",
        metavar="60s",
        help="Wait up to 60s until each runs with tasks and no warning; else exit 1.",
    ),
]
_SECONDS = 30.0


class ResourceKind(StrEnum):
    """What `get` can list."""

    CONNECTORS = "connectors"
    TASKS = "tasks"
    PLUGINS = "plugins"
    OFFSETS = "offsets"
    LOGGERS = "loggers"


def _connection(url: str, user: str | None, timeout: float) -> ConnectOptions:
    from sparkmirror.cli.connect_options import ConnectOptions  # noqa: PLC0415 - see the module

    return ConnectOptions(url, user, timeout)


def get(
    kind: Annotated[
        ResourceKind, typer.Argument(help="connectors, tasks, plugins, offsets or loggers.")
    ],
    name: Annotated[
        str | None,
        typer.Argument(help="Only this connector or logger; or the keys of this plugin."),
    ] = None,
    *,
    state: Annotated[
        list[RunState] | None,
        typer.Option(
            "--state",
            case_sensitive=False,
            help="Only in this state: running, paused, stopped, failed, unassigned, restarting "
            "(repeat the option).",
        ),
    ] = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    user: User = None,
    timeout: Timeout = _SECONDS,
) -> None:
    """List connectors, tasks, plugins, offsets or loggers."""
    from sparkmirror.cli.connect_get import GetQuery  # noqa: PLC0415 - see the module
    from sparkmirror.cli.connect_get import get as list_resources  # noqa: PLC0415 - see the module

    query = GetQuery(name, frozenset(str(one) for one in state or ()), as_json)
    raise typer.Exit(list_resources(_connection(url, user, timeout), str(kind), query))


def describe(
    name: Name,
    *,
    trace: Annotated[bool, typer.Option("--trace", help="Print whole stack traces.")] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    user: User = None,
    timeout: Timeout = _SECONDS,
) -> None:
    """Show one connector: state, tasks, offsets, topics, configuration without passwords."""
    from sparkmirror.cli.connect_describe import describe as show  # noqa: PLC0415 - see the module

    connection = _connection(url, user, timeout)
    raise typer.Exit(show(connection, name, full_traces=trace, as_json=as_json))


def _action(verb: str, summary: str) -> Callable[..., None]:
    """Create a command that sends one request per connector: `ConnectClient.<verb>`."""

    def command(
        names: Names = None,
        *,
        everything: AllOption = False,
        as_json: AsJson = False,
        url: Url = DEFAULT_URL,
        user: User = None,
        timeout: Timeout = _SECONDS,
    ) -> None:
        from sparkmirror.cli.connect_actions import run_action  # noqa: PLC0415 - see the module
        from sparkmirror.rest_client.connect_client import ConnectClient  # noqa: PLC0415 - see the module

        code = run_action(
            _connection(url, user, timeout),
            names or (),
            everything=everything,
            as_json=as_json,
            verb=verb,
            call=getattr(ConnectClient, verb),
        )
        raise typer.Exit(code)

    command.__name__ = verb
    command.__doc__ = summary
    return command


def restart(
    names: Names = None,
    *,
    everything: AllOption = False,
    include_tasks: Annotated[
        bool, typer.Option("--include-tasks", help="Also restart their tasks.")
    ] = False,
    only_failed: Annotated[
        bool, typer.Option("--only-failed", help="Only restart what has failed.")
    ] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    user: User = None,
    timeout: Timeout = _SECONDS,
) -> None:
    """Restart connectors; with --include-tasks also their tasks."""
    from sparkmirror.cli.connect_actions import run_action  # noqa: PLC0415 - see the module

    def call(worker: ConnectClient, name: str) -> None:
        worker.restart(name, include_tasks=include_tasks, only_failed=only_failed)

    code = run_action(
        _connection(url, user, timeout),
        names or (),
        everything=everything,
        as_json=as_json,
        verb="restart",
        call=call,
    )
    raise typer.Exit(code)


def delete(
    names: Names = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    user: User = None,
    timeout: Timeout = _SECONDS,
) -> None:
    """Delete connectors; their stored offsets are kept."""
    from sparkmirror.cli.connect_actions import delete as delete_all  # noqa: PLC0415 - see the module

    connection = _connection(url, user, timeout)
    raise typer.Exit(delete_all(connection, names or (), yes=yes, as_json=as_json))


def deploy(
    files: Files,
    *,
    wait: Wait = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Validate on the worker; change nothing.")
    ] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    user: User = None,
    timeout: Timeout = _SECONDS,
) -> None:
    """Create or update the connectors in JSON files; unchanged connectors are not sent."""
    from sparkmirror.cli.connect_deploy import deploy as deploy_files  # noqa: PLC0415 - see the module

    connection = _connection(url, user, timeout)
    raise typer.Exit(deploy_files(connection, files, wait=wait, dry_run=dry_run, as_json=as_json))


def undeploy(
    files: Files,
    *,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    user: User = None,
    timeout: Timeout = _SECONDS,
) -> None:
    """Delete the connectors in JSON files, and wait until the worker has no status of them."""
    from sparkmirror.cli.connect_deploy import undeploy as undeploy_files  # noqa: PLC0415 - see the module

    raise typer.Exit(undeploy_files(_connection(url, user, timeout), files, as_json=as_json))


def redeploy(
    files: Files,
    *,
    wait: Wait = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    user: User = None,
    timeout: Timeout = _SECONDS,
) -> None:
    """Delete and create connectors again; they continue from their stored offsets."""
    from sparkmirror.cli.connect_deploy import redeploy as redeploy_files  # noqa: PLC0415 - see the module

    connection = _connection(url, user, timeout)
    raise typer.Exit(redeploy_files(connection, files, wait=wait, as_json=as_json))


_EXAMPLES: Mapping[Callable[..., None], str] = {
    get: "get connectors|get tasks --state FAILED|get offsets orders --json",
    describe: "describe orders|describe orders --trace",
    _action("pause", "Pause connectors."): "pause orders|pause --all",
    _action("resume", "Resume paused or stopped connectors."): "resume orders|resume --all",
    _action(
        "stop", "Stop connectors and remove their tasks; their offsets can then be altered."
    ): "stop orders",
    restart: "restart orders --include-tasks|restart --all --include-tasks --only-failed",
    delete: "delete orders|delete orders payments --yes",
    deploy: "deploy -f mm2/ --wait 60s|deploy -f orders.json --dry-run",
    undeploy: "undeploy -f mm2/",
    redeploy: "redeploy -f mm2/ --wait 60s",
}


def add_connect_commands(app: typer.Typer) -> None:
    for command, examples in _EXAMPLES.items():
        text = "  |  ".join(f"sparkmirror {one}" for one in examples.split("|"))
        app.command(rich_help_panel=_PANEL, epilog=f"Examples:  {text}")(command)
