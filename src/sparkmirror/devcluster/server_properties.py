# SPDX-License-Identifier: Apache-2.0
"""The server.properties of a local broker, with reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkmirror.devcluster.ports import HOST
from sparkmirror.devcluster.zookeeper import SESSION_MILLISECONDS

_MAX_REPLICAS = 3


@dataclass(frozen=True, slots=True)
class BrokerListener:
    """A further listener: its protocol, its port, and the port that clients are told.

    The two ports differ if a proxy forwards to the listener.
    """

    name: str
    protocol: str
    port: int
    advertised: int


def server_properties(
    *,
    node_id: int,
    port: int,
    controllers: Mapping[int, int],
    data: Path,
    extra: Mapping[str, str],
    listeners: Sequence[BrokerListener] = (),
    zookeeper_port: int | None = None,
) -> str:
    """Return the settings of a combined broker and controller.

    `controllers` maps node ids to ports; `extra` overrides settings. With `zookeeper_port` the
    brokers use ZooKeeper, and the controllers' ports are unused.
    """
    replicas = str(min(_MAX_REPLICAS, len(controllers)))
    clients = [BrokerListener("PLAINTEXT", "PLAINTEXT", port, port), *listeners]
    protocols = [f"{one.name}:{one.protocol}" for one in clients]
    addresses = [f"{one.name}://{HOST}:{one.port}" for one in clients]
    if zookeeper_port is None:
        protocols.append("CONTROLLER:PLAINTEXT")
        addresses.append(f"CONTROLLER://{HOST}:{controllers[node_id]}")
        role = _kraft(node_id, controllers, replicas)
    else:
        role = _with_zookeeper(node_id, zookeeper_port)
    settings = {
        **role,
        "listeners": ",".join(addresses),
        "advertised.listeners": ",".join(
            f"{one.name}://{HOST}:{one.advertised}" for one in clients
        ),
        "listener.security.protocol.map": ",".join(protocols),
        "log.dirs": str(data),
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": "1",
        # The first use of a group or transaction creates these topics: 50 partitions take seconds.
        "offsets.topic.num.partitions": "5",
        "transaction.state.log.num.partitions": "5",
        # The default would use a quarter of a small heap.
        "log.cleaner.dedupe.buffer.size": "16777216",
        **extra,
    }
    return "".join(f"{key}={_escaped(value)}\n" for key, value in settings.items())


def _kraft(node_id: int, controllers: Mapping[int, int], replicas: str) -> dict[str, str]:
    return {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "controller.quorum.voters": ",".join(
            f"{node}@{HOST}:{number}" for node, number in controllers.items()
        ),
        "controller.listener.names": "CONTROLLER",
        # A restarted broker is accepted only after its old session has expired (default 9 s).
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "5",
    }


def _with_zookeeper(node_id: int, port: int) -> dict[str, str]:
    return {
        "broker.id": str(node_id),
        "zookeeper.connect": f"{HOST}:{port}",
        "zookeeper.session.timeout.ms": str(SESSION_MILLISECONDS),
    }


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")
