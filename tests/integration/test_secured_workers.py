# SPDX-License-Identifier: Apache-2.0
"""Two real workers whose API is https with passwords: they work together, strangers get nothing."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.devcluster.ports import HOST, ReservedPort
from sparkmirror.model import Secret
from sparkmirror.rest_client.http_client import HttpClient, WorkerEndpoint
from support.clients.librdkafka import Cluster
from support.data.certificates import Authority
from support.mirrors.java_connect import ConnectTopics, heartbeat_config
from support.mirrors.mirror_process import MirrorProcess, command
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.thorough

PASSWORD = "correct horse battery staple"
USER = "ann"
MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"
EXTENSION = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"


class _Process(MirrorProcess):
    verb = "worker"


@dataclass(frozen=True, slots=True)
class Guarded:
    """A worker, and two who ask it."""

    url: str
    process: MirrorProcess
    known: HttpClient
    stranger: HttpClient

    def get(self, path: str) -> Any:
        """What somebody who is known sees."""
        answer = self.known.request("GET", path)
        assert answer.status == 200, (path, answer, self.process.log)
        return answer.json()


def _start(stack: ExitStack, cluster: Cluster, scratch: Path, topics: ConnectTopics) -> Guarded:
    port = ReservedPort()
    port.reserve()
    file = scratch / f"{unique_name('worker')}.properties"
    more = {
        "listeners": f"https://{HOST}:{port.number}",
        "listeners.https.ssl.keystore.type": "PEM",
        "listeners.https.ssl.keystore.location": str(scratch / "worker.pem"),
        "listeners.https.ssl.truststore.type": "PEM",
        "listeners.https.ssl.truststore.location": str(scratch / "authority.pem"),
        "rest.extension.classes": EXTENSION,
    }
    lines = "".join(f"{key}={text}\n" for key, text in more.items())
    file.write_text(topics.worker_file(cluster, port.number) + lines)
    port.prepare_bind()
    stack.callback(port.release)
    options = f"-Xmx1g -Djava.security.auth.login.config={scratch / 'jaas.conf'}"
    process = stack.enter_context(_Process(file, environment={"KAFKA_OPTS": options}))
    url = f"https://{HOST}:{port.number}"
    known = HttpClient(WorkerEndpoint(url, USER, Secret(PASSWORD)))
    return Guarded(url, process, known, HttpClient(WorkerEndpoint(url)))


def test_guarded_workers_work_together_and_strangers_get_nothing(
    target_cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests are forwarded, tasks are published, the terminal's client is let in."""
    authority = Authority()
    identity = authority.tls(HOST)
    assert identity.key is not None
    (tmp_path / "worker.pem").write_text(identity.key.reveal() + identity.chain)
    (tmp_path / "authority.pem").write_text(authority.pem)
    (tmp_path / "users.properties").write_text(f"{USER}={PASSWORD}\n")
    (tmp_path / "jaas.conf").write_text(
        f'KafkaConnect {{ {MODULE} required file="{tmp_path / "users.properties"}"; }};'
    )
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    monkeypatch.setenv("SPARKMIRROR_PASSWORD", PASSWORD)
    topics = ConnectTopics(unique_name("guarded"))
    names = sorted(unique_name("beat") for _ in range(2))
    with ExitStack() as stack:
        workers = [_start(stack, target_cluster, tmp_path, topics) for _ in range(2)]
        for one in workers:
            eventually(
                lambda one=one: one.known.request("GET", "/health").status == 200,
                PATIENCE_SECONDS,
                "the worker is healthy",
                not_yet=(Exception,),
            )
        for one, name in zip(workers, names, strict=True):
            body = {"name": name, "config": heartbeat_config(target_cluster)}
            assert one.stranger.request("POST", "/connectors", body).status == 401
            eventually(
                lambda one=one, body=body: (
                    one.known.request("POST", "/connectors", body).status == 201
                ),
                PATIENCE_SECONDS,
                "the connector is created",
            )
        for one in workers:
            eventually(
                lambda one=one: _places(one, names) == {_id(other) for other in workers},
                PATIENCE_SECONDS,
                "each worker runs one, with its task",
                not_yet=(AssertionError,),
            )
            assert sorted(one.get("/connectors")) == names
            assert one.stranger.request("GET", "/connectors").status == 401
        listed = subprocess.run(
            [command(), "get", "connectors", "--url", workers[0].url, "--user", USER],
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE_SECONDS,
        )
        assert all(name in listed.stdout for name in names)
        for one in workers:
            assert PASSWORD not in one.process.log
            assert "has no authentication" not in one.process.log


def _id(worker: Guarded) -> str:
    return worker.url.removeprefix("https://")


def _places(worker: Guarded, names: list[str]) -> set[str]:
    """Which workers run a connector and its task."""
    found = [worker.get(f"/connectors/{name}/status") for name in names]
    for one in found:
        states = [one["connector"]["state"], *(task["state"] for task in one["tasks"])]
        assert states == ["RUNNING", "RUNNING"], one
    return {one["connector"]["worker_id"] for one in found}
