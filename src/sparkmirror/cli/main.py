# SPDX-License-Identifier: Apache-2.0
"""The `sparkmirror` command line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sparkmirror import __version__
from sparkmirror.cli import connect_commands
from sparkmirror.cli.check import check
from sparkmirror.cli.command_groups import CommandGroup
from sparkmirror.cli.dead_letters import app as dead_letters_app
from sparkmirror.cli.groups import app as groups_app
from sparkmirror.cli.init import init
from sparkmirror.cli.ledger import ledger
from sparkmirror.cli.local import app as local_app
from sparkmirror.cli.logging_setup import LogLevelName, LogLevelOption
from sparkmirror.cli.migrate import migrate
from sparkmirror.cli.offsets import app as offsets_app
from sparkmirror.cli.pack import pack
from sparkmirror.cli.submit_script import submit_script

app = typer.Typer(
    cls=CommandGroup,
    name="sparkmirror",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Kafka MirrorMaker 2 for people who run Python and Spark.",
)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"sparkmirror {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    _show: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


@app.command(
    epilog="Examples:  sparkmirror run mm2.properties  |  "
    "sparkmirror run mm2.properties --once  |  sparkmirror run mm2.properties --clusters backup"
)
def run(
    file: Annotated[Path, typer.Argument(help="An MM2 properties file.")],
    *,
    clusters: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLUSTER", help="Run only flows into these clusters (repeat the option)."
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Copy up to the current end of every topic, then exit.")
    ] = False,
    master: Annotated[
        str | None, typer.Option(help="Spark master; default: local, sized for the flows.")
    ] = None,
    log_level: LogLevelOption = LogLevelName.INFO,
) -> None:
    """Replicate the flows of a file until Ctrl-C.

    Reloads the file when it changes: restarts the flows that differ, leaves the others running,
    and rejects an invalid file. SIGHUP reloads the file of a service; it stops a command that was
    started at a terminal without nohup.
    """
    from sparkmirror.cli.run import run_file  # noqa: PLC0415 - other commands start without it

    code = run_file(
        file, clusters=tuple(clusters or ()), once=once, master=master, log_level=log_level
    )
    raise typer.Exit(code)


@app.command(
    epilog="Examples:  sparkmirror worker connect-distributed.properties  |  "
    "sparkmirror worker connect-distributed.properties --master 'local[8,4]'"
)
def worker(
    file: Annotated[Path, typer.Argument(help="A Connect worker's properties file.")],
    *,
    master: Annotated[
        str | None, typer.Option(help="Spark master; default: local, sized for the connectors.")
    ] = None,
    log_level: LogLevelOption = LogLevelName.INFO,
) -> None:
    """Run a Kafka Connect worker for the MM2 connectors until Ctrl-C.

    Connectors are created over the REST API (`sparkmirror deploy`, curl, kafka-ui). Workers with
    the same group.id share them.
    """
    from sparkmirror.cli.worker import run_worker  # noqa: PLC0415 - other commands do without it

    raise typer.Exit(run_worker(file, master=master, log_level=log_level))


@app.command(
    epilog="Examples:  sparkmirror demo  |  sparkmirror demo --duration 20  |  "
    "sparkmirror demo --keep"
)
def demo(
    *,
    duration: Annotated[
        float, typer.Option(metavar="SECONDS", min=1, help="Duration of the sample orders.")
    ] = 60,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the clusters running afterwards.")
    ] = False,
) -> None:
    """Replicate sample orders between two Kafka clusters on this machine."""
    from sparkmirror.cli.demo import demo as show  # noqa: PLC0415 - as above

    raise typer.Exit(show(duration=duration, keep=keep))


@app.command(
    epilog="Examples:  sparkmirror plan mm2.properties  |  sparkmirror plan mm2.properties "
    "--out plan.json --rate 120MB/s  |  sparkmirror plan mm2.properties --flow 'primary->backup' "
    "--json"
)
def plan(
    file: Annotated[Path, typer.Argument(help="An MM2 properties file.")],
    *,
    flow: Annotated[
        str | None, typer.Option("--flow", metavar="A->B", help="Only this flow, written A->B.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write the plan to this file, for `apply`.")
    ] = None,
    rate: Annotated[str, typer.Option(help="Rate for the estimated copy duration.")] = "50MB/s",
) -> None:
    """Print what a run would create, change, remove, move and copy; changes nothing.

    Exit codes: 0 planned, 1 invalid file, 2 wrong usage, 4 a flow cannot be planned, for example
    because a cluster is unreachable; then --out writes nothing.
    """
    from sparkmirror.cli.plan import plan_flows  # noqa: PLC0415 - as above

    raise typer.Exit(plan_flows(file, flow=flow, as_json=as_json, out=out, rate=rate))


@app.command(
    epilog="Examples:  sparkmirror apply plan.json  |  sparkmirror apply plan.json --yes  |  "
    "sparkmirror apply plan.json --file /etc/sparkmirror/mm2.properties"
)
def apply(
    plan_json: Annotated[Path, typer.Argument(help="A plan that `plan --out` wrote.")],
    *,
    file: Annotated[
        Path | None,
        typer.Option(help="The properties file, if it has moved since planning."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Carry out a plan exactly, or nothing if a cluster has changed since planning.

    Exit codes: 0 done, also if it was done before; 1 invalid file, an action failed, or not
    confirmed; 2 wrong usage or invalid plan; 3 the plan is outdated; 4 a cluster cannot be read.
    """
    from sparkmirror.cli.apply import apply_file  # noqa: PLC0415 - as above

    raise typer.Exit(apply_file(plan_json, file=file, yes=yes))


