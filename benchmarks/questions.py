# SPDX-License-Identifier: Apache-2.0
"""The questions. Each has its own brokers, and its contenders take turns.

The first copy does not count: the JVMs of the brokers compile their code in it.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import standalone
from benchmarks.addresses import Servers
from benchmarks.catch_up import CatchUp, catch_up
from benchmarks.contenders import (
    CEILING,
    JAVA,
    OURS,
    TUNED,
    TUNED_FOR_DISTANCE,
    Contender,
    from_version,
    in_plain_text,
    ours_with_tasks,
)
from benchmarks.crowd import crowd, fill, planning_seconds
from benchmarks.data_sets import (
    BOUNDED,
    DATA_SETS,
    FAR_AWAY,
    KILOBYTE_LZ4,
    OLDER_SOURCE,
    OVER_TLS,
    SEVERAL_TASKS,
    SMALL_LZ4,
    SPARKS_OWN,
    WINDOWS,
    DataSet,
)
from benchmarks.latency import latency
from benchmarks.results import Figure, Results
from benchmarks.secured import LISTENERS, Tls
from benchmarks.spark_reference import spark_reference
from benchmarks.wire_alone import megabytes_per_cpu_second
from sparkmirror.devcluster.cluster import LocalCluster, start_all
from sparkmirror.devcluster.jars import DEFAULT_KAFKA
from sparkmirror.errors import SetupError
from support.clusters.memory_disk import keep_in_memory
from support.clusters.spark_cluster import SparkCluster
from support.peers.tcp_proxy import NetworkLink

_ONE_WAY_SECONDS = 0.025
_NO_WINDOW = 64 << 20  # more than anybody asks for at once
_BROKER = {"log.segment.delete.delay.ms": "1000", "log.retention.check.interval.ms": "5000"}
_HEAP = "1g"
_MEBIBYTE = 1 << 20
_WIRE_BYTES = 2_000 * _MEBIBYTE
_OLDER_KAFKA = "2.8.2"
_LONG_ROUNDS = 2  # of turns that each measure for a minute


@dataclass(frozen=True, slots=True)
class Stage:
    """Rounds, scale, seed and output of a run."""

    directory: Path
    rounds: int
    scale: float
    random: random.Random
    say: Callable[[str], None]
    is_quick: bool

    def turns(self, contenders: Sequence[Contender], most: int = 99) -> Iterator[Contender]:
        """Yield every contender once per round, in a changing order."""
        for _ in range(min(self.rounds, most)):
            yield from self.random.sample(contenders, len(contenders))


@dataclass(frozen=True, slots=True)
class Question:
    """A named measurement; `ask` adds its values to the results."""

    name: str
    ask: Callable[[Stage, Results], None]
    is_quick: bool = False


@contextmanager
def brokers(
    stage: Stage, line: NetworkLink | None = None, tls: Tls | None = None
) -> Iterator[tuple[LocalCluster, LocalCluster]]:
    """A source and a target, one broker each, fully compiled, with their logs in memory."""
    with ExitStack() as stack:
        detours = None
        if line is not None:
            stack.enter_context(line)
            detours = [line.proxy(lambda: _proxy_port(source))]
        source = _cluster("source", stage.directory, detours, tls)
        target = _cluster("target", stage.directory, None, tls)
        folders = [folder for one in (source, target) for folder in keep_in_memory(one)]
        stack.callback(_remove, folders)
        for one in (source, target):
            stack.callback(one.stop)
        start_all([source, target])
        if line is not None:
            line.slow(to_broker=_ONE_WAY_SECONDS, to_client=_ONE_WAY_SECONDS)
        yield source, target


@contextmanager
def _older_source(stage: Stage) -> Iterator[LocalCluster]:
    """One more source, of an older Kafka version."""
    source = _cluster("older", stage.directory, None, None, version=_OLDER_KAFKA)
    folders = keep_in_memory(source)
    try:
        yield source.start()
    finally:
        source.stop()
        _remove(folders)


def _cluster(
    name: str,
    directory: Path,
    detours: list[int] | None,
    tls: Tls | None,
    version: str = DEFAULT_KAFKA,
) -> LocalCluster:
    return LocalCluster(
        name,
        directory / name,
        version=version,
        jvm_options=(),
        heap=_HEAP,
        config={**_BROKER, **tls.broker} if tls else _BROKER,
        proxy_ports=detours,
        listeners=LISTENERS if tls else None,
    )


def _proxy_port(source: LocalCluster) -> int:
    detour = source.brokers[0].proxied_listener
    return detour.port if detour is not None else 0


def _remove(folders: list[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


# --- catching up


def _catch_up(
    data_set: DataSet, contenders: Sequence[Contender]
) -> Callable[[Stage, Results], None]:
    def ask(stage: Stage, results: Results) -> None:
        data = data_set.scaled(stage.scale)
        with brokers(stage) as (source, target):
            size = _write(stage, data, source)
            catch_up(CEILING, data, (source, target), stage.directory)
            for contender in stage.turns(contenders):
                found = catch_up(contender, data, (source, target), stage.directory)
                _note(stage, results, data, contender, found, size)

    return ask


def _far_away(
    data_set: DataSet, contenders: Sequence[Contender], *, has_windows: bool
) -> Callable[[Stage, Results], None]:
    """Delay each byte of the source by 25 ms each way; a window limits the bytes in transit."""

    def ask(stage: Stage, results: Results) -> None:
        data = data_set.scaled(stage.scale)
        line = NetworkLink("source")
        with brokers(stage, line) as (source, target):
            size = _write(stage, data, source)
            catch_up(CEILING, data, (source, target), stage.directory)
            for contender in stage.turns(contenders):
                line.limit(contender.window if has_windows else _NO_WINDOW)
                found = catch_up(
                    contender,
                    data,
                    (Servers(source.proxied_bootstrap_servers), target),
                    stage.directory,
                )
                _note(stage, results, data, contender, found, size)

    return ask


def _over_tls(stage: Stage, results: Results) -> None:
    """TLS to both clusters, compared with plain text on the same brokers."""
    data = OVER_TLS.scaled(stage.scale)
    secured = (OURS, TUNED, CEILING)
    plain = tuple(map(in_plain_text, (OURS, TUNED)))
    tls = Tls(stage.directory / "tls")
    with brokers(stage, tls=tls) as clusters:
        size = _write(stage, data, clusters[0])
        by_tls = tls.way(*clusters)
        for way in (by_tls, None):
            catch_up(CEILING, data, clusters, stage.directory, way)
        for contender in stage.turns((*secured, *plain)):
            way = by_tls if contender in secured else None
            found = catch_up(contender, data, clusters, stage.directory, way)
            _note(stage, results, data, contender, found, size)
    for contender in (OURS, TUNED):
        rate, cpu = (
            results.ratio(data.name, contender.name, in_plain_text(contender).name, figure)
            for figure in (Figure.RECORDS, Figure.CPU)
        )
        results.notes.append(
            f"{contender.name} over TLS, in units of itself in plain text: "
            f"records/s {rate:.2f}, CPU per record {cpu:.2f}"
        )
        stage.say(results.notes[-1])


def _from_an_older_source(stage: Stage, results: Results) -> None:
    """Copy the same records from a default-version source and from an older one."""
    data = OLDER_SOURCE.scaled(stage.scale)
    older = from_version(OURS, _OLDER_KAFKA)
    with brokers(stage) as (source, target), _older_source(stage) as older_source:
        sources = {OURS.name: source, older.name: older_source}
        for one in sources.values():
            size = _write(stage, data, one)
            catch_up(CEILING, data, (one, target), stage.directory)
        for contender in stage.turns((OURS, older)):
            clusters = (sources[contender.name], target)
            found = catch_up(contender, data, clusters, stage.directory)
            _note(stage, results, data, contender, found, size)
    rate = results.ratio(data.name, older.name, OURS.name, Figure.RECORDS)
    results.notes.append(f"Kafka {_OLDER_KAFKA} as source, in units of {DEFAULT_KAFKA}: {rate:.2f}")
    stage.say(results.notes[-1])


def _write(stage: Stage, data: DataSet, source: LocalCluster) -> int:
    size = data.write(source)
    stage.say(f"{data.name}: {data.records:,} records, {size / 1e6:,.0f} MB in the log")
    return size


def _note(
    stage: Stage, results: Results, data: DataSet, contender: Contender, found: CatchUp, size: int
) -> None:
    results.add(data.name, contender.name, _figures(found, size / data.records))
    stage.say(
        f"  {contender.name}: {found.records_per_second:,.0f} records/s, "
        f"{found.cpu_per_million:.2f} CPU-s per million, first record after "
        f"{found.start_seconds:.1f} s"
    )


def _figures(found: CatchUp, record_bytes: float) -> dict[Figure, float]:
    return {
        Figure.RECORDS: found.records_per_second,
        Figure.MEGABYTES: found.records_per_second * record_bytes / 1e6,
        Figure.CPU: found.cpu_per_million,
        Figure.START: found.start_seconds,
        Figure.START_CPU: found.start_cpu,
        Figure.MEMORY: found.peak_memory / _MEBIBYTE,
    }


# --- the wire alone


def _wire(stage: Stage, results: Results) -> None:
    total = round(_WIRE_BYTES * stage.scale)
    for is_secured in (False, True) * stage.rounds:
        found = megabytes_per_cpu_second(is_secured=is_secured, total=total)
        name = "TLS" if is_secured else "plain text"
        results.add("the wire alone", name, {Figure.WIRE: found})
        stage.say(f"the wire alone, {name}: {found:,.0f} MB per CPU-second")


# --- latency


def _latency(per_second: int) -> Callable[[Stage, Results], None]:
    def ask(stage: Stage, results: Results) -> None:
        seconds = 30.0 if stage.is_quick else 65.0
        with brokers(stage) as clusters:
            latency(OURS, clusters, stage.directory, per_second=per_second, seconds=5.0)
            for contender in stage.turns([OURS, JAVA], _LONG_ROUNDS):
                found = latency(
                    contender, clusters, stage.directory, per_second=per_second, seconds=seconds
                )
                results.add(
                    f"latency at {per_second:,} records/s",
                    contender.name,
                    {
                        Figure.P50: found.p50,
                        Figure.P95: found.p95,
                        Figure.P99: found.p99,
                        Figure.LONGEST: found.longest,
                        Figure.LOAD_CPU: found.cpu_share * 100,
                    },
                )
                stage.say(
                    f"latency at {per_second:,} records/s: {contender.name}: p50 {found.p50:.1f}, "
                    f"p99 {found.p99:.1f}, longest {found.longest:.0f} ms"
                )

    return ask


# --- many partitions


def crowd_question(partitions: int) -> str:
    return f"{partitions:,} idle partitions"


def _crowd(partitions: int) -> Callable[[Stage, Results], None]:
    def ask(stage: Stage, results: Results) -> None:
        planning = planning_seconds(partitions)
        with brokers(stage) as clusters:
            fill(clusters[0], partitions)
            stage.say(f"{partitions:,} partitions are there")
            crowd(OURS, partitions, clusters, stage.directory, idle_seconds=0.1)
            for contender in stage.turns([OURS, JAVA], _LONG_ROUNDS):
                found = crowd(contender, partitions, clusters, stage.directory, idle_seconds=20.0)
                figures = {
                    Figure.ALL_FLOW: found.all_flow_seconds,
                    Figure.IDLE: found.idle_share * 100,
                    Figure.IDLE_EACH: found.idle_share / partitions * 1e6,
                    Figure.MEMORY: found.peak_memory / _MEBIBYTE,
                }
                if contender is OURS:
                    figures[Figure.PLANNING] = planning * 1e3
                results.add(crowd_question(partitions), contender.name, figures)
                stage.say(
                    f"  {contender.name}: all flow after {found.all_flow_seconds:.1f} s, "
                    f"{found.idle_share:.2%} of a core when idle"
                )

    return ask


def _spark(stage: Stage, results: Results) -> None:
    """Spark for reference; skipped with a note if it cannot be installed."""
    try:
        reference = spark_reference()
    except SetupError as error:
        results.notes.append(f"Spark's own Kafka source and sink were left out: {error}")
        stage.say(results.notes[-1])
        return
    _catch_up(SPARKS_OWN, (OURS, reference))(stage, results)


def _standalone(stage: Stage, results: Results) -> None:
    """A bounded run with local Spark and on a standalone cluster with as many slots as tasks."""
    data = BOUNDED.scaled(stage.scale)
    with brokers(stage) as clusters, SparkCluster(stage.directory / "spark") as spark:
        spark.add_worker()
        spark.add_worker()
        _write(stage, data, clusters[0])
        both = standalone.contenders(spark)
        catch_up(CEILING, data, clusters, stage.directory)
        for contender in stage.turns(both):
            found = standalone.bounded_run(contender, data, clusters, stage.directory, spark)
            results.add(data.name, contender.name, found.figures())
            stage.say(
                f"  {contender.name}: {found.total_cpu:.1f} CPU-s in {found.total_seconds:.1f} s, "
                f"{found.copy_cpu / found.records * 1e6:.2f} CPU-s per million while copying, "
                f"first record after {found.start_seconds:.1f} s"
            )


_EVERYBODY = (OURS, TUNED, JAVA, CEILING)
CROWDS = (100, 1_000, 5_000)
_NAMES = {
    "1 KB uncompressed": "uncompressed",
    "10 KB zstd": "zstd",
    "one-record batches": "tiny",
    "1 partition": "one-partition",
    "100 partitions": "hundred-partitions",
    "1,000 partitions, 4 busy": "mostly-idle",
}
QUESTIONS = (
    Question("kilobyte", _catch_up(KILOBYTE_LZ4, _EVERYBODY), is_quick=True),
    Question("small", _catch_up(SMALL_LZ4, (OURS, TUNED, CEILING)), is_quick=True),
    *(
        Question(
            _NAMES[one.name],
            _catch_up(one, (OURS, TUNED)),
            is_quick=one.name == "one-record batches",
        )
        for one in DATA_SETS
        if one.name in _NAMES
    ),
    Question("far-away", _far_away(FAR_AWAY, (OURS, TUNED, CEILING), has_windows=False)),
    Question("windows", _far_away(WINDOWS, (OURS, TUNED, TUNED_FOR_DISTANCE), has_windows=True)),
    Question("tls", _over_tls),
    Question("older-source", _from_an_older_source),
    Question("wire", _wire, is_quick=True),
    Question("latency-200", _latency(200), is_quick=True),
    Question("latency-5000", _latency(5_000)),
    Question("tasks", _catch_up(SEVERAL_TASKS, (OURS, ours_with_tasks(2), ours_with_tasks(4)))),
    Question("cluster", _standalone),
    Question("spark", _spark),
    *(Question(f"crowd-{count}", _crowd(count)) for count in CROWDS),
)
