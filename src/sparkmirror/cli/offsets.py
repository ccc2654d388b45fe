# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror offsets`: translate offsets between source and target."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from sparkmirror.cli.console import DefaultCommandGroup, print_error, print_rows
from sparkmirror.cli.groups import AsJson, File, FlowOption, select_one_flow
from sparkmirror.cli.ledger import select_flows
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.group_sync import GroupSync
from sparkmirror.errors import SparkmirrorError
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.map_topic import MapTopic
from sparkmirror.policy.loading import load_policy
from sparkmirror.policy.sparkmirror_topics import offset_map_topic

_HEADINGS = ("flow", "topic", "chunks", "from", "to", "target from", "to")

app = typer.Typer(
    cls=DefaultCommandGroup,
    no_args_is_help=True,
    help="Translate offsets between source and target; show what the offset map covers.",
)


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
        answer = {"flow": str(settings.flow), "topic": topic, "partition": partition}
        typer.echo(json.dumps(answer | {"offset": found.offset, "fit": found.fit.value}))
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
        for settings in select_flows(MirrorConfig.load(file), flow):
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
        names = ("flow", "topicPartition", "chunks", "first", "end", "targetFirst", "targetEnd")
        typer.echo(json.dumps([dict(zip(names, _json_values(row), strict=True)) for row in rows]))
    else:
        cells = [[Text(str(one)) for one in row] for row in rows]
        print_rows(Console(), _HEADINGS, cells, "Nothing has been mirrored yet.")


def _json_values(row: tuple[object, ...]) -> list[object]:
    return [str(one) if isinstance(one, TopicPartition) else one for one in row]


@contextmanager
def _offset_map(settings: FlowSettings) -> Iterator[MapTopic]:
    names = load_policy(settings.policy, settings.flow).replication
    with closing(ClusterClient(settings.target_admin)) as client:
        offsets = MapTopic(client, offset_map_topic(names, settings.flow.source))
        offsets.refresh()
        yield offsets
