# SPDX-License-Identifier: Apache-2.0
"""A distributed worker of Java's Kafka Connect, from Kafka's own jars, driven over its REST API."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from sparkmirror.devcluster.jars import DEFAULT_KAFKA, JarSet
from sparkmirror.devcluster.jvm import QUICK_START, KafkaJvm
from sparkmirror.devcluster.ports import HOST, ReservedPort
from support.clients.connect_rest import ConnectRestClient
from support.clients.librdkafka import Cluster
from support.waiting import PATIENCE_SECONDS, eventually

_MAIN = "org.apache.kafka.connect.cli.ConnectDistributed"
_STOP_SECONDS = 60.0
_TAIL_LINES = 40
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


@dataclass(frozen=True, slots=True)
class ConnectTopics:
    """The group of a Connect cluster and its three topics."""

    group: str

    @property
    def configs(self) -> str:
        return f"{self.group}-configs"

    @property
    def offsets(self) -> str:
        return f"{self.group}-offsets"

    @property
    def statuses(self) -> str:
        """What connectors and tasks do."""
        return f"{self.group}-status"

    def worker_file(self, cluster: Cluster, port: int, **more: str) -> str:
        """A worker's properties; dots in further keys are written as underscores."""
        lines = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": self.group,
            "listeners": f"http://{HOST}:{port}",
            "rest.advertised.host.name": HOST,
            "config.storage.topic": self.configs,
            "offset.storage.topic": self.offsets,
            "status.storage.topic": self.statuses,
            "key.converter": _BYTES,
            "value.converter": _BYTES,
            "plugin.discovery": "service_load",
            "scheduled.rebalance.max.delay.ms": "0",
            "offset.flush.interval.ms": "1000",
            **{
                f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")
            },
            **{key.replace("_", "."): value for key, value in more.items()},
        }
        return "".join(f"{key}={value}\n" for key, value in lines.items())


def heartbeat_config(cluster: Cluster) -> dict[str, str]:
    """The connector that is content with one cluster."""
    return {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector",
        "source.cluster.alias": "a",
        "target.cluster.alias": "b",
        "target.cluster.bootstrap.servers": cluster.bootstrap_servers,
        "heartbeats.topic.replication.factor": "1",
    }


class JavaConnect(ConnectRestClient):
    """A running Java worker; a context manager that waits for its API and ends it."""

    def __init__(
        self,
        cluster: Cluster,
        scratch: Path,
        topics: ConnectTopics,
        options: Sequence[str] = QUICK_START,
        **more: str,
    ) -> None:
        jvm = KafkaJvm.of(DEFAULT_KAFKA, heap="512m", options=options, artifacts=JarSet.CONNECT)
        logging = scratch / "connect.logging.properties"
        logging.write_text(jvm.logging_text("warn"), encoding="utf-8")
        self._port = ReservedPort()
        self._port.reserve()
        super().__init__(f"{HOST}:{self._port.number}")
        file = scratch / "connect-distributed.properties"
        file.write_text(topics.worker_file(cluster, self._port.number, **more), encoding="utf-8")
        self.log_file = scratch / "connect.java.log"
        self._command = jvm.command(_MAIN, str(file), logging=logging)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.begin()
        try:
            eventually(self._is_up, PATIENCE_SECONDS, "Java's worker serves", not_yet=(OSError,))
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            lines = self.log_file.read_text(encoding="utf-8", errors="replace").splitlines()
            print("\n".join(lines[-_TAIL_LINES:]))
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._port.release()

    def begin(self) -> None:
        """Start it without waiting for anything."""
        self._port.prepare_bind()
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def stop(self) -> None:
        """SIGTERM, as an operator would."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(_STOP_SECONDS)

    def kill(self) -> None:
        """SIGKILL: the machine is gone."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(_STOP_SECONDS)

    def _is_up(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError(f"Java's worker ended with {self._process.returncode}")
        return self.request("GET", "/health")[0] == 200
