# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror demo`: replicate sample orders between two local Kafka clusters."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path

from rich.console import Console
from rich.text import Text

from sparkmirror.cli.logging_setup import set_up_logging
from sparkmirror.cli.process_signals import ProcessSignals
from sparkmirror.cli.run_view import View, choose_view, format_percentiles
from sparkmirror.cli.tables import FittedTable
from sparkmirror.devcluster.jars import DEFAULT_KAFKA, kafka_classpath
from sparkmirror.devcluster.local_clusters import LocalClusters
from sparkmirror.errors import SparkmirrorError
from sparkmirror.formats.primitives import partition_for_key
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.descriptions import NewTopic
from sparkmirror.kafka.topic_log import KeyValue, build_record_batch
from sparkmirror.kafka.topic_writer import TopicWriter
from sparkmirror.model import TopicPartition
from sparkmirror.quantities import counted, format_count, number_form
from sparkmirror.runtime.mirror import Mirror
from sparkmirror.spark.class_archive import build_and_wait
from sparkmirror.spark.flow_status import FlowSnapshot
from sparkmirror.system.cache_directory import cache_directory, ensure_writable
from sparkmirror.wire.settings import ConnectionSettings

TOPIC, REMOTE, PARTITIONS = "orders", "source.orders", 4
_PER_SECOND = 200
_FACTORS = (
    "replication.factor",
    "offset-syncs.topic.replication.factor",
    "checkpoints.topic.replication.factor",
    "heartbeats.topic.replication.factor",
    "offset.storage.replication.factor",
    "status.storage.replication.factor",
    "config.storage.replication.factor",
)
_CATCH_UP_SECONDS = 120.0  # Spark may still be starting, on a slow machine
_REPORT_SECONDS = 10.0  # tasks report every second
_POLL_SECONDS = 0.25

_GOODS = ("coffee", "tea", "cocoa", "sugar", "flour", "honey", "rice", "salt")
_TOWNS = ("Lisbon", "Oslo", "Nairobi", "Lima", "Osaka", "Quito", "Tallinn", "Hanoi")


def demo(*, duration: float, keep: bool) -> int:
    """Run the demo. Returns 0 if both clusters have the same number of orders at the end."""
    console = Console()
    set_up_logging(console)
    try:
        data = Path(tempfile.mkdtemp(dir=ensure_writable(cache_directory() / "demo")))
    except SparkmirrorError as error:
        console.print(f"sparkmirror: {error}", style="red", highlight=False, soft_wrap=True)
        return 1
    fleet = LocalClusters(data)
    stop = ProcessSignals()
    started = time.monotonic()
    try:
        source, target = _clusters(console, fleet, keep=keep)
        matches = _flow(console, data, source, target, duration, stop)
    except SparkmirrorError as error:
        console.print(f"sparkmirror: {error}", style="red", highlight=False, soft_wrap=True)
        return 1
    finally:
        if not keep:
            fleet.stop()
            shutil.rmtree(data, ignore_errors=True)
    console.print(f"Done in {time.monotonic() - started:.0f} s.", highlight=False)
    if keep:
        console.print(
            f"The clusters are still running. Stop them: sparkmirror local down --data {data}",
            highlight=False,
            soft_wrap=True,
        )
    return 0 if matches else 1


def _clusters(console: Console, fleet: LocalClusters, *, keep: bool) -> tuple[str, str]:
    with console.status("Kafka's jars ..."):
        kafka_classpath()
    with console.status("Spark's class-data archive (once) ..."):
        build_and_wait()
    with console.status("Two Kafka clusters ..."):
        clusters = fleet.start(
            ["source", "target"], brokers=1, version=DEFAULT_KAFKA, first_port=None, detached=keep
        )
    for cluster in clusters:
        console.print(
            f"Cluster {cluster.name:<7} Kafka {DEFAULT_KAFKA} at {cluster.bootstrap_servers}",
            highlight=False,
        )
    return clusters[0].bootstrap_servers, clusters[1].bootstrap_servers


