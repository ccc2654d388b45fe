# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror pack`: write the archive of the executors' Python environment."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from sparkmirror.cli.console import print_error
from sparkmirror.errors import SetupError
from sparkmirror.quantities import format_bytes
from sparkmirror.spark.environment_archive import (
    archive_entries,
    base_interpreter,
    distribution_names,
    write_archive,
)

_FOLDER = "env"
_SUFFIXES = (".tar.gz", ".tgz")


def pack(
    archive: Annotated[Path, typer.Argument(help="The file to write: .tar.gz or .tgz.")] = Path(
        "sparkmirror-env.tar.gz"
    ),
    *,
    extra: Annotated[
        list[str] | None,
        typer.Option("--with", help="Another installed package, for example with your policies."),
    ] = None,
    python: Annotated[
        Path | None,
        typer.Option(help="Python on the nodes, of this version; default: the path it has here."),
    ] = None,
) -> None:
    """Write the Python environment of Spark's executors as an archive.

    It contains sparkmirror and the packages that tasks import. Spark sends it to every executor;
    the nodes need the same version of Python, and nothing else.
    """
    if not archive.name.endswith(_SUFFIXES):
        print_error(f"{archive} must end with {' or '.join(_SUFFIXES)}: Spark looks at the name.")
        raise typer.Exit(1)
    if python is not None and not python.is_absolute():
        print_error(f"--python {python} is not an absolute path: the archive links to it.")
        raise typer.Exit(1)
    console = Console(stderr=True)
    interpreter = python or base_interpreter()
    try:
        entries = archive_entries(distribution_names(extra or ()))
        with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
            bar = progress.add_task("packing", total=len(entries))
            write_archive(archive, entries, interpreter, lambda: progress.advance(bar))
    except SetupError as error:
        print_error(str(error))
        raise typer.Exit(1) from error
    size = format_bytes(archive.stat().st_size)
    version = "{}.{}".format(*sys.version_info)
    console.print(
        f"Wrote {archive} ({size}). The nodes need Python {version} at {interpreter}. "
        "Put these lines into the properties file:",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    typer.echo(f"spark.archives = {archive.resolve()}#{_FOLDER}")
    typer.echo(f"spark.pyspark.python = ./{_FOLDER}/bin/python")