app.command(
    epilog="Examples:  sparkmirror init  |  sparkmirror init mm2.properties --source primary "
    "--source-servers p1:9092 --target backup --target-servers b1:9092 --topics 'orders,pay.*'"
)(init)
app.command(
    epilog="Examples:  sparkmirror check mm2.properties  |  "
    "sparkmirror check mm2.properties --connect  |  sparkmirror check mm2.properties --json"
)(check)
app.command(
    epilog="Examples:  sparkmirror migrate mm2.properties  |  sparkmirror migrate mm2.properties "
    "--json"
)(migrate)
app.command(
    epilog="Examples:  sparkmirror ledger mm2.properties  |  sparkmirror ledger mm2.properties "
    "--topic orders  |  sparkmirror ledger mm2.properties --flow 'primary->backup' --json"
)(ledger)
app.command(
    epilog="Examples:  sparkmirror pack  |  sparkmirror pack env.tar.gz --with my-policies  |  "
    "sparkmirror pack env.tar.gz --python /usr/bin/python3.11"
)(pack)
app.command(
    epilog="Example:  spark-submit --master spark://host:7077 $(sparkmirror submit-script) "
    "run mm2.properties"
)(submit_script)
app.add_typer(groups_app, name="groups")
app.add_typer(offsets_app, name="offsets")
app.add_typer(dead_letters_app, name="dead-letters")
app.add_typer(local_app, name="local")
connect_commands.add_connect_commands(app)


def _expand_clusters_option(arguments: list[str]) -> list[str]:
    """Turn MM2's `--clusters a b` (after the file) into a repeated option."""
    if "--clusters" not in arguments:
        return arguments
    at = arguments.index("--clusters")
    if len([word for word in arguments[:at] if not word.startswith("-")]) < 2:  # noqa: PLR2004
        return arguments  # the file is still to come: only the next word is a cluster
    spelled: list[str] = []
    rest = iter(arguments[at + 1 :])
    for word in rest:
        if word.startswith("-"):
            return [*arguments[:at], *spelled, word, *rest]
        spelled += ["--clusters", word]
    return [*arguments[:at], *spelled]


def main() -> None:
    app(args=_expand_clusters_option(sys.argv[1:]))


if __name__ == "__main__":
    main()