def _flow(
    console: Console, data: Path, source: str, target: str, duration: float, stop: ProcessSignals
) -> bool:
    with _admin("source", source) as admin:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, {})])
        admin.await_topics([TOPIC], _CATCH_UP_SECONDS)
    file = data / "mm2.properties"
    file.write_text(
        "clusters = source, target\n"
        f"source.bootstrap.servers = {source}\n"
        f"target.bootstrap.servers = {target}\n"
        "source->target.enabled = true\n"
        f"source->target.topics = {TOPIC}\n"
        + "".join(f"{key} = 1\n" for key in _FACTORS)
        + "emit.heartbeats.enabled = false\n"
        # One broker each: without these lines the log warns about replication factors.
        # Without heartbeats the copied records are the orders.
    )
    console.print(f"The flow:  sparkmirror run {file}", highlight=False, soft_wrap=True)
    console.print(
        f"To consume the remote topic:  sparkmirror local consume {target} {REMOTE}\n"
        f"To list the topics:           sparkmirror local topics {target}\n",
        highlight=False,
        soft_wrap=True,
    )
    orders = OrderProducer(source, TOPIC, _PER_SECOND, seed=1)
    application = Mirror(file)
    view = choose_view(console)
    orders.start()
    application.start()
    with view:
        try:
            _watch(application, view, stop, duration)
            flow = _with_latency(application)
        finally:
            orders.stop()
        deadline = time.monotonic() + _CATCH_UP_SECONDS
        while time.monotonic() < deadline and _count(target, "target", REMOTE) < orders.count:
            view.update(application.snapshots())
            flow = _with_latency(application) or flow
            if application.failure() is not None or stop.wait(_POLL_SECONDS):
                break
        _show_last_report(application, view, orders.count, stop)
        flow = _with_latency(application) or flow
    application.stop()
    on_source, on_target = _count(source, "source", TOPIC), _count(target, "target", REMOTE)
    _summarise(console, on_source, on_target, flow)
    return on_source == on_target


def _with_latency(application: Mirror) -> FlowSnapshot | None:
    """Return the flow if it has copied something recently."""
    return next((one for one in application.snapshots() if one.replication_latency), None)


def _watch(application: Mirror, view: View, stop: ProcessSignals, duration: float) -> None:
    end = time.monotonic() + duration
    while time.monotonic() < end and not stop.wait(_POLL_SECONDS):
        view.update(application.snapshots())
        failure = application.failure()
        if failure is not None:
            raise SparkmirrorError(str(failure))


def _show_last_report(application: Mirror, view: View, wanted: int, stop: ProcessSignals) -> None:
    """Show the reports of the tasks until they contain all orders, as the summary does."""
    deadline = time.monotonic() + _REPORT_SECONDS
    while time.monotonic() < deadline:
        found = application.snapshots()
        view.update(found)
        if sum(one.records for one in found) >= wanted or stop.wait(_POLL_SECONDS):
            return


def _admin(alias: str, servers: str) -> ClusterAdmin:
    return ClusterAdmin(ConnectionSettings(alias, tuple(servers.split(",")), "demo"))


def _count(servers: str, alias: str, topic: str) -> int:
    partitions = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    with _admin(alias, servers) as admin:
        return sum(admin.end_offsets(partitions, "read_uncommitted").found.values())


def _summarise(console: Console, on_source: int, on_target: int, flow: FlowSnapshot | None) -> None:
    counts = (("source", TOPIC, on_source), ("target", REMOTE, on_target))
    rows = [(Text(name), Text(topic), Text(format_count(count))) for name, topic, count in counts]
    console.print()
    console.print(FittedTable(("cluster", "topic", "records"), rows))
    if on_source == on_target:
        console.print("Every order arrived.", style="green")
    else:
        missing = on_source - on_target
        are = number_form(missing, "is", "are")
        console.print(f"{counted(missing, 'order')} {are} missing on the target.", style="red")
    if flow is not None:
        console.print(
            f"Replication latency {format_percentiles(flow.replication_latency)}, from an order's "
            "timestamp to the target's acknowledgement.\n"
            f"Copy latency {format_percentiles(flow.copy_latency)}, from the fetch on.",
            highlight=False,
        )


class OrderProducer:
    """Writes orders on its own thread until it is stopped."""

    def __init__(self, bootstrap_servers: str, topic: str, per_second: float, seed: int) -> None:
        servers = tuple(bootstrap_servers.split(","))
        self._client = ClusterClient(ConnectionSettings("source", servers, "demo-orders"))
        self._writer = TopicWriter(self._client, topic)
        self._per_second = per_second
        self._random = random.Random(seed)  # noqa: S311 - sample data
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="orders", daemon=True)
        self.count = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop writing. Blocks until everything is acknowledged."""
        self._stop.set()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        began = time.monotonic()
        while not self._stop.wait(1 / self._per_second):
            due = int((time.monotonic() - began) * self._per_second)
            orders: dict[int, list[KeyValue]] = defaultdict(list)
            for number in range(self.count + 1, due + 1):
                key, value = self._order(number)
                orders[partition_for_key(key, PARTITIONS)].append((key, value))
            self._writer.append({at: build_record_batch(some) for at, some in orders.items()})
            self.count = max(self.count, due)

    def _order(self, number: int) -> tuple[bytes, bytes]:
        order = {
            "order": number,
            "town": self._random.choice(_TOWNS),
            "item": self._random.choice(_GOODS),
            "pieces": self._random.randint(1, 12),
        }
        return str(order["town"]).encode(), json.dumps(order).encode()
