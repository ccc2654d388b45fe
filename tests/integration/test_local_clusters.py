# SPDX-License-Identifier: Apache-2.0
"""Local clusters with real brokers: start, death, restart, and the commands that people type."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.devcluster.broker import LocalBroker
from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.devcluster.jars import DEFAULT_KAFKA, TESTED_KAFKA, kafka_classpath
from sparkmirror.devcluster.jvm import KafkaJvm
from sparkmirror.devcluster.kafka_tools import KafkaTools
from sparkmirror.devcluster.metadata_probe import fetch_broker_metadata
from sparkmirror.devcluster.ports import HOST
from sparkmirror.devcluster.process_identity import ProcessIdentity
from sparkmirror.errors import ClusterError, SetupError
from support.peers.tcp_proxy import NetworkLink
from support.waiting import PATIENCE_SECONDS, eventually

WITH_ZOOKEEPER = "2.4.1"


@pytest.fixture
def cluster(tmp_path: Path, kafka_version: str) -> Iterator[LocalCluster]:
    """A cluster of one broker that the test may hurt."""
    with LocalCluster("hurt", tmp_path / "hurt", version=kafka_version) as cluster:
        yield cluster


def cli(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """The real command in its own process."""
    return subprocess.run(
        [sys.executable, "-m", "sparkmirror.cli.local", *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def told(data: Path) -> list[dict[str, Any]]:
    """What `status --json` says."""
    answer: list[dict[str, Any]] = json.loads(cli("status", "--json", "--data", str(data)).stdout)
    return answer


def alive(pid: int) -> bool:
    """Whether a process runs under that pid."""
    return ProcessIdentity.of(pid) is not None


@pytest.mark.thorough
def test_killed_broker_comes_back_with_its_data(cluster: LocalCluster) -> None:
    """SIGKILL, restart: same port, same records, another process."""
    broker = cluster.brokers[0]
    tools = KafkaTools(cluster.bootstrap_servers)
    tools.create_topic("kept")
    tools.produce("kept", ["one", "two"])
    address, pid = broker.address, broker.pid
    broker.kill()
    assert not broker.running
    assert broker.pid is None
    assert broker.metadata() is None
    broker.start()
    assert (address, True) == (broker.address, broker.pid != pid)
    assert tools.consume("kept", records=2) == ["one", "two"]


@pytest.mark.thorough
def test_suspended_broker_is_silent_until_resumed(cluster: LocalCluster) -> None:
    """SIGSTOP leaves the port open and answers nothing."""
    broker = cluster.brokers[0]
    broker.suspend()
    assert broker.running
    assert broker.metadata() is None
    broker.resume()
    eventually(broker.metadata, PATIENCE_SECONDS, "the resumed broker answers")


@pytest.mark.thorough
def test_whole_cluster_restarts_on_its_data(cluster: LocalCluster) -> None:
    """Stop and start keep the cluster id, the address and the topics; starting twice is once."""
    tools = KafkaTools(cluster.bootstrap_servers)
    tools.create_topic("kept")
    before = (cluster.cluster_id, cluster.bootstrap_servers)
    cluster.stop()
    pid = cluster.start().brokers[0].pid
    assert cluster.start().brokers[0].pid == pid
    assert before == (cluster.cluster_id, cluster.bootstrap_servers)
    assert tools.has_topic("kept")


@pytest.mark.thorough
def test_three_brokers_survive_the_loss_of_one(tmp_path: Path, kafka_version: str) -> None:
    """All three serve; with one killed the others continue and take it back later."""
    with LocalCluster("trio", tmp_path, brokers=3, version=kafka_version) as trio:
        tools = KafkaTools(trio.bootstrap_servers)
        tools.create_topic("three", replication_factor=3)
        victim, *others = trio.brokers
        victim.kill()

        def noticed() -> bool:
            seen = others[0].metadata()
            return seen is not None and seen.node_ids == {broker.node_id for broker in others}

        eventually(noticed, PATIENCE_SECONDS, "the loss of broker 1 is noticed")
        KafkaTools(others[0].address).produce("three", ["still here"])
        victim.start()
        assert KafkaTools(victim.address).consume("three", records=1) == ["still here"]
        # Three brokers that leave together wait for each other, and nobody wants this data.
        trio.kill()


@pytest.mark.thorough
@pytest.mark.parametrize("version", TESTED_KAFKA)
def test_every_listed_version_works(tmp_path: Path, version: str) -> None:
    """Start, produce and consume."""
    with LocalCluster("versions", tmp_path, version=version) as cluster:
        tools = KafkaTools(cluster.bootstrap_servers)
        tools.create_topic("orders", partitions=2, config={"retention.ms": "1234567"})
        tools.produce("orders", ["a\t1", "b\t2"])
        assert sorted(tools.consume("orders", records=2, keys=True)) == ["a\t1", "b\t2"]
        assert "retention.ms=1234567" in tools.describe("orders")


@pytest.mark.thorough
def test_a_cluster_with_zookeeper_survives_kills_and_leaves_no_process(tmp_path: Path) -> None:
    """A killed broker is let in again, and so are all after the death of everything."""
    with LocalCluster("old", tmp_path, brokers=2, version=WITH_ZOOKEEPER) as cluster:
        tools = KafkaTools(cluster.bootstrap_servers)
        tools.create_topic("kept", replication_factor=2)
        tools.produce("kept", ["one", "two"])
        cluster.brokers[0].kill()
        cluster.brokers[0].start()
        assert tools.consume("kept", records=2) == ["one", "two"]
        before = (cluster.cluster_id, cluster.bootstrap_servers)
        cluster.kill()
        cluster.start()
        assert before == (cluster.cluster_id, cluster.bootstrap_servers)
        assert tools.consume("kept", records=2) == ["one", "two"]
        assert cluster.zookeeper is not None
        pids = [one.pid for one in (*cluster.brokers, cluster.zookeeper)]
        assert all(alive(pid or 0) for pid in pids)
        for broker in cluster.brokers:
            broker.kill()  # two that leave together wait for each other
    assert not any(alive(pid or 0) for pid in pids)


@pytest.mark.thorough
def test_a_detached_zookeeper_lives_until_down(tmp_path: Path) -> None:
    """`up --detach` and `down` of a version that needs it."""
    data = str(tmp_path)
    options = ("--clusters", "a", "--kafka", WITH_ZOOKEEPER, "--data", data)
    up = cli("up", *options, "--detach")
    assert up.returncode == 0, up.stderr
    [known] = told(tmp_path)
    pids = [known["zookeeper"]["pid"], known["brokers"][0]["pid"]]
    assert all(map(alive, pids))
    assert cli("down", "--data", data).returncode == 0
    assert not any(map(alive, pids))


@pytest.mark.thorough
def test_extra_broker_settings_take_effect(tmp_path: Path, kafka_version: str) -> None:
    """What a test asks for is what the broker does."""
    config = {"message.max.bytes": "2000"}
    with LocalCluster("small", tmp_path, version=kafka_version, config=config) as cluster:
        tools = KafkaTools(cluster.bootstrap_servers, name="small")
        tools.create_topic("narrow")
        assert tools.load("narrow", records=10, record_size=100).records == 10
        with pytest.raises(ClusterError, match=r"failed on small: .*larger than"):
            tools.produce("narrow", ["x" * 5000])


@pytest.mark.thorough
def test_clients_of_the_detour_stay_on_it(tmp_path: Path, kafka_version: str) -> None:
    """Whoever bootstraps through the proxy is sent back to the proxy; the others never see it."""
    with NetworkLink("detour") as line:
        cluster = LocalCluster(
            "detour",
            tmp_path,
            version=kafka_version,
            proxy_ports=[line.proxy(lambda: _proxy_port(cluster))],
        )
        with cluster:
            direct = KafkaTools(cluster.bootstrap_servers)
            direct.create_topic("both")
            assert line.connections == 0
            KafkaTools(cluster.proxied_bootstrap_servers).produce("both", ["through the proxy"])
            assert direct.consume("both", records=1) == ["through the proxy"]
            line.cut(to_broker=True, to_client=True)
            assert cluster.brokers[0].metadata() is not None
            host, _, port = cluster.proxied_bootstrap_servers.partition(":")
            assert fetch_broker_metadata(host, int(port)) is None


def _proxy_port(cluster: LocalCluster) -> int:
    detour = cluster.brokers[0].proxied_listener
    assert detour is not None
    return detour.port


def test_chosen_port_in_use_is_named(tmp_path: Path, kafka_version: str) -> None:
    """The sentence names the port, and no JVM had to start for it."""
    with closing(socket.create_server((HOST, 0))) as other:
        port = other.getsockname()[1]
        cluster = LocalCluster("taken", tmp_path, version=kafka_version, ports=[port])
        with pytest.raises(SetupError, match=rf"Port {port} is in use by another program"):
            cluster.start()
    assert not cluster.brokers[0].running


@pytest.fixture
def squatted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The first launched broker finds its port taken in the very last moment."""
    taken: list[socket.socket] = []
    ports: list[int] = []
    launch = LocalBroker.launch

    def launch_too_late(broker: LocalBroker, jvm: KafkaJvm) -> None:
        if not taken:
            taken.append(socket.create_server((HOST, broker.port)))
            ports.append(broker.port)
        launch(broker, jvm)

    monkeypatch.setattr(LocalBroker, "launch", launch_too_late)
    yield ports
    for squatter in taken:
        squatter.close()


