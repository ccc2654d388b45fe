# SPDX-License-Identifier: Apache-2.0
"""The state file and the cluster manifest."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparkmirror.cli.local import app
from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.devcluster.cluster_manifest import ClusterManifest
from sparkmirror.devcluster.local_clusters import LocalClusters
from sparkmirror.devcluster.process_identity import ProcessIdentity
from sparkmirror.devcluster.server_properties import BrokerListener, server_properties
from sparkmirror.errors import SetupError


@pytest.fixture
def sleeper() -> Iterator[ProcessIdentity]:
    """A process instead of a broker."""
    with subprocess.Popen(["/bin/sleep", "600"]) as process:
        found = ProcessIdentity.of(process.pid)
        assert found is not None
        yield found
        process.kill()


def state(data: Path, process: ProcessIdentity, *, started: str | None = None) -> None:
    """A state file with cluster `a` of one broker."""
    broker = {"node_id": 1, "port": 1, "pid": process.pid, "log": "log"}
    broker["started"] = started or process.started
    cluster = {"name": "a", "version": "4.3.1", "directory": "d", "brokers": [broker]}
    (data / "state.json").write_text(json.dumps([cluster]))


def test_a_running_cluster_is_not_started_again(tmp_path: Path, sleeper: ProcessIdentity) -> None:
    """The name is in use as long as its broker runs."""
    state(tmp_path, sleeper)
    with pytest.raises(SetupError, match=r"a is already running at 127\.0\.0\.1:1"):
        LocalClusters(tmp_path).start(
            ["a"], brokers=1, version="4.3.1", first_port=None, detached=False
        )


def test_down_stops_and_forgets(tmp_path: Path, sleeper: ProcessIdentity) -> None:
    """The process is gone, and so is the entry."""
    state(tmp_path, sleeper)
    assert LocalClusters(tmp_path).stop() == ["a"]
    assert not sleeper.alive
    assert LocalClusters(tmp_path).clusters() == []


def test_down_stops_zookeeper_as_well(tmp_path: Path, sleeper: ProcessIdentity) -> None:
    """Also one whose brokers have exited, which counts as running until then."""
    state(tmp_path, sleeper, started="long ago")
    [cluster] = json.loads((tmp_path / "state.json").read_text())
    cluster["zookeeper"] = {**asdict(sleeper), "port": 2, "log": "log"}
    (tmp_path / "state.json").write_text(json.dumps([cluster]))
    assert LocalClusters(tmp_path).find("a").alive
    LocalClusters(tmp_path).stop()
    assert not sleeper.alive


def test_down_leaves_a_reused_pid_alone(tmp_path: Path, sleeper: ProcessIdentity) -> None:
    """A state file that outlived its brokers must not affect other programs."""
    state(tmp_path, sleeper, started="long ago")
    assert LocalClusters(tmp_path).clusters()[0].brokers[0].state() == "stopped"
    LocalClusters(tmp_path).stop()
    assert sleeper.alive


def test_a_process_that_does_not_answer_is_distinguished(
    tmp_path: Path, sleeper: ProcessIdentity
) -> None:
    state(tmp_path, sleeper)
    assert LocalClusters(tmp_path).find("a").brokers[0].state() == "not answering"


@pytest.mark.parametrize("names", [["a", "a"], [""], ["../a"], ["a b"]])
def test_names_that_cannot_be_directories_are_refused(tmp_path: Path, names: list[str]) -> None:
    """Names become directories and must differ."""
    with pytest.raises(SetupError, match=r"name"):
        LocalClusters(tmp_path).start(
            names, brokers=1, version="4.3.1", first_port=None, detached=False
        )


def test_a_broken_state_file_is_named(tmp_path: Path) -> None:
    """An invalid file is an error with a remedy."""
    (tmp_path / "state.json").write_text("[{")
    with pytest.raises(SetupError, match=r"Cannot read .*state\.json"):
        LocalClusters(tmp_path).clusters()


@pytest.mark.parametrize(
    ("arguments", "exit_code", "said"),
    [
        (["topics", "nobody"], 1, "Local cluster 'nobody' does not exist"),
        (["topics", "127.0.0.1:1"], 1, "No broker responds at 127.0.0.1:1"),
        (["down", "nobody"], 1, "Local cluster 'nobody' does not exist"),
        (["up", "--clusters", "a,,b"], 1, "Invalid cluster name ''"),
        (["up", "--brokers", "4"], 2, "--brokers"),
        (["nonsense"], 2, "nonsense"),
        (["status"], 0, "No local cluster is running."),
    ],
)
def test_commands_answer_in_one_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    exit_code: int,
    said: str,
) -> None:
    """Exit code 1 for errors, 2 for wrong usage, no stack trace."""
    monkeypatch.setenv("SPARKMIRROR_CACHE", str(tmp_path))
    result = CliRunner().invoke(app, arguments)
    assert exit_code == result.exit_code
    assert said in result.output
    assert "Traceback" not in result.output


def test_a_cluster_needs_a_port_for_each_broker(tmp_path: Path) -> None:
    """Two ports for three brokers is a mistake to report, not to fill up."""
    with pytest.raises(SetupError, match="3 brokers, but 2 ports"):
        LocalCluster("a", tmp_path, brokers=3, ports=[1, 2])


def test_addresses_are_unknown_before_the_start(tmp_path: Path) -> None:
    """Port 0 must not get into a configuration."""
    with pytest.raises(SetupError, match=r"a has not been started yet"):
        _ = LocalCluster("a", tmp_path).bootstrap_servers


def test_record_keeps_the_cluster_id(tmp_path: Path) -> None:
    """The same data is the same cluster, also after an upgrade."""
    first = ClusterManifest.load_or_create(tmp_path, brokers=1, version="3.9.2")
    second = ClusterManifest.load_or_create(tmp_path, brokers=1, version="4.3.1")
    assert first.cluster_id == second.cluster_id


def test_data_with_zookeeper_is_not_read_without(tmp_path: Path) -> None:
    """KRaft would create an empty cluster beside it."""
    ClusterManifest.load_or_create(tmp_path, brokers=1, version="2.4.1")
    ClusterManifest.load_or_create(tmp_path, brokers=1, version="3.0.0")
    with pytest.raises(SetupError, match=r"with ZooKeeper, written by Kafka 3\.0\.0"):
        ClusterManifest.load_or_create(tmp_path, brokers=1, version="4.3.1")


@pytest.mark.parametrize(
    ("brokers", "version", "said"),
    [(3, "4.3.1", "a cluster of 1 broker"), (1, "3.9.2", "was written by Kafka 4.3.1")],
)
def test_data_that_does_not_fit_is_refused(
    tmp_path: Path, brokers: int, version: str, said: str
) -> None:
    """Another number of brokers, an older version: an error before any JVM starts."""
    ClusterManifest.load_or_create(tmp_path, brokers=1, version="4.3.1")
    with pytest.raises(SetupError, match=said):
        ClusterManifest.load_or_create(tmp_path, brokers=brokers, version=version)


def test_extra_settings_override_ours(tmp_path: Path) -> None:
    """A test that needs auto-creation says so."""
    text = server_properties(
        node_id=2,
        port=1000,
        controllers={1: 2001, 2: 2002},
        data=tmp_path,
        extra={"auto.create.topics.enable": "true"},
    )
    lines = text.splitlines()
    assert "auto.create.topics.enable=true" in lines
    assert "auto.create.topics.enable=false" not in lines
    assert "listeners=PLAINTEXT://127.0.0.1:1000,CONTROLLER://127.0.0.1:2002" in lines
    assert "controller.quorum.voters=1@127.0.0.1:2001,2@127.0.0.1:2002" in lines
    assert "offsets.topic.replication.factor=2" in lines


def test_brokers_with_zookeeper_have_no_controller_of_their_own(tmp_path: Path) -> None:
    """They use ZooKeeper's port; KRaft's settings would stop them."""
    text = server_properties(
        node_id=2,
        port=1000,
        controllers={1: 2001, 2: 2002},
        data=tmp_path,
        extra={},
        zookeeper_port=3000,
    )
    settings = dict(line.split("=", 1) for line in text.splitlines())
    assert settings["broker.id"] == "2"
    assert settings["zookeeper.connect"] == "127.0.0.1:3000"
    assert settings["listeners"] == "PLAINTEXT://127.0.0.1:1000"
    assert settings["offsets.topic.replication.factor"] == "2"
    assert not {"process.roles", "node.id", "controller.quorum.voters"} & settings.keys()


def test_further_listeners_use_their_configured_protocol(tmp_path: Path) -> None:
    """Each listens on its own port and advertises it, or a proxy's port."""
    text = server_properties(
        node_id=1,
        port=1000,
        controllers={1: 2001},
        data=tmp_path,
        extra={},
        listeners=[
            BrokerListener("PROXIED", "PLAINTEXT", port=3000, advertised=4000),
            BrokerListener("TLS", "SSL", port=5000, advertised=5000),
        ],
    )
    settings = dict(line.split("=", 1) for line in text.splitlines())
    assert set(settings["listeners"].split(",")) == {
        "PLAINTEXT://127.0.0.1:1000",
        "CONTROLLER://127.0.0.1:2001",
        "PROXIED://127.0.0.1:3000",
        "TLS://127.0.0.1:5000",
    }
    assert settings["advertised.listeners"] == (
        "PLAINTEXT://127.0.0.1:1000,PROXIED://127.0.0.1:4000,TLS://127.0.0.1:5000"
    )
    assert settings["listener.security.protocol.map"] == (
        "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,TLS:SSL,CONTROLLER:PLAINTEXT"
    )
