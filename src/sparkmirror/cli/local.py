# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror local`: start, stop and inspect Kafka clusters on this machine."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from sparkmirror.cli.command_groups import CommandGroup
from sparkmirror.cli.console import camel_case_document, print_rows
from sparkmirror.devcluster.cluster import MAX_BROKERS, LocalCluster
from sparkmirror.devcluster.jars import DEFAULT_KAFKA, TESTED_KAFKA, JarSet, kafka_classpath
from sparkmirror.devcluster.kafka_tools import (
    CONSOLE_CONSUMER,
    CONSOLE_PRODUCER,
    KafkaTools,
    consume_arguments,
    produce_arguments,
)
from sparkmirror.devcluster.local_clusters import ClusterEntry, LocalClusters
from sparkmirror.errors import SetupError, SparkmirrorError
from sparkmirror.quantities import counted, format_record_rate
from sparkmirror.system.cache_directory import cache_directory

_HEADINGS = ("cluster", "broker", "state", "address", "pid", "Kafka", "log")
_POLL_SECONDS = 0.5
_FAILED = 1


class _Root(CommandGroup):
    """Turns errors into one line and an exit code."""

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override] # click's own type
        try:
            return super().invoke(ctx)
        except SparkmirrorError as error:
            typer.echo(f"sparkmirror local: {error}", err=True)
            raise typer.Exit(_FAILED) from error


app = typer.Typer(
    cls=_Root,
    name="local",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Start, stop and inspect Kafka clusters on this machine.",
    epilog="Examples:  sparkmirror local up  |  sparkmirror local up --clusters a,b --brokers 3 "
    "--detach  |  sparkmirror local topics source  |  sparkmirror local down",
)

_Data = Annotated[
    Path | None,
    typer.Option(
        "--data", help="Directory of the clusters' data, logs and state.", show_default="the cache"
    ),
]
_Cluster = Annotated[
    str, typer.Argument(metavar="CLUSTER", help="A running local cluster, or host:port.")
]
_Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]
_Keys = Annotated[bool, typer.Option("--keys", help="Lines are key, tab, value.")]


@app.command(epilog="Example:  sparkmirror local fetch --kafka 4.3.1 --kafka 3.9.2")
def fetch(
    *,
    kafka: Annotated[
        list[str] | None,
        typer.Option("--kafka", metavar="VERSION", help=f"Version; default {DEFAULT_KAFKA}."),
    ] = None,
    connect: Annotated[
        bool, typer.Option("--connect", help="Also Kafka Connect and Java's MirrorMaker 2.")
    ] = False,
) -> None:
    """Download Kafka's jars into the cache, unless they are there."""
    for version in kafka or [DEFAULT_KAFKA]:
        for jar_set in JarSet if connect else [JarSet.BROKER]:
            jars = kafka_classpath(version, jar_set)
            typer.echo(
                f"Kafka {version} ({jar_set}): {counted(len(jars), 'jar')} in {jars[0].parent}"
            )


@app.command(
    epilog="Examples:  sparkmirror local up  |  sparkmirror local up --port 19092  |  "
    "sparkmirror local up --clusters a,b,c --brokers 3 --detach  |  "
    "sparkmirror local up --kafka 2.4.1"
)
def up(
    *,
    clusters: Annotated[
        str, typer.Option(metavar="NAMES", help="Cluster names, separated by commas.")
    ] = "source,target",
    brokers: Annotated[
        int, typer.Option(min=1, max=MAX_BROKERS, help="Brokers of each cluster.")
    ] = 1,
    port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            help="Port of the first broker; the others follow. Default: free ports.",
        ),
    ] = None,
    kafka: Annotated[
        str, typer.Option(metavar="VERSION", help=f"Tested: {', '.join(TESTED_KAFKA)}.")
    ] = DEFAULT_KAFKA,
    data: _Data = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Keep them running; `down` stops them.")
    ] = False,
) -> None:
    """Start clusters. Without --detach they run until Ctrl-C."""
    fleet = _fleet(data)
    names = [name.strip() for name in clusters.split(",")]
    with _interruptible():
        started = fleet.start(
            names, brokers=brokers, version=kafka, first_port=port, detached=detach
        )
        entries = [fleet.find(name) for name in names]
        _show(entries)
        if detach:
            typer.echo("Running; stop with `sparkmirror local down`.", err=True)
            return
        try:
            typer.echo("Running; stop with Ctrl-C.", err=True)
            _watch(started)
        finally:
            typer.echo("Stopping.", err=True)
            for cluster in started:
                cluster.stop()
            fleet.remove(entries)


@app.command(epilog="Examples:  sparkmirror local down  |  sparkmirror local down source")
def down(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[CLUSTER]...", help="Default: all of them.")
    ] = None,
    *,
    data: _Data = None,
) -> None:
    """Stop clusters; keep their data and logs."""
    stopped = _fleet(data).stop(names or None)
    typer.echo(f"Stopped {', '.join(stopped)}." if stopped else "No local cluster is running.")