@pytest.mark.thorough
def test_free_port_lost_at_the_last_moment_is_replaced(
    tmp_path: Path, kafka_version: str, squatted: list[int]
) -> None:
    """With free choice the cluster starts all the same, on another port."""
    with LocalCluster("free", tmp_path, version=kafka_version) as cluster:
        assert cluster.brokers[0].metadata() is not None
        assert cluster.brokers[0].port not in squatted
    assert len(squatted) == 1


@pytest.mark.thorough
def test_chosen_port_lost_at_the_last_moment_is_named(
    tmp_path: Path, kafka_version: str, squatted: list[int]
) -> None:
    """With a chosen port there is nothing to replace it by."""
    with closing(socket.create_server((HOST, 0))) as probe:
        port = probe.getsockname()[1]
    cluster = LocalCluster("chosen", tmp_path, version=kafka_version, ports=[port])
    with pytest.raises(SetupError, match=rf"Port {port} is in use"):
        cluster.start()
    assert [port] == squatted


def test_refused_setting_is_in_the_sentence(tmp_path: Path, kafka_version: str) -> None:
    """A setting that Kafka refuses is quoted with Kafka's own reason."""
    config = {"num.network.threads": "0"}
    cluster = LocalCluster("odd", tmp_path, version=kafka_version, config=config)
    with pytest.raises(
        SetupError, match=r"Invalid value 0 for configuration num\.network\.threads"
    ):
        cluster.start()


