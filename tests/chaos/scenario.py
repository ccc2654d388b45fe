# SPDX-License-Identifier: Apache-2.0
"""Scenarios: number of flows, delivery mode, load; and the mm2.properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

SOURCES = ("us", "uk")
TARGET = "hub"
TOPIC = "logs"
KEYS = 300  # different ones in a partition: what is left of it when it is compacted


class SparkMaster(Enum):
    """What runs the tasks."""

    LOCAL_CLUSTER = "local-cluster"  # a master and executors as children of the driver's JVM
    STANDALONE = "standalone"  # a master and workers as processes of their own


class Mode(Enum):
    """Delivery modes."""

    DEFAULT = "default"
    EXACTLY_ONCE = "exactly-once"


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run."""

    seed: int
    faults: int
    mode: Mode = Mode.DEFAULT
    flows: int = 1
    partitions: int = 4
    per_second: int = 600
    executors: int = 2
    spark: SparkMaster = SparkMaster.LOCAL_CLUSTER

    @property
    def sources(self) -> tuple[str, ...]:
        return SOURCES[: self.flows]

    @property
    def slots(self) -> int:
        """Return the Spark slots per executor; one slot in total is spare."""
        return 2 if self.executors > 1 else 3

    @property
    def remote_topic(self) -> str:
        """The remote topic that all flows write to."""
        return TOPIC if self.flows > 1 else f"{SOURCES[0]}.{TOPIC}"

    def __str__(self) -> str:
        flows = "one flow" if self.flows == 1 else f"{self.flows} flows into one topic"
        spark = "" if self.spark is SparkMaster.LOCAL_CLUSTER else ", standalone Spark cluster"
        return f"seed {self.seed}, {self.faults} faults, {flows}, {self.mode.value} mode{spark}"


def properties(
    scenario: Scenario,
    servers: Mapping[str, str],
    *,
    master: str = "",
    environment: Mapping[str, str] | None = None,
) -> list[str]:
    """Return the lines of the file; `servers` are bootstrap servers by cluster.

    The master of a standalone cluster is given. Its executors do not inherit the driver's
    environment.
    """
    lines = [f"clusters = {', '.join([*scenario.sources, TARGET])}"]
    for alias in (*scenario.sources, TARGET):
        lines.append(f"{alias}.bootstrap.servers = {servers[alias]}")
        for client in ("admin", "consumer" if alias != TARGET else "producer"):
            lines += [
                # A cut line should be noticed within a run, not after the usual half minute.
                f"{alias}.{client}.request.timeout.ms = 6000",
                f"{alias}.{client}.socket.connection.setup.timeout.ms = 3000",
            ]
    lines += [f"{source}->{TARGET}.enabled = true" for source in scenario.sources]
    lines += [
        f"topics = {TOPIC}",
        "emit.heartbeats.enabled = false",
        f"tasks.max = {2 if scenario.flows == 1 else 1}",
        "replication.factor = 3",
        "target.recreated.policy = restart",  # all that the source holds is to be there again
        "epoch.seconds = 40",  # so that epochs change in the middle of it all
        f"spark.master = {master or _local_cluster(scenario)}",
        "spark.executor.extraJavaOptions = -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        # All executors are there before slots are counted.
        f"spark.cores.max = {scenario.executors * scenario.slots}",
        "spark.scheduler.minRegisteredResourcesRatio = 1.0",
    ]
    if master:
        lines += ["spark.executor.memory = 512m", "spark.driver.host = 127.0.0.1"]
        lines += [f"spark.executorEnv.{key} = {text}" for key, text in (environment or {}).items()]
    if scenario.flows > 1:
        lines.append(
            "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
        )
    if scenario.mode is Mode.EXACTLY_ONCE:
        lines.append(f"{TARGET}.exactly.once.source.support = enabled")
    return lines


def _local_cluster(scenario: Scenario) -> str:
    return f"local-cluster[{scenario.executors},{scenario.slots},1024]"
