# SPDX-License-Identifier: Apache-2.0
"""A file that changes while its flows run: what differs is changed, the rest is not touched.

All tests share one process and one file, which is a link into a directory that is swapped, as
Kubernetes mounts it. A flow that no test changes copies a steady stream from the start to the end:
its epoch and its worker process stay the same, and so do those who wait for its records.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.devcluster.ports import HOST, ReservedPort
from sparkmirror.formats.mm2_records import Heartbeat
from support.clients.librdkafka import (
    await_copy,
    compare_topics,
    create_topics,
    numbered,
    produce,
    read_topic,
    topics,
)
from support.clients.load_generator import Load
from support.clients.prometheus import Sample, sample, scrape
from support.mirrors.mirror_process import MirrorProcess
from support.waiting import PATIENCE_SECONDS, eventually

STEADY, MOVED = "stay->hub", "move->hub"
LAST_RELOAD = sample("sparkmirror_config_last_reload_successful")


def reloads(result: str) -> Sample:
    """How often the file was read again with this result."""
    return sample("sparkmirror_config_reloads_total", result=result)


class Mounted:
    """A file as Kubernetes mounts it; `lines` by key are what the next `publish` writes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._version = 0
        self.lines: dict[str, str] = {}
        self.path = directory / "mm2.properties"
        self.path.symlink_to("..data/mm2.properties")

    def publish(self, *broken: str) -> None:
        """Another directory with the file, then the link is swapped."""
        self._version += 1
        name = f"..version-{self._version}"
        (self._directory / name).mkdir()
        text = [*(f"{key} = {value}" for key, value in self.lines.items()), *broken, ""]
        (self._directory / name / "mm2.properties").write_text("\n".join(text))
        (self._directory / "..new").symlink_to(name)
        (self._directory / "..new").rename(self._directory / "..data")

    def edit(self) -> None:
        """The same in place, as an editor does it; it is never empty in between."""
        text = [*(f"{key} = {value}" for key, value in self.lines.items()), ""]
        with self.path.open("r+") as file:
            file.write("\n".join(text))
            file.truncate()


class Bench:
    """The running process, its file, and access to its metrics."""

    def __init__(self, mirror: MirrorProcess, file: Mounted, port: int) -> None:
        self.mirror = mirror
        self.file = file
        self.port = port
        self.worker = self._only_worker()
        self.epoch = self.figure(sample("sparkmirror_epoch", flow=STEADY))

    def _only_worker(self) -> psutil.Process:
        """The process of the one task that runs so far."""
        found = eventually(self.mirror.python_workers, PATIENCE_SECONDS, "a worker talks")
        assert len(found) == 1
        return found[0]

    def figure(self, name: Sample) -> float:
        """One figure, as soon as it is there."""
        [value] = eventually(
            lambda: [scrape(HOST, self.port)[name]],
            PATIENCE_SECONDS,
            f"{name} is served",
            not_yet=(KeyError, OSError),
        )
        return value

    def await_figure(self, name: Sample, value: float) -> None:
        """Wait until a figure has a value; the log may tell of it first."""
        eventually(lambda: self.figure(name) == value, PATIENCE_SECONDS, f"{name} is {value:g}")

    def assert_untouched(self) -> None:
        """The steady flow is in its first epoch, with the task it had at the start."""
        assert self.figure(sample("sparkmirror_epoch", flow=STEADY)) == self.epoch
        assert self.worker in self.mirror.python_workers()

    def said_again(self) -> list[str]:
        """What the log says about files that were read again."""
        return [line for line in self.mirror.log.splitlines() if "was reloaded" in line]

    def await_reload(self, text: str, seen: int = 0) -> None:
        """Wait until a reading after the first `seen` ones was reported with this text."""
        eventually(
            lambda: any(text in line for line in self.said_again()[seen:]),
            PATIENCE_SECONDS,
            f"{text!r} in {self.mirror.log_file}",
        )


