# SPDX-License-Identifier: Apache-2.0
"""One broker as a child process, with its ports and files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sparkmirror.devcluster.jvm import KafkaJvm
from sparkmirror.devcluster.metadata_probe import BrokerMetadata, fetch_broker_metadata
from sparkmirror.devcluster.ports import HOST, ReservedPort
from sparkmirror.devcluster.readiness import await_ready, await_topics
from sparkmirror.devcluster.server_process import ServerProcess
from sparkmirror.devcluster.server_properties import BrokerListener
from sparkmirror.devcluster.zookeeper import LocalZooKeeper
from sparkmirror.errors import SetupError


class LocalBroker(ServerProcess):
    """One broker of a local cluster. Created by LocalCluster; tests stop, kill and suspend it."""

    def __init__(
        self,
        *,
        cluster: str,
        node_id: int,
        directory: Path,
        port: int = 0,
        proxy_port: int = 0,
        listeners: Mapping[str, str] | None = None,
        zookeeper: LocalZooKeeper | None = None,
        detached: bool = False,
    ) -> None:
        super().__init__(
            cluster=cluster,
            title=f"Broker {node_id}",
            log_file=directory / "logs" / f"broker-{node_id}.log",
            detached=detached,
        )
        self.node_id = node_id
        self.directory = directory / f"broker-{node_id}"
        self.data = self.directory / "data"
        self.properties_file = self.directory / "server.properties"
        self.logging_file = self.directory / "logging.properties"
        self._archive_dump = self.directory / "classes.jsa"
        self._zookeeper = zookeeper
        self._port = ReservedPort(port)
        self._controller_port = ReservedPort()
        self._proxy_port = ReservedPort()
        self._advertised_proxy_port = proxy_port
        self._protocols = dict(listeners or {})
        self._further_ports = {name: ReservedPort() for name in self._protocols}
        self._jvm: KafkaJvm | None = None

    @property
    def port(self) -> int:
        """The port for clients; unchanged after a restart."""
        return self._port.number

    @property
    def port_chosen(self) -> bool:
        """Whether the user chose the port."""
        return self._port.is_user_chosen

    @property
    def controller_port(self) -> int:
        """The port for communication between the KRaft controllers."""
        return self._controller_port.number

    @property
    def proxied_listener(self) -> BrokerListener | None:
        """The listener behind a proxy, if the cluster has one."""
        if not self._advertised_proxy_port:
            return None
        return BrokerListener(
            "PROXIED", "PLAINTEXT", self._proxy_port.number, self._advertised_proxy_port
        )

    @property
    def listeners(self) -> list[BrokerListener]:
        """All listeners except the plain one and the controllers'."""
        further = [
            BrokerListener(name, self._protocols[name], port.number, port.number)
            for name, port in self._further_ports.items()
        ]
        return further if self.proxied_listener is None else [self.proxied_listener, *further]

    @property
    def _ports(self) -> list[ReservedPort]:
        ports = [self._port, self._controller_port, *self._further_ports.values()]
        return [*ports, self._proxy_port] if self._advertised_proxy_port else ports

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def reserve_ports(self, *, others: bool = False) -> None:
        """Reserve all ports. With `others`, replace those that the user did not choose."""
        for port in self._ports:
            if others:
                port.reserve_another()
            else:
                port.reserve()

    def release_ports(self) -> None:
        for port in self._ports:
            port.release()

    def launch(self, jvm: KafkaJvm) -> None:
        """Start the process. Does not wait until it serves."""
        self._jvm = jvm
        # One broker per cluster records the class archive, which holds Kafka's classes only. A
        # detached broker does not: its exit is not observed.
        is_plain = not self._detached and not jvm.plugins
        records = self.node_id == 1 and is_plain and jvm.archive.is_missing
        command = jvm.command(
            "kafka.Kafka",
            str(self.properties_file),
            logging=self.logging_file,
            recording=self._archive_dump if records else None,
        )
        if self._zookeeper is not None:
            # ZooKeeper rejects a restarted broker until its old session has expired.
            self._zookeeper.await_session_end(self.node_id)
        for port in self._ports:
            port.prepare_bind()
        self._spawn(command)

    def start(self) -> None:
        """Start again with the same data and ports, and wait until it serves."""
        if self._jvm is None:
            raise SetupError(f"The local cluster {self.cluster} has not been started yet.")
        if not self.running:
            self._forget_process()
            if self._zookeeper is not None:
                self._zookeeper.start(self._jvm)
            self.reserve_ports()
            self.launch(self._jvm)
        await_ready([self], expected=frozenset({self.node_id}))
        if self._zookeeper is not None:
            await_topics([self])

    def metadata(self, topic: str | None = None) -> BrokerMetadata | None:
        """The brokers it knows and the topic's error code; None if it does not respond."""
        return fetch_broker_metadata(HOST, self.port, topic=topic)

    def topics_on_disk(self) -> list[str]:
        """The topics with partitions in its data directory."""
        names = [entry.name for entry in self.data.iterdir() if entry.is_dir()]
        partitions = [name.rpartition("-") for name in names]
        return sorted({topic for topic, _, number in partitions if number.isdecimal()})

    def _ended(self, *, cleanly: bool) -> None:
        if self._jvm is not None and cleanly:
            self._jvm.archive.publish(self._archive_dump)
        self._archive_dump.unlink(missing_ok=True)
