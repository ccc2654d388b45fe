# SPDX-License-Identifier: Apache-2.0
"""The environment of a run: clusters behind TCP proxies, and the mirror between them.

    load --> us (1 broker) ==proxy== mirror on Spark ==proxy== hub (3 brokers)

Load, observer and comparison connect to the brokers directly. Everything that is started here is
also stopped here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from chaos.history import History
from chaos.keeper import Restarter
from chaos.scenario import TARGET, TOPIC, Scenario, SparkMaster, properties
from sparkmirror.devcluster.cluster import LocalCluster, start_all
from sparkmirror.devcluster.jvm import KafkaJvm
from sparkmirror.devcluster.ports import HOST
from support.clients.librdkafka import create_topics
from support.clients.load_generator import Load
from support.clusters.small_disk import SmallDisk
from support.clusters.spark_cluster import SparkCluster
from support.peers.tcp_proxy import NetworkLink

_TARGET_BROKERS = 3
_DISK_BYTES = 256 << 20
_TARGET_CONFIG = {
    "min.insync.replicas": "2",
    "transaction.state.log.min.isr": "2",
    # A broker that was away for seconds should be a full member again soon.
    "replica.lag.time.max.ms": "5000",
    # Producers that are to be forgotten are forgotten soon.
    "producer.id.expiration.check.interval.ms": "500",
}
_SOURCE_CONFIG = {"log.cleaner.backoff.ms": "200"}
_RESOLVER = Path(__file__).parent / "resolver"
_NAME = "brokers.chaos.test"  # which only the mirror's processes can resolve


class NamedCluster(LocalCluster):
    """A cluster whose proxied listener advertises a host name instead of an address."""

    @property
    def proxied_bootstrap_servers(self) -> str:
        return super().proxied_bootstrap_servers.replace(HOST, _NAME)

    def _write_files(self, jvm: KafkaJvm) -> None:
        super()._write_files(jvm)
        for broker in self.brokers:
            detour = broker.proxied_listener
            assert detour is not None
            text = broker.properties_file.read_text(encoding="utf-8")
            here, there = (f"{host}:{detour.advertised}" for host in (HOST, _NAME))
            broker.properties_file.write_text(text.replace(here, there), encoding="utf-8")


class AbandonedError(Exception):
    """Raised in the thread of a fault if the run ends first."""


class Environment:
    """Clusters, proxies and processes of one run; also a context manager."""

    def __init__(
        self,
        directory: Path,
        scenario: Scenario,
        *,
        version: str,
        say: Callable[[str], None],
        small_disks: bool,
    ) -> None:
        self.directory = directory
        self.scenario = scenario
        self.say = say
        self._version = version
        self._small_disks = small_disks
        self._stack = ExitStack()
        self._over = threading.Event()
        self.source_lines: list[NetworkLink] = []
        self.sources: list[LocalCluster] = []
        self.disks: list[SmallDisk] = []  # one for each broker of the target, if at all
        self.target: LocalCluster
        self.target_line: NetworkLink
        self.keeper: Restarter
        self.spark: SparkCluster | None = None  # a standalone one
        self.loads: list[Load] = []  # of the sources, in their order
        self.history = History()
        self.resolver_file = directory / "resolver"  # see resolver/sitecustomize.py
        self.file = directory / "mm2.properties"
        self.environment = {  # of whatever reads that file
            "PYTHONPATH": str(_RESOLVER),
            "CHAOS_RESOLVER": str(self.resolver_file),
            "CHAOS_NAME": _NAME,
        }

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._begin(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        self._stack.__exit__(kind, error, traceback)

    def wait(self, seconds: float) -> None:
        """Sleep in the thread of a fault. Raises AbandonedError if the run ends."""
        if self._over.wait(seconds):
            raise AbandonedError

    def abandon(self) -> None:
        """End all faults in progress."""
        self._over.set()

    def _begin(self, stack: ExitStack) -> None:
        for name in self.scenario.sources:
            self.source_lines.append(stack.enter_context(NetworkLink(name)))
            self.sources.append(self._cluster(name, self.source_lines[-1], brokers=1))
        self.target_line = stack.enter_context(NetworkLink(TARGET))
        self.target = self._cluster(TARGET, self.target_line, brokers=_TARGET_BROKERS)
        for broker in self.target.brokers if self._small_disks else ():
            self.disks.append(SmallDisk(broker.data, _DISK_BYTES))
            stack.callback(self.disks[-1].unmount)
        clusters = [*self.sources, self.target]
        for cluster in clusters:
            stack.callback(cluster.stop)
            stack.callback(cluster.kill)  # before that: an orderly end takes long
        start_all(clusters)
        for cluster in self.sources:
            create_topics(cluster, {TOPIC: self.scenario.partitions})
        servers = {cluster.name: cluster.proxied_bootstrap_servers for cluster in clusters}
        if self.scenario.spark is SparkMaster.STANDALONE:
            self.spark = stack.enter_context(SparkCluster(self.directory / "spark"))
            for _ in range(self.scenario.executors):
                self.spark.add_worker(cores=self.scenario.slots)
        lines = properties(
            self.scenario,
            servers,
            master=self.spark.url if self.spark else "",
            environment=self.environment,
        )
        self.file.write_text("\n".join([*lines, ""]), encoding="utf-8")
        self.keeper = stack.enter_context(
            Restarter(self.file, self.say, self.environment, self.spark)
        )

    def _cluster(self, name: str, line: NetworkLink, *, brokers: int) -> LocalCluster:
        made: list[LocalCluster] = []  # the proxies must be there before it is
        cluster = NamedCluster(
            name,
            self.directory / name,
            brokers=brokers,
            version=self._version,
            proxy_ports=[line.proxy(partial(_proxy_port, made, index)) for index in range(brokers)],
            config=_TARGET_CONFIG if brokers > 1 else _SOURCE_CONFIG,
            heap="384m",
        )
        made.append(cluster)
        return cluster


def _proxy_port(made: Sequence[LocalCluster], index: int) -> int:
    detour = made[0].brokers[index].proxied_listener
    assert detour is not None
    return detour.port
