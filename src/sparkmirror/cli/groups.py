# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror groups`: positions of consumer groups on both clusters; `park` moves a group."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from sparkmirror.cli.command_groups import DefaultCommandGroup
from sparkmirror.cli.console import print_error, print_rows
from sparkmirror.cli.ledger import select_flows
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.group_migration import MigratedGroup, migrate_group
from sparkmirror.connectors.group_sync import GroupSync
from sparkmirror.errors import ConfigError, SparkmirrorError
from sparkmirror.offsets.group_positions import GroupPosition, GroupPositionState
from sparkmirror.policy.loading import load_policy

HEADINGS = ("flow", "group", "topic", "offset", "remote topic", "remote offset", "state", "reason")
_COLOURS = {
    GroupPositionState.SYNCED: "green",
    GroupPositionState.TRANSLATED: "green",
    GroupPositionState.FILTERED: "dim",
}

app = typer.Typer(
    cls=DefaultCommandGroup,
    no_args_is_help=True,
    help="Show the positions of consumer groups on both clusters, with reasons; move a group.",
)
File = Annotated[Path, typer.Argument(help="The MM2 properties file.")]
FlowOption = Annotated[
    str | None, typer.Option("--flow", metavar="A->B", help="Only this flow, written A->B.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command(
    "show",
    epilog="Examples:  sparkmirror groups mm2.properties  |  sparkmirror groups mm2.properties "
    "--group billing  |  sparkmirror groups mm2.properties --json",
)
def show(
    file: File,
    *,
    group: Annotated[str | None, typer.Option("--group", help="Only this group.")] = None,
    flow: FlowOption = None,
    as_json: AsJson = False,
) -> None:
    """Print committed offset, translated offset, state and reason per group and topic partition."""
    found: list[tuple[FlowSettings, GroupPosition]] = []
    failed = False
    try:
        flows = select_flows(MirrorConfig.load(file), flow)
    except SparkmirrorError as error:
        print_error(str(error))
        raise typer.Exit(1) from error
    for settings in flows:
        try:
            with _group_rounds(settings) as rounds:
                groups = [group] if group is not None else rounds.selected_groups()
                seen = rounds.plan(groups, syncs_groups=True)
        except SparkmirrorError as error:
            failed = True
            print_error(f"{settings.flow}: {error}")
            continue
        for problem in rounds.problems:
            failed = True
            print_error(f"{settings.flow}: {problem}")
        for name, reason in sorted(seen.failures.items()):
            failed = True
            print_error(f"{settings.flow}: group '{name}': {reason}")
        if group is not None and not seen.positions and not seen.failures:
            failed = True
            print_error(f"{settings.flow}: group '{group}' has committed no offset on the source")
        found += [(settings, one) for one in seen.positions]
    _print(found, Console(), as_json=as_json)
    if failed:
        raise typer.Exit(1)


@app.command(
    "park",
    epilog="Examples:  sparkmirror groups park mm2.properties --group billing  |  "
    "sparkmirror groups park mm2.properties --group billing --timeout 600 --json",
)
def park_group(
    file: File,
    *,
    group: Annotated[str, typer.Option("--group", help="The group to move.")],
    flow: FlowOption = None,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="Longest time to wait.")
    ] = 60.0,
    rewind: Annotated[
        bool, typer.Option("--rewind", help="Also move the group backwards on the target.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Wait until everything that the group committed is mirrored; then set its exact position.

    Stop the group's consumers first. The mirror must be running.
    """
    printed: set[str] = set()

    def on_progress(sentence: str) -> None:
        if sentence not in printed:
            printed.add(sentence)
            Console(stderr=True).print(f"waiting: {sentence}", markup=False, soft_wrap=True)

    try:
        settings = select_one_flow(MirrorConfig.load(file), flow)
        with _group_rounds(settings) as rounds:
            migrated = migrate_group(
                rounds, group, timeout_seconds=timeout, rewind=rewind, on_progress=on_progress
            )
    except SparkmirrorError as error:
        print_error(str(error))
        raise typer.Exit(1) from error
    _print_migrated(settings, group, migrated, as_json=as_json)


def select_one_flow(config: MirrorConfig, flow: str | None) -> FlowSettings:
    """Return the flow named `flow`, or the only one of the file."""
    found = select_flows(config, flow)
    if len(found) != 1:
        names = ", ".join(str(one.flow) for one in found) or "none"
        message = f"{config.name} enables several flows ({names}): choose one with --flow."
        raise ConfigError(message)
    return found[0]


def _group_rounds(settings: FlowSettings) -> GroupSync:
    return GroupSync(settings, load_policy(settings.policy, settings.flow))


def _print_migrated(
    settings: FlowSettings, group: str, migrated: MigratedGroup, *, as_json: bool
) -> None:
    flow = settings.flow
    if as_json:
        found = {
            "flow": str(flow),
            "group": group,
            "parked": [_as_json(settings, one) for one in migrated.positions],
            "leftAlone": [_as_json(settings, one) for one in migrated.skipped],
        }
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    for one in migrated.positions:
        offset = one.translation.offset if one.translation is not None else -1
        typer.echo(f"{one.source} at {one.committed.offset} -> {one.target} at {offset}")
    for one in migrated.skipped:
        typer.echo(f"{one.source} at {one.committed.offset} skipped: {one.reason}")
    typer.echo(f"Group '{group}' is parked: start its consumers on '{flow.target}'.")


def _print(
    found: Sequence[tuple[FlowSettings, GroupPosition]], console: Console, *, as_json: bool
) -> None:
    if as_json:
        listed = [_as_json(settings, one) for settings, one in found]
        typer.echo(json.dumps(listed, indent=2, ensure_ascii=False))
        return
    rows = [
        [Text(cell, style=_COLOURS.get(one.state, "yellow")) for cell in _cells(settings, one)]
        for settings, one in found
    ]
    print_rows(console, HEADINGS, rows, "No group has committed an offset.", ("remote topic",))
    if rows and console.is_terminal:
        counts = Counter(one.state.value for _, one in found)
        console.print(", ".join(f"{count} {state}" for state, count in counts.most_common()))


def _cells(settings: FlowSettings, one: GroupPosition) -> tuple[str, ...]:
    translation = one.translation if one.is_placed else None
    return (
        str(settings.flow),
        one.group,
        str(one.source),
        str(one.committed.offset),
        str(one.target or "-"),
        str(translation.offset) if translation is not None else "-",
        one.state.value,
        one.reason,
    )


def _as_json(settings: FlowSettings, one: GroupPosition) -> dict[str, Any]:
    target = one.target
    translation = one.translation if one.is_placed else None
    return {
        "flow": str(settings.flow),
        "group": one.group,
        "topic": one.source.topic,
        "partition": one.source.partition,
        "offset": one.committed.offset,
        "targetTopic": target.topic if target is not None else None,
        "targetOffset": translation.offset if translation is not None else None,
        "exact": one.is_exact,
        "state": one.state.value,
        "reason": one.reason,
    }
