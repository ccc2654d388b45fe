# SPDX-License-Identifier: Apache-2.0
"""A Kafka cluster of one to three brokers on 127.0.0.1, with its own directory.

    directory/cluster.json          cluster id, brokers and version; written at the first start
    directory/broker-1/             server.properties, logging.properties, data/
    directory/logs/broker-1.log     the broker's log, kept over restarts
    directory/zookeeper/            only for versions without KRaft

A cluster belongs to one thread at a time; different clusters may start in different threads.
With `proxy_ports` every broker has a second listener that advertises these ports. A proxy listens
there and forwards to `broker.proxied_listener.port`; it may delay or interrupt connections.
With `listeners` (name to security protocol) it has these as well; `config` has their settings.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from sparkmirror.devcluster.broker import LocalBroker
from sparkmirror.devcluster.cluster_manifest import ClusterManifest
from sparkmirror.devcluster.jars import DEFAULT_KAFKA, kafka_classpath, needs_zookeeper
from sparkmirror.devcluster.jvm import QUICK_START, KafkaJvm, extract_failure_reason
from sparkmirror.devcluster.ports import HOST, port_in_use_error
from sparkmirror.devcluster.readiness import await_ready, await_topics
from sparkmirror.devcluster.server_properties import server_properties
from sparkmirror.devcluster.zookeeper import LocalZooKeeper
from sparkmirror.errors import SetupError
from sparkmirror.quantities import counted
from sparkmirror.system.cache_directory import ensure_writable

MAX_BROKERS = 3

_PORT_TRIES = 3
_FORMAT_SECONDS = 60.0
_META = "meta.properties"
_DATA_REMEDY = "Choose another data directory, or make it writable."


class LocalCluster:
    """Brokers that are started and stopped together. Also a context manager."""

    def __init__(
        self,
        name: str,
        directory: Path,
        *,
        brokers: int = 1,
        version: str = DEFAULT_KAFKA,
        ports: Sequence[int] | None = None,
        proxy_ports: Sequence[int] | None = None,
        listeners: Mapping[str, str] | None = None,
        config: Mapping[str, str] | None = None,
        heap: str = "512m",
        jvm_options: Sequence[str] = QUICK_START,
        plugins: Sequence[Path] = (),
        detached: bool = False,
    ) -> None:
        if not 1 <= brokers <= MAX_BROKERS:
            raise SetupError(
                f"Cluster {name} cannot have {counted(brokers, 'broker')}.",
                remedy=f"Use 1 to {MAX_BROKERS}.",
            )
        for given in (ports, proxy_ports):
            if given is not None and len(given) != brokers:
                raise SetupError(
                    f"Cluster {name} has {counted(brokers, 'broker')}, but "
                    f"{counted(len(given), 'port')}.",
                    remedy="Give one port for each broker.",
                )
        self.name = name
        self.directory = directory.absolute()
        self.version = version
        self._config = dict(config or {})
        self._heap = heap
        self._jvm_options = tuple(jvm_options)
        self._plugins = tuple(plugins)
        self._record: ClusterManifest | None = None
        self.zookeeper = (
            LocalZooKeeper(cluster=name, directory=self.directory, detached=detached)
            if needs_zookeeper(version)
            else None
        )
        self.brokers = [
            LocalBroker(
                cluster=name,
                node_id=index + 1,
                directory=self.directory,
                port=ports[index] if ports is not None else 0,
                proxy_port=proxy_ports[index] if proxy_ports is not None else 0,
                listeners=listeners,
                zookeeper=self.zookeeper,
                detached=detached,
            )
            for index in range(brokers)
        ]

    @property
    def bootstrap_servers(self) -> str:
        """host:port of every broker, comma-separated. The cluster must have been started."""
        self._require_started()
        return ",".join(broker.address for broker in self.brokers)

    @property
    def proxied_bootstrap_servers(self) -> str:
        """Bootstrap servers for clients behind the proxy; empty without `proxy_ports`."""
        listeners = [broker.proxied_listener for broker in self.brokers]
        return ",".join(f"{HOST}:{one.advertised}" for one in listeners if one is not None)

    def listener_servers(self, listener: str) -> str:
        """Bootstrap servers of a further listener."""
        ports = [
            one.port for broker in self.brokers for one in broker.listeners if one.name == listener
        ]
        return ",".join(f"{HOST}:{port}" for port in ports)

    @property
    def cluster_id(self) -> str:
        """Kafka's cluster id. The cluster must have been started."""
        record = self._require_started()
        if self.zookeeper is None:
            return record.cluster_id
        # With ZooKeeper the first broker chooses the id.
        lines = (self.brokers[0].data / _META).read_text(encoding="utf-8").splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)["cluster.id"]

    def start(self) -> Self:
        """Start every broker that is not running, and wait until all of them serve."""
        if any(broker.running for broker in self.brokers):
            for broker in self.brokers:
                broker.start()
            return self
        jvm = KafkaJvm.of(
            self.version, heap=self._heap, options=self._jvm_options, plugins=self._plugins
        )
        ensure_writable(self.directory, remedy=_DATA_REMEDY)
        self._record = ClusterManifest.load_or_create(
            self.directory, brokers=len(self.brokers), version=self.version
        )
        try:
            self._start_brokers(jvm)
        except BaseException:
            # Ctrl-C included: a partial cluster is of no use.
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop every broker and release the ports; keeps data, logs and port numbers."""
        for broker in self.brokers:
            broker.request_stop()
        for broker in self.brokers:
            broker.stop()
            broker.release_ports()
        if self.zookeeper is not None:
            self.zookeeper.stop()
            self.zookeeper.release_port()

    def kill(self) -> None:
        """Kill every process. `stop()` must still be called."""
        for broker in self.brokers:
            broker.kill()
        if self.zookeeper is not None:
            self.zookeeper.kill()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _require_started(self) -> ClusterManifest:
        if self._record is None:
            raise SetupError(f"The local cluster {self.name} has not been started yet.")
        return self._record

    def _start_brokers(self, jvm: KafkaJvm) -> None:
        for attempt in range(1, _PORT_TRIES + 1):
            try:
                self._try_to_start(jvm, other_ports=attempt > 1)
            except SetupError:
                # A reserved port is never given to a program that asks for any free port, but a
                # program may ask for this number.
                servers = [*self.brokers, *([self.zookeeper] if self.zookeeper else [])]
                if attempt == _PORT_TRIES or not any(one.port_was_taken() for one in servers):
                    raise
                for broker in self.brokers:
                    if broker.port_was_taken() and broker.port_chosen:
                        raise port_in_use_error(broker.port) from None
                self.kill()
            else:
                return

    def _try_to_start(self, jvm: KafkaJvm, *, other_ports: bool) -> None:
        for broker in self.brokers:
            broker.reserve_ports(others=other_ports)
        if self.zookeeper is not None:
            if other_ports:
                self.zookeeper.change_port()
            self.zookeeper.start(jvm)
        self._write_files(jvm)
        if self.zookeeper is None:
            self._format(jvm)
        for broker in self.brokers:
            broker.launch(jvm)
        await_ready(self.brokers, expected=frozenset(broker.node_id for broker in self.brokers))
        if self.zookeeper is not None:
            await_topics(self.brokers)

    def _write_files(self, jvm: KafkaJvm) -> None:
        controllers = {broker.node_id: broker.controller_port for broker in self.brokers}
        for broker in self.brokers:
            ensure_writable(broker.directory, remedy=_DATA_REMEDY)
            broker.properties_file.write_text(
                server_properties(
                    node_id=broker.node_id,
                    port=broker.port,
                    controllers=controllers,
                    data=broker.data,
                    extra=self._config,
                    listeners=broker.listeners,
                    zookeeper_port=self.zookeeper.port if self.zookeeper else None,
                ),
                encoding="utf-8",
            )
            broker.logging_file.write_text(jvm.logging_text("warn"), encoding="utf-8")

    def _format(self, jvm: KafkaJvm) -> None:
        for broker in self.brokers:
            if (broker.data / _META).exists():
                continue
            command = jvm.command(
                "kafka.tools.StorageTool",
                "format",
                # One word with an equals sign: a random id may start with a dash.
                f"--cluster-id={self.cluster_id}",
                "--ignore-formatted",
                f"--config={broker.properties_file}",
                logging=broker.logging_file,
            )
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_FORMAT_SECONDS, check=False
            )
            if done.returncode != 0:
                raise SetupError(
                    f"Cannot format {broker.data} for the local cluster {self.name}: "
                    f"{extract_failure_reason(done.stderr, done.stdout)}"
                )


def start_all(clusters: Iterable[LocalCluster]) -> None:
    """Start several clusters concurrently. If one fails, stop the others."""
    all_clusters = list(clusters)
    for version in sorted({cluster.version for cluster in all_clusters}):
        # Not in the threads: one download, one progress line.
        kafka_classpath(version)
    try:
        with ThreadPoolExecutor(max_workers=max(1, len(all_clusters))) as pool:
            starts = [pool.submit(cluster.start) for cluster in all_clusters]
        for start in starts:
            start.result()
    except BaseException:
        for cluster in all_clusters:
            cluster.stop()
        raise