@pytest.mark.thorough
def test_failed_start_shows_the_end_of_the_log(cluster: LocalCluster) -> None:
    """A broker that ends during its start says why, and where to read more."""
    broker = cluster.brokers[0]
    broker.stop()
    (broker.data / "meta.properties").write_text("version=1\ncluster.id=another\nnode.id=7\n")
    with pytest.raises(SetupError, match=r"(?s)Broker 1 of the local cluster hurt ended") as raised:
        broker.start()
    assert str(broker.log_file) in str(raised.value)
    assert "7" in str(raised.value).partition("says:")[2]


@pytest.mark.thorough
def test_brokers_die_with_the_process_that_started_them(tmp_path: Path, kafka_version: str) -> None:
    """Even SIGKILL of the parent leaves nothing running."""
    code = f"""
import os, signal
from pathlib import Path
from sparkmirror.devcluster.cluster import LocalCluster
cluster = LocalCluster("orphan", Path({str(tmp_path)!r}), version={kafka_version!r}).start()
print(cluster.brokers[0].pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    parent = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert parent.returncode == -signal.SIGKILL, parent.stderr
    pid = int(parent.stdout)
    eventually(lambda: not alive(pid), PATIENCE_SECONDS, f"broker {pid} ends after its parent")


@pytest.mark.thorough
def test_clean_stop_leaves_a_class_archive_that_later_starts_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archive is made once, and the next broker maps it."""
    home = tmp_path / "cache" / "kafka" / f"{DEFAULT_KAFKA}-broker"
    original = kafka_classpath()[0].parent
    shutil.copytree(
        original, home, copy_function=os.link, ignore=shutil.ignore_patterns("*.jsa", "*.part")
    )
    monkeypatch.setenv("SPARKMIRROR_CACHE", str(tmp_path / "cache"))
    with LocalCluster("archive", tmp_path / "data") as cluster:
        assert list(home.glob("*.jsa")) == []
    (archive,) = home.glob("*.jsa")
    with cluster:
        maps = Path(f"/proc/{cluster.brokers[0].pid}/maps").read_text()
    assert str(archive) in maps