@pytest.fixture(scope="module")
def bench(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Bench]:
    """A process with one flow, under load."""
    create_topics(source_cluster, {"reload-steady": 1, "reload-one": 2, "reload-two": 1})
    port = ReservedPort()
    port.reserve()
    port.prepare_bind()
    file = Mounted(tmp_path_factory.mktemp("reload"))
    file.lines = {
        "clusters": "stay, move, hub",
        "stay.bootstrap.servers": source_cluster.bootstrap_servers,
        "move.bootstrap.servers": source_cluster.bootstrap_servers,
        "hub.bootstrap.servers": target_cluster.bootstrap_servers,
        "hub.session.timeout.ms": "60000",  # no pause of a busy machine ends it
        "emit.heartbeats.enabled": "false",
        "heartbeats.replication.enabled": "false",  # those of other tests are not counted
        "epoch.seconds": "86400",  # none ends by itself before the last test does
        f"{STEADY}.enabled": "true",
        f"{STEADY}.topics": "reload-steady",
        f"{MOVED}.topics": "reload-one",
        "metrics.port": str(port.number),
    }
    file.publish()
    with (
        MirrorProcess(file.path) as mirror,
        Load(source_cluster, "reload-steady", per_second=50),
    ):
        mirror.await_log(f"{STEADY}: RUNNING", PATIENCE_SECONDS)
        yield Bench(mirror, file, port.number)
        mirror.show_log()
    port.release()