@app.command(epilog="Example:  sparkmirror local status --json")
def status(
    *,
    data: _Data = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show clusters, brokers, ports and logs."""
    entries = _fleet(data).clusters()
    if as_json:
        typer.echo(json.dumps([_to_json(entry) for entry in entries], indent=2))
    elif entries:
        _show(entries)
    else:
        typer.echo("No local cluster is running.")


@app.command(epilog="Examples:  sparkmirror local topics source  |  ... topics localhost:9092")
def topics(cluster: _Cluster, *, data: _Data = None) -> None:
    """List the topics of a cluster."""
    for name in _tools(cluster, data).topics():
        typer.echo(name)


@app.command(epilog="Example:  sparkmirror local describe target source.orders")
def describe(
    cluster: _Cluster,
    topic: Annotated[str | None, typer.Argument(help="Default: all topics.")] = None,
    *,
    data: _Data = None,
) -> None:
    """Show partitions, leaders, replicas and configs of topics."""
    tools = _tools(cluster, data)
    if topic is not None:
        tools.require_topic(topic)
    typer.echo(tools.describe(topic), nl=False)


@app.command(
    epilog="Examples:  echo hello | sparkmirror local produce source orders  |  "
    "sparkmirror local produce source orders --records 100000 --size 1000"
)
def produce(
    cluster: _Cluster,
    topic: _Topic,
    *,
    records: Annotated[
        int | None, typer.Option(min=1, help="Send this many random records instead.")
    ] = None,
    size: Annotated[int, typer.Option(min=1, help="Bytes of each random record.")] = 100,
    partitions: Annotated[
        int, typer.Option(min=1, help="Partitions, if the topic is created.")
    ] = 1,
    keys: _Keys = False,
    data: _Data = None,
) -> None:
    """Send one record per line of standard input; creates a missing topic."""
    tools = _tools(cluster, data)
    if not tools.has_topic(topic):
        tools.create_topic(topic, partitions=partitions)
        typer.echo(f"Created topic {topic}.", err=True)
    if records is not None:
        summary = tools.load(topic, records=records, record_size=size)
        rate = format_record_rate(summary.records_per_second)
        typer.echo(f"{counted(summary.records, 'record')}, {rate}")
        return
    if sys.stdin.isatty():
        typer.echo("One record per line; end with Ctrl-D.", err=True)
    _attach(lambda: tools.run_attached(CONSOLE_PRODUCER, *produce_arguments(topic, keyed=keys)))


@app.command(epilog="Example:  sparkmirror local consume target source.orders --from-beginning")
def consume(
    cluster: _Cluster,
    topic: _Topic,
    *,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="From the first record, not only new ones.")
    ] = False,
    max_records: Annotated[
        int | None, typer.Option("--max", min=1, help="Stop after this many records.")
    ] = None,
    keys: _Keys = False,
    data: _Data = None,
) -> None:
    """Print records, one per line, until Ctrl-C."""
    tools = _tools(cluster, data)
    tools.require_topic(topic)
    arguments = consume_arguments(
        topic, from_beginning=from_beginning, records=max_records, keys=keys
    )
    _attach(lambda: tools.run_attached(CONSOLE_CONSUMER, *arguments))


def _fleet(data: Path | None) -> LocalClusters:
    return LocalClusters(data if data is not None else cache_directory() / "local")


def _tools(cluster: str, data: Path | None) -> KafkaTools:
    if ":" in cluster:
        return KafkaTools(cluster)
    entry = _fleet(data).find(cluster)
    if not entry.alive:
        raise SetupError(
            f"The local cluster {cluster} is not running.",
            remedy=f"Start it with `sparkmirror local up --clusters {cluster}`.",
        )
    return KafkaTools(entry.bootstrap_servers, name=cluster)


def _watch(clusters: list[LocalCluster]) -> None:
    """Return on Ctrl-C, or when `down` has stopped all brokers. Reports brokers that crash."""
    running = [broker for cluster in clusters for broker in cluster.brokers]
    failed = False
    try:
        while running:
            time.sleep(_POLL_SECONDS)
            for broker in [broker for broker in running if not broker.running]:
                running.remove(broker)
                if not broker.exited_cleanly:
                    failed = True
                    typer.echo(str(broker.error("exited unexpectedly")), err=True)
    except KeyboardInterrupt:
        return
    if failed:
        raise SetupError("No broker is running any more.", remedy="See the logs above.")


@contextmanager
def _interruptible() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C, so that brokers are stopped."""
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _attach(run: Callable[[], None]) -> None:
    with _interruptible():
        try:
            run()
        except KeyboardInterrupt:
            # Ctrl-C is the way to end these commands.
            return


def _to_json(entry: ClusterEntry) -> dict[str, object]:
    brokers = [{**camel_case_document(one), "state": one.state()} for one in entry.brokers]
    servers = entry.bootstrap_servers
    return {**camel_case_document(entry), "bootstrapServers": servers, "brokers": brokers}


def _show(entries: list[ClusterEntry]) -> None:
    rows = [
        (
            entry.name,
            str(broker.node_id),
            broker.state(),
            broker.address,
            str(broker.pid),
            entry.version,
            broker.log,
        )
        for entry in entries
        for broker in entry.brokers
    ]
    cells = [[Text(cell) for cell in row] for row in rows]
    print_rows(Console(), _HEADINGS, cells, "No local cluster is running.")


def main() -> None:
    app(prog_name="sparkmirror local")


if __name__ == "__main__":
    main()
