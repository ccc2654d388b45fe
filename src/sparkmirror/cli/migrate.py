# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror migrate FILE`: what changes for a user of Java MirrorMaker 2 with this file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from sparkmirror.cli.console import print_error, print_wrapped
from sparkmirror.config.files.properties import read_properties
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.worker_config import is_worker_file
from sparkmirror.errors import ConfigError, SparkmirrorError
from sparkmirror.topology.java_migration import (
    DifferentDefault,
    FlowMigration,
    JavaMigration,
    plan_java_migration,
    steps_back,
    steps_to_move,
)

_INDENT = "  "


def migrate(
    file: Annotated[Path, typer.Argument(help="The MM2 properties file that Java runs today.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print what changes when sparkmirror replaces Java MM2 with this file, and how to go back.

    Reads only the file; connects to nothing. Exit 1 if the file has errors.
    """
    try:
        properties = read_properties(file)
        if is_worker_file(properties):
            raise ConfigError(
                f"{file} is the file of a Connect worker. `sparkmirror worker` uses it unchanged; "
                "`sparkmirror check` lists its keys without effect."
            )
        found = plan_java_migration(MirrorConfig(properties))
    except SparkmirrorError as error:
        print_error(str(error))
        raise typer.Exit(1) from error
    if as_json:
        typer.echo(json.dumps(migration_document(found, str(file)), indent=2, ensure_ascii=False))
    else:
        _print(migration_lines(found, str(file)))
    if not found.ok:
        raise typer.Exit(1)


def migration_lines(found: JavaMigration, file: str) -> Iterator[str]:
    """Yield the report: headings without indent, everything else below them."""
    if found.to_resolve:
        yield "To resolve first"
        yield from (f"{_INDENT}{one.level.value}: {one}" for one in found.to_resolve)
    yield from _default_lines(found.defaults)
    yield "Lines without effect here"
    yield from (f"{_INDENT}{one}" for one in found.without_effect)
    if not found.without_effect:
        yield f"{_INDENT}None."
    for flow in found.flows:
        yield from _flow_lines(flow)
    if found.ok:
        yield "To move"
        yield from _numbered(steps_to_move(file, found.flows))
        yield "To go back"
        yield from _numbered(steps_back(file))


def _default_lines(defaults: Sequence[DifferentDefault]) -> Iterator[str]:
    if not defaults:
        yield "Defaults that differ from MM2's: none, the file sets all of them"
        return
    yield "Defaults that differ from MM2's; add a line to keep MM2's value"
    by_reason: dict[str, list[DifferentDefault]] = {}
    for one in defaults:
        by_reason.setdefault(one.why, []).append(one)
    for why, some in by_reason.items():
        yield f"{_INDENT}because {why}:"
        yield from (
            f"{_INDENT * 2}{line}   (here: {one.here})" for one in some for line in one.lines
        )


def _flow_lines(flow: FlowMigration) -> Iterator[str]:
    yield f"Flow {flow.flow}"
    yield (
        f"{_INDENT}Positions: read from and written to {flow.positions} on {flow.flow.target}, in "
        "MM2's format. Copying continues after the stored positions."
    )
    yield (
        f"{_INDENT}Group: {flow.group} on {flow.flow.target}, as MM2's workers. A Java MM2 with "
        "this file and sparkmirror never copy this flow at the same time."
    )
    yield f"{_INDENT}Topics that both use: {', '.join(flow.shared_topics)}."
    yield f"{_INDENT}Topics that only sparkmirror uses: {', '.join(flow.new_topics)}."
    synced = (
        "are synced to the target" if flow.syncs_groups else "are not synced (as MM2's default)"
    )
    yield (
        f"{_INDENT}Consumer groups: offsets {synced}. Records that Java copied are translated by "
        "its offset syncs, others exactly."
    )


def _numbered(steps: Sequence[tuple[str, str]]) -> Iterator[str]:
    for number, (sentence, command) in enumerate(steps, 1):
        yield f"{_INDENT}{number}. {sentence}"
        if command:
            yield f"{_INDENT * 3}{command}"


def _print(lines: Iterator[str]) -> None:
    """Print headings bold, and wrap long lines below their indent on a terminal."""
    console = Console()
    if not console.is_terminal:
        for line in lines:
            typer.echo(line)
        return
    for line in lines:
        print_wrapped(console, line, style="" if line.startswith(_INDENT) else "bold")


def migration_document(found: JavaMigration, file: str) -> dict[str, Any]:
    """Format for programs, with Connect's key style."""
    return {
        "file": found.file,
        "ok": found.ok,
        "toResolve": [
            {"level": n.level.value, "key": n.key, "line": n.line, "message": n.message}
            for n in found.to_resolve
        ],
        "differentDefaults": [
            {
                "key": one.key,
                "mm2": one.mm2,
                "here": one.here,
                "reason": one.why,
                "linesToKeepMm2": list(one.lines),
            }
            for one in found.defaults
        ],
        "linesWithoutEffect": [
            {"key": n.key, "line": n.line, "message": n.message} for n in found.without_effect
        ],
        "flows": [
            {
                "flow": str(one.flow),
                "group": one.group,
                "positionsTopic": one.positions,
                "sharedTopics": list(one.shared_topics),
                "newTopics": list(one.new_topics),
                "syncsGroups": one.syncs_groups,
            }
            for one in found.flows
        ],
        "stepsToMove": _steps(steps_to_move(file, found.flows)) if found.ok else [],
        "stepsBack": _steps(steps_back(file)) if found.ok else [],
    }


def _steps(steps: Sequence[tuple[str, str]]) -> list[dict[str, str | None]]:
    return [{"step": sentence, "command": command or None} for sentence, command in steps]