def test_a_flow_is_added(
    bench: Bench, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    """It copies; the other one does not notice."""
    produce(source_cluster, "reload-one", numbered(500, 2))
    bench.file.lines[f"{MOVED}.enabled"] = "true"
    bench.file.publish()
    bench.await_reload(f"mm2.properties was reloaded: started {MOVED}; 1 flow untouched")
    await_copy(source_cluster, "reload-one", target_cluster, "move.reload-one", PATIENCE_SECONDS)
    bench.await_figure(reloads("applied"), 1)
    bench.assert_untouched()


def test_a_flow_gets_other_topics(
    bench: Bench, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    """It is started again, continues where it was and continues counting."""
    copied = sample("sparkmirror_records_total", flow=MOVED)
    bench.await_figure(copied, 500)
    produce(source_cluster, "reload-two", numbered(300))
    bench.file.lines[f"{MOVED}.topics"] = "reload-one, reload-two"
    bench.file.edit()
    bench.await_reload(f"restarted {MOVED} (topics); 1 flow untouched")
    produce(source_cluster, "reload-one", numbered(500, 2, first=500))
    for topic, count in (("reload-one", 1000), ("reload-two", 300)):
        await_copy(source_cluster, topic, target_cluster, f"move.{topic}", PATIENCE_SECONDS)
        assert compare_topics(source_cluster, topic, target_cluster, f"move.{topic}") == count
    bench.await_figure(copied, 1300)
    assert bench.figure(sample("sparkmirror_epoch", flow=MOVED)) > 1
    bench.assert_untouched()


def test_heartbeats_and_groups_change_without_a_pause_of_the_copy(
    bench: Bench, target_cluster: LocalCluster
) -> None:
    """Even those of the steady flow: its copying continues in the same epoch."""
    bench.file.lines |= {
        f"{STEADY}.emit.heartbeats.enabled": "true",
        f"{STEADY}.groups": "orders",
    }
    bench.file.publish()
    bench.await_reload(f"restarted the checkpoints and heartbeats of {STEADY} (")

    def beats() -> set[str]:
        records = read_topic(target_cluster, "heartbeats").get(0, [])
        found = [Heartbeat.from_record(one.key or b"", one.value or b"") for one in records]
        return {str(beat.flow) for beat in found}

    eventually(lambda: STEADY in beats(), PATIENCE_SECONDS, "the flow's heart beats")
    bench.assert_untouched()


def test_an_invalid_file_is_rejected_and_the_previous_one_stays_in_use(
    bench: Bench, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    """All of it, with the line of every error; a mended file is taken up."""
    good = dict(bench.file.lines)
    bench.file.lines[f"{MOVED}.enabled"] = "false"
    bench.file.publish(f"{STEADY}.tasks.max = many", f"{STEADY}.epoch.seconds = 0")
    bench.mirror.await_log(
        "mm2.properties was rejected; the previous configuration stays in use", PATIENCE_SECONDS
    )
    line = len(bench.file.lines) + 1
    assert f"line {line}: {STEADY}.tasks.max must be" in bench.mirror.log
    assert f"line {line + 1}: {STEADY}.epoch.seconds must be" in bench.mirror.log
    bench.await_figure(reloads("refused"), 1)
    bench.await_figure(LAST_RELOAD, 0)
    produce(source_cluster, "reload-two", numbered(50, first=300))
    await_copy(source_cluster, "reload-two", target_cluster, "move.reload-two", PATIENCE_SECONDS)
    bench.assert_untouched()

    bench.file.lines = good
    bench.file.publish()
    bench.await_reload("nothing to do; 2 flows untouched")
    bench.await_figure(reloads("unchanged"), 1)
    bench.await_figure(LAST_RELOAD, 1)


def test_a_hangup_reads_what_the_file_refers_to(
    bench: Bench, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    """A provider's value changed, the file did not; the value itself is not shown."""
    create_topics(source_cluster, {"reload-hidden": 1})
    produce(source_cluster, "reload-hidden", numbered(20))
    values = bench.file.path.with_name("values.properties")
    values.write_text("topics=reload-one,reload-two\n")
    bench.file.lines[f"{MOVED}.topics"] = f"${{file:{values}:topics}}"
    seen = len(bench.said_again())
    bench.file.publish()
    bench.await_reload("nothing to do; 2 flows untouched", seen)
    os.kill(bench.mirror.pid, signal.SIGHUP)
    bench.await_reload("nothing to do; 2 flows untouched", seen + 1)  # nothing has changed
    values.write_text("topics=reload-one,reload-two,reload-hidden\n")
    os.kill(bench.mirror.pid, signal.SIGHUP)
    bench.await_reload(f"restarted {MOVED} (topics); 1 flow untouched", seen + 2)
    await_copy(
        source_cluster, "reload-hidden", target_cluster, "move.reload-hidden", PATIENCE_SECONDS
    )
    assert not any("reload-hidden" in line for line in bench.said_again())
    bench.assert_untouched()


def test_a_wrong_address_is_corrected_without_a_restart(
    bench: Bench, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    """The flow that cannot reach its cluster is begun anew at once; the others flow meanwhile."""
    right = bench.file.lines["move.bootstrap.servers"]
    bench.file.lines["move.bootstrap.servers"] = f"{HOST}:1"
    bench.file.publish()
    bench.mirror.await_log(f"{MOVED}: RETRYING", PATIENCE_SECONDS)
    produce(source_cluster, "reload-two", numbered(50, first=350))
    seen = len(bench.said_again())
    bench.file.lines["move.bootstrap.servers"] = right
    bench.file.publish()
    bench.await_reload(f"restarted {MOVED} (move.bootstrap.servers); 1 flow untouched", seen)
    await_copy(source_cluster, "reload-two", target_cluster, "move.reload-two", PATIENCE_SECONDS)
    assert compare_topics(source_cluster, "reload-two", target_cluster, "move.reload-two") == 400
    bench.assert_untouched()


def test_metrics_move_and_a_taken_port_refuses_the_file(bench: Bench) -> None:
    """Flows are not asked; keys of Spark wait for the next start, and the log says so."""
    refused, before = bench.figure(reloads("refused")), bench.port
    with closing(socket.create_server((HOST, 0))) as taken:
        bench.file.lines["metrics.port"] = str(taken.getsockname()[1])
        bench.file.publish()
        bench.await_figure(reloads("refused"), refused + 1)
        bench.mirror.await_log("Cannot serve metrics at", PATIENCE_SECONDS)
    port = ReservedPort()
    port.reserve()
    port.prepare_bind()
    bench.file.lines |= {"metrics.port": str(port.number), "spark.executor.memory": "2g"}
    bench.file.publish()
    bench.await_reload("spark.executor.memory takes effect at the next start")
    bench.port = port.number
    assert bench.figure(reloads("applied")) > 1
    eventually(lambda: not is_served(before), PATIENCE_SECONDS, "the old port is given up")
    bench.assert_untouched()
    port.release()


def is_served(port: int) -> bool:
    """Whether somebody listens at a port."""
    with closing(socket.socket()) as client:
        return client.connect_ex((HOST, port)) == 0


def test_a_flow_is_removed(bench: Bench, source_cluster: LocalCluster) -> None:
    """It ends in order and leaves the figures."""
    del bench.file.lines[f"{MOVED}.enabled"]
    bench.file.publish()
    bench.await_reload(f"stopped {MOVED}; 1 flow untouched")
    name = sample("sparkmirror_records_total", flow=MOVED)
    eventually(lambda: name not in scrape(HOST, bench.port), PATIENCE_SECONDS, "it is gone")
    produce(source_cluster, "reload-one", numbered(10, 2, first=1000))
    bench.assert_untouched()


def test_a_stop_in_the_middle_of_a_reload_is_orderly(
    bench: Bench, target_cluster: LocalCluster
) -> None:
    """One flow begins, another one is started again; nothing is lost or twice, nothing is left."""
    bench.assert_untouched()
    bench.file.lines |= {f"{MOVED}.enabled": "true", f"{STEADY}.tasks.max": "2"}
    bench.file.publish()
    bench.await_reload(f"started {MOVED}; restarted {STEADY} (tasks.max)")
    assert bench.mirror.terminate()[0] == 0
    bench.mirror.await_end_of_all()
    assert "Traceback" not in bench.mirror.log
    copied = read_topic(target_cluster, "stay.reload-steady")[0]
    numbers = [int(record.key or b"") for record in copied]
    assert numbers == list(range(len(numbers)))
    assert "move.reload-one" in topics(target_cluster)


@pytest.mark.thorough
def test_flows_that_come_late_share_what_spark_has(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """Spark starts for the first of them; one that has more than its share makes room."""
    create_topics(source_cluster, {"late-wide": 2, "late-narrow": 1})
    produce(source_cluster, "late-wide", numbered(100, 2))
    produce(source_cluster, "late-narrow", numbered(100))
    file = Mounted(tmp_path)
    file.lines = {
        "clusters": "wide, narrow, far",
        "wide.bootstrap.servers": source_cluster.bootstrap_servers,
        "narrow.bootstrap.servers": source_cluster.bootstrap_servers,
        "far.bootstrap.servers": target_cluster.bootstrap_servers,
        "wide->far.topics": "late-wide",
        "wide->far.tasks.max": "2",
        "narrow->far.topics": "late-narrow",
    }
    file.publish()
    with MirrorProcess(file.path, "--clusters", "far", "--master", "local[3]") as mirror:
        mirror.await_log("wide->far: RUNNING heartbeats only", PATIENCE_SECONDS)
        assert mirror.driver_jvm() is None
        file.lines["wide->far.enabled"] = "true"
        file.publish()
        await_copy(source_cluster, "late-wide", target_cluster, "wide.late-wide", PATIENCE_SECONDS)
        assert len(mirror.python_workers()) == 2
        file.lines["narrow->far.enabled"] = "true"
        file.publish()
        mirror.await_log("wide->far: replanning with fewer splits", PATIENCE_SECONDS)
        mirror.await_log("fewer than tasks.max requires: wide->far get", PATIENCE_SECONDS)
        await_copy(
            source_cluster, "late-narrow", target_cluster, "narrow.late-narrow", PATIENCE_SECONDS
        )
        produce(source_cluster, "late-wide", numbered(100, 2, first=100))
        await_copy(source_cluster, "late-wide", target_cluster, "wide.late-wide", PATIENCE_SECONDS)
        assert mirror.terminate()[0] == 0
    assert compare_topics(source_cluster, "late-wide", target_cluster, "wide.late-wide") == 200
