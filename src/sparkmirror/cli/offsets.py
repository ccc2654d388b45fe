# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror offsets`: translate offsets between source and target, reset positions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from sparkmirror.cli.command_groups import DefaultCommandGroup
from sparkmirror.cli.connect_commands import Url, User
from sparkmirror.cli.console import print_error, print_rows
from sparkmirror.cli.groups import AsJson, File, FlowOption, select_one_flow
from sparkmirror.cli.ledger import select_flows
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.group_sync import GroupSync
from sparkmirror.connectors.offset_reset_plan import EARLIEST, ResetWish, read_positions
from sparkmirror.errors import ArgumentError, ClusterError, SparkmirrorError
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.map_topic import MapTopic
from sparkmirror.policy.loading import load_policy
from sparkmirror.policy.sparkmirror_topics import offset_map_topic
from sparkmirror.quantities import format_time

HEADINGS = ("flow", "topic", "chunks", "from", "to", "target from", "target to")

app = typer.Typer(
    cls=DefaultCommandGroup,
    no_args_is_help=True,
    help="Translate offsets, show the offset map, reset positions, copy a topic again.",
)
MirrorFile = Annotated[
    Path | None, typer.Argument(help="The MM2 properties file; none with --connector.")
]
ResetTopic = Annotated[str, typer.Option("--topic", help="The topic's name on the source.")]
Partitions = Annotated[
    list[int] | None, typer.Option("--partition", min=0, help="Only this one (repeat the option).")
]
ConnectorOption = Annotated[
    str | None, typer.Option("--connector", help="A connector of the worker at --url.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would change; change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
WaitSeconds = Annotated[
    float, typer.Option("--timeout", min=0, help="Seconds to wait until it is carried out.")
]


@app.command(
    "translate",
    epilog="Examples:  sparkmirror offsets translate mm2.properties --topic orders --partition 3 "
    "--offset 1200  |  sparkmirror offsets translate mm2.properties --topic orders --partition 3 "
    "--offset 900 --back",
)
def translate(
    file: File,
    *,
    topic: Annotated[str, typer.Option("--topic", help="The topic's name on the source.")],
    partition: Annotated[int, typer.Option("--partition", min=0, help="Its partition.")] = 0,
    offset: Annotated[int, typer.Option("--offset", min=0, help="The offset to translate.")],
    flow: FlowOption = None,
    back: Annotated[bool, typer.Option("--back", help="The offset is one on the target.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the offset of the same record on the other cluster; exit 1 if nothing was mirrored."""
    tp = TopicPartition(topic, partition)
    try:
        settings = select_one_flow(MirrorConfig.load(file), flow)
        with GroupSync(settings, load_policy(settings.policy, settings.flow)) as groups:
            groups.refresh()
            found = (groups.translate_back if back else groups.translate)(tp, offset)
            for problem in groups.problems:
                print_error(f"{settings.flow}: {problem}")
    except SparkmirrorError as error:
        print_error(str(error))
        raise typer.Exit(1) from error
    if found is None:
        print_error(
            f"{settings.flow}: the offset map has no record of {tp}; nothing was mirrored yet"
        )
        raise typer.Exit(1)
    if as_json:
        answer: dict[str, str | int] = {
            "flow": str(settings.flow),
            "topic": topic,
            "partition": partition,
        }
        answer |= {"offset": found.offset, "fit": found.fit.value}
        typer.echo(json.dumps(answer, indent=2, ensure_ascii=False))
    else:
        typer.echo(f"{found.offset}\t{found.fit.value}")


@app.command(
    "show",
    epilog="Examples:  sparkmirror offsets mm2.properties  |  sparkmirror offsets show "
    "mm2.properties --topic orders --json",
)
def show(
    file: File,
    *,
    topic: Annotated[str | None, typer.Option("--topic", help="Only this topic.")] = None,
    flow: FlowOption = None,
    as_json: AsJson = False,
) -> None:
    """Print the offset range that the map covers for every topic partition."""
    rows: list[tuple[str, TopicPartition, int, int, int, int, int]] = []
    try:
        flows = select_flows(MirrorConfig.load(file), flow)
        for settings in flows:
            with _offset_map(settings) as offsets:
                rows += [
                    (str(settings.flow), tp, len(known), *offsets.bounds(tp))
                    for tp, known in sorted(offsets.maps.items())
                    if len(known) and topic in (None, tp.topic)
                ]
    except SparkmirrorError as error:
        print_error(str(error))
        raise typer.Exit(1) from error
    if as_json:
        typer.echo(json.dumps([_as_json(*row) for row in rows], indent=2, ensure_ascii=False))
    else:
        cells = [[Text(str(one)) for one in row] for row in rows]
        print_rows(Console(), HEADINGS, cells, "Nothing has been mirrored yet.")
    for settings in flows:
        _print_pending_resets(settings, topic)


def _print_pending_resets(settings: FlowSettings, topic: str | None) -> None:
    """Print resets that are not carried out, and refused ones, to standard error."""
    try:
        resets = read_positions(settings).resets
    except ArgumentError:
        return  # the flow has not run yet
    except ClusterError as error:
        print_error(str(error))
        return
    for tp, one in sorted(resets.items()):
        if topic in (None, tp.topic):
            state = f"refused: {one.error}" if one.error else "not carried out yet"
            typer.echo(
                f"{settings.flow}: reset of {tp} to {one.next_offset}, requested "
                f"{format_time(one.time_ms)}: {state}",
                err=True,
            )


def _as_json(flow: str, tp: TopicPartition, chunks: int, *bounds: int) -> dict[str, str | int]:
    names = ("offset", "endOffset", "targetOffset", "targetEndOffset")
    found: dict[str, str | int] = {"flow": flow, "topic": tp.topic, "partition": tp.partition}
    return {**found, "chunks": chunks, **dict(zip(names, bounds, strict=True))}


@app.command(
    "reset",
    epilog="Examples:  sparkmirror offsets reset mm2.properties --topic orders --to earliest "
    "--dry-run  |  sparkmirror offsets reset mm2.properties --topic orders --partition 3 --to 1200 "
    "--yes  |  sparkmirror offsets reset --connector a-b --url http://worker:8083 --topic orders "
    "--to 2026-01-31T12:00:00Z",
)
def reset(
    file: MirrorFile = None,
    *,
    topic: ResetTopic,
    to: Annotated[
        str,
        typer.Option("--to", help="earliest, latest, an offset, or a time in ISO 8601 (UTC)."),
    ] = EARLIEST,
    partition: Partitions = None,
    flow: FlowOption = None,
    connector: ConnectorOption = None,
    url: Url = "http://localhost:8083",
    user: User = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Cancel a reset that is not carried out yet.")
    ] = False,
    timeout: WaitSeconds = 60.0,
    as_json: AsJson = False,
) -> None:
    """Continue copying a topic at another offset; nothing on the target is deleted.

    Only this flow's copying restarts. Exit codes: 0 done, or stored for a paused connector;
    1 refused; 2 wrong usage; 3 stored, but not carried out in time.
    """
    from sparkmirror.cli import offset_resets  # noqa: PLC0415 - imports the runtime

    if cancel and file is not None:
        raise typer.Exit(offset_resets.cancel_resets(file, flow, topic))
    wish = ResetWish(topic, tuple(partition or ()), to)
    options = offset_resets.ResetOptions(dry_run, yes, as_json, timeout)
    place = offset_resets.Place(file, flow, connector, url, user)
    raise typer.Exit(offset_resets.reset(place, wish, options))


@app.command(
    "recopy",
    epilog="Examples:  sparkmirror offsets recopy mm2.properties --topic orders --dry-run  |  "
    "sparkmirror offsets recopy mm2.properties --topic orders --delete-target-records",
)
def recopy(
    file: MirrorFile = None,
    *,
    topic: ResetTopic,
    partition: Partitions = None,
    flow: FlowOption = None,
    delete_target_records: Annotated[
        bool,
        typer.Option(
            "--delete-target-records", help="First delete all records of the remote topic."
        ),
    ] = False,
    connector: ConnectorOption = None,
    url: Url = "http://localhost:8083",
    user: User = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    timeout: WaitSeconds = 60.0,
    as_json: AsJson = False,
) -> None:
    """Copy a topic from the beginning into a remote topic that is empty or was recreated.

    Refused if the remote topic has records, unless they are deleted first. Exit codes: as `reset`.
    """
    from sparkmirror.cli import offset_resets  # noqa: PLC0415 - imports the runtime

    wish = ResetWish(
        topic, tuple(partition or ()), recopy=True, delete_records=delete_target_records
    )
    options = offset_resets.ResetOptions(dry_run, yes, as_json, timeout)
    place = offset_resets.Place(file, flow, connector, url, user)
    raise typer.Exit(offset_resets.reset(place, wish, options))


@contextmanager
def _offset_map(settings: FlowSettings) -> Iterator[MapTopic]:
    names = load_policy(settings.policy, settings.flow).replication
    with closing(ClusterClient(settings.target_admin)) as client:
        offsets = MapTopic(client, offset_map_topic(names, settings.flow.source))
        offsets.refresh()
        yield offsets
