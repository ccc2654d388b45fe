# SPDX-License-Identifier: Apache-2.0
"""A mirror shows what docs/what-you-see.md says about twelve situations: the tests read its table.

All situations share two clusters and one mirror with a flow for each lasting problem. Each test
brings about one situation, in the order of the table, and ends it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation

from sparkmirror.devcluster.cluster import LocalCluster, start_all
from sparkmirror.devcluster.ports import HOST, ReservedPort
from support.clients.librdkafka import (
    Record,
    create_topics,
    delete_topic,
    numbered,
    produce,
    topics,
)
from support.clients.prometheus import Sample, sample, scrape
from support.clusters.client_quotas import set_quota
from support.clusters.memory_disk import keep_in_memory
from support.mirrors.faulty_mirror import AUTHORIZER, NOT_YET, forbid
from support.mirrors.java_connect import ConnectTopics
from support.mirrors.shown_mirror import Shown, ShownMirror
from support.mirrors.worker_process import WorkerProcess
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "what-you-see.md").read_text(encoding="utf-8")
COUNT = 500  # records that wait, in most situations
MAIN = "A->B"
SOURCE = "/connectors/A-%3EB.MirrorSourceConnector"
FLOWS = {"A": "orders", "Q": "large", "R": "again", "N": "secret", "M": "payments, pyaments"}
LIMIT = 20_000
SLOW = ("consumer_byte_rate", 20_000.0)
LOOK_SECONDS = 0.7  # between two looks at everything, each of which takes CPU
Page = dict[str, list[str]]


@dataclass(slots=True)
class World:
    """The clusters, the lines of the mirror's file, and the mirror."""

    source: LocalCluster
    target: LocalCluster
    lines: list[str]
    directory: Path
    mirror: ShownMirror

    def await_lag(self, flow: str = MAIN, lag: str = "0") -> None:
        eventually(
            lambda: self.mirror.shown(flow).get["lag"] == lag,
            PATIENCE_SECONDS,
            f"the lag of {flow} is {lag}",
            not_yet=NOT_YET,
            pause_seconds=LOOK_SECONDS,
        )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, kafka_version: str) -> Iterator[World]:
    """A mirror that begins with a backlog of a minute, which it may read slowly only."""
    directory = tmp_path_factory.mktemp("seen")
    source = LocalCluster("source", directory / "s", version=kafka_version, config=AUTHORIZER)
    target = LocalCluster("target", directory / "t", version=kafka_version)
    with ExitStack() as stack:
        for cluster in (source, target):
            keep_in_memory(cluster)
            stack.callback(cluster.stop)
        start_all([source, target])
        create_topics(source, {"orders": 4, "large": 2, "again": 1, "secret": 1, "payments": 1})
        create_topics(target, {"Q.large": 2}, {"max.message.bytes": str(LIMIT)})
        forbid(source, "secret", AclOperation.READ)
        for topic in ("again", "secret", "payments"):
            produce(source, topic, numbered(COUNT))
        backlog = [(at, with_size(one, LIMIT * 3 // 4)) for at, one in numbered(80, 4)]
        produce(source, "orders", backlog, compression_type="none", batch_size=LIMIT)
        set_quota(source.bootstrap_servers, *SLOW)
        lines = [
            f"clusters = {', '.join(FLOWS)}, B",
            *(f"{alias}.bootstrap.servers = {source.bootstrap_servers}" for alias in FLOWS),
            f"B.bootstrap.servers = {target.bootstrap_servers}",
            *(f"{alias}->B.enabled = true" for alias in FLOWS),
            *(f"{alias}->B.topics = {names}" for alias, names in FLOWS.items()),
            "Q->B.refused.record.policy = stop",
            "B.session.timeout.ms = 6000",
            "refresh.topics.interval.seconds = 2",
            f"consumer.max.partition.fetch.bytes = {LIMIT}",
            f"consumer.fetch.max.bytes = {LIMIT}",
            "replication.factor = 1",
            "log.progress.seconds = 1",
            "sync.topic.configs.enabled = false",
            "sync.topic.acls.enabled = false",
            "heartbeats.replication.enabled = false",
            "emit.heartbeats.enabled = false",
            "emit.checkpoints.enabled = false",
        ]
        mirror = stack.enter_context(ShownMirror(directory / "first", lines))
        yield World(source, target, lines, directory, mirror)


def with_size(record: Record, size: int) -> Record:
    return record._replace(value=b"v" * size)


# --- the situations: each yields the flow and the process to look at

Situation = Callable[[World], AbstractContextManager[tuple[str, ShownMirror]]]


@contextmanager
def catching_up(world: World) -> Iterator[tuple[str, ShownMirror]]:
    yield MAIN, world.mirror
    lag = json.loads(world.mirror.shown(MAIN).rest.splitlines()[1])
    assert lag["replicationLatencyMs"]["p50"] > 60_000  # the age of the backlog
    assert lag["copyLatencyMs"]["p50"] < lag["replicationLatencyMs"]["p50"]
    set_quota(world.source.bootstrap_servers, SLOW[0], None)
    world.await_lag()


@contextmanager
def misspelt_topic(world: World) -> Iterator[tuple[str, ShownMirror]]:
    world.mirror.log_start = 0
    yield "M->B", world.mirror


@contextmanager
def no_rights(world: World) -> Iterator[tuple[str, ShownMirror]]:
    world.mirror.log_start = 0
    yield "N->B", world.mirror


@contextmanager
def quarantined(world: World) -> Iterator[tuple[str, ShownMirror]]:
    records = numbered(COUNT)
    records[0] = (0, with_size(records[0][1], LIMIT * 3 // 2))
    produce(world.source, "large", records, compression_type="none")
    yield "Q->B", world.mirror


@contextmanager
def topic_recreated(world: World) -> Iterator[tuple[str, ShownMirror]]:
    delete_topic(world.source, "again")
    eventually(lambda: "again" not in topics(world.source), PATIENCE_SECONDS, "it is deleted")
    create_topics(world.source, {"again": 1})
    produce(world.source, "again", numbered(COUNT))
    yield "R->B", world.mirror


@contextmanager
def task_killed(world: World) -> Iterator[tuple[str, ShownMirror]]:
    for worker in world.mirror.process.python_workers():
        worker.kill()
    yield MAIN, world.mirror


@contextmanager
def paused(world: World) -> Iterator[tuple[str, ShownMirror]]:
    world.mirror.rest.request_ok("PUT", f"{SOURCE}/pause")
    produce(world.source, "orders", numbered(COUNT, 4))
    yield MAIN, world.mirror


@contextmanager
def stopped(world: World) -> Iterator[tuple[str, ShownMirror]]:
    world.mirror.rest.request_ok("PUT", f"{SOURCE}/stop")  # the records of `paused` still wait
    yield MAIN, world.mirror
    world.mirror.rest.request_ok("PUT", f"{SOURCE}/resume")
    world.await_lag()


@contextmanager
def standby(world: World) -> Iterator[tuple[str, ShownMirror]]:
    with ShownMirror(world.directory / "second", world.lines) as second:
        second.process.await_log(f"{MAIN}: STANDBY", PATIENCE_SECONDS)
        yield MAIN, second


@contextmanager
def target_down(world: World) -> Iterator[tuple[str, ShownMirror]]:
    world.target.kill()
    produce(world.source, "orders", numbered(COUNT, 4))
    yield MAIN, world.mirror
    world.target.start()
    world.await_lag()


@contextmanager
def source_down(world: World) -> Iterator[tuple[str, ShownMirror]]:
    world.source.kill()
    yield MAIN, world.mirror
    world.source.start()
    world.await_lag()


@contextmanager
def jvm_killed(world: World) -> Iterator[tuple[str, ShownMirror]]:
    jvm = world.mirror.process.driver_jvm()
    assert jvm is not None
    jvm.kill()
    assert world.mirror.process.wait(PATIENCE_SECONDS) == 2
    yield MAIN, world.mirror


SITUATIONS: dict[str, Situation] = {
    one.__name__.replace("_", " ").replace("jvm", "JVM"): one
    for one in (
        catching_up, misspelt_topic, no_rights, quarantined, topic_recreated, task_killed, paused,
        stopped, standby, target_down, source_down, jvm_killed,
    )
}  # fmt: skip


# --- the table


def read_table() -> Page:
    """The cells of each situation, without its name."""
    rows = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| **")]
    return {re.findall(r"\*\*(.+)\*\*", name)[0]: cells for name, *cells in rows}


def pattern(fragment: str) -> str:
    return ".*".join(map(re.escape, re.split(" ?… ?", fragment)))


def missing_columns(cell: str, columns: Mapping[str, str]) -> list[str]:
    """Fragments of a cell that a column does not have; a word before one names its column."""
    found = []
    for label, fragment in re.findall(r"(?:\b(tasks|lag|problem|reason|code) )?`([^`]+)`", cell):
        column = {"": "state", "code": "exit"}.get(label, label)
        text = columns.get(column, "")
        if fragment.startswith("> "):
            is_shown = text.replace(",", "").isdigit() and int(text.replace(",", "")) > 0
        elif column in ("problem", "reason"):
            is_shown = re.search(pattern(fragment), text) is not None
        else:
            is_shown = re.fullmatch(pattern(fragment), text) is not None
        if not is_shown:
            found.append(f"{column} {fragment!r}, not {text!r}")
    return found


def missing_text(cell: str, text: str) -> list[str]:
    wanted = re.findall("`([^`]+)`", cell)
    return [f"{one!r} in {text}" for one in wanted if not re.search(pattern(one), text)]


def bucket(quantile: float, key: Sample, samples: Mapping[Sample, float]) -> float | None:
    """The upper limit of the bucket that has a quantile of a flow's histogram; None: it is empty.

    Prometheus interpolates within this bucket.
    """
    name, labels = key
    counts = {
        float(dict(pairs)["le"]): count
        for (known, pairs), count in samples.items()
        if known == name and set(labels) < set(pairs)
    }
    rank = quantile * max(counts.values(), default=0.0)
    return min((limit for limit, count in counts.items() if count >= rank > 0), default=None)


def missing_samples(cell: str, flow: str, samples: Mapping[Sample, float]) -> list[str]:
    found = []
    for fragment in re.findall("`([^`]+)`", cell):
        matched = re.fullmatch(
            r"(?:histogram_quantile\((.+), )?(\w+)(?:\{(.*)\})?\)? (> )?(\S+)", fragment
        )
        assert matched is not None, fragment
        quantile, name, labels, is_above, number = matched.groups()
        key = sample(name, flow=flow, **dict(re.findall(r'(\w+)="([^"]*)"', labels or "")))
        wanted = float(number)
        value = samples.get(key) if not quantile else bucket(float(quantile), key, samples)
        is_equal = value == wanted or (value is not None and math.isnan(value + wanted))
        if not (value is not None and value > wanted if is_above else is_equal):
            found.append(f"{fragment}, not {value}")
    return found


def missing(cells: list[str], flow: str, shown: Shown) -> list[str]:
    """What the table says and the process does not show."""
    get, live, log, health, metrics, rest = cells
    codes = ", ".join(f"`{code}`" for code in (shown.health, shown.ready) if code)
    return [
        *missing_columns(get, shown.get),
        *missing_columns(live, shown.live),
        *missing_text(log, shown.log),
        *([] if health in (codes, "no answer") else [f"{health}, not {codes}"]),
        *missing_samples(metrics, flow, shown.metrics),
        *missing_text(rest, shown.rest),
    ]


# --- the alert of docs/incidents.md


def alert_fires(flow: str, before: Mapping[Sample, float], now: Mapping[Sample, float]) -> bool:
    """Evaluate the expression for one flow, as Prometheus would after these two scrapes."""
    text = (DOCS / "incidents.md").read_text(encoding="utf-8")
    (expression,) = re.findall(r"```promql\n(.*?)```", text, re.DOTALL)
    return any(
        term_holds(term.strip(), flow, before, now) for term in re.split(r"\bor\b", expression)
    )


def term_holds(
    term: str, flow: str, before: Mapping[Sample, float], now: Mapping[Sample, float]
) -> bool:
    matched = re.fullmatch(
        r'(increase\()?(\w+)(?:\{(\w+)=~"(.*)"\})?(?:\[\w+\]\))? (>|==) (\d+)', term
    )
    assert matched is not None, term
    is_increase, name, label, values, operator, number = matched.groups()
    for (known, pairs), value in now.items():
        labels = dict(pairs)
        if known != name or labels.get("flow") != flow:
            continue
        if label and not re.fullmatch(values, labels[label]):
            continue
        result = value - before.get((known, pairs), value) if is_increase else value
        if result > int(number) if operator == ">" else result == int(number):
            return True
    return False


@pytest.mark.thorough
def test_a_worker_shows_that_its_own_cluster_is_down(
    tmp_path: Path, source_cluster: LocalCluster, kafka_version: str
) -> None:
    """It cannot write statuses: the last ones get a warning, and the lag stays."""
    topic = unique_name("orders")
    create_topics(source_cluster, {topic: 1})
    config = {
        "connector.class": "MirrorSourceConnector",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": source_cluster.bootstrap_servers,
        "topics": topic,
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "sync.topic.acls.enabled": "false",
    }
    metrics = ReservedPort()
    metrics.reserve()
    metrics.prepare_bind()
    group = ConnectTopics(unique_name("seen"))
    options = {"metrics_port": str(metrics.number), "session_timeout_ms": "6000"}
    with ExitStack() as stack:
        stack.callback(metrics.release)
        target = LocalCluster("target", tmp_path / "target", version=kafka_version)
        stack.enter_context(target)
        config["target.cluster.bootstrap.servers"] = target.bootstrap_servers
        worker = stack.enter_context(WorkerProcess(target, tmp_path, group, **options))
        worker.await_health()
        worker.create("orders", config)
        worker.await_states("orders", "RUNNING", "RUNNING")
        target.kill()
        produce(source_cluster, topic, numbered(COUNT))

        def is_shown() -> bool:
            status = worker.get("/connectors/orders/status")
            assert status["connector"]["state"] == "RUNNING"
            assert "cannot be reached" in status["connector"]["warning"]
            assert [one["state"] for one in status["tasks"]] == ["UNASSIGNED"]
            assert worker.get("/connectors/orders/lag")["lag"] == COUNT
            assert worker.request("GET", "/health")[0] == 200
            code, ready = worker.request("GET", "/health/ready")
            assert (code, ready["status"]) == (503, "not ready")
            samples = scrape(HOST, metrics.number)
            assert samples[sample("sparkmirror_lag_records", flow="A->B|orders")] == COUNT
            assert alert_fires("A->B|orders", {}, samples)
            return True

        not_yet = (*NOT_YET, KeyError)
        what = "the worker shows it"
        eventually(is_shown, PATIENCE_SECONDS, what, not_yet=not_yet, pause_seconds=LOOK_SECONDS)
        target.start()
        eventually(
            lambda: worker.get("/connectors/orders/lag")["lag"] == 0,
            PATIENCE_SECONDS,
            "the records have arrived",
            not_yet=NOT_YET,
            pause_seconds=LOOK_SECONDS,
        )
        assert worker.request("GET", "/health/ready")[0] == 200


def test_every_situation_of_the_page_is_tried() -> None:
    assert [*read_table()] == [*SITUATIONS]


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_mirror_shows_what_the_page_says(world: World, name: str) -> None:
    """Every fragment of the row at the same moment."""
    cells = read_table()[name]
    world.mirror.forget_log()
    with SITUATIONS[name](world) as (flow, mirror):
        seen: list[Shown] = []

        def is_shown() -> bool:
            shown = mirror.shown(flow)
            assert not (found := missing(cells, flow, shown)), "; ".join(found)
            seen.append(shown)
            return True

        not_yet = (*NOT_YET, KeyError, ValueError)
        eventually(is_shown, PATIENCE_SECONDS, name, not_yet=not_yet, pause_seconds=LOOK_SECONDS)
        metrics = seen[-1].metrics
        needs_action = {"no rights", "quarantined", "topic recreated", "target down", "source down"}
        assert not metrics or alert_fires(flow, {}, metrics) == (name in needs_action)
        assert "Traceback" not in mirror.process.log