@pytest.mark.thorough
def test_detached_clusters_live_until_down(tmp_path: Path, kafka_version: str) -> None:
    """`up --detach`, a look by every command, `down`."""
    data = str(tmp_path)
    up = cli("up", "--clusters", "a, b", "--kafka", kafka_version, "--detach", "--data", data)
    assert up.returncode == 0, up.stderr
    try:
        known = told(tmp_path)
        assert [entry["name"] for entry in known] == ["a", "b"]
        assert [b["state"] for entry in known for b in entry["brokers"]] == ["running"] * 2
        again = cli("up", "--clusters", "a", "--detach", "--data", data)
        assert again.returncode == 1
        assert "a is already running at" in again.stderr

        sent = cli("produce", "a", "orders", "--data", data, text="first\nsecond\n")
        assert sent.returncode == 0, sent.stderr
        loaded = cli("produce", "a", "orders", "--records", "50", "--size", "20", "--data", data)
        assert "50 records" in loaded.stdout, loaded.stderr
        got = cli("consume", "a", "orders", "--from-beginning", "--max", "2", "--data", data)
        assert (got.returncode, got.stdout) == (0, "first\nsecond\n")
        assert cli("topics", "b", "--data", data).stdout == ""
        by_address = cli("topics", known[0]["bootstrapServers"])
        assert "orders" in by_address.stdout.splitlines()
        described = cli("describe", "a", "orders", "--data", data)
        assert "PartitionCount: 1" in described.stdout
        missing = cli("consume", "a", "nothing", "--data", data)
        assert missing.returncode == 1
        assert "Topic nothing does not exist on a" in missing.stderr
    finally:
        down = cli("down", "--data", data)
    assert (down.returncode, down.stdout) == (0, "Stopped a, b.\n")
    assert told(tmp_path) == []
    pids = [broker["pid"] for entry in known for broker in entry["brokers"]]
    assert [alive(pid) for pid in pids] == [False, False]


@pytest.fixture
def foreground(tmp_path: Path, kafka_version: str) -> Iterator[subprocess.Popen[str]]:
    """`up` of one cluster in the foreground."""
    command = [sys.executable, "-m", "sparkmirror.cli.local", "up", "--clusters", "front"]
    command += ["--kafka", kafka_version, "--data", str(tmp_path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert "front\t1\trunning" in process.stdout.readline()
        yield process
        process.kill()


def end_by_signal(process: subprocess.Popen[str], number: signal.Signals, _data: Path) -> None:
    """Ctrl-C, or whatever a service manager sends."""
    process.send_signal(number)


def end_by_down(_process: subprocess.Popen[str], _number: signal.Signals, data: Path) -> None:
    """Somebody types `down` in another terminal."""
    assert cli("down", "--data", str(data)).returncode == 0


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("end", "number"),
    [
        pytest.param(end_by_signal, signal.SIGINT, id="ctrl-c"),
        pytest.param(end_by_signal, signal.SIGTERM, id="sigterm"),
        pytest.param(end_by_down, signal.SIGTERM, id="down"),
    ],
)
def test_foreground_clusters_end_with_the_command(
    tmp_path: Path,
    foreground: subprocess.Popen[str],
    end: Callable[[subprocess.Popen[str], signal.Signals, Path], None],
    number: signal.Signals,
) -> None:
    """`up` stops its brokers, forgets them, keeps their logs and exits 0."""
    (entry,) = told(tmp_path)
    (broker,) = entry["brokers"]
    end(foreground, number, tmp_path)
    _, errors = foreground.communicate(timeout=PATIENCE_SECONDS)
    assert foreground.returncode == 0, errors
    assert not alive(broker["pid"])
    assert told(tmp_path) == []
    assert Path(broker["log"]).exists()
