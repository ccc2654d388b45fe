# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror` and its commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sparkmirror import __version__

app = typer.Typer(
    name="sparkmirror",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
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
        typer.Option(help="Run only flows into these clusters (repeat the option)."),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Copy up to the present end of every topic, then exit.")
    ] = False,
    master: Annotated[
        str | None, typer.Option(help="Spark master; default: local, sized for the flows.")
    ] = None,
) -> None:
    """Replicate what the file says until Ctrl-C."""
    from sparkmirror.cli.run import run_file  # noqa: PLC0415 - other commands start without it

    raise typer.Exit(run_file(file, clusters=tuple(clusters or ()), once=once, master=master))


def main() -> None:
    """The console script."""
    app()


if __name__ == "__main__":
    main()
